"""What the search for changes of level is made of: noise, correlation and penalty, by hand."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from overlapbench.statistics import levels
from overlapbench.statistics.distributions import Array

USUAL = 1.4826 * 0.01 / math.sqrt(2)  # the deviation that neighbours 0.01 apart show


def alternating(runs: int = 20) -> Array:
    return np.resize([0.0, 0.01], runs)


def test_the_noise_is_that_of_neighbours() -> None:
    values = alternating()
    pulled, noise = levels._pull_in(values)
    np.testing.assert_array_equal(pulled, values)
    assert noise == pytest.approx(0.01 / math.sqrt(2))
    assert levels._pull_in(np.full(20, 7.0))[1] == 3e-4


@pytest.mark.parametrize("sign", [1, -1])
def test_an_outlier_is_pulled_to_the_median_of_the_runs_around_it(sign: int) -> None:
    values = alternating()
    values[9] = sign
    pulled, noise = levels._pull_in(values)
    assert pulled[9] == pytest.approx(sign * 3.5 * USUAL)
    np.testing.assert_array_equal(np.delete(pulled, 9), np.delete(values, 9))
    steps = np.clip(np.diff(pulled), -math.sqrt(2) * 3.5 * USUAL, math.sqrt(2) * 3.5 * USUAL)
    assert noise == pytest.approx(math.sqrt(np.mean(steps**2) / 2))


@pytest.mark.parametrize("first", [True, False])
def test_the_shortest_level_at_an_end_stays(first: bool) -> None:
    values = alternating()
    values[slice(4) if first else slice(-4, None)] += 1
    np.testing.assert_array_equal(levels._pull_in(values)[0], values)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_change_of_level_is_hardly_noise(sign: int) -> None:
    values = alternating()
    values[10:] += sign
    steps = np.full(19, 0.01)
    steps[9] = math.sqrt(2) * 3.5 * USUAL
    assert levels._pull_in(values)[1] == pytest.approx(math.sqrt(np.mean(steps**2) / 2))


PAIRS = np.resize([1.0, 1.0, -1.0, -1.0], 20)


@pytest.mark.parametrize(
    ("values", "ends", "correlation"),
    [
        # 1 / 20 seen, + (1 + 0.2) / 20 of bias, in 20 runs; 0.25 in 10 others
        (PAIRS, [20], (20 * 0.11 + 2.5) / 30),
        (np.concatenate([PAIRS, PAIRS + 10]), [20, 40], (40 * 0.08 + 2.5) / 50),
        (np.full(20, 3.0), [20], (20 * 0.35 + 2.5) / 30),  # the usual one, if none is seen
        (np.resize([1.0, -1.0], 40), [40], 0.0),
        (np.repeat([-1.0, 1.0], 50), [100], 0.9),
        # Seen below 0 has the bias of independent runs.
        (np.resize([1.0, -1.0, -1.0, 1.0, 0.0, 0.0], 12), [12], (-3.0 + 1 + 2.5) / 22),
    ],
)
def test_the_correlation_of_neighbours_around_their_levels(
    values: Array, ends: Sequence[int], correlation: float
) -> None:
    assert levels._correlation(values, ends) == pytest.approx(correlation)


def test_the_penalty_holds_the_promise_and_grows_with_the_correlation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Array, float]] = []

    def best_ends(values: Array, penalty: float) -> list[int]:
        asked.append((values, penalty))
        return [len(values)]

    monkeypatch.setattr(levels, "best_ends", best_ends)
    values = 0.01 * np.sin(np.arange(20.0))
    assert levels._segment(values) == [20]
    pulled, noise = levels._pull_in(values)
    r = levels._correlation(pulled, [20])
    assert r > 0.5
    quantile = stats.t.isf(0.05 / 40, 2 / 3 * 19)
    penalties = [quantile**2 * (1 + r) / (1 - r) ** 2 for r in (0.25, r, r)]
    assert [penalty for _, penalty in asked] == pytest.approx(penalties)
    assert asked[0][0] == pytest.approx(pulled / noise)
