"""Draw the timeline of a traced step: every lane of all ranks, who waited, and what decided T.

    overlapbench run --benchmark_filter=Overlap --trace_out=traces
    overlapbench timeline traces -o step.svg
    overlapbench timeline 'traces/Pp*.json' -o pipelines.html
    overlapbench timeline 'traces/Pp*.json' --one-scale -o pp.svg
    overlapbench timeline 'rank*.json.gz' --step 12 -o step.png
    overlapbench timeline report.sqlite --window forward -o forward.svg

A file is a trace of overlapbench or of PyTorch's profiler (.json, also packed as .gz, .zst or
.zip), or the output of `nsys export --type sqlite`; a folder stands for the traces in it. Each row
has its own time scale, or all have one with --one-scale. Of a row's samples, or of steps, the one
of median length is drawn, unless --step or --window chooses another. The suffix of the
output chooses its format: .svg and .png are pictures; .html is a page that works offline, with the
figures of a step as tooltips and a zoomable time axis. docs/timelines.md explains the picture.

Exit status: 0, or 2 if a file is not a trace, lacks the step or window, or has too much of it to be
legible, if an argument is bad, or if the output is not writable. One line then says what is wrong
and where.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from overlapbench.cli.command_line import command, manual_parser
from overlapbench.cli.trace import add_choices
from overlapbench.output import print_text, replace_file, require_file
from overlapbench.traces.files import read_rows
from overlapbench.traces.rules import Rules
from overlapbench.view.timeline import make_timelines
from overlapbench.view.timeline_picture import HINT, draw_timelines
from overlapbench.view.vega import PICTURES


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    from overlapbench.view.page import render  # after --help, which needs none

    require_file(options.output, options.files, PICTURES)
    rows = read_rows(options.files, Rules(options.rules))
    timelines, left_out = make_timelines(rows, options.step, options.window)
    picture = draw_timelines(timelines, options.title, options.one_scale)
    replace_file(options.output, render(picture.spec, options.output.suffix, HINT))
    lines = [f"wrote {options.output}: {len(timelines)} of {len(rows)} rows"]
    lines += [f"left out: {row}" for row in left_out]
    print_text("".join(f"{line}\n" for line in lines))


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    add("files", nargs="+", metavar="TRACE", help="one rank or more each; a folder; a glob")
    add("-o", "--output", required=True, type=Path, metavar="FILE",
        help=f"the picture, as one of {', '.join(PICTURES)}")  # fmt: skip
    add("--title", default="", help="title of the picture")
    add("--one-scale", action="store_true", help="the same time scale for all rows")
    add_choices(parser)
    return parser
