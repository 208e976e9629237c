"""The parts of the estimate, each against its value by hand or by formula."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import special, stats

from overlapbench.statistics import estimates
from overlapbench.statistics.distributions import Array
from overlapbench.statistics.estimates import Estimate, Prior, detectable, estimate, fit_prior

pytestmark = pytest.mark.filterwarnings("error")
NAN = math.nan
ROWS = np.array([[4.0, 1.0, NAN, 2.0], [NAN] * 4, [3.0, NAN, NAN, NAN], [8.0, 2.0, 1.0, 5.0]])


def test_means_and_medians_leave_out_runs_without_a_figure() -> None:
    np.testing.assert_allclose(estimates.mean(ROWS), [7 / 3, NAN, 3.0, 4.0])
    np.testing.assert_array_equal(estimates.median(ROWS), [[2.0], [NAN], [3.0], [3.5]])
    squares = 7 / 3
    expected = [(4 - squares) ** 2 + (1 - squares) ** 2 + (2 - squares) ** 2, 0.0, 0.0, 30.0]
    np.testing.assert_allclose(estimates._squares(ROWS), expected)


def test_the_robust_deviation_is_that_from_the_own_sides_median() -> None:
    base, new = np.array([[0.0, 1.0, 4.0]]), np.array([[10.0, 12.0, 15.0]])
    # distances 1, 0, 3 and 2, 0, 3: the median is 1.5
    assert estimates._robust_variance(base, new) == pytest.approx([(1.4826 * 1.5) ** 2])


def test_runs_are_pulled_in_to_the_limit_around_the_median() -> None:
    side = np.array([[0.0, 1.0, 2.0, 9.0, -9.0], [0.0, 1.0, 2.0, 9.0, -9.0]])
    pulled = estimates._pull_in(side, np.array([3.0, math.inf]))
    np.testing.assert_array_equal(pulled, [[0.0, 1.0, 2.0, 4.0, -2.0], side[1]])


@pytest.mark.parametrize("root", [1e-3, 0.3, 0.999])
def test_bisection_finds_where_it_turns(root: float) -> None:
    assert estimates._bisect(lambda x: x < root, 0.0, 1.0) == pytest.approx(root, rel=1e-12)
    assert estimates._bisect(lambda x: x < 10 * root, root, 100.0) == pytest.approx(10 * root)


@pytest.mark.parametrize("within", [0.0, 0.006])
@pytest.mark.parametrize("freedom", [2.0, 8.0])
def test_equal_variances_fit_one_spread(within: float, freedom: float) -> None:
    """The mean logarithm of a variance of so few runs is too low by log h - digamma(h)."""
    half, variance = freedom / 2, 0.01**2
    typical = variance * half * math.exp(-special.digamma(half))
    found = fit_prior(np.full(20, variance), np.full(20, freedom), np.full(20, within))
    assert found.between == pytest.approx(math.sqrt(typical - within**2))
    assert found.freedom == 8.0
    share = 4 * math.exp(-special.digamma(4.0))  # of a prior of 8 degrees of freedom
    assert found.variance(np.array([within])) == pytest.approx([typical / share])


def test_a_spread_below_the_one_inside_is_none() -> None:
    found = fit_prior(np.full(20, 1e-6), np.full(20, 8.0), np.full(20, 0.01))
    assert found.between == pytest.approx(0.0, abs=1e-12)


def test_no_spread_is_below_the_precision_of_a_time() -> None:
    assert Prior(0.0, 8.0).variance(np.zeros(1)) * 4 * math.exp(-special.digamma(4.0)) == (
        pytest.approx([1e-7])
    )
    assert fit_prior(np.zeros(20), np.full(20, 8.0), np.zeros(20)).between == pytest.approx(
        math.sqrt(1e-7 * 4 * math.exp(-special.digamma(4.0)))
    )
    found = estimate(np.zeros((1, 3)), np.zeros((1, 3)), np.array([NAN]), Prior(0.01, 5.0))
    assert found.deviation == pytest.approx([math.sqrt(1e-7)])


PRIOR = Prior(between=0.004, freedom=5.0)


@pytest.mark.parametrize(("rows", "borrowed"), [(1, 0), (9, 0), (10, 8), (30, 8)])
def test_ten_rows_are_enough_to_borrow_from_one_another(rows: int, borrowed: int) -> None:
    base, new = np.tile([0.0, 0.01, 0.02], (rows, 1)), np.tile([0.03, 0.04, 0.05], (rows, 1))
    found = estimate(base, new, np.full(rows, NAN), PRIOR)
    assert found.freedom.tolist() == [4 + borrowed] * rows
    assert found.share == pytest.approx(np.full(rows, math.sqrt(2 / 3)))
    if not borrowed:
        assert found.deviation == pytest.approx(np.full(rows, 0.01))


def test_own_and_borrowed_variances_weigh_as_their_freedoms() -> None:
    known = Prior(0.02, np.array([3.0, 5.0]))
    variance, total = estimates._moderate(
        np.array([1e-4, NAN]),
        np.array([4.0, 0.0]),
        np.array([0.0, 0.0]),
        np.array([True, True]),
        known,
    )
    lent = 0.02**2 * math.exp(special.digamma(2.5)) / 2.5
    assert variance == pytest.approx([1e-4, lent])
    assert total.tolist() == [4.0, 5.0]


def test_runs_of_unequal_number_and_their_error() -> None:
    base, new = np.array([[0.0, 0.02, NAN]]), np.array([[0.10, 0.11, 0.12]])
    found = estimate(base, new, np.array([NAN]), PRIOR)
    squares = 2 * 0.01**2 + 2 * 0.01**2
    assert (found.base[0], found.new[0]) == pytest.approx((0.01, 0.11))
    assert found.freedom[0] == 3
    assert found.error[0] == pytest.approx(math.sqrt(squares / 3 * (1 / 2 + 1 / 3)))


def test_a_change_has_a_sign_and_says_which_rows_are_measured_and_gone() -> None:
    base, new = np.array([1.0, 1.0, NAN, NAN]), np.array([3.0, NAN, 1.0, NAN])
    found = Estimate(base, new, np.full(4, 0.5), np.full(4, 0.4), np.ones(4))
    np.testing.assert_array_equal(found.change, [2.0, NAN, NAN, NAN])
    assert found.error == pytest.approx(np.full(4, 0.2))
    assert found.measured.tolist() == [True, False, False, False]
    assert found.gone.tolist() == [False, True, False, False]


@pytest.mark.parametrize("power", [0.8, 0.95])
@pytest.mark.parametrize("figures", [1, 300])
@pytest.mark.parametrize("freedom", [2.0, 5.0, 30.0])
def test_the_change_that_is_found_allows_for_both_estimates_of_the_error(
    power: float, figures: int, freedom: float
) -> None:
    """The share that is found, integrated over both estimates."""
    grid = (np.arange(1500) + 0.5) / 1500
    errors = np.sqrt(stats.chi2.ppf(grid, freedom) / freedom)
    found = detectable(np.array([1.0]), np.array([freedom]), figures, np.zeros(1), power)
    needed = stats.t.isf(estimates.FALSE_ALARMS / (2 * figures), freedom) * errors
    share = special.ndtr(found * errors[:, np.newaxis] - needed).mean()
    assert share == pytest.approx(power, abs=4e-4)


@pytest.mark.parametrize("power", [0.8, 0.95])
def test_the_change_that_is_found_exceeds_the_least_that_counts_in_all_errors(
    power: float,
) -> None:
    freedom = np.array([6.0, 16.0])
    found = detectable(np.array([0.01, 0.02]), freedom, 1, np.array([0.2, 0.4]), power)
    expected = np.array([0.2, 0.4]) + np.array([0.01, 0.02]) * stats.t.isf(1 - power, freedom)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("runs", [4, 12, 200])
def test_fewer_runs_must_show_an_outlier_more_clearly(runs: int) -> None:
    """All are at a distance of 1, but for one."""
    usual = np.tile([-1.0, 1.0], runs // 2)
    base, new = usual.copy(), usual.copy()
    base[-1] = 9.0
    limit = 1.4826 * stats.t.isf(stats.norm.sf(3.5), 0.37 * (2 * runs - 2))
    assert (limit < 9.0) == (runs > 4)
    found = estimate(base[np.newaxis], new[np.newaxis], np.array([NAN]), PRIOR)
    assert found.base[0] == pytest.approx((min(9.0, limit) - 1) / runs)
    assert found.new[0] == 0.0


@pytest.mark.parametrize(
    ("figures", "false_alarms", "tail"),
    [(1, None, 0.0025), (300, None, 0.0025 / 300), (2, 0.05, 0.0125)],
)
def test_the_reach_shares_the_false_alarms_among_figures_and_directions(
    figures: int, false_alarms: float | None, tail: float
) -> None:
    error, freedom = np.array([0.01, 0.02]), np.array([5.0, 8.0])
    chosen: Sequence[float] = [] if false_alarms is None else [false_alarms]
    found: Array = estimates.reach(error, freedom, figures, *chosen)
    assert found == pytest.approx(error * stats.t.isf(tail, freedom))


@pytest.mark.parametrize("gone", [0, 1])
def test_a_row_that_a_side_lacks_has_no_freedom_and_lends_none(gone: int) -> None:
    sides = [np.tile([0.0, 0.01, 0.02], (10, 1)), np.tile([0.03, 0.04, 0.05], (10, 1))]
    sides[gone][0] = NAN
    found = estimate(sides[0], sides[1], np.full(10, NAN), PRIOR)
    assert np.isnan(found.freedom[0])
    assert found.freedom[1:].tolist() == [4] * 9  # nine are too few to borrow from
