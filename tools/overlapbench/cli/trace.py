"""Where every microsecond of a training step went: by class, and idle by cause.

    overlapbench trace trace.json
    overlapbench trace 'rank*.json.gz' --step 3
    overlapbench trace report.sqlite --window forward -o figures.json
    overlapbench trace trace.json --class 'my_fused_kernel=COMM' --json
    overlapbench trace trace.json --compare earlier.json

A file is a trace of PyTorch's profiler (.json, also packed as .gz, .zst or .zip), the output of
`nsys export --type sqlite`, or a trace of overlapbench. Several files, or those in a folder or an
archive, are the ranks of one run; traces of overlapbench must be of one row. If the ranks share a
clock, communication is divided into waiting for the last rank and moving data. Without --step and
--window, T is all steps or samples of a trace or, if it has none, the whole trace. --compare prints
where the time went since another recording, as one table. docs/timelines.md explains the output,
the classes and how to change them.

Exit status: 0; 2 if a file is not a trace or lacks the step or window, if an argument is bad, or if
the output is not writable. One line then says what is wrong.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from overlapbench.cli.command_line import command, manual_parser, screen
from overlapbench.output import deliver, require_file
from overlapbench.traces.files import files_of, read_traces
from overlapbench.traces.rules import Rule, Rules, parse_rule
from overlapbench.view import trace_comparison
from overlapbench.view.tracing import TraceBreakdown, Traces


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    if options.output:
        read = files_of([*options.files, *options.compare])
        require_file(options.output, read, [".json"])
    after = _breakdown(options.files, options)
    text, document = after.text(screen()), after.to_dict()
    if options.compare:
        before = _breakdown(options.compare, options)
        text = trace_comparison.render(before.ranks, after.ranks, screen())
        document["changes"] = [*trace_comparison.to_json(before.ranks, after.ranks)]
    figures = json.dumps(document, indent=1) + "\n"
    files = {options.output: figures.encode()} if options.output else {}
    deliver(figures if options.json else text, files)


def _breakdown(files: Sequence[str], options: argparse.Namespace) -> TraceBreakdown:
    return Traces(read_traces(files, Rules(options.rules))).breakdown(options.step, options.window)


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    text = "one rank or more each; a glob, a folder; - is stdin"
    add("files", nargs="+", metavar="FILE", help=text)
    add_choices(parser)
    add("--compare", action="append", default=[], metavar="FILE",
        help="compare with this recording, made before; repeatable")  # fmt: skip
    add("--json", action="store_true", help="print all figures as JSON")
    add("-o", "--output", type=Path, metavar="FILE.json", help="also write all figures")
    return parser


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all commands for traces: which step, and which classes."""
    add = parser.add_argument
    add("--step", type=int, metavar="N", help="only this step, or this sample")
    add("--window", metavar="NAME",
        help="only windows (annotations) of this name or, if none, containing it")  # fmt: skip
    add("--class", dest="rules", type=_rule, action="append", default=[], metavar="PATTERN=CLASS",
        help="class of spans by name, such as COMP or COMM; repeatable")  # fmt: skip


def _rule(text: str) -> Rule:
    try:
        return parse_rule(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
