"""The history as text: its runs, and the changes of level."""

import itertools
from collections.abc import Iterator, Sequence

from overlapbench.judge.history import Run
from overlapbench.judge.series import LEAST_RUNS, Change, Found
from overlapbench.judge.wording import figure, percent
from overlapbench.reading.counters import Counter
from overlapbench.statistics.levels import LEAST_SEGMENT
from overlapbench.view.console import Entry, Screen, folded, table

_COLOURS = {"worse": "bold red", "better": "green"}


def list_runs(screen: Screen, runs: Sequence[Run]) -> str:
    """Return a line for each run, below its machine."""
    entries = [
        Entry(str(machine), [_cells(run) for run in of_machine])
        for machine, of_machine in itertools.groupby(runs, lambda run: run.machine)
    ]
    heads = ("run", "date", "revision", "file", "rows", "bad")
    return table(screen, heads, entries, words=4, title="machine")


def _cells(run: Run) -> tuple[str, ...]:
    counts = str(len(run.measured)), str(run.problems or "")
    return (str(run.id), _date(run), run.revision, run.source, *counts)


def list_changes(screen: Screen, counter: Counter, found: Found) -> str:
    """Return each change, and the number of series with too few runs."""
    entries = [
        _entry(series.benchmark, str(series.machine), change)
        for series, changes in found
        for change in changes or ()
    ]
    heads = ("verdict", "change", f"before {counter.label}", "after", "runs")
    text = table(screen, heads, entries, title="benchmark") if entries else ""
    return text + "".join(f"{folded(sentence, screen)}\n" for sentence in _summary(found))


def _entry(benchmark: str, machine: str, change: Change) -> Entry:
    figures = percent(change.natural), figure(change.before), figure(change.after)
    row = (change.direction, *figures, "{} / {}".format(*change.runs))
    last, first = (
        f"{run.revision or 'unknown'} ({_date(run)})" for run in (change.last, change.first)
    )
    note = f"between {last} and {first}, on {machine}"
    return Entry(benchmark, [row], note, _COLOURS.get(change.direction, ""))


def _summary(found: Found) -> Iterator[str]:
    told = [changes for _, changes in found if changes is not None]
    yield (
        f"{sum(map(len, told))} changes in {len(told)} series; detecting one"
        f" takes {LEAST_SEGMENT} runs at the new level"
    )
    if short := len(found) - len(told):
        yield f"inconclusive: {short} series have fewer than {LEAST_RUNS} usable runs"


def _date(run: Run) -> str:
    """Write the date, which is in UTC, shorter than the history keeps it."""
    return f"{run.date[:19]}Z"
