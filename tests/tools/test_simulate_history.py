"""The simulated histories: correlation and unrecorded machines cause hardly any false change."""

import pytest

import simulate_history
from simulate_history import NOISES, RUNS, Outcome, false_changes, found_steps

KEPT = Outcome("independent", 0.0, (0.01,) * len(RUNS))
FOUND = Outcome("a step of 5 % is found", 0.05, (0.5, 0.9, 0.96, 0.97))


@pytest.mark.parametrize("title", NOISES)
def test_noise_of_any_kind_shows_hardly_any_change(title: str) -> None:
    assert max(false_changes(title, series=100, seed=5).shares) <= 0.05


def test_a_step_is_found_where_it_is() -> None:
    shares = found_steps(0.05, series=100, seed=5).shares
    assert shares[1] > 0.8
    assert min(shares[2:]) > 0.9


@pytest.mark.parametrize(
    ("outcome", "complaint"),
    [
        (Outcome("x", 0.0, (0.0, 0.06, 0.0, 0.0)), "x, 20 runs: 6.0%, promised: 5%"),
        (Outcome("y", 0.05, (0.5, 0.9, 0.94, 1)), "y, 40 runs: found in 94.0%, promised: 95%"),
    ],
)
def test_a_broken_promise_is_named_and_fails(
    outcome: Outcome,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not [*KEPT.broken(), *FOUND.broken()]
    monkeypatch.setattr(simulate_history, "simulate", lambda *_: [KEPT, outcome])
    assert simulate_history.main(["--series", "1"]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"simulate_history: {complaint}\n"
    assert captured.out.endswith("1 series for each figure; seed 1.\n")
    monkeypatch.setattr(simulate_history, "simulate", lambda *_: [KEPT, FOUND])
    assert simulate_history.main([]) == 0
