"""Where the level of a series changed.

The levels minimize the squared distances from each level's mean, plus a penalty for each change. An
exact search finds them: the best levels of the first n runs are one last level, and the best levels
of the runs before it (B. Jackson and others, "An Algorithm for Optimal Partitioning of Data on an
Interval", IEEE Signal Processing Letters 12 (2005)). The values are badness (judge/side.py):
logarithms, so that a change is relative, and positive if worse.

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
from collections.abc import Sequence

import numpy as np

from overlapbench.statistics.distributions import Array, t_quantile
from overlapbench.statistics.estimates import LEAST_FLOOR, LIMIT

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


def find_levels(values: Array, least: float) -> list[tuple[slice, slice, float]]:
    """Return the old and the new level of each change that counts, and how large it is."""
    levels = [slice(*ends) for ends in itertools.pairwise([0, *_segment(values)])]
    changes = (
        (old, new, float(np.median(values[new]) - np.median(values[old])))
        for old, new in itertools.pairwise(levels)
    )
    return [found for found in changes if abs(found[2]) >= math.log1p(least)]


def _segment(values: Array) -> list[int]:
    """Return where each level ends, the last one at the end."""
    pulled, noise = _pull_in(values)
    freedom = _WORTH * (len(values) - 1)
    penalty = float(t_quantile(freedom, FALSE_CHANGES / (2 * len(values)))) ** 2
    r = USUAL_CORRELATION
    for _ in range(_PASSES):
        ends = best_ends(pulled / noise, penalty * (1 + r) / (1 - r) ** 2)
        r = _correlation(pulled, ends)
    return ends


def best_ends(values: Array, penalty: float, least: int = LEAST_SEGMENT) -> list[int]:
    """Return where each level of at least so many runs ends, if each change costs `penalty`."""
    centred = values - np.median(values)  # sums of smaller values lose fewer digits
    sums, squares = (np.concatenate([[0.0], np.cumsum(x)]) for x in (centred, centred**2))
    cost = np.full(len(values) + 1, np.inf)  # of the best levels of the first runs
    cost[0] = -penalty  # the first level is no change
    begin = np.zeros(len(values) + 1, dtype=int)  # of the last of these levels
    for end in range(least, len(values) + 1):
        starts = np.arange(end - least + 1)
        distances = (
            squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / (end - starts)
        )
        costs = cost[starts] + distances + penalty
        begin[end] = np.argmin(costs)
        cost[end] = costs[begin[end]]
    ends = [len(values)]
    while begin[ends[0]]:
        ends.insert(0, int(begin[ends[0]]))
    return ends


def _pull_in(values: Array) -> tuple[Array, float]:
    """Pull in outliers; return the values and their noise."""
    usual = max(_LEAST_NOISE, _TO_DEVIATION * float(np.median(np.abs(np.diff(values)))))
    padded = np.pad(values, _NEIGHBOURS // 2, mode="edge")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, _NEIGHBOURS), axis=1)
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
