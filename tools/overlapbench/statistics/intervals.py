"""The 95 % intervals of figures: pooled over several runs, of one among many, and written.

A figure with an interval ends at the interval's first digit, `1.45 ±0.01`, or `1.45 -0.00 +0.09` if
its sides differ. Others have four digits.

The interval of the median of several runs comes from each run's figure and interval. Runs differ by
more than their own intervals say: each has its own clocks, memory and placement. So the variance of
a run is that between the runs' figures, or the mean one within runs if that is larger. The median
of n such figures has about pi / (2 n + pi - 2) of it (H. Cramér, "Mathematical Methods of
Statistics" (1946), 28.5, with the exact value for n = 1).

The part between runs is estimated from n - 1 differences, the part within is known well. So the
interval is Student's t, with the degrees of freedom of F. E. Satterthwaite, "An Approximate
Distribution of Estimates of Variance Components", Biometrics Bulletin 2 (1946). Runs that agree
narrow it as the root of their number; two that differ by far more than they claim make it wide.

Each side of the interval has its own reach, because the runs' intervals are not symmetric.
"""

import math
import statistics
from collections.abc import Sequence

Interval = tuple[float, float]  # the bounds, the lower one first
_SIDE = 0.025  # the probability of being beyond one end
_DIGITS = 4  # of a figure: nothing measured here is more precise
_MOST_DECIMALS = 6
_HUGE = 1e9
_QUANTILE = statistics.NormalDist().inv_cdf(1 - _SIDE)


def pool(figures: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Return the 95 % interval of the median of `figures`, one figure and one interval per run."""
    if len(figures) == 1:
        return intervals[0]
    middle, mean = statistics.median(figures), math.fsum(figures) / len(figures)
    between = math.fsum((figure - mean) ** 2 for figure in figures) / (len(figures) - 1)
    pairs = list(zip(figures, intervals, strict=True))
    low = middle - _reach(between, [figure - low for figure, (low, _) in pairs])
    high = middle + _reach(between, [high - figure for figure, (_, high) in pairs])
    never_negative = all(least >= 0 for least, _ in intervals)
    return (max(0.0, low) if never_negative else low), high


def widened(interval: Interval, value: float, of: int) -> Interval:
    """Return the interval of a figure that is the most striking one `of` many.

    Each of them may be outside its own interval: all are inside these (Bonferroni).
    """
    factor = statistics.NormalDist().inv_cdf(1 - _SIDE / max(1, of)) / _QUANTILE
    low, high = interval
    return value - factor * (value - low), value + factor * (high - value)


def proportion(count: int, of: int) -> Interval:
    """Return the 95 % interval of a probability (E. B. Wilson, 1927, J. Am. Stat. Assoc. 22)."""
    square, share = _QUANTILE**2, count / of
    middle = (share + square / (2 * of)) / (1 + square / of)
    reach = math.sqrt(share * (1 - share) / of + square / (4 * of**2)) / (1 + square / of)
    return middle - _QUANTILE * reach, middle + _QUANTILE * reach


def written(value: float, low: float, high: float, decimals: int) -> str:
    """Write how far an interval reaches: `±0.01`, or `-0.01 +0.09` if the sides differ."""
    below, above = (f"{max(0.0, reach):.{decimals}f}" for reach in (value - low, high - value))
    return f"±{above}" if below == above else f"-{below} +{above}"


def measured(value: float, low: float, high: float) -> str:
    """Write a figure and its interval, to one digit of the larger reach: `1.45 ±0.01`."""
    reach = max(high - value, value - low)
    if reach <= 0:
        return f"{digits(value)} ±0"
    decimals = max(0, -math.floor(math.log10(reach)))
    if decimals > _MOST_DECIMALS:
        return f"{value:.{_DIGITS - 1}e} ±{reach:.0e}"
    return f"{value:.{decimals}f} {written(value, low, high, decimals)}"


def digits(value: float, count: int = _DIGITS) -> str:
    """Write a figure with so many digits, zeros too; a larger one whole, NaN as ""."""
    if math.isnan(value):
        return ""
    if 10**count - 0.5 <= abs(value) < _HUGE:
        return f"{value:.0f}"
    return f"{value:#.{count}g}".removesuffix(".")


def _reach(seen: float, reaches: Sequence[float]) -> float:
    """Return how far the interval reaches to a side; `seen` is the variance of the figures."""
    count = len(reaches)
    within = math.fsum((max(0.0, reach) / _QUANTILE) ** 2 for reach in reaches) / count
    quantile, variance = _QUANTILE, max(seen, within)
    if variance > within:
        # Imported here: reading one run needs no NumPy.
        from overlapbench.statistics.distributions import t_quantile

        freedom = (count - 1) * (variance / (variance - within)) ** 2
        quantile = float(t_quantile(freedom, _SIDE))
    return quantile * math.sqrt(variance * math.pi / (2 * count + math.pi - 2))
