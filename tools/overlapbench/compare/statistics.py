"""The statistics of a comparison: is a benchmark worse, and by how much must it be to count?

Given are the badness (side.py) of every benchmark in every launch of both sides, so that a
difference is a relative change and a positive one is for the worse. A launch is one observation.

Five launches a side say little about one benchmark's spread, but hundreds of benchmarks say much
about what spreads look like. So each variance is moderated towards what the others suggest (the
empirical Bayes of G. K. Smyth, "Linear Models and Empirical Bayes Methods", Statistical
Applications in Genetics and Molecular Biology 3 (2004)): the prior has the variance and degrees of
freedom that are fitted to all log variances. Where launches have repetitions, the prior follows a
benchmark's spread inside its launches, so that a noisy benchmark is expected to be noisy.

A launch that strays from its side's median is pulled in to LIMIT robust standard deviations, so
that one outlier neither makes a regression nor hides one. Then: Student's t, one-sided, against "no
more than MARGIN worse"; Benjamini and Hochberg over all benchmarks; and the change must exceed the
benchmark's floor. Exchanging the sides exchanges worse and better.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Array = NDArray[np.float64]

MARGIN = float(np.log1p(0.01))
FALSE_DISCOVERIES = 0.05
CONFIDENCE = 0.95
LEAST_FLOOR = 0.02
SPREADS = 3.0  # a floor is so many times the spread of A/A changes
LIMIT = 3.5
# Prior freedom above this would say that all benchmarks of a spread are alike; they never are.
_MOST_BORROWED = 12.0
# The median of absolute deviations is worth so much of a variance's degrees of freedom.
_MAD_EFFICIENCY = 0.37
_MAD_TO_DEVIATION = 1.4826
# No time is known better than to 0.03 %; keeps the logarithm of equal launches finite.
_LEAST_VARIANCE = 1e-7
# A line through fewer benchmarks would follow their noise.
_LEAST_FOR_TREND = 10


@dataclass(frozen=True)
class Samples:
    """One metric: a row a benchmark, a column a launch, NaN where a launch has no figure."""

    base: Array
    new: Array
    within: Array  # a benchmark's standard deviation inside a launch; NaN without repetitions


@dataclass(frozen=True)
class Estimate:
    """One metric's changes, an entry a benchmark; NaN where there are too few launches to tell."""

    change: Array  # positive: worse
    error: Array  # standard error of the change: the spread that A/A runs of such sides would show
    freedom: Array  # degrees of freedom of the error, borrowed ones among them
    deviation: Array  # between launches of one side
    worse: Array  # p of "no more than MARGIN worse"
    better: Array

    def interval(self) -> tuple[Array, Array]:
        """Return the confidence interval of the change."""
        reach = self.error * stats.t.ppf((1 + CONFIDENCE) / 2, self.freedom)
        return self.change - reach, self.change + reach


def estimate(samples: Samples) -> Estimate:
    """Estimate every benchmark's change and how sure it is."""
    # Sorted, so that sums do not depend on the order of the files, not even in the last bit.
    base, new = (np.sort(side, axis=1) for side in (samples.base, samples.new))
    base_count, new_count = (np.isfinite(side).sum(axis=1) for side in (base, new))
    freedom = np.maximum(base_count + new_count - 2.0, 0.0)
    freedom[(base_count == 0) | (new_count == 0)] = 0
    robust = _moderate(_robust_variance(base, new), _MAD_EFFICIENCY * freedom, samples.within)
    limit = LIMIT * np.sqrt(robust.variance)
    base, new = _pull_in(base, limit), _pull_in(new, limit)
    squares = _squares(base) + _squares(new)
    with np.errstate(invalid="ignore", divide="ignore"):
        posterior = _moderate(squares / freedom, freedom, samples.within)
    error = np.sqrt(posterior.variance) * error_share(base, new)
    change = _mean(new) - _mean(base)
    return Estimate(
        change=change,
        error=error,
        freedom=posterior.freedom,
        deviation=np.sqrt(posterior.variance),
        worse=np.asarray(stats.t.sf((change - MARGIN) / error, posterior.freedom)),
        better=np.asarray(stats.t.sf((-change - MARGIN) / error, posterior.freedom)),
    )


