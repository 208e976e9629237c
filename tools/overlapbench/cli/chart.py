"""Draw charts of overlapbench results: what overlap costs, and what it hides.

    overlapbench chart result.json -o charts
    overlapbench chart before.json after.json -o charts \\
        --title 'Driver 570 and 580'
    overlapbench run --benchmark_format=json | overlapbench chart - -o charts

A result is the output of `overlapbench run --benchmark_out=result.json`. `-` is standard input, and
quoted globs are expanded. Several files become series of the same charts. The tool writes
index.html, a page that works offline, and each chart as PNG and SVG, replacing charts of an earlier
run. The charts depend on the rows in the results: slowdown of pairs, bandwidth of communication and
of copies, pipelines, transfers, priority, supply, launches, and training.

Exit status: 0, or 2 if a file is not a result of this suite or has nothing to draw, or if the
output is not writable. One line then says what is wrong and where, and no file is changed.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from overlapbench.cli.command_line import command, manual_parser
from overlapbench.output import ResultError, print_text, replace_files, require_no_input
from overlapbench.reading.result import Result, read_results
from overlapbench.reading.rows import State
from overlapbench.view.chart import CHARTS, draw_charts
from overlapbench.view.charts.records import kind_of
from overlapbench.view.vega import Drawing

_PAGE = "index.html"


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    from overlapbench.view.page import pictures, render_page  # after --help, which needs none

    possible = {f"{kind.name}.{suffix}" for kind in CHARTS for suffix in ("png", "svg")}
    require_no_input((options.output / name for name in {*possible, _PAGE}), options.results)
    results = read_results(options.results)
    charts = draw_charts(results, options.title)
    if reason := _nothing(charts):
        names = ", ".join(options.results)
        raise ResultError(f"{names}: benchmarks: nothing to draw: {reason}")
    files = {
        name: data for chart in charts for name, data in pictures(chart.name, chart.spec).items()
    }
    title = options.title or "What overlap costs"
    files[_PAGE] = render_page(title, results, charts)
    replace_files(options.output, files, outdated=possible - files.keys())
    lines = _report(options.output, files, results, charts)
    print_text("".join(f"{line}\n" for line in lines))


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    parser.add_argument("results", nargs="+", metavar="RESULT.json", help="a result, a glob, or -")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="DIR")
    parser.add_argument("--title", default="", help="title of the page, and subtitle of each chart")
    return parser


def _report(
    directory: Path, files: Iterable[str], results: Sequence[Result], charts: Sequence[Drawing]
) -> Iterator[str]:
    yield f"wrote {', '.join(sorted(files))} to {directory}"
    rows = [row for result in results for row in result.rows]
    shown = {(row.file, row.name) for chart in charts for row in chart.rows}
    hidden = Counter(kind_of(row) for row in rows if (row.file, row.name) not in shown)
    if hidden:
        yield f"in no chart: {', '.join(f'{count} {name}' for name, count in hidden.items())}"
    for result in results:
        if result.incomplete:
            yield f"incomplete: {result.label}: {result.incomplete}"
    for row in rows:
        if row.bad:
            yield f"not to be trusted: {row.file}: {row.name}: {row.problem}"


def _nothing(charts: Sequence[Drawing]) -> str:
    """Say why there is nothing to draw; "" if there is something."""
    if not charts:
        return "no row belongs to a chart"
    failed = [row for chart in charts for row in chart.rows if row.state is State.ERROR]
    if len(failed) < sum(len(chart.rows) for chart in charts):
        return ""
    return f"no row of a chart was measured; {failed[0].name}: {failed[0].problem}"
