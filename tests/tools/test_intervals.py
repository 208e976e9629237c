"""Intervals pooled over runs: more runs narrow them, and they hold as often as they say."""

import math
import random
from collections.abc import Sequence

import pytest

from overlapbench.statistics.intervals import Interval, pool, proportion, widened, written

REACH = 1.96


def normal(count: int, machines: float, draw: random.Random) -> tuple[list[float], list[Interval]]:
    """Draw runs of true figure 0, each known to ±1.96, on machines that differ by so much."""
    figures = [draw.gauss(0, math.hypot(1, machines)) for _ in range(count)]
    return figures, [(figure - REACH, figure + REACH) for figure in figures]


def width(interval: Interval) -> float:
    return interval[1] - interval[0]


def test_one_run_keeps_its_interval() -> None:
    assert pool([2.0], [(1.9, 9.7)]) == (1.9, 9.7)


def test_runs_that_agree_narrow_the_interval_as_the_root_of_their_number() -> None:
    widths = [width(pool([5.0] * n, [(5 - REACH, 5 + REACH)] * n)) for n in range(1, 41)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == pytest.approx(2 * REACH)
    assert widths[39] * math.sqrt(40) == pytest.approx(2 * REACH * math.sqrt(math.pi / 2), rel=0.02)


def test_twenty_runs_tell_more_than_one() -> None:
    """The hull of these intervals is 7.7 wide on average."""
    draw = random.Random(1)
    mean = {n: sum(width(pool(*normal(n, 0, draw))) for _ in range(500)) / 500 for n in (1, 5, 20)}
    assert mean[1] == pytest.approx(2 * REACH)
    assert mean[20] < 0.55 * mean[5] < 0.4 * mean[1]


@pytest.mark.parametrize("machines", [0.0, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize(("runs", "least"), [(2, 0.85), (5, 0.93), (20, 0.94)])
def test_the_interval_holds_as_often_as_the_documents_say(
    runs: int, least: float, machines: float
) -> None:
    draw, trials = random.Random(7), 3000
    drawn = (pool(*normal(runs, machines, draw)) for _ in range(trials))
    held = sum(low <= 0 <= high for low, high in drawn) / trials
    margin = 2.6 * math.sqrt(least * (1 - least) / trials)
    assert held > least - margin


def test_each_side_keeps_its_own_reach() -> None:
    low, high = pool([2.0] * 4, [(1.9, 9.7)] * 4)
    shrunk = math.sqrt(math.pi / (2 * 4 + math.pi - 2))
    assert (2 - low, high - 2) == pytest.approx((0.1 * shrunk, 7.7 * shrunk))


def test_two_runs_that_disagree_are_uncertain_but_not_negative() -> None:
    low, high = pool([1.0, 1.5], [(0.99, 1.01), (1.49, 1.51)])
    assert low == 0
    assert high > 3
    low, high = pool([-1.0, 1.0], [(-1.01, -0.99), (0.99, 1.01)])
    assert low == pytest.approx(-high)


@pytest.mark.parametrize(
    ("figures", "decimals", "text"),
    [
        ((1.45, 1.44, 1.46), 2, "±0.01"),
        ((2.0, 1.9, 9.7), 1, "-0.1 +7.7"),
        ((2.0, 1.9, 9.7), 0, "-0 +8"),
        ((2.0, 2.1, 2.2), 1, "-0.0 +0.2"),
    ],
)
def test_an_interval_is_written_as_it_is(
    figures: Sequence[float], decimals: int, text: str
) -> None:
    value, low, high = figures
    assert written(value, low, high, decimals) == text


def test_a_figure_chosen_among_many_has_a_wider_interval() -> None:
    assert widened((0.9, 1.2), 1.0, 1) == pytest.approx((0.9, 1.2))
    low, high = widened((0.9, 1.2), 1.0, 100)
    assert (1 - low, high - 1) == pytest.approx((0.1776, 0.3552), abs=1e-4)


def test_a_proportion_has_wilsons_interval() -> None:
    """40 of 48, as in the paper's formula by hand."""
    assert proportion(40, 48) == pytest.approx((0.7043, 0.9131), abs=1e-4)
    assert proportion(1, 1)[0] == pytest.approx(0.2065, abs=1e-4)
