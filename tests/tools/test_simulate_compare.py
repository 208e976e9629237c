"""The simulation: its table, its promises, and that it tells when one is broken."""

import dataclasses

import pytest

import simulate_compare
from simulate_compare import SCENARIOS, Outcome, simulate

KEPT = Outcome(0.004, (0.999, 0.96, 0.9))


def test_a_small_simulation_finds_what_is_there_and_little_else() -> None:
    outcome = simulate(SCENARIOS[0], trials=40, seed=3)
    assert outcome.false_alarms <= 0.05
    assert all(power >= 0.85 for power in outcome.power)


def test_with_much_less_data_less_is_found() -> None:
    scenario = dataclasses.replace(SCENARIOS[0], launches=2, repetitions=1)
    assert simulate(scenario, trials=20, seed=3).power[1] < 0.6


@pytest.mark.parametrize(
    ("outcome", "complaint"),
    [
        (dataclasses.replace(KEPT, false_alarms=0.01), "1.0% of the A/A suites fail"),
        (dataclasses.replace(KEPT, power=(0.94, 0.96, 0.9)), "5% on a quiet benchmark is found in"),
        (dataclasses.replace(KEPT, power=(0.99, 0.9, 0.9)), "5% on a mid benchmark is found in"),
        (dataclasses.replace(KEPT, power=(0.99, 0.96, 0.7)), "10% on a noisy benchmark is found"),
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
    assert len(captured.out.splitlines()) == 2 + len(SCENARIOS)


def test_kept_promises_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEPT.broken() == []
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
    assert capsys.readouterr().err.endswith(f"{flag} takes a number from {least} on\n")
