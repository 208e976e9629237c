"""A benchmark's figures on one machine, in the order of time, and where their level changed.

A series never mixes machines; only fields named in `across` (a new driver, say) may differ within a
series. Rows with a problem are excluded.
"""

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from overlapbench.grouping import grouped
from overlapbench.judge.history import Machine, Run
from overlapbench.judge.side import badness, natural
from overlapbench.reading.counters import EFFICIENCY, Better, Counter
from overlapbench.reading.entries import saved_share
from overlapbench.reading.names import chooser
from overlapbench.statistics.levels import LEAST_CHANGE, find_levels

LEAST_RUNS = 10


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


@dataclass(frozen=True)
class Change:
    """A new level: `last` is the last run of the old one, `first` the first of the new one."""

    last: Run
    first: Run
    before: float  # median figures of the two levels
    after: float
    runs: tuple[int, int]  # number of runs of each level
    badness: float  # the change of badness: positive is worse
    counter: Counter

    @property
    def natural(self) -> float:
        """The change in the figures; for efficiency, the change of the speedup."""
        return natural(self.counter, self.badness)

    @property
    def direction(self) -> str:
        if self.counter.better is Better.NEITHER:
            return "changed"
        return "worse" if self.badness > 0 else "better"


Found = Sequence[tuple[Series, Sequence[Change] | None]]


def read_series(
    runs: Sequence[Run], wanted: str, counter: Counter, across: Sequence[str] = ()
) -> Iterator[Series]:
    """Yield the series of the wanted benchmarks (names.chooser), in the order of adding.

    The runs are in the order of time.
    """
    added = (run.measured for run in sorted(runs, key=lambda run: run.id))
    names = dict.fromkeys(one.benchmark for one in itertools.chain(*added))
    points: dict[str, list[Point]] = {name: [] for name in filter(chooser(wanted), names)}
    for run in runs:
        for one in run.measured:
            if one.benchmark in points and counter.name in one.figures and not one.problem:
                points[one.benchmark].append(_point(run, one.figures, counter))
    for name, found in points.items():
        machines = grouped(found, lambda point: point.run.machine.without(across))
        for machine, of_machine in machines.items():
            yield Series(name, counter, machine, tuple(of_machine))


def _point(run: Run, figures: Mapping[str, float], counter: Counter) -> Point:
    value = figures[counter.name]
    return Point(run, value, saved_share(figures) if counter.name == EFFICIENCY else value)


def find_changes(series: Series, least: float = LEAST_CHANGE) -> list[Change] | None:
    """Return the changes of a series; None if it has too few runs."""
    judged = badness(series.counter, np.array([point.judged for point in series.points]))
    kept = np.isfinite(judged)
    points = list(itertools.compress(series.points, kept))
    if len(points) < LEAST_RUNS:
        return None
    return [
        Change(
            last=points[old][-1].run,
            first=points[new][0].run,
            before=statistics.median(point.value for point in points[old]),
            after=statistics.median(point.value for point in points[new]),
            runs=(len(points[old]), len(points[new])),
            badness=change,
            counter=series.counter,
        )
        for old, new, change in find_levels(judged[kept], least)
    ]
