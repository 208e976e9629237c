"""Sets of intervals: the arithmetic is that of sets of moments, whatever the intervals."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from overlapbench.traces.intervals import (
    Interval,
    Intervals,
    difference,
    intersection,
    length,
    union,
)

_moment = st.integers(-20, 40)
_intervals = st.lists(st.tuples(_moment, _moment), max_size=8)
_sets = _intervals.map(lambda intervals: union(intervals))


def moments(intervals: Intervals | list[Interval]) -> set[int]:
    return {moment for begin, end in intervals for moment in range(begin, end)}


@given(_intervals, _intervals)
@settings(max_examples=300)
def test_a_union_holds_all_moments_in_order_and_none_twice(
    left: list[Interval], right: list[Interval]
) -> None:
    made = union(left, right)
    assert moments(made) == moments(left) | moments(right)
    assert all(begin < end for begin, end in made)
    assert all(one[1] < two[0] for one, two in pairwise(made))
    assert made == union(reversed(right), left)


@given(_sets, _sets)
@settings(max_examples=300)
def test_arithmetic_is_that_of_sets(left: Intervals, right: Intervals) -> None:
    common, rest = intersection(left, right), difference(left, right)
    assert moments(common) == moments(left) & moments(right)
    assert moments(rest) == moments(left) - moments(right)
    assert length(common) + length(rest) == length(left) == len(moments(left))
    assert union(common, rest) == left


@given(_sets, _moment, _moment)
@settings(max_examples=300)
def test_gaps_are_the_rest_of_an_interval(busy: Intervals, begin: int, end: int) -> None:
    free = difference(union([(begin, end)]), busy)
    assert moments(free) == set(range(begin, end)) - moments(busy)
    assert free == union(free)


def test_large_times_lose_nothing() -> None:
    now = 1_764_000_000_123_456_789
    assert length(union([(now, now + 1), (now + 2, now + 3)])) == 2
