"""The statistics: known results, symmetry, robustness, and the conclusions from a single run."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

import known_spread
from known_spread import measure_spreads, own_variance
from made_runs import run
from overlapbench.judge.known import KNOWN, UNRECORDED, Spread, known_prior
from overlapbench.judge.side import Side
from overlapbench.reading.program_run import ProgramRun, parse_program_run
from overlapbench.statistics import estimates
from overlapbench.statistics.distributions import Array
from overlapbench.statistics.estimates import (
    LEAST_FLOOR,
    POWERS,
    Estimate,
    Prior,
    detectable,
    estimate,
    fit_prior,
    is_change,
    is_same,
    reach,
)

pytestmark = pytest.mark.filterwarnings("error")  # a user would see them beside the verdict
RESULTS = Path(__file__).parents[2] / "docs/results"
UNKNOWN = np.array([math.nan])
PRIOR = Prior(between=0.004, freedom=5.0)


def normal(seed: int, benchmarks: int, runs: int, deviation: float) -> Array:
    random = np.random.default_rng(seed)
    return np.asarray(deviation * random.standard_normal((benchmarks, runs)))


def without(count: int) -> Array:
    return np.full(count, math.nan)


def slower(found: Estimate) -> NDArray[np.bool_]:
    half = reach(found.error, found.freedom, int(found.measured.sum()))
    return np.asarray(found.change > np.maximum(half, np.log1p(LEAST_FLOOR)))


def test_a_lone_benchmark_has_students_interval() -> None:
    base, new = np.array([[0.0, 0.02, 0.04]]), np.array([[0.10, 0.12, 0.14]])
    found = estimate(base, new, UNKNOWN, PRIOR)
    assert found.change[0] == pytest.approx(0.10)
    assert found.freedom[0] == 4
    expected = 0.02 * math.sqrt(2 / 3) * stats.t.isf(estimates.FALSE_ALARMS / 2, 4)
    assert reach(found.error, found.freedom, 1)[0] == pytest.approx(expected)


DRAWN = 100_000


def is_near(found: NDArray[np.bool_], share: float) -> bool:
    """Tell whether a share of drawn rows is the promised one, but for four standard errors."""
    return bool(abs(found.mean() - share) < 4 * math.sqrt(share * (1 - share) / len(found)))


@pytest.mark.parametrize("least", [0.5, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("freedom", [2.0, 6.0, 30.0])
def test_a_change_that_must_also_count_is_found_at_least_as_often(
    freedom: float, least: float
) -> None:
    """A least change, in reaches of a known error, of two comparisons of one row."""
    random, same = np.random.default_rng(8), np.full(DRAWN, freedom)
    errors = np.sqrt(random.chisquare(freedom, (2, DRAWN)) / freedom)
    counts = np.full(DRAWN, least * reach(np.ones(1), same[:1], 1))
    needed = np.maximum(reach(errors[1], same, 1), counts)
    for power in POWERS:
        claimed = detectable(errors[0], same, 1, counts, power)
        found = (claimed + random.standard_normal(DRAWN) > needed).mean()
        assert power - 0.005 < found < power + 0.03


# With two runs on each side, and so on.
SIDES = [(2, 2), (2, 3), (1, 4), (3, 3), (4, 4), (6, 6), (16, 16)]


@pytest.mark.parametrize("sides", SIDES)
def test_a_lone_row_keeps_its_promises_whatever_the_number_of_runs(
    sides: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many rows at once. They borrow nothing from each other, and no run is an outlier."""
    monkeypatch.setattr(estimates, "_LEAST_TO_FIT", DRAWN + 1)
    base, new = sides
    first, second = (
        estimate(
            normal(i, DRAWN, base, 1.0), normal(10 + i, DRAWN, new, 1.0), without(DRAWN), PRIOR
        )
        for i in (1, 2)
    )
    half = reach(second.error, second.freedom, 1)
    assert is_near(abs(second.change) > half, estimates.FALSE_ALARMS)
    for power in POWERS:
        claimed = detectable(first.error, first.freedom, 1, np.zeros(DRAWN), power)
        assert is_near(claimed + second.change > half, power)


