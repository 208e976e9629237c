"""The statistics: known answers, symmetry, robustness, and that little data decides nothing."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from overlapbench.compare import statistics
from overlapbench.compare.statistics import Array, Samples, discoveries, estimate, floors

UNKNOWN = np.array([math.nan])


def normal(seed: int, benchmarks: int, launches: int, deviation: float) -> Array:
    random = np.random.default_rng(seed)
    return np.asarray(deviation * random.standard_normal((benchmarks, launches)))


def without(count: int) -> Array:
    return np.full(count, math.nan)


def test_a_lone_benchmark_is_tested_by_students_t() -> None:
    base, new = np.array([[0.0, 0.02, 0.04]]), np.array([[0.10, 0.12, 0.14]])
    found = estimate(Samples(base, new, UNKNOWN))
    expected = stats.ttest_ind(new[0] - statistics.MARGIN, base[0], alternative="greater")
    assert found.change[0] == pytest.approx(0.10)
    assert found.freedom[0] == 4
    assert found.worse[0] == pytest.approx(expected.pvalue)
    assert found.better[0] > 0.99


def test_the_interval_is_students() -> None:
    found = estimate(Samples(np.array([[0.0, 0.02, 0.04]]), np.array([[0.1, 0.12, 0.14]]), UNKNOWN))
    low, high = found.interval()
    reach = 0.02 * math.sqrt(2 / 3) * stats.t.ppf(0.975, 4)
    assert (low[0], high[0]) == (pytest.approx(0.1 - reach), pytest.approx(0.1 + reach))


def test_equal_noise_is_recognised_and_borrowed() -> None:
    found = estimate(Samples(normal(1, 300, 5, 0.01), normal(2, 300, 5, 0.01), without(300)))
    assert found.deviation == pytest.approx(np.full(300, 0.01), rel=0.35)
    assert (found.freedom == 8 + 12).all()


def test_unlike_noise_is_hardly_borrowed() -> None:
    deviations = np.exp(np.linspace(math.log(1e-3), math.log(1e-1), 300))[:, np.newaxis]
    base, new = (deviations * normal(seed, 300, 5, 1.0) for seed in (1, 2))
    found = estimate(Samples(base, new, without(300)))
    assert (found.freedom < 8 + 2).all()


def test_the_spread_inside_launches_tells_what_noise_to_expect() -> None:
    deviations = np.exp(np.linspace(math.log(3e-3), math.log(3e-2), 300))
    base, new = (deviations[:, np.newaxis] * normal(seed, 300, 3, 1.0) for seed in (1, 2))
    blind = estimate(Samples(base, new, without(300)))
    seeing = estimate(Samples(base, new, deviations))
    errors = [np.abs(np.log(found.deviation / deviations)).mean() for found in (blind, seeing)]
    assert errors[1] < 0.7 * errors[0]


def test_an_outlier_launch_neither_makes_a_regression_nor_hides_one() -> None:
    base, new = normal(1, 100, 5, 0.005), normal(2, 100, 5, 0.005)
    new[7, 2] += 0.5
    new[9] += 0.05
    base[9, 0] += 0.5
    found = estimate(Samples(base, new, without(100)))
    regressed = discoveries(found.worse) & (found.change > np.log1p(floors(found.error)))
    assert np.flatnonzero(regressed).tolist() == [9]
    assert abs(found.change[7]) < 0.01


def test_one_launch_a_side_decides_nothing() -> None:
    found = estimate(Samples(np.zeros((3, 1)), np.full((3, 1), 0.5), without(3)))
    assert found.change == pytest.approx([0.5] * 3)
    assert np.isnan(found.worse).all()
    assert not discoveries(found.worse).any()
    assert (floors(found.error) == statistics.LEAST_FLOOR).all()


def test_one_launch_against_many_is_tested() -> None:
    found = estimate(Samples(normal(1, 50, 8, 0.003), np.full((50, 1), 0.2), without(50)))
    assert discoveries(found.worse).all()


def test_benchmarks_without_figures_on_a_side_are_left_out() -> None:
    base, new = normal(1, 20, 5, 0.01), normal(2, 20, 5, 0.01)
    new[3] = math.nan
    base[4, 1:] = math.nan
    found = estimate(Samples(base, new, without(20)))
    assert np.isnan(found.change[3])
    assert np.isnan(found.worse[3])
    assert np.isfinite(found.worse[4])
    assert found.freedom[4] < found.freedom[5]


def test_discoveries_are_benjamini_and_hochbergs() -> None:
    p = np.array([0.001, math.nan, 0.04, 0.02, 0.9])
    assert discoveries(p).tolist() == [True, False, False, True, False]


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 20),
    st.floats(1e-4, 0.2),
)
@settings(max_examples=60, deadline=None)
def test_exchanging_the_sides_exchanges_worse_and_better(
    seed: int, base_launches: int, new_launches: int, benchmarks: int, deviation: float
) -> None:
    base = normal(seed, benchmarks, base_launches, deviation)
    new = normal(seed + 1, benchmarks, new_launches, deviation) + 0.03
    there = estimate(Samples(base, new, without(benchmarks)))
    back = estimate(Samples(new, base, without(benchmarks)))
    np.testing.assert_array_equal(there.change, -back.change)
    np.testing.assert_array_equal(there.worse, back.better)
    np.testing.assert_array_equal(there.error, back.error)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.permutations(range(6)))
@settings(max_examples=60, deadline=None)
def test_the_order_of_launches_does_not_matter(
    seed: int, benchmarks: int, order: list[int]
) -> None:
    base, new = normal(seed, benchmarks, 6, 0.01), normal(seed + 1, benchmarks, 6, 0.01)
    one = estimate(Samples(base, new, without(benchmarks)))
    other = estimate(Samples(base[:, order], new[:, order[::-1]], without(benchmarks)))
    np.testing.assert_array_equal(one.worse, other.worse)
    np.testing.assert_array_equal(one.change, other.change)
