"""The simulation: its table, its promises, and that it tells when one is broken."""

import dataclasses

import numpy as np
import pytest

import simulate_compare
from overlapbench.judge.judgements import MAX_FLOOR
from overlapbench.statistics import estimates
from simulate_compare import MACHINES, NOISY, QUIET, RUNS, Machine, Outcome, Suite, decide, simulate

KEPT = Outcome(
    "quiet", 5, 0.004, 0.0, 0.99, 1.0, (0.5, 0.999, 1.0, 1.0), powers=(0.8, 0.95), missed=0.0
)


def test_a_small_simulation_finds_changes_and_few_false_alarms() -> None:
    outcome = simulate(QUIET, runs=5, trials=20, seed=3)
    assert outcome.regressions == 0
    assert outcome.hold >= 0.95
    assert outcome.same > 0.99
    assert outcome.found[1] >= 0.9


def test_more_noise_decides_less_but_calls_nothing_the_same_that_is_not() -> None:
    outcome = simulate(NOISY, runs=1, trials=10, seed=3)
    assert outcome.regressions == 0
    assert outcome.found[1] < 0.2
    assert outcome.same < 0.2
    assert outcome.missed == 0


@pytest.mark.parametrize(("machine", "runs"), [(QUIET, 5), (NOISY, 3), (NOISY, 5)])
def test_a_change_is_found_as_often_as_is_said(machine: Machine, runs: int) -> None:
    """Not the critical value, which is found in half of all cases."""
    outcome = simulate(machine, runs, trials=60, seed=4)
    assert 0.78 <= outcome.powers[0] <= 0.91
    assert 0.935 <= outcome.powers[1] <= 0.995


def test_a_change_as_large_as_the_limit_is_not_called_the_same() -> None:
    outcome = simulate(NOISY, runs=5, trials=30, seed=5)
    assert outcome.same > 0.9
    assert outcome.missed <= 0.002


BUSY = Machine("busy", within=(0.02, 0.1), between=(0.02, 0.1))


@pytest.mark.parametrize("benchmarks", [20, 60, 150])
@pytest.mark.parametrize("machine", [QUIET, NOISY, BUSY], ids=lambda machine: machine.name)
def test_where_noise_may_pass_false_alarms_do_not_grow_with_the_number_of_benchmarks(
    machine: Machine, benchmarks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promised: fewer than 5 % of unchanged measurements, of any number of rows (--allow-noise)."""
    monkeypatch.setattr(simulate_compare, "BENCHMARKS", benchmarks)
    random = np.random.default_rng(1)
    alarms = beyond = 0
    for _ in range(100):
        times, within = Suite.draw(machine, random).measure(10, random)
        sides = times[:, :5], times[:, 5:]
        found = estimates.estimate(*sides, within, estimates.Prior(0.0, 0.0))
        suspicious = estimates.suspicious(found.error, found.freedom, benchmarks)
        limit = np.log1p(MAX_FLOOR)
        decided = decide(*sides, within, estimates.Prior(0.0, 0.0))
        alarms += bool((decided.slower | (found.change > np.maximum(limit, suspicious))).any())
        beyond += bool((decided.slower | decided.beyond).any())
    assert alarms < 5
    if machine is BUSY and benchmarks >= 60:
        assert beyond > 30  # without the flag


@pytest.mark.parametrize(
    ("outcome", "complaint"),
    [
        (
            dataclasses.replace(KEPT, regressions=0.01),
            "quiet machine, 5 per side: 1.0% of the A/A comparisons fail, promised: below 1%",
        ),
        (
            dataclasses.replace(KEPT, missed=0.02),
            "2.0% of slowdowns beyond the limit are called the same, promised: below 1%",
        ),
        (
            dataclasses.replace(KEPT, found=(0.5, 0.94, 1.0, 1.0)),
            "quiet machine, 5 per side: 5% is found in 94.0%, promised: 95%",
        ),
    ],
)
def test_a_broken_promise_is_named_and_fails(
    outcome: Outcome,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(simulate_compare, "simulate", lambda *_: outcome)
    assert simulate_compare.main(["--trials", "1"]) == 1
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.out.endswith("1 trials of 300 benchmarks for each row; seed 1.\n")
    assert len(captured.out.splitlines()) == 2 + len(MACHINES) * len(RUNS) + 2


def test_kept_promises_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(KEPT.broken()) == []
    monkeypatch.setattr(simulate_compare, "simulate", lambda *_: KEPT)
    assert simulate_compare.main([]) == 0


@pytest.mark.parametrize(
    ("flag", "value", "least"), [("--trials", "0", 1), ("--seed", "-1", 0)], ids=["trials", "seed"]
)
def test_bad_usage_is_status_2(
    flag: str, value: str, least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        simulate_compare.main([flag, value])
    assert end.value.code == 2
    assert capsys.readouterr().err.endswith(f"{flag} must be at least {least}\n")
