"""Write one page about a run: what was measured, where, what stands out, every row and chart.

    overlapbench report result.json -o report.html
    overlapbench report 'results/*.json' -o report.html --title 'Two H200'
    overlapbench run --benchmark_format=json | overlapbench report - \\
        -o report.html
    overlapbench report new?.json --base base?.json -o report.html
    overlapbench report result.json --traces traces -o report.html

A result is the output of `overlapbench run --benchmark_out=result.json`. `-` is standard input, and
quoted globs are expanded. Files of one build and machine with the same benchmarks are repeated
runs, of which the page shows the medians. The page is one file that needs no network. To open a
benchmark's row, append #NAME to the page's address.

With --traces the page has a picture of up to twelve traced rows, and shows where their time went.

With --base the page marks what changed, by the rules of overlapbench compare. A regression
does not change the exit status here.

Exit status: 0, or 2 if a file is not a result of this suite or the page is not writable. One line
then says what is wrong and where, and no file is changed.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from overlapbench.cli.command_line import command, manual_parser, say
from overlapbench.cli.judging import add_judging, complete
from overlapbench.judge.floors import read_floors
from overlapbench.judge.side import Side
from overlapbench.judge.verdicts import compare_sides
from overlapbench.output import ResultError, print_text, replace_file, require_file
from overlapbench.prediction.answers import beside_measured
from overlapbench.reading.program_run import read_program_runs
from overlapbench.traces.files import read_rows
from overlapbench.traces.rules import Rules
from overlapbench.view.chart import draw_charts
from overlapbench.view.report.runs import read_runs
from overlapbench.view.timeline import make_timelines


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    complete(options)
    read = (*options.results, *options.base, *options.traces, *options.floors)
    require_file(options.output, read, [".html"])
    page = _make(options)
    replace_file(options.output, page)
    print_text(f"wrote {options.output} ({len(page) / 1e6:.1f} MB)\n")


def _make(options: argparse.Namespace) -> bytes:
    from overlapbench.view.report.render import render_report  # after --help, which needs none

    if [*options.results, *options.base].count("-") > 1:
        raise ResultError("-: standard input can be read only once")
    runs, each = read_runs(options.results, bool(options.base))
    comparison = None
    if options.base:
        sides = Side.of_files("base", read_program_runs(options.base)), Side.of_files("new", each)
        floors = read_floors(options.floors)
        comparison = compare_sides(*sides, floors, options.across, options.max_floor)
    charts = draw_charts([run.result for run in runs], title="", one_family_each=True)
    traced = read_rows(options.traces, Rules()) if options.traces else {}
    timelines, left_out = make_timelines(traced)
    predicted, unread = beside_measured(one for one in options.results if one != "-")
    for line in unread:
        say(f"not predicted: {line}")
    return render_report(
        options.title, runs, charts, comparison, timelines, left_out, predicted=predicted
    )


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    add("results", nargs="+", metavar="RESULT.json", help="a result, a glob, or -")
    add("-o", "--output", required=True, type=Path, metavar="FILE.html")
    add("--title", default="What overlap costs", help="title of the page")
    add("--base", nargs="+", action="extend", default=[], metavar="FILE", help="base runs")
    text = "what a run wrote with --trace_out, or other traces: files, globs, folders"
    add("--traces", nargs="+", action="extend", default=[], metavar="TRACE", help=text)
    add_judging(parser)
    return parser