def test_what_is_detectable_also_counts() -> None:
    error, freedom = np.full(2, 1e-6), np.full(2, 8.0)
    least = np.array([0.02, 0.05])
    for power in POWERS:
        assert detectable(error, freedom, 1, least, power) == pytest.approx(least, rel=1e-3)
    unknown = np.array([np.nan])
    assert np.isinf(reach(unknown, np.array([5.0]), 1)).all()
    assert np.isinf(detectable(unknown, np.array([5.0]), 1, least[:1], 0.8)).all()
    assert np.isinf(detectable(least[:1], unknown, 1, least[:1], 0.8)).all()


@pytest.mark.parametrize(
    ("change", "half", "changed", "same"),
    [
        (0.087, 0.088, False, False),  # may be 0, and may be 0.175
        (0.05, 0.04, True, True),
        (-0.05, 0.04, True, True),
        (0.01, 0.005, False, True),  # too small to count
        (0.05, 0.05, False, True),
        (0.05, 0.051, False, False),
        (-0.05, 0.051, False, False),
        (0.0, math.inf, False, False),
    ],
)
def test_an_interval_decides(change: float, half: float, changed: bool, same: bool) -> None:
    assert bool(is_change(change, half, 0.02)) == changed
    assert bool(is_same(change, half, 0.10)) == same


def test_equal_noise_is_recognised_and_borrowed() -> None:
    found = estimate(normal(1, 300, 5, 0.01), normal(2, 300, 5, 0.01), without(300), PRIOR)
    assert found.deviation == pytest.approx(np.full(300, 0.01), rel=0.4)
    assert (found.freedom == 8 + 8).all()


def test_unlike_noise_is_hardly_borrowed() -> None:
    deviations = np.exp(np.linspace(math.log(1e-3), math.log(1e-1), 300))[:, np.newaxis]
    base, new = (deviations * normal(seed, 300, 5, 1.0) for seed in (1, 2))
    found = estimate(base, new, without(300), PRIOR)
    assert (found.freedom < 8 + 2).all()


def test_the_spread_inside_runs_predicts_the_noise() -> None:
    deviations = np.exp(np.linspace(math.log(3e-3), math.log(3e-2), 300))
    base, new = (deviations[:, np.newaxis] * normal(seed, 300, 3, 1.0) for seed in (1, 2))
    blind = estimate(base, new, without(300), PRIOR)
    seeing = estimate(base, new, deviations, PRIOR)
    errors = [np.abs(np.log(found.deviation / deviations)).mean() for found in (blind, seeing)]
    assert errors[1] < 0.7 * errors[0]


def test_a_run_is_never_more_precise_than_its_own_spread() -> None:
    """Runs of two modes may agree by chance."""
    within = np.full(50, 0.03)
    found = estimate(normal(1, 50, 3, 1e-4), normal(2, 50, 3, 1e-4), within, PRIOR)
    assert (found.deviation >= 0.03).all()


def test_a_fitted_prior_finds_the_spread_besides_the_one_inside() -> None:
    within = np.full(400, 0.006)
    variance, freedom = own_variance(normal(3, 400, 5, math.hypot(0.006, 0.008)))
    found = fit_prior(variance, freedom, within)
    assert found.between == pytest.approx(0.008, rel=0.15)


@pytest.mark.parametrize("worth", [2.5, 4.0])
def test_a_fitted_prior_finds_how_much_benchmarks_differ(worth: float) -> None:
    """Variances drawn as Smyth's model has them."""
    random = np.random.default_rng(4)
    variance = 0.01**2 * worth / random.chisquare(worth, 20_000)
    freedom = np.full(20_000, 8.0)
    shown = variance * random.chisquare(8, 20_000) / 8
    found = fit_prior(shown, freedom, np.zeros(20_000))
    assert found.freedom == pytest.approx(worth, rel=0.05)
    assert found.variance(np.zeros(1))[0] == pytest.approx(0.01**2, rel=0.05)


