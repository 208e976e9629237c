"""The gate's logic, driven by runs made up: order, second look, and what is confirmed."""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

import samples
from made_runs import NAMES
from overlapbench.judge.session import BASE, CANDIDATE, Session, filter_of, schedule
from overlapbench.judge.verdicts import Comparison
from overlapbench.reading.program_run import ProgramRun, parse_program_run
from overlapbench.view.comparison import format_table
from samples import Json

SLOW = NAMES[3]
Rows = Callable[[str, int], Mapping[str, Json]]  # fields of a side's rows in run N


@dataclass
class FakeMachine:
    """Returns a test's times with a little noise, and records the requests."""

    rows: Rows
    asked: list[tuple[str, int, str]] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def run(self, side: str, number: int, names: str) -> ProgramRun:
        self.asked.append((side, number, names))
        changes = self.rows(side, number)
        made = []
        for name in NAMES:
            fields = changes.get(name, {})
            if fields.get("gone") or not re.search(names, name):
                continue
            noise = float(fields.get("noise", 0.002)) * float(self.random.normal())
            time = float(fields.get("time", 1.0)) * float(np.exp(noise))
            extra = {key: value for key, value in fields.items() if key not in ("time", "noise")}
            made.append(samples.row(name, real_time=time, **extra))
        return parse_program_run(f"{side}-{number}.json", json.dumps(samples.document(made)))


def gate(rows: Rows, runs: int = 5) -> tuple[Comparison, FakeMachine]:
    machine = FakeMachine(rows)
    return Session(machine.run, runs, say=lambda _: None).run(), machine


def verdict(comparison: Comparison, name: str = SLOW) -> tuple[str, int]:
    (row,) = (row for row in comparison.rows if row.name == name)
    return row.verdict.value, row.fails


def test_sides_are_run_in_turn() -> None:
    a, b = BASE, CANDIDATE
    assert schedule(3) == [a, b, b, a, a, b]
    comparison, machine = gate(lambda *_: {})
    assert [side for side, _, _ in machine.asked] == [a, b, b, a, a, b, b, a, a, b]
    assert comparison.status == 0


def test_a_regression_is_measured_again_alone_and_confirmed() -> None:
    comparison, machine = gate(lambda side, _: {SLOW: {"time": 1.06}} if side == CANDIDATE else {})
    assert comparison.status == 1
    assert verdict(comparison) == ("slower", 1)
    assert len(machine.asked) == 20
    assert {names for _, _, names in machine.asked[:10]} == {""}
    (names,) = {names for _, _, names in machine.asked[10:]}
    assert [name for name in NAMES if re.search(names, name)] == [SLOW]
    assert [n for side, n, _ in machine.asked if side == CANDIDATE] == list(range(1, 11))
    (row,) = (row for row in comparison.rows if row.name == SLOW)
    assert row.runs == (10, 10)


def test_every_failing_row_is_measured_again() -> None:
    slow = {name: {"time": 1.2} for name in NAMES[2:5]}
    comparison, machine = gate(lambda side, _: slow if side == CANDIDATE else {})
    (names,) = {names for _, _, names in machine.asked[10:]}
    assert [name for name in NAMES if re.search(names, name)] == list(slow)
    confirmed = [row for row in comparison.rows if row.runs == (10, 10)]
    assert {row.name for row in confirmed} == slow.keys()
    assert {(row.verdict.value, row.fails) for row in confirmed} == {("slower", 1)}


def test_a_base_whose_rows_are_all_invalid_is_inconclusive() -> None:
    bad = {name: {"valid": 0, "label": "throttled"} for name in NAMES}
    slow = {name: {"time": 24.0} for name in NAMES}
    comparison, machine = gate(lambda side, _: bad if side == BASE else slow)
    assert (comparison.status, len(comparison.guarded)) == (3, 0)
    assert "guards 0 of 12 rows\n" in format_table(comparison)
    assert len(machine.asked) == 20


