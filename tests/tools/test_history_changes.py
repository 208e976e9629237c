"""Changes of level: found where they are known to be, and hardly ever in noise.

The tests take the first 200 series of each kind that dev/simulate_history.py simulates.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import histories
from overlapbench.judge.series import LEAST_RUNS, Change, find_changes
from overlapbench.statistics.levels import LEAST_SEGMENT, best_ends

SEEDS = 200


def found(values: object, metric: str = "time", least: float = 0.02) -> list[Change]:
    changes = find_changes(histories.series(np.asarray(values).tolist(), metric), least)
    assert changes is not None
    return changes


@pytest.mark.parametrize("runs", [12, 20, 40, 100])
def test_noise_shows_hardly_any_change(runs: int) -> None:
    imagined = sum(bool(found(histories.noise(runs, seed))) for seed in range(SEEDS))
    assert imagined <= 0.02 * SEEDS


@pytest.mark.parametrize(("factor", "runs", "power"), [(1.05, 20, 0.85), (0.95, 40, 0.95)])
def test_a_change_is_found_where_it_is(factor: float, runs: int, power: float) -> None:
    hits = 0
    for seed in range(SEEDS):
        noisy = histories.noise(runs, seed) * histories.levels(runs, {runs // 2: factor})
        changes = found(noisy)
        near = [c for c in changes if abs(c.first.id - 1 - runs // 2) <= 1]
        hits += len(changes) == 1 and len(near) == 1
    assert hits >= power * SEEDS


def test_a_change_names_runs_levels_and_direction() -> None:
    steady = [1.0, 1.001] * 10
    (change,) = found([*steady, *(1.1 * value for value in steady)])
    assert (change.last.id, change.first.id) == (20, 21)
    assert change.first.revision == histories.revision(20)
    assert change.before == pytest.approx(1.0005)
    assert change.after == pytest.approx(1.10055)
    assert change.natural == pytest.approx(0.1)
    assert (change.direction, change.runs) == ("worse", (20, 20))


@pytest.mark.parametrize(
    ("metric", "direction"),
    [("time", "worse"), ("busbw_GBps", "better"), ("coverage", "changed")],
)
def test_the_metrics_direction_decides_which_change_is_worse(metric: str, direction: str) -> None:
    (change,) = found([1.0] * 10 + [1.2] * 10, metric)
    assert change.direction == direction
    assert change.natural == pytest.approx(0.2)


def test_the_speedup_judges_efficiency() -> None:
    (change,) = found([0.5, 0.501] * 6 + [-0.1, -0.101] * 6, "efficiency")
    assert change.direction == "worse"
    assert change.natural == pytest.approx(0.9 / 1.5 - 1, abs=0.002)


@given(st.lists(st.floats(-10, 10), min_size=4, max_size=9), st.floats(0.1, 20), st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_the_levels_are_the_best_of_all(values: list[float], penalty: float, least: int) -> None:
    def cost(ends: Sequence[int]) -> float:
        levels = np.split(np.array(values), ends[:-1])
        distances = sum(float(((level - level.mean()) ** 2).sum()) for level in levels)
        return distances + penalty * len(ends)

    runs = len(values)
    splits = (
        [*inner, runs]
        for changes in range(runs)
        for inner in itertools.combinations(range(1, runs), changes)
    )
    allowed = [ends for ends in splits if min(np.diff([0, *ends])) >= least]
    best = best_ends(np.array(values), penalty, least)
    assert best in allowed
    assert cost(best) == pytest.approx(min(map(cost, allowed)), abs=1e-9)


def test_too_few_runs_are_not_judged() -> None:
    values = [1.0] * (LEAST_RUNS - 1)
    assert find_changes(histories.series(values)) is None
    assert find_changes(histories.series([*values, 1.0])) == []
    assert find_changes(histories.series([*values, 0.0]), 0.02) is None  # 0 has no ratio


def test_a_few_outliers_are_no_change() -> None:
    steady = [1.0, 1.001] * 10
    for outlier in (1.5, 0.5):
        for runs in range(1, LEAST_SEGMENT):
            assert found([*steady, *[outlier] * runs, *steady]) == []


def test_a_change_shows_when_enough_runs_came_after_it() -> None:
    steady = [1.0, 1.001] * 10
    assert found([*steady, 1.2]) == []
    assert len(found([*steady, *[1.2] * LEAST_SEGMENT])) == 1


def test_a_change_below_the_least_does_not_count() -> None:
    values = [1.0, 1.0005] * 10 + [1.05, 1.0505] * 10
    assert len(found(values, least=0.04)) == 1
    assert found(values, least=0.06) == []


@given(
    st.lists(st.floats(1e-3, 1e6), min_size=LEAST_RUNS, max_size=40),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=80, deadline=None)
def test_units_never_matter(values: list[float], unit: float) -> None:
    first, second = (found(np.array(values) * scale) for scale in (1.0, unit))
    assert [c.first.id for c in first] == [c.first.id for c in second]


@given(st.lists(st.floats(0.5, 2.0), min_size=LEAST_RUNS, max_size=40))
@settings(max_examples=80, deadline=None)
def test_the_reciprocal_turns_worse_into_better(values: list[float]) -> None:
    slower, faster = found(values), found(1 / np.array(values))
    assert [c.first.id for c in slower] == [c.first.id for c in faster]
    turned = {"worse": "better", "better": "worse"}
    assert [turned[c.direction] for c in slower] == [c.direction for c in faster]
