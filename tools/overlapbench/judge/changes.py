"""The changes of level of a series, as runs, figures and directions."""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlapbench.judge.database import Run
from overlapbench.judge.series import Series
from overlapbench.judge.side import badness, natural
from overlapbench.reading.counters import Better, Counter
from overlapbench.statistics.levels import LEAST_CHANGE, find_levels

LEAST_RUNS = 10


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