@pytest.mark.parametrize(("freedom", "found"), [(0.02, 0.02), (1, 1), (7.9, 7.9), (40, 8)])
def test_the_priors_freedom_is_that_of_residuals_and_limited(freedom: float, found: float) -> None:
    """Half of the residuals are positive; their variance is that of both log chi squares."""
    half = np.full(1000, 3.0)
    total = special.polygamma(1, half) + special.polygamma(1, freedom / 2)
    residuals = np.sqrt(total * 999 / 1000) * np.tile([1, -1], 500)
    assert estimates._prior_freedom(residuals, half) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("on_base", [True, False])
def test_an_outlier_is_pulled_in_from_either_direction(sign: int, on_base: bool) -> None:
    sides = normal(1, 100, 5, 0.005), normal(2, 100, 5, 0.005)
    before = estimate(*sides, without(100), PRIOR).change[7]
    sides[not on_base][7, 2] = sign * 0.5
    after = estimate(*sides, without(100), PRIOR).change[7]
    assert abs(after - before) < 0.01


def test_an_outlier_run_neither_makes_a_regression_nor_hides_one() -> None:
    base, new = normal(1, 100, 5, 0.005), normal(2, 100, 5, 0.005)
    new[7, 2] += 0.5
    new[9] += 0.05
    base[9, 0] += 0.5
    found = estimate(base, new, without(100), PRIOR)
    assert np.flatnonzero(slower(found)).tolist() == [9]
    assert abs(found.change[7]) < 0.01


def test_one_run_a_side_is_judged_by_the_known_spread() -> None:
    base, new = np.zeros((3, 1)), np.array([[0.005], [0.1], [0.47]])
    within = np.array([0.001, 0.1, 0.001])
    found = estimate(base, new, within, PRIOR)
    assert (found.freedom == PRIOR.freedom).all()
    assert found.deviation**2 == pytest.approx(np.maximum(PRIOR.variance(within), within**2))
    assert slower(found).tolist() == [False, False, True]


def test_the_known_spreads_match_the_recorded_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded = ("h200x2/overlap", "h200/families")
    files = [str(RESULTS / f"{name}{again}.json") for name in recorded for again in ("", "-again")]
    assert known_spread.main(files) == 0
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert (first, last) == ('"cuda": {', "},")
    for line, (family, known) in zip(lines, KNOWN["cuda"].items(), strict=True):
        assert line.startswith(
            f'    "{family}": Spread(relative={known.relative:.4f},'
            f" absolute_ms={known.absolute_ms:.5f}, freedom={known.freedom:.1f}),"
        )
    assert known_spread.main(files[:1]) == 2
    assert "only one run of 'cuda': give at least 2" in capsys.readouterr().err


CUDA = frozenset({"cuda"})


@pytest.mark.parametrize(
    ("backends", "known"),
    [
        (CUDA, KNOWN["cuda"]),
        (frozenset({"cuda", "host"}), UNRECORDED),
        (frozenset({"host"}), UNRECORDED),
    ],
)
def test_only_a_recorded_backend_has_a_known_spread(
    backends: frozenset[str], known: Mapping[str, Spread]
) -> None:
    prior = known_prior(backends, ["A/B"], np.array([1000.0]))
    assert prior.between == pytest.approx([known[""].relative], nan_ok=True)
    assert prior.freedom == pytest.approx([known[""].freedom])


def test_a_short_row_is_expected_to_spread_by_an_absolute_part() -> None:
    known = KNOWN["cuda"][""]
    prior = known_prior(CUDA, ["A/B", "A/C"], np.array([0.0085, np.nan]))
    short = np.hypot(known.relative, known.absolute_ms / 0.0085)
    assert prior.between == pytest.approx([short, known.relative])
    assert short > 10 * known.relative