def test_rows_that_only_one_side_has_are_not_guarded() -> None:
    """Base measured one row of twelve: it cannot vouch for the others."""
    gone = {name: {"gone": True} for name in NAMES[1:]}
    comparison, _ = gate(lambda side, _: gone if side == BASE else {})
    assert (len(comparison.guarded), len(comparison.rows), comparison.status) == (1, 12, 3)


@pytest.mark.parametrize(("slow", "more"), [(3, ""), (4, " …")])
def test_progress_names_first_and_second_measurements(slow: int, more: str) -> None:
    said: list[str] = []
    changes = {name: {"time": 1.5 - 0.1 * i} for i, name in enumerate(NAMES[:slow])}
    machine = FakeMachine(lambda side, _: changes if side == CANDIDATE else {})
    Session(machine.run, 3, say=said.append).run()
    sides = [f"run {i} of 6: {side}" for i, side in enumerate(schedule(3), 1)]
    assert said == [*sides, f"{slow} measured again: {', '.join(NAMES[:3])}{more}", *sides]


def test_a_regression_that_does_not_recur_does_not_fail() -> None:
    comparison, machine = gate(
        lambda side, n: {SLOW: {"time": 1.2}} if side == CANDIDATE and n <= 5 else {}
    )
    assert comparison.status == 0
    assert verdict(comparison) == ("inconclusive", 0)
    (row,) = (row for row in comparison.rows if row.name == SLOW)
    assert re.match("not (slower|confirmed) when measured again; at first time .+2", row.reason)
    assert len(machine.asked) == 20


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(1.026, 1.012, id="all runs together are within the floor"),
        pytest.param(1.04, 1.006, id="all together show it, but the new ones alone do not"),
    ],
)
def test_half_a_regression_is_not_confirmed(first: float, second: float) -> None:
    comparison, machine = gate(
        lambda side, n: {SLOW: {"time": first if n <= 12 else second}} if side == CANDIDATE else {},
        runs=12,
    )
    assert len(machine.asked) == 48
    (row,) = (row for row in comparison.rows if row.name == SLOW)
    assert (row.verdict.value in ("same", "inconclusive"), row.fails) == (True, 0)
    assert "when measured again; at first time +" in row.reason


def test_the_blind_gate_fails() -> None:
    """A row that is 28 % slower, but whose runs differ by more, was once called the same."""

    def rows(side: str, number: int) -> Mapping[str, Json]:
        mode = 0.75 if number % 2 else 1.35
        return {SLOW: {"time": mode * (1.28 if side == CANDIDATE else 1.0)}}

    comparison, machine = gate(rows)
    (row,) = (row for row in comparison.rows if row.name == SLOW)
    (judgement,) = row.judgements
    assert judgement.change > math.log(1.1)
    assert judgement.floor > 0.3
    assert (row.verdict.value, row.fails, comparison.status) == ("inconclusive", 3, 3)
    assert len(machine.asked) == 20


def test_two_looks_that_disagree_fail_while_the_limit_is_exceeded() -> None:
    """All runs together are surely slower, but the second look alone is not."""
    comparison, _ = gate(
        lambda side, n: {SLOW: {"time": 1.28 if n <= 12 else 1.0}} if side == CANDIDATE else {},
        runs=12,
    )
    (row,) = (row for row in comparison.rows if row.name == SLOW)
    assert row.judgements[0].verdict.value == "slower"
    assert row.judgements[0].relative > 0.10
    assert (row.verdict.value, row.fails, comparison.status) == ("inconclusive", 3, 3)


@pytest.mark.parametrize(("noisy", "status"), [(1, 0), (2, 3)])
def test_a_gate_that_guards_too_little_fails(noisy: int, status: int) -> None:
    """Of 12 rows, 11 are more than 90 %, 10 are not."""
    blind = {name: {"noise": 0.05} for name in NAMES[:noisy]}
    machine = FakeMachine(lambda *_: blind)
    session = Session(machine.run, 5, max_floor=0.03, say=lambda _: None)
    comparison = session.run()
    assert (len(comparison.guarded), len(comparison.rows)) == (12 - noisy, 12)
    assert 0.02 < comparison.detectable[0] < comparison.detectable[1] < 0.05
    assert comparison.status == status
    assert ("guards too little" in format_table(comparison)) == bool(status)
    assert len(machine.asked) == (20 if status else 10)  # what is inconclusive gets a second look
    assert not any("measured again" in row.reason for row in comparison.rows)
    session = Session(FakeMachine(lambda *_: blind).run, 5, max_floor=0.03, min_guarded=0.5)
    assert dataclasses.replace(session, say=lambda _: None).run().status == 0


