"""How far the shares of several windows may be off: half the width of their 95 % intervals.

A share of n windows is a ratio of sums, Σx / Σt. Its standard error is that of a ratio estimator
(W. G. Cochran, Sampling Techniques, 3rd edition 1977, section 2.11):

    √(n / (n - 1) · Σ(x - share·t)²) / Σt

Student's t for n - 1 degrees of freedom makes it half an interval. That takes the windows for
independent samples of one distribution, as samples of one experiment are, and steps of a training
that has settled.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from overlapbench.trace.intervals import Interval, Intervals

LEAST = 6  # windows: as many as an interval of the suite's medians needs


def half_width(parts: Sequence[int], wholes: Sequence[int]) -> float | None:
    """Return it for Σparts / Σwholes; None for too few windows, or nothing to share."""
    count, total = len(wholes), sum(wholes)
    if count < LEAST or total == 0:
        return None
    from scipy import special  # here: it is slow to import, and few traces have many windows

    share = sum(parts) / total
    squares = sum((part - share * whole) ** 2 for part, whole in zip(parts, wholes, strict=True))
    error = math.sqrt(count / (count - 1) * squares) / total
    return float(special.stdtrit(count - 1, 0.975)) * error


def lengths_within(intervals: Intervals, windows: Sequence[Interval]) -> list[int]:
    """Return how long a set is within each window."""
    begins = [begin for begin, _ in intervals]
    before = [0, *accumulate(end - begin for begin, end in intervals)]

    def until(moment: int) -> int:
        place = bisect_right(begins, moment)
        if place == 0:
            return 0
        begin, end = intervals[place - 1]
        return before[place - 1] + min(moment, end) - begin

    return [until(end) - until(begin) for begin, end in windows]
