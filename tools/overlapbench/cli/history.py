"""Keep results over time: a history of runs, their trends, and where a level changed.

    overlapbench history add nightly/*.json --revision 4f2c9d1
    overlapbench history list --since 2026-10-01
    overlapbench history trend -o trend.png --benchmark Overlap/AllToAll \\
        --metric slowdown
    overlapbench history changes --benchmark ^Comm/ --metric busbw_GBps
    overlapbench history export 7 8 -o folder

A history is one append-only file: history.sqlite in the current folder, unless --database names
another. A result is the output of `overlapbench run --benchmark_out=FILE`, or any JSON of Google
Benchmark. A file that is already in the history is not added again. Runs are separated by machine:
GPU, driver, NCCL, and everything else that must agree for a comparison. See docs/history.md.

Exit status: 0, or 2 for bad usage, a file that is unreadable or not a result, or a missing history.
One line then says what is wrong and where, and nothing was changed. A changed level is not a
failure; to gate changes, use overlapbench gate.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from overlapbench.cli.command_line import command, manual_parser, percentage, screen
from overlapbench.cli.judging import add_across
from overlapbench.judge.history import Run, open_history, read_runs, table_of, utc
from overlapbench.judge.series import Found, find_changes, read_series
from overlapbench.output import (
    ResultError,
    counted,
    print_text,
    replace_file,
    replace_files,
    require_file,
    require_no_input,
)
from overlapbench.reading.counters import TIME, Counter
from overlapbench.reading.program_run import CONTEXT_FIELDS
from overlapbench.statistics.levels import LEAST_CHANGE
from overlapbench.view import history as view
from overlapbench.view.vega import PICTURES


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    options.action(options)


def _add(options: argparse.Namespace) -> None:
    files = read_runs(options.results, options.revision)
    with open_history(options.database, create=True) as history:
        outcomes = history.add(files)
    for (_, run), (number, new) in zip(files, outcomes, strict=True):
        count = counted(len(run.measured), "benchmark")
        what = f"added, {count}" if new else "is already in the history"
        print_text(f"run {number}: {run.source}: {what}\n")


def _list(options: argparse.Namespace) -> None:
    runs = _chosen(options)
    print_text(view.runs_json(runs) if options.json else view.list_runs(screen(), runs))


def _export(options: argparse.Namespace) -> None:
    runs = _chosen(options, options.runs)
    with open_history(options.database) as history:
        files = {f"run-{run.id}.json": history.document(run) for run in runs}
    if options.output:
        require_no_input((options.output / name for name in files), [options.database])
        replace_files(options.output, files, outdated=())
        print_text(f"wrote {', '.join(files)} to {options.output}\n")
    elif len(runs) == 1:
        print_text(files[f"run-{runs[0].id}.json"].decode())
    else:
        raise ResultError(f"{len(runs)} runs make {len(runs)} files: name a folder with -o")


def _trend(options: argparse.Namespace) -> None:
    from overlapbench.view.page import render  # the other actions need none

    require_file(options.output, [options.database], PICTURES)
    specification = view.draw_trend(*_found(options), options.title)
    replace_file(options.output, render(specification, options.output.suffix))
    print_text(f"wrote {options.output}\n")


def _changes(options: argparse.Namespace) -> None:
    counter, found = _found(options)
    if not counter.can_be_judged:
        raise ResultError(
            f"--metric {counter.name}: it may be negative or is a flag, so changes have no ratio"
        )
    text = view.changes_json if options.json else partial(view.list_changes, screen())
    print_text(text(counter, found))


def _found(options: argparse.Namespace) -> tuple[Counter, Found]:
    """Return the requested counter, and the chosen series with their changes."""
    runs = _chosen(options)
    counters = table_of(runs).counters
    if options.metric not in counters:
        raise ResultError(f"--metric {options.metric}: is not one of {', '.join(counters)}")
    counter = counters[options.metric]
    return counter, [
        (series, find_changes(series, options.least) if counter.can_be_judged else None)
        for series in read_series(runs, options.benchmark, counter, options.across)
    ]


def _chosen(options: argparse.Namespace, numbers: Sequence[int] = ()) -> list[Run]:
    """Return the runs with these numbers or, without numbers, those that the options choose."""
    with open_history(options.database) as history:
        runs = history.runs()
    if numbers:
        by_number = {run.id: run for run in runs}
        for number in numbers:
            if number not in by_number:
                raise ResultError(f"{options.database}: no run {number}; `list` shows all runs")
        return [by_number[number] for number in dict.fromkeys(numbers)]
    chosen = [
        run
        for run in runs
        if options.machine.casefold() in str(run.machine).casefold()
        and run.date >= options.since
        and run.revision.startswith(options.revision)
    ]
    if not chosen:
        raise ResultError("no run matches: check --machine, --since and --revision")
    return chosen


def _date(text: str) -> str:
    try:
        return utc(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2026-03-01") from None


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(
        name: str, function: Callable[[argparse.Namespace], None], text: str
    ) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text, description=text)
        default = Path("history.sqlite")
        made.add_argument("--database", type=Path, default=default, metavar="FILE")
        made.set_defaults(action=function)
        return made

    add = action("add", _add, "add results").add_argument
    add("results", nargs="+", metavar="RESULT.json", help="a file, a glob, or -")
    add("--revision", default="", help="overrides the revision in the files")
    listing = action("list", _list, "list the runs")
    _add_filters(listing)
    export = action("export", _export, "write runs as their original files")
    add = export.add_argument
    add("runs", nargs="*", type=int, metavar="RUN", help="default: all selected runs")
    text = "a folder for the files; default standard output, for one run"
    add("-o", "--output", type=Path, metavar="DIR", help=text)
    _add_filters(export)
    trend = action("trend", _trend, "draw a metric over time, with its changes")
    text = f"the chart, as one of {', '.join(PICTURES)}"
    trend.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help=text)
    trend.add_argument("--title", default="", help="subtitle of the chart")
    changes = action("changes", _changes, "list where the level of a metric changed")
    for parts in (trend, changes):
        _add_filters(parts)
        _add_series(parts)
    for parts in (listing, changes):
        parts.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_filters(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "only runs on machines whose name contains this"
    add("--machine", default="", metavar="TEXT", help=text)
    text = "only runs since this date or time, in UTC"
    add("--since", type=_date, default="0001-01-01", metavar="DATE", help=text)
    add("--revision", default="", metavar="REV", help="only runs whose revision starts with this")


def _add_series(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "only benchmarks whose names match, as for --benchmark_filter"
    add("--benchmark", default="", metavar="REGEX", help=text)
    add("--metric", default=TIME, metavar="NAME", help="a counter of the runs; default time, in ms")
    text = "continue a series even if this field changes"
    add_across(parser, text, tuple(CONTEXT_FIELDS.values()))
    text = f"the smallest change that counts (default {100 * LEAST_CHANGE:g})"
    add("--least", type=percentage, default=LEAST_CHANGE, metavar="PERCENT", help=text)
