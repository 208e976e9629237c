"""How a comparison decides: the only place that defines the estimator and the rule.

The input is the badness (side.py) of every benchmark in every run of both sides: logarithms of
the judged figures, so that a difference is a relative change, and a positive one is worse.

*The run is the observation.* Repetitions inside one process share clocks, memory and placement.
So a benchmark has one figure per run, the median of its repetitions.

*The change* is the difference of the sides' means. So the two figures that a comparison shows are
the geometric means of the runs' figures, and the change is exactly new / base - 1. A run
that deviates from its side's median is first pulled in to LIMIT robust standard deviations, so that
one outlier neither causes a change nor hides one. The fewer runs show that deviation, the wider
is the limit (`_limit`): of three runs, two often agree by chance.

*The spread between runs* has two parts: the error visible within a run (`within`, the
standard error of its median), and differences between processes, such as other memory and clocks.
Five runs per side say little about one benchmark's spread, but hundreds of benchmarks say much
about typical spreads. So each variance is moderated towards a prior (the empirical Bayes of G. K.
Smyth, "Linear Models and Empirical Bayes Methods", Statistical Applications in Genetics and
Molecular Biology 3 (2004)): the benchmark's own within², plus a between² that is typical of all
benchmarks, with so many degrees of freedom. Both numbers are fitted to the log variances of the
compared benchmarks. With one run per side, there is nothing to fit; the prior is then the known
spread of the backend (known.py). If that is unknown too, so is the error, and nothing is decided.

*The interval* of a change is Student's t. It is widened for the number of figures judged (O. J.
Dunn, "Multiple Comparisons Among Means", JASA 56 (1961)), so that all intervals of a comparison
hold at once in 99 of 100 comparisons.

*The floor* of a benchmark is the smallest change that counts: half the interval, and at least
LEAST_FLOOR. *The verdict*: a change beyond the floor is slower or faster (`is_change`). Any other
is the same only if its whole interval lies within the limit (`is_same`), that is, if a change
beyond the limit is ruled out (D. J. Schuirmann, "A Comparison of the Two One-Sided Tests Procedure
and the Power Approach", Journal of Pharmacokinetics and Biopharmaceutics 15 (1987)). Otherwise it
is inconclusive. Exchanging the sides exchanges the verdicts.

*A suspicion* is an inconclusive change that is worse than the limit. Of many noisy benchmarks, some
always show one. Where noise may pass, it must also be larger than noise makes any of them in 39 of
40 comparisons (`suspicious`; Dunn again, for one direction).

*Power.* A change as large as the floor is found in half of all cases only. `detectable` returns the
change that is found with a given probability.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from overlapbench.statistics.distributions import (
    Array,
    digamma,
    t_quantile,
    t_tail,
    t_values,
    trigamma,
)

Flags = NDArray[np.bool_]
Figure = TypeVar("Figure", float, Array)  # of one row, or of many

# In a whole comparison, both directions together: half of PROMISED, because runs have heavier
# tails than Student's model expects (dev/simulate_compare.py).
FALSE_ALARMS = 0.005
PROMISED = 0.01
# Likewise, of suspicions, which are for the worse only: half of what is promised.
SUSPICIONS = 0.025
LEAST_FLOOR = 0.02
LIMIT = 3.5
POWERS = (0.80, 0.95)  # with which a change is found whose size is reported
_MOST_FOUND = 14.0  # the logarithm of a change that is found, in half intervals
_NEARLY = 1 - 1e-9
# Prior freedom above this would mean that all benchmarks are alike; they never are.
_MOST_BORROWED = 8.0
# Fewer benchmarks say too little about typical spreads.
_LEAST_TO_FIT = 10
# The efficiency of the median absolute deviation, as a share of a variance's degrees of freedom.
_MAD_EFFICIENCY = 0.37
_MAD_TO_DEVIATION = 1.4826
# No time is more precise than 0.03 %; keeps the logarithm of equal runs finite.
_LEAST_VARIANCE = 1e-7


def is_change(change: Figure, reach: Figure, least: Figure) -> bool | Flags:
    """Tell whether a change is found: its interval excludes 0, and it counts. All in logarithms."""
    return (abs(change) > reach) & (abs(change) > least)


def is_same(change: Figure, reach: Figure, limit: float) -> bool | Flags:
    """Tell whether the interval of a change rules out any beyond the limit. All in logarithms."""
    return abs(change) + reach <= limit


@dataclass(frozen=True)
class Prior:
    """The expected spread of a benchmark between runs, before any is observed.

    One value for all benchmarks, or one entry per benchmark.
    """

    between: float | Array  # typical standard deviation, beyond that within a run
    freedom: float | Array  # its degrees of freedom: few if benchmarks differ much

    def variance(self, within: Array) -> Array:
        """Return the scale of the prior of each benchmark (Smyth 2004, section 6.2)."""
        typical = np.maximum(self.between**2 + within**2, _LEAST_VARIANCE)
        half = self.freedom / 2
        return np.asarray(typical * np.exp(digamma(half) - np.log(half)))


@dataclass(frozen=True)
class Estimate:
    """One metric, with one entry per benchmark; NaN if a side has no figure."""

    base: Array  # mean badness
    new: Array
    deviation: Array  # between runs of one side
    share: Array  # the standard error of the change over that deviation
    freedom: Array  # degrees of freedom of the error, including those of the prior

    @property
    def change(self) -> Array:
        """Positive: worse."""
        return self.new - self.base

    @property
    def error(self) -> Array:
        """The standard error of the change: the spread of A/A runs of such sides."""
        return self.deviation * self.share

    @property
    def measured(self) -> Flags:
        """Tell which benchmarks have a figure on both sides."""
        return np.isfinite(self.change)

    @property
    def gone(self) -> Flags:
        """Tell which benchmarks have a figure only in base."""
        return np.isfinite(self.base) & np.isnan(self.new)


def estimate(base: Array, new: Array, within: Array, known: Prior) -> Estimate:
    """Estimate every benchmark's change of one metric, and its error.

    base, new  one row per benchmark, one column per run, NaN if a run has no figure
    within     each benchmark's standard error inside a run; NaN if unknown
    """
    # Sorted, so that sums do not depend on the order of the files, not even in the last bit.
    base, new = np.sort(base, axis=1), np.sort(new, axis=1)
    within = np.nan_to_num(within)
    base_count, new_count = (np.isfinite(side).sum(axis=1) for side in (base, new))
    measured = (base_count > 0) & (new_count > 0)
    freedom = np.where(measured, base_count + new_count - 2.0, 0.0)
    limit = _limit(
        *_moderate(_robust_variance(base, new), _MAD_EFFICIENCY * freedom, within, measured, known)
    )
    base, new = _pull_in(base, limit), _pull_in(new, limit)
    with np.errstate(invalid="ignore", divide="ignore"):
        own = (_squares(base) + _squares(new)) / freedom
    variance, total = _moderate(own, freedom, within, measured, known)
    with np.errstate(divide="ignore"):
        share = np.sqrt(1 / base_count + 1 / new_count)
    return Estimate(mean(base), mean(new), np.sqrt(variance), share, total)


def reach(error: Array, freedom: Array, figures: int, false_alarms: float = FALSE_ALARMS) -> Array:
    """Return half of each interval, such that the intervals of so many figures hold at once.

    Infinite if the error is unknown.
    """
    half = error * t_quantile(freedom, false_alarms / (2 * figures))
    return np.where(np.isnan(half), np.inf, half)


def suspicious(error: Array, freedom: Array, figures: int) -> Array:
    """Return the change for the worse that noise makes of hardly any of so many figures.

    0 if the error is unknown: then any change is suspicious.
    """
    least = error * t_quantile(freedom, SUSPICIONS / figures)
    return np.where(np.isnan(least), 0.0, least)


def detectable(error: Array, freedom: Array, figures: int, least: Array, power: float) -> Array:
    """Return the change that exceeds both its `reach` and `least` with probability `power`.

    With a higher one where both matter. Infinite if the error is unknown.
    """
    each, places = np.unique(freedom, return_inverse=True)  # benchmarks have few different ones
    critical = t_quantile(each, FALSE_ALARMS / (2 * figures))
    by_reach = error * _found(critical, each, power)[places]
    either = np.maximum(by_reach, least + error * t_quantile(freedom, 1 - power))
    return np.where(np.isnan(either), np.inf, either)


def _found(critical: Array, freedom: Array, power: float) -> Array:
    """Return the change, in errors, that exceeds `critical` errors with this probability.

    This comparison and the one that finds the change estimate the error, each on its own, as s and
    s'. (Exact for rows that borrow nothing; the estimates of others vary less.) So a change of
    found s is found with the probability of z + found s > critical s', where z is normal. Here
    w = s' / s is independent of s² + s'², so that z / sqrt(s² + s'²) is a Student's t with
    2 freedom, over the root of 2; and sqrt(freedom) / 2 (1 / w - w) is one with freedom.
    """
    t, weights = t_values(2 * freedom)
    freedom, critical = freedom[:, np.newaxis], critical[:, np.newaxis]

    def is_low(found: Array) -> Flags:
        x = np.clip(t / np.sqrt(2), -critical * _NEARLY, found * _NEARLY)
        root = np.sqrt(found**2 + critical**2 - x**2)
        w = (found**2 - x**2) / (found * critical + x * root)  # found - critical w = x sqrt(1 + w²)
        shares = t_tail(freedom, np.sqrt(freedom) / 2 * (1 / w - w))
        return np.asarray((weights * shares).sum(axis=1, keepdims=True) < power)

    low, high = np.zeros_like(critical), np.full_like(critical, _MOST_FOUND)
    for _ in range(40):
        middle = (low + high) / 2
        too_low = is_low(critical * np.exp(middle))
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    return np.asarray((critical * np.exp(high))[:, 0])


def fit_prior(variance: Array, freedom: Array, within: Array) -> Prior:
    """Fit a prior to the benchmarks' own variances, each with its degrees of freedom."""
    half = freedom / 2
    logs = np.log(np.maximum(variance, _LEAST_VARIANCE)) - digamma(half) + np.log(half)
    between = _level(logs, within)
    typical = np.maximum(between**2 + within**2, _LEAST_VARIANCE)
    return Prior(between, _prior_freedom(logs - np.log(typical), half))


def _moderate(
    variance: Array, freedom: Array, within: Array, measured: Flags, known: Prior
) -> tuple[Array, Array]:
    """Pull variances towards the prior; return them with their degrees of freedom."""
    own = freedom > 0
    prior, borrowed = known, np.where(own, 0.0, known.freedom)
    if own.sum() >= _LEAST_TO_FIT:
        prior = fit_prior(variance[own], freedom[own], within[own])
        borrowed = np.full(len(own), prior.freedom)
    shown = freedom * np.where(own, np.maximum(variance, _LEAST_VARIANCE), 0.0)
    total = np.where(measured, borrowed + freedom, np.nan)
    # Nothing is borrowed from a prior that is unknown.
    lent = borrowed * np.where(borrowed > 0, prior.variance(within), 0.0)
    # No spread is below a run's own error: runs may agree by chance, as with two modes.
    return np.maximum((lent + shown) / total, within**2), total


def _level(logs: Array, within: Array) -> float:
    """Return the spread besides `within` that makes the typical variance fit on average."""

    def is_low(between: float) -> bool:
        typical = np.maximum(between**2 + within**2, _LEAST_VARIANCE)
        return float(np.mean(logs - np.log(typical))) > 0

    return _bisect(is_low, 0.0, float(np.exp(logs.max() / 2)))


def _prior_freedom(residuals: Array, half: Array) -> float:
    """Return the degrees of freedom of the common prior (Smyth 2004, section 6.2)."""
    excess = float(np.mean(residuals**2 * len(half) / (len(half) - 1) - trigamma(half)))
    most = _MOST_BORROWED / 2
    if excess <= trigamma(most):
        return _MOST_BORROWED
    # 1 / x² is less than trigamma(x).
    return 2 * _bisect(lambda x: float(trigamma(x)) > excess, excess**-0.5, most)


def _bisect(is_low: Callable[[float], bool], low: float, high: float) -> float:
    """Return where `is_low` turns from true to false, between `low` and `high`."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return high


def _robust_variance(base: Array, new: Array) -> Array:
    """Return the squared median absolute deviation from the median of the same side."""
    distances = np.concatenate([np.abs(side - median(side)) for side in (base, new)], axis=1)
    return (_MAD_TO_DEVIATION * median(distances)[:, 0]) ** 2


def _limit(variance: Array, freedom: Array) -> Array:
    """Return what a run exceeds as rarely as it does LIMIT deviations that are known."""
    return np.sqrt(variance) * t_quantile(freedom, statistics.NormalDist().cdf(-LIMIT))


def _pull_in(side: Array, limit: Array) -> Array:
    middle, reach = median(side), limit[:, np.newaxis]
    return np.where(np.isfinite(reach), np.clip(side, middle - reach, middle + reach), side)


def median(side: Array) -> Array:
    """Return the median of each row as a column; NaN for an empty row, without a warning."""
    ordered, count = np.sort(side, axis=1), np.isfinite(side).sum(axis=1, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=1)
    high = np.take_along_axis(ordered, np.minimum(count // 2, side.shape[1] - 1), axis=1)
    return np.asarray((low + high) / 2)


def mean(side: Array) -> Array:
    """Return each benchmark's mean over the runs that contain it; NaN if none does."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.nansum(side, axis=1) / np.isfinite(side).sum(axis=1))


def _squares(side: Array) -> Array:
    return np.asarray(np.nansum((side - mean(side)[:, np.newaxis]) ** 2, axis=1))
