"""Where the level of a series changed: change points by PELT (the library ruptures).

PELT finds the segments that minimize the squared distances from each segment's mean, plus a penalty
for each change (Killick, Fearnhead and Eckley, "Optimal Detection of Changepoints With a Linear
Computational Cost", JASA 107 (2012)). Its input is badness (compare/side.py): logarithms, so that a
change is relative, and positive if worse. Two steps come first:

- The noise is the median absolute difference of neighbours, which a few changes of level hardly
  move, scaled to the standard deviation of a run.
- A run further than LIMIT deviations from the median of its neighbours is pulled in, as in a
  comparison, so that an outlier is no change. Among these neighbours, even the shortest level that
  counts is the majority, and stays unchanged.

The penalty, in units of the noise's variance, is the square of the quantile of Student's t that
noise exceeds with probability FALSE_CHANGES / n. Where the level does not change, a split at one of
the n places saves the square of a standardized difference; so by the union bound noise alone splits
a series in at most FALSE_CHANGES of all cases. Yao's criterion ("Estimating the number of
change-points via Schwarz' criterion", Statistics & Probability Letters 6 (1988)), 2 ln n, has
the Gaussian tail instead, for well-known noise; the few runs of a history do not suffice for that.
The degrees of freedom are n - 1 times the efficiency of the estimate: 2/3 for neighbour differences
(von Neumann and others, "The Mean Square Successive Difference", Annals of Mathematical Statistics
12 (1941)) and 0.37 for the median.

A change counts from LEAST_CHANGE on. This is for inspecting a history; it is not a gate.
"""

import itertools
import math
import statistics
from dataclasses import dataclass

import numpy as np
from scipy import ndimage, special

from overlapbench.compare.side import badness, natural
from overlapbench.compare.statistics import LEAST_FLOOR, LIMIT, Array
from overlapbench.counters import Better, Counter
from overlapbench.history.database import Run
from overlapbench.history.series import Series
from overlapbench.packages import packages
from overlapbench.source import ResultError

LEAST_RUNS = 10
LEAST_SEGMENT = 4  # runs
LEAST_CHANGE = LEAST_FLOOR
FALSE_CHANGES = 0.05
_NEIGHBOURS = 2 * LEAST_SEGMENT - 1
_TO_DEVIATION = 1.4826 / math.sqrt(2)  # from the median absolute difference of neighbours
_WORTH = 0.37 * 2 / 3
_LEAST_NOISE = 3e-4  # no time is more precise than 0.03 %


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


def find_changes(series: Series, least: float = LEAST_CHANGE) -> list[Change] | None:
    """Return the changes of a series; None if it has too few runs."""
    judged = badness(series.counter, np.array([point.judged for point in series.points]))
    kept = np.isfinite(judged)
    points = list(itertools.compress(series.points, kept))
    if len(points) < LEAST_RUNS:
        return None
    ends = [0, *_segment(judged[kept])]
    levels = [slice(*ends) for ends in itertools.pairwise(ends)]
    changes = []
    for old, new in itertools.pairwise(levels):
        change = float(np.median(judged[kept][new]) - np.median(judged[kept][old]))
        if abs(change) >= math.log1p(least):
            changes.append(
                Change(
                    last=points[old][-1].run,
                    first=points[new][0].run,
                    before=statistics.median(point.value for point in points[old]),
                    after=statistics.median(point.value for point in points[new]),
                    runs=(len(points[old]), len(points[new])),
                    badness=change,
                    counter=series.counter,
                )
            )
    return changes


def _segment(values: Array) -> list[int]:
    """Return where each segment ends, the last one at the end."""
    with packages(ResultError):  # imported here: it takes a second, and adding runs needs none
        import ruptures

    noise = max(_LEAST_NOISE, _TO_DEVIATION * float(np.median(np.abs(np.diff(values)))))
    middle = ndimage.median_filter(values, size=_NEIGHBOURS, mode="nearest")
    scaled = np.clip(values, middle - LIMIT * noise, middle + LIMIT * noise) / noise
    freedom = _WORTH * (len(values) - 1)
    penalty = float(special.stdtrit(freedom, FALSE_CHANGES / (2 * len(values)))) ** 2
    # With a linear kernel this is the cost of squared distances, and PELT the search.
    search = ruptures.KernelCPD(kernel="linear", min_size=LEAST_SEGMENT)
    ends: list[int] = search.fit(scaled[:, np.newaxis]).predict(pen=penalty)
    return ends
