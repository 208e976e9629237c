"""What counts as a gate that was right, and when a candidate gets the delay."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

import samples
from gate_trials import Ended, Trial, delays, table
from overlapbench.judge.session import filter_of
from overlapbench.reading.program_run import parse_program_run

SLOW, OTHER = "Compute/Gemm/n:16", "Compute/Gemm/n:160"
ITSELF = Trial()
DELAY = Trial(SLOW, 5, 50)


def comparison(status: int, *failed: str) -> Any:
    rows = [SimpleNamespace(name=name, fails=int(name in failed)) for name in (SLOW, OTHER)]
    return SimpleNamespace(rows=rows, status=status)


@pytest.mark.parametrize(
    ("trial", "status", "failed", "right"),
    [
        (ITSELF, 0, (), True),
        (ITSELF, 1, (SLOW,), False),
        (ITSELF, 3, (), False),  # a run that ended early
        (DELAY, 1, (SLOW,), True),
        (DELAY, 0, (), False),
        (DELAY, 1, (OTHER,), False),
        (DELAY, 1, (SLOW, OTHER), False),
        (DELAY, 3, (SLOW,), False),
    ],
)
def test_a_gate_is_right_when_it_fails_for_the_delay_alone(
    trial: Trial, status: int, failed: tuple[str, ...], right: bool
) -> None:
    assert Ended.of(trial, comparison(status, *failed)).right is right


def test_the_delay_strikes_one_benchmark_and_no_other_of_similar_name() -> None:
    (flag,) = DELAY.flags
    assert flag == f"--inject_delay=^({SLOW})$:50"
    assert not ITSELF.flags
    assert DELAY.concerns("")
    assert DELAY.concerns(filter_of([SLOW, OTHER]))
    assert not DELAY.concerns(filter_of([OTHER]))
    assert not ITSELF.concerns("")


def test_the_table_counts_gates_of_a_kind() -> None:
    ended = [
        Ended(ITSELF, (), 0),
        Ended(DELAY, (SLOW,), 1),
        Ended(ITSELF, (OTHER, SLOW), 1),
        Ended(DELAY, (), 0),
    ]
    assert table(ended).splitlines() == [
        "| Gates | how many | right | failed without cause |",
        "|---|---:|---:|---|",
        f"| against itself | 2 | 1 | {OTHER}, {SLOW} |",
        f"| {SLOW} slower by 5 % (50 us) | 2 | 1 | none |",
    ]
    assert list(map(str, ended[1:])) == [
        f"right: status 1, {SLOW} failed",
        f"WRONG: status 1, {OTHER}, {SLOW} failed",
        "WRONG: status 0, nothing failed",
    ]


def test_the_shortest_delay_is_a_microsecond() -> None:
    measured = samples.document([samples.row(SLOW, real_time=0.1), samples.row("Compute/Gelu/n:1")])
    run = parse_program_run("run.json", json.dumps(measured))
    assert delays([("Gemm", [1.0, 2.0])], run) == [Trial(SLOW, 1.0, 1), Trial(SLOW, 2.0, 2)]
