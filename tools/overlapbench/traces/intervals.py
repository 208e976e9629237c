"""Sets of time intervals, and the arithmetic on them: exact, since all times are whole nanoseconds.

An interval is half open, [begin, end). A set is a tuple of intervals in order that neither overlap
nor touch, and none is empty, so two sets contain the same moments if and only if they are equal.
`union` makes a set of any intervals; the other functions take sets.
"""

from bisect import bisect_right
from collections.abc import Iterable

Interval = tuple[int, int]
Intervals = tuple[Interval, ...]


def union(*groups: Iterable[Interval]) -> Intervals:
    """Return the moments in any of the intervals, which may overlap and be unsorted."""
    merged: list[Interval] = []
    for begin, end in sorted(interval for group in groups for interval in group):
        if begin >= end:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return tuple(merged)


def intersection(left: Intervals, right: Intervals) -> Intervals:
    """Return the moments in both sets."""
    common: list[Interval] = []
    at = max(0, bisect_right(right, left[0]) - 1) if left else 0  # one set may be much smaller
    for begin, end in left:
        while at < len(right) and right[at][1] <= begin:
            at += 1
        other = at
        while other < len(right) and right[other][0] < end:
            common.append((max(begin, right[other][0]), min(end, right[other][1])))
            other += 1
    return tuple(common)


def difference(left: Intervals, right: Intervals) -> Intervals:
    """Return the moments of the left set that are not in the right one."""
    if not left:
        return ()
    bounds = [left[0][0], *(moment for interval in right for moment in interval), left[-1][1]]
    gaps = zip(bounds[::2], bounds[1::2], strict=True)
    return intersection(left, tuple((begin, end) for begin, end in gaps if begin < end))


def length(intervals: Intervals) -> int:
    """Return the total length of a set."""
    return sum(end - begin for begin, end in intervals)