def error_share(base: Array, new: Array) -> Array:
    """Return a change's standard error over the deviation between launches of one side."""
    base_count, new_count = (np.isfinite(side).sum(axis=1) for side in (base, new))
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(1 / base_count + 1 / new_count))


def discoveries(p: Array) -> NDArray[np.bool_]:
    """Tell which benchmarks stand out among all, at a false discovery rate of 5 %."""
    found = np.zeros(p.shape, dtype=np.bool_)
    tested = np.isfinite(p)
    if tested.any():
        found[tested] = stats.false_discovery_control(p[tested]) <= FALSE_DISCOVERIES
    return found


def floors(spread: Array) -> Array:
    """Return the smallest change that counts, relative, from the spread of A/A changes."""
    return np.fmax(LEAST_FLOOR, SPREADS * spread)


@dataclass(frozen=True)
class _Moderated:
    variance: Array
    freedom: Array


def _moderate(variance: Array, freedom: Array, within: Array) -> _Moderated:
    """Pull variances towards what the other benchmarks suggest (Smyth 2004, section 6.2)."""
    nothing = np.full_like(freedom, np.nan)
    known = freedom > 0
    if not known.any():
        return _Moderated(nothing, nothing.copy())
    own = np.maximum(variance[known], _LEAST_VARIANCE)
    half = freedom[known] / 2
    logs = np.log(own) - special.digamma(half) + np.log(half)
    expected = _trend(logs, within[known])
    borrowed = _prior_freedom(logs - expected, half)
    prior = np.exp(expected)
    if borrowed > 0:
        prior *= np.exp(special.digamma(borrowed / 2) - np.log(borrowed / 2))
    total = borrowed + freedom[known]
    moderated, totals = nothing, nothing.copy()
    moderated[known] = (borrowed * prior + freedom[known] * own) / total
    totals[known] = total
    return _Moderated(moderated, totals)


def _prior_freedom(residuals: Array, half: Array) -> float:
    """Return how many degrees of freedom the common prior is worth; 0 for a lone benchmark."""
    if len(residuals) < 2:
        return 0.0
    excess = float(np.mean(residuals**2 * len(half) / (len(half) - 1) - special.polygamma(1, half)))
    if excess <= special.polygamma(1, _MOST_BORROWED / 2):
        return _MOST_BORROWED
    return 2 * _inverse_trigamma(excess)


def _inverse_trigamma(value: float) -> float:
    """Solve trigamma(x) = value by Newton's method (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(20):
        trigamma = float(special.polygamma(1, x))
        x += trigamma * (1 - trigamma / value) / float(special.polygamma(2, x))
    return x


def _trend(logs: Array, within: Array) -> Array:
    """Fit log variances by a line over the log spread inside launches, else by their mean."""
    level = np.full_like(logs, logs.mean())
    usable = np.isfinite(within)
    if usable.sum() < _LEAST_FOR_TREND:
        return level
    x = np.log(np.maximum(within[usable] ** 2, _LEAST_VARIANCE))
    y, centred = logs[usable], x - x.mean()
    spread = (centred**2).sum()
    if spread == 0:
        return level
    level[usable] = y.mean() + centred * (centred * y).sum() / spread
    return level


def _robust_variance(base: Array, new: Array) -> Array:
    """Return the squared median absolute deviation from the own side's median."""
    distances = np.concatenate([np.abs(side - median(side)) for side in (base, new)], axis=1)
    return (_MAD_TO_DEVIATION * median(distances)[:, 0]) ** 2


def _pull_in(side: Array, limit: Array) -> Array:
    middle, reach = median(side), limit[:, np.newaxis]
    return np.where(np.isfinite(reach), np.clip(side, middle - reach, middle + reach), side)


def median(side: Array) -> Array:
    """Return the median of each row as a column; NaN of an empty row, without a warning."""
    ordered, count = np.sort(side, axis=1), np.isfinite(side).sum(axis=1, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=1)
    high = np.take_along_axis(ordered, np.minimum(count // 2, side.shape[1] - 1), axis=1)
    return np.asarray((low + high) / 2)


def _mean(side: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.nansum(side, axis=1) / np.isfinite(side).sum(axis=1))


def _squares(side: Array) -> Array:
    return np.asarray(np.nansum((side - _mean(side)[:, np.newaxis]) ** 2, axis=1))