@pytest.mark.parametrize(("again", "expected"), [(True, ("invalid", 3)), (False, ("same", 0))])
def test_an_invalid_row_gets_a_second_look(again: bool, expected: tuple[str, int]) -> None:
    def rows(side: str, n: int) -> Mapping[str, Json]:
        bad = side == CANDIDATE and (n == 2 or (again and n == 9))
        return {SLOW: {"valid": 0, "label": "throttled"}} if bad else {}

    comparison, _ = gate(rows)
    assert verdict(comparison) == expected
    assert comparison.status == expected[1]


def test_a_row_that_is_gone_is_not_looked_for_again() -> None:
    comparison, machine = gate(lambda side, _: {SLOW: {"gone": True}} if side == CANDIDATE else {})
    assert verdict(comparison) == ("missing", 3)
    assert comparison.status == 3
    assert len(machine.asked) == 10


def test_a_regression_whose_row_is_gone_in_the_second_look_stands() -> None:
    comparison, _ = gate(
        lambda side, n: (
            {}
            if side == BASE
            else {SLOW: {"time": 1.2} if n <= 5 else {"gone": True}, NAMES[0]: {"time": 1.2}}
        )
    )
    assert comparison.status == 1
    assert verdict(comparison) == ("slower", 1)


def test_a_base_that_is_invalid_in_the_second_look_acquits_nobody() -> None:
    def rows(side: str, n: int) -> Mapping[str, Json]:
        if side == CANDIDATE:
            return {SLOW: {"time": 1.2}}
        return {SLOW: {"valid": 0, "label": "throttled"}} if n == 7 else {}

    assert verdict(gate(rows)[0]) == ("slower", 1)


def test_a_regression_whose_row_is_invalid_in_the_second_look_is_invalid() -> None:
    def rows(side: str, n: int) -> Mapping[str, Json]:
        bad = {"valid": 0, "label": "throttled"} if n == 7 else {}
        return {SLOW: {"time": 1.2} | bad} if side == CANDIDATE else {}

    assert verdict(gate(rows)[0]) == ("invalid", 3)


def test_improvements_are_not_measured_again() -> None:
    comparison, machine = gate(
        lambda side, _: {name: {"time": 0.5} for name in NAMES} if side == CANDIDATE else {}
    )
    assert comparison.status == 0
    assert len(machine.asked) == 10


def test_a_stored_baseline_is_not_run() -> None:
    before = FakeMachine(lambda *_: {})
    stored = [before.run(BASE, n, "") for n in range(5)]
    machine = FakeMachine(lambda *_: {SLOW: {"time": 1.1}}, random=np.random.default_rng(2))
    comparison = Session(machine.run, 5, stored=stored, say=lambda _: None).run()
    assert {side for side, _, _ in machine.asked} == {CANDIDATE}
    assert verdict(comparison) == ("slower", 1)
    assert len(machine.asked) == 10


def test_one_run_a_side_does_not_pass_untestable_rows() -> None:
    comparison, _ = gate(lambda side, _: {SLOW: {"time": 1.5}} if side == CANDIDATE else {}, runs=1)
    assert verdict(comparison) == ("slower", 1)  # two runs after the second look


def test_the_filter_matches_names_literally() -> None:
    names = ["Overlap/A+B/n:1.5", "BM_f(x)|y", "BM[0]^$*?{2}\\"]
    expression = filter_of(names)
    assert all(re.search(expression, name) for name in names)
    for other in ("Overlap/AB/n:1.5", "Overlap/A+B/n:125", "Overlap/A+B/n:1.5/x", "BM_f(x)", "y"):
        assert not re.search(expression, other)
