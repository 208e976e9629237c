"""Where every microsecond of a training step went: by class, and idle by cause.

    tools/trace_breakdown.py trace.json
    tools/trace_breakdown.py 'rank*.json.gz' --step 3
    tools/trace_breakdown.py report.sqlite --window forward --json figures.json
    tools/trace_breakdown.py trace.json --class 'my_fused_kernel=COMM' --rules mine.txt

A file is a trace of PyTorch's profiler (.json, also packed as .gz, .zst or .zip), the output of
`nsys export --type sqlite`, or a trace of overlapbench. Several files, or those in a folder or an
archive, are the ranks of one run; traces of overlapbench must be of one row. Without --step and
--window, T is all steps or samples of a trace or, if it has none, the whole trace.
docs/timelines.md explains the output, the classes and how to change them.

Exit status: 0; 2 if a file is not a trace or lacks the step or window, if an argument is bad, or if
the output is not writable. One line then says what is wrong.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from overlapbench.command_line import command, manual_parser
from overlapbench.output import deliver, require_file
from overlapbench.trace.arguments import add_choices, rules_of
from overlapbench.trace.breakdown import break_down
from overlapbench.trace.files import files_of, read_traces
from overlapbench.trace.report import render, to_json


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    if options.json:
        require_file(options.json, [*files_of(options.files), *options.rules])
    traces = read_traces(options.files, rules_of(options))
    breakdowns = break_down(traces, options.step, options.window)
    deliver(render(breakdowns), {options.json: to_json(breakdowns)} if options.json else {})


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    text = "one rank or more each; a glob, a folder; - is stdin"
    add("files", nargs="+", metavar="FILE", help=text)
    add_choices(parser)
    add("--json", type=Path, metavar="FILE", help="also write all figures")
    return parser
