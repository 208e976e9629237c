#!/usr/bin/env python3
"""Where every microsecond of a training step went: by class, and idle by cause.

    tools/trace_breakdown.py trace.json
    tools/trace_breakdown.py 'rank*.json.gz' --step 3
    tools/trace_breakdown.py report.sqlite --window forward --json figures.json
    tools/trace_breakdown.py trace.json --class 'my_fused_kernel=COMM' --rules mine.txt

A file is a trace of PyTorch's profiler (.json, .json.gz), what `nsys export --type sqlite` wrote,
or a trace of overlapbench. Several files, or those in a folder, are the ranks of one run; traces of
overlapbench are those of one row. Without --step and --window, T is all steps or samples of a
trace; where it has none, the whole trace. docs/timelines.md explains the output, the classes and
how to change them.

Exit status: 0; 2 for a file that is no trace, or that has no such step or window, and if an
argument is bad or the output cannot be written. Then one line says what.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from overlapbench.output import deliver, require_file
from overlapbench.source import ResultError
from overlapbench.trace.breakdown import break_down
from overlapbench.trace.files import read_traces
from overlapbench.trace.report import render, to_json
from overlapbench.trace.rules import Rule, Rules, parse_rule, read_rules


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        if options.json:
            require_file(options.json)
        own = [*options.rule, *(rule for path in options.rules for rule in read_rules(path))]
        traces = read_traces(options.files, Rules(own))
        breakdowns = break_down(traces, options.step, options.window)
        deliver(render(breakdowns), {options.json: to_json(breakdowns)} if options.json else {})
    except ResultError as error:
        print(f"trace_breakdown: {error}", file=sys.stderr)
        return 2
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    assert __doc__
    summary, _, epilog = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="trace_breakdown",
        description=summary,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "files",
        nargs="+",
        metavar="FILE",
        help="one rank or more each; a glob, a folder; - is stdin",
    )
    add("--step", type=int, metavar="N", help="only this step, or this sample")
    add("--window", metavar="NAME", help="only windows (annotations) whose name has this in it")
    add("--class", dest="rule", type=_rule, action="append", default=[], metavar="PATTERN=CLASS",
        help="the class of spans by name, as COMP or COMM; repeatable")  # fmt: skip
    add("--rules", type=Path, action="append", default=[], metavar="FILE",
        help="a file of such rules, one a line; repeatable, after --class")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="also write all figures")
    return parser.parse_args(arguments)


def _rule(text: str) -> Rule:
    try:
        return parse_rule(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
