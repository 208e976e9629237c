"""A benchmark's figures on one machine, in the order of time.

A Selection chooses the runs. A series never mixes machines; only fields named in `across` (a new
driver, say) may differ within a series. Rows with a problem are excluded.
"""

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from overlapbench.judge.database import Database, Machine, Run
from overlapbench.output import ResultError
from overlapbench.reading.counters import EFFICIENCY, Counter
from overlapbench.reading.entries import saved_share
from overlapbench.reading.names import spell_sizes


@dataclass(frozen=True)
class Selection:
    """The choice of runs; an empty text is no condition."""

    machine: str = ""  # part of the machine's description, ignoring case
    since: str = ""  # as `record.utc` writes it
    revision: str = ""  # its prefix

    def runs(self, database: Database) -> list[Run]:
        """Return the runs in the order of time; ResultError if there is none."""
        runs = [run for run in database.runs() if self._takes(run)]
        if not runs:
            raise ResultError("no run matches: check --machine, --since and --revision")
        return runs

    def _takes(self, run: Run) -> bool:
        return (
            self.machine.casefold() in str(run.machine).casefold()
            and run.date >= self.since
            and run.revision.startswith(self.revision)
        )


@dataclass(frozen=True)
class Point:
    """One run's figure, and the figure that is judged: for efficiency, the saved share of T."""

    run: Run
    value: float
    judged: float


@dataclass(frozen=True)
class Series:
    """A benchmark on a machine."""

    benchmark: str
    counter: Counter
    machine: Machine
    points: tuple[Point, ...]


def read_series(
    database: Database,
    selection: Selection,
    pattern: str,
    counter: Counter,
    across: Sequence[str] = (),
) -> Iterator[Series]:
    """Yield the series of the benchmarks that match a shell-like pattern."""
    runs = selection.runs(database)
    sized = spell_sizes(pattern)
    for name in database.benchmarks():
        if not fnmatch.fnmatch(spell_sizes(name), sized):
            continue
        measured = database.figures_of(name)
        parts: dict[Machine, list[Point]] = {}
        for run in runs:
            figures = measured.get(run.id, {})
            if counter.name in figures:
                value = figures[counter.name]
                judged = saved_share(figures) if counter.name == EFFICIENCY else value
                points = parts.setdefault(run.machine.without(across), [])
                points.append(Point(run, value, judged))
        for machine, points in parts.items():
            yield Series(name, counter, machine, tuple(points))


def find_counter(database: Database, selection: Selection, metric: str) -> Counter:
    """Return the counter of a metric in the chosen runs; ResultError if they define none."""
    table = database.table(selection.runs(database))
    if metric not in table.counters:
        raise ResultError(f"--metric {metric}: is not one of {', '.join(table.counters)}")
    return table.counters[metric]
