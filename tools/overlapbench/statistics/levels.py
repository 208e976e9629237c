"""Where the level of a series changed: change points by PELT (the library ruptures).

PELT finds the segments that minimize the squared distances from each segment's mean, plus a penalty
for each change (Killick, Fearnhead and Eckley, "Optimal Detection of Changepoints With a Linear
Computational Cost", JASA 107 (2012)). Its input is badness (judge/side.py): logarithms, so that a
change is relative, and positive if worse.

- *Outliers.* A run further than LIMIT deviations from the median of its neighbours is pulled in, as
  in a comparison, so that an outlier is no change. Among these neighbours, even the shortest level
  that counts is the majority, and stays unchanged. The deviation is here the median absolute
  difference of neighbouring runs, which a few changes of level hardly move.
- *The noise* is the root mean square difference of neighbours after that, each limited alike (von
  Neumann and others, "The Mean Square Successive Difference", Annals of Mathematical Statistics 12
  (1941)), with 2/3 of the degrees of freedom of n - 1 differences.
- *The penalty* of independent runs, in units of the noise's variance, is the square of the quantile
  of Student's t that noise exceeds with probability FALSE_CHANGES / n. Where the level does not
  change, a split at one of the n places saves the square of a standardized difference; so by the
  union bound noise alone splits a series in at most FALSE_CHANGES of all cases. Yao's criterion
  ("Estimating the number of change-points via Schwarz' criterion", Statistics & Probability Letters
  6 (1988)), 2 ln n, has the Gaussian tail instead; a history has too few runs for that.
- *Correlation.* Runs near in time are alike: temperature, neighbours, a driver's state. With a
  correlation r of neighbours, the mean of a level varies (1 + r) / (1 - r) times as much as that of
  independent runs, and differences of neighbours show only 1 - r of the variance (G. E. P. Box and
  G. M. Jenkins, "Time Series Analysis" (1970), for a first-order autoregression). The penalty grows
  by both. A few runs do not tell r, so its estimate from the distances to the levels is pulled to
  USUAL_CORRELATION, as if USUAL_RUNS more had shown that. The levels depend on r in turn, so both
  are found in a few passes.

A change counts from LEAST_CHANGE on. This is for inspecting a history; it is not a gate.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage, special

from overlapbench.judge.database import Run
from overlapbench.judge.series import Series
from overlapbench.judge.side import badness, natural
from overlapbench.packages import packages
from overlapbench.reading.counters import Better, Counter
from overlapbench.reading.source import ResultError
from overlapbench.statistics.estimates import LEAST_FLOOR, LIMIT, Array

LEAST_RUNS = 10
LEAST_SEGMENT = 4  # runs
LEAST_CHANGE = LEAST_FLOOR
FALSE_CHANGES = 0.05
USUAL_CORRELATION = 0.25  # of neighbouring runs
USUAL_RUNS = 10
_NEIGHBOURS = 2 * LEAST_SEGMENT - 1
_TO_DEVIATION = 1.4826 / math.sqrt(2)  # from the median absolute difference of neighbours
_WORTH = 2 / 3
_PASSES = 3
_MOST_CORRELATION = 0.9
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


def find_levels(values: Array, least: float) -> list[tuple[slice, slice, float]]:
    """Return the old and the new level of each change that counts, and how large it is."""
    levels = [slice(*ends) for ends in itertools.pairwise([0, *_segment(values)])]
    changes = (
        (old, new, float(np.median(values[new]) - np.median(values[old])))
        for old, new in itertools.pairwise(levels)
    )
    return [found for found in changes if abs(found[2]) >= math.log1p(least)]


def _segment(values: Array) -> list[int]:
    """Return where each segment ends, the last one at the end."""
    with packages(ResultError):  # imported here: it takes a second, and adding runs needs none
        import ruptures

    pulled, noise = _pull_in(values)
    scaled = pulled[:, np.newaxis] / noise
    freedom = _WORTH * (len(values) - 1)
    penalty = float(special.stdtrit(freedom, FALSE_CHANGES / (2 * len(values)))) ** 2
    # With a linear kernel this is the cost of squared distances, and PELT the search.
    search = ruptures.KernelCPD(kernel="linear", min_size=LEAST_SEGMENT).fit(scaled)
    r = USUAL_CORRELATION
    for _ in range(_PASSES):
        ends: list[int] = search.predict(pen=penalty * (1 + r) / (1 - r) ** 2)
        r = _correlation(pulled, ends)
    return ends


def _pull_in(values: Array) -> tuple[Array, float]:
    """Pull in outliers; return the values and their noise."""
    usual = max(_LEAST_NOISE, _TO_DEVIATION * float(np.median(np.abs(np.diff(values)))))
    middle = ndimage.median_filter(values, size=_NEIGHBOURS, mode="nearest")
    pulled = np.clip(values, middle - LIMIT * usual, middle + LIMIT * usual)
    most = math.sqrt(2) * LIMIT * usual  # a larger difference is a change of level
    steps = np.clip(np.diff(pulled), -most, most)
    return pulled, max(_LEAST_NOISE, math.sqrt(float(np.mean(steps**2)) / 2))


def _correlation(values: Array, ends: Sequence[int]) -> float:
    """Return the correlation of neighbouring runs around their levels, pulled to the usual one."""
    levels = np.split(values, ends[:-1])
    around = np.concatenate([level - level.mean() for level in levels])
    squares = float(around @ around)
    seen = float(around[1:] @ around[:-1]) / squares if squares > 0 else USUAL_CORRELATION
    # Distances from fitted means seem less correlated than they are (F. H. C. Marriott and J. A.
    # Pope, "Bias in the Estimation of Autocorrelations", Biometrika 41 (1954)).
    seen += (1 + 4 * max(seen, 0.0)) * len(levels) / len(values)
    pulled = (len(values) * seen + USUAL_RUNS * USUAL_CORRELATION) / (len(values) + USUAL_RUNS)
    return min(max(pulled, 0.0), _MOST_CORRELATION)