def test_a_row_whose_time_is_the_hosts_launches_is_expected_to_spread_as_such_rows_do() -> None:
    prior = known_prior(CUDA, ["Launch/A", "Mlp/B", "Other/Launch"], np.full(3, 1000.0))
    spreads = [KNOWN["cuda"][family] for family in ("Launch", "Mlp", "")]
    assert prior.between == pytest.approx([spread.relative for spread in spreads])
    assert prior.freedom == pytest.approx([spread.freedom for spread in spreads])


def test_the_spread_of_short_rows_is_found_in_recorded_runs() -> None:
    random = np.random.default_rng(1)
    time_ms = np.concatenate((np.full(200, 1.0), np.full(200, 0.01)))
    rows = {f"A/B/n:{i}": time for i, time in enumerate(time_ms)}

    def measured(i: int) -> ProgramRun:
        drawn = {
            name: time * (1 + random.normal(0, 0.002)) + random.normal(0, 0.0002)
            for name, time in rows.items()
        }
        return parse_program_run(f"{i}.json", json.dumps(run(drawn, backend="cuda")))

    spread, count = measure_spreads("cuda", Side.collect("", [measured(0), measured(1)]))[""]
    assert count == 400
    assert spread.relative == pytest.approx(0.002, rel=0.2)
    assert spread.absolute_ms == pytest.approx(0.0002, rel=0.2)


# Seen on an H200: 8.5 us in one run and 8.9 in the next, and an empty kernel 25 % apart.
@pytest.mark.parametrize(
    ("name", "time_ms", "share", "expected"),
    [
        ("Compute/MatMul", 0.0085, 1.05, False),
        ("Compute/MatMul", 1.0, 1.05, True),
        ("Launch/EmptyKernel", 0.063, 1.3, False),
        ("Copy/Bandwidth", 0.063, 1.3, True),
    ],
)
def test_one_run_a_side_finds_changes_beyond_the_known_spread(
    name: str, time_ms: float, share: float, expected: bool
) -> None:
    known = known_prior(CUDA, [name], np.array([time_ms]))
    base, new = np.log([[time_ms]]), np.log([[time_ms * share]])
    assert bool(slower(estimate(base, new, np.array([0.001]), known))[0]) == expected


def test_one_run_against_many_is_tested() -> None:
    found = estimate(normal(1, 50, 8, 0.003), np.full((50, 1), 0.2), without(50), PRIOR)
    assert slower(found).all()


def test_benchmarks_without_figures_on_a_side_are_left_out() -> None:
    base, new = normal(1, 20, 5, 0.01), normal(2, 20, 5, 0.01)
    new[3] = math.nan
    base[4, 1:] = math.nan
    found = estimate(base, new, without(20), PRIOR)
    assert np.isnan(found.change[3])
    assert found.gone.tolist() == [i == 3 for i in range(20)]
    assert np.isfinite(found.error[4])
    assert found.freedom[4] < found.freedom[5]


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
    there = estimate(base, new, without(benchmarks), PRIOR)
    back = estimate(new, base, without(benchmarks), PRIOR)
    np.testing.assert_array_equal(there.change, -back.change)
    np.testing.assert_array_equal(there.error, back.error)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.permutations(range(6)))
@settings(max_examples=60, deadline=None)
def test_the_order_of_runs_does_not_matter(seed: int, benchmarks: int, order: list[int]) -> None:
    base, new = normal(seed, benchmarks, 6, 0.01), normal(seed + 1, benchmarks, 6, 0.01)
    one = estimate(base, new, without(benchmarks), PRIOR)
    other = estimate(base[:, order], new[:, order[::-1]], without(benchmarks), PRIOR)
    np.testing.assert_array_equal(one.error, other.error)
    np.testing.assert_array_equal(one.change, other.change)
