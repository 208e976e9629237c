"""What do_bench asks for, and what it makes of the samples."""

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from overlapbench import do_bench
from overlapbench.measurement import bench
from overlapbench.measurement.callables import Work
from overlapbench.measurement.interface import MeasureError
from overlapbench.reading.rows import State

SAMPLES = [4.0, 1.0, 2.0, 9.0, 3.0]
Asked = list[tuple[Work, dict[str, Any]]]


def nothing() -> None:
    pass


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Let measure_alone return this row; `asked` is what it is given."""
    made = SimpleNamespace(
        name="Compute/mine",
        state=State.NOISY,
        reason="",
        samples_ms=SAMPLES,
        exception=None,
        asked=[],
    )

    def measure_alone(work: Work, **settings: Any) -> SimpleNamespace:
        made.asked.append((work, settings))
        return made

    monkeypatch.setattr(bench, "measure_alone", measure_alone)
    return made


@pytest.mark.parametrize(
    ("settings", "time_ms"),
    [
        ({}, 3.0),
        ({"return_mode": "mean"}, 3.8),
        ({"return_mode": "min"}, 1.0),
        ({"return_mode": "max"}, 9.0),
        ({"return_mode": "all"}, SAMPLES),
        ({"quantiles": [0.5]}, 3.0),
        ({"quantiles": [0, 0.125, 0.25, 1]}, [1.0, 1.5, 2.0, 9.0]),
        ({"quantiles": [0.9], "return_mode": "all"}, 7.0),
    ],
)
def test_the_samples_are_summed_up(
    row: SimpleNamespace, settings: dict[str, Any], time_ms: Any
) -> None:
    assert do_bench(nothing, **settings) == pytest.approx(time_ms)


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, {"name": "mine", "warmup_ms": None}),
        ({"warmup": 25}, {"name": "mine", "warmup_ms": 25}),
        ({"rep": 100}, {"name": "mine", "warmup_ms": None, "budget_ms": 100, "precision": 0}),
        ({"rep": 0.2}, {"name": "mine", "warmup_ms": None, "budget_ms": 1, "precision": 0}),
        ({"rep": 1.2}, {"name": "mine", "warmup_ms": None, "budget_ms": 2, "precision": 0}),
        (
            {"rep": 5, "precision": 3, "name": "Mine", "n": 4},
            {"name": "Mine", "warmup_ms": None, "budget_ms": 5, "precision": 3, "n": 4},
        ),
    ],
)
def test_the_settings_are_those_of_one_callable(
    row: SimpleNamespace, given: dict[str, Any], asked: dict[str, Any]
) -> None:
    do_bench(nothing, **given)
    assert row.asked == [(Work(nothing), asked)]
    work = Work(nothing, kind="comm")
    do_bench(work, **given)
    assert row.asked[1:] == [(work, asked)]


def test_gradients_are_forgotten_before_each_call(row: SimpleNamespace) -> None:
    tensors = [SimpleNamespace(grad=1), SimpleNamespace(grad=2)]
    seen: list[Any] = []

    def run(stream: int, more: int = 0) -> str:
        seen.append((stream, more, [tensor.grad for tensor in tensors]))
        return "done"

    do_bench(Work(run, kind="comm"), grad_to_none=iter(tensors))
    ((work, _),) = row.asked
    assert work.kind == "comm"
    assert "stream" in inspect.signature(work.run).parameters
    for _ in range(2):
        assert work.run(7, more=1) == "done"
        tensors[0].grad = 3
    assert seen == [(7, 1, [None, None])] * 2


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"return_mode": "sum"},
            "^return_mode is 'sum', must be one of median, mean, min, max, all",
        ),
        ({"quantiles": [0.5, 1.5]}, "^a quantile is 1.5, must be from 0 to 1$"),
        ({"quantiles": [-0.1]}, "^a quantile is -0.1, must"),
    ],
)
def test_a_bad_summary_is_refused_before_anything_is_measured(
    row: SimpleNamespace, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        do_bench(nothing, **settings)
    assert row.asked == []


@pytest.mark.parametrize("state", [State.INVALID, State.ERROR])
def test_a_row_without_a_time_raises_with_its_cause(row: SimpleNamespace, state: State) -> None:
    row.state, row.reason, row.exception = state, "it is wrong", OSError("no")
    with pytest.raises(MeasureError, match=r"^Compute/mine: it is wrong$") as raised:
        do_bench(nothing)
    assert raised.value.__cause__ is row.exception
