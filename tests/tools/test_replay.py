"""The replay of a schedule, exactly, and the factors that follow from it."""

from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

import overlapbench as ob
import predictable
from overlapbench.prediction.factors import pairs_of
from overlapbench.prediction.links import links_of
from overlapbench.prediction.model import Book, replayed
from overlapbench.prediction.replay import Rules, replay
from overlapbench.prediction.schedules import Run, Step, read_rows
from predictable import RECORDED, Machine, ddp

MACHINE = Machine()
COMP, COMM, COPY = 0, 1, 2
EVEN = [[1.0] * 3 for _ in range(3)]
PASS = [[0] * 3 for _ in range(3)]
GATE = Rules(EVEN, [PASS[0], [1, 0, 0], PASS[2]])  # the communication waits for computations


def steps(*known: tuple[int, int, tuple[int, ...]]) -> Run:
    """Return a run of these steps: work, lane and what each waits for."""
    made = tuple(Step(work, lane, 1.0, after) for work, lane, after in known)
    lanes = max(step.lane for step in made) + 1
    return Run("run", (None,) * lanes, made)


def ends(run: Run, alone_ms: list[float], rules: Rules) -> list[float]:
    return [round(end, 6) for end in replay(run, alone_ms, rules).end_ms]


# ---- the replay


def test_steps_follow_their_lane_their_engine_and_what_they_wait_for() -> None:
    free = Rules(EVEN, PASS)
    assert ends(steps((0, 0, ()), (0, 0, ()), (1, 1, (0,))), [2, 3, 1], free) == [2, 5, 3]
    engines = replace(steps((0, 0, ()), (1, 1, ())), owners=(None, None))
    shared = replace(engines, steps=tuple(replace(s, engine="bus") for s in engines.steps))
    assert ends(shared, [2, 3], free) == [2, 5]
    late = replace(free, handover_ms=0.5)  # only to another lane
    assert ends(steps((0, 0, ()), (0, 0, ()), (1, 1, (0,))), [2, 3, 1], late) == [2, 5, 3.5]


def test_a_communication_waits_for_the_kernel_that_has_all_sms_and_a_copy_does_not() -> None:
    for work, ended in ((COMM, 4.0), (COPY, 2.0)):
        # It becomes ready at 1, while the kernel runs until 3.
        run = steps((COMP, 0, ()), (COMP, 0, ()), (work, 1, (0,)), (COMP, 0, ()))
        late = replace(GATE, handover_ms=1e-6)
        assert ends(run, [1, 2, 1, 1], late)[2] == pytest.approx(ended, abs=1e-5)
    # It was there first.
    assert ends(steps((COMM, 1, ()), (COMP, 0, ())), [1, 2], GATE) == [1, 2]


def test_a_step_of_two_kernels_lets_a_communication_pass_between_them() -> None:
    two = replace(GATE, waits=[PASS[0], [2, 0, 0], PASS[2]])
    run = steps((COMP, 0, ()), (COMP, 0, ()), (COMM, 1, (0,)))
    for rules, ended in ((GATE, 4.0), (two, 3.0)):
        late = replace(rules, handover_ms=1e-6)
        assert ends(run, [1, 2, 1], late)[2] == pytest.approx(ended, abs=1e-5)


def test_a_kernel_that_is_ready_too_comes_before_a_communication() -> None:
    late = replace(GATE, latency_ms=(0.0, 0.01, 0.0))
    ready = steps((COMP, 0, ()), (COMP, 0, (0,)), (COMM, 1, (0,)))
    assert ends(ready, [1, 2, 1], late)[2] == pytest.approx(3.99)
    # At the start, it is placed first.
    assert ends(steps((COMP, 0, ()), (COMM, 1, ())), [2, 1], late) == [2, 0.99]


def test_works_slow_each_other_down_only_while_both_run() -> None:
    slow = Rules([[1.0, 2.0, 1.0], [4.0, 1.0, 1.0], EVEN[2]], PASS)
    # The computation does 2 of its 6 ms in the 4 ms in which the communication runs.
    assert ends(steps((COMM, 1, ()), (COMP, 0, ())), [1, 6], slow) == [4, 8]
    # Ranks with lanes of their own do not meet.
    apart = replace(steps((COMM, 1, ()), (COMP, 0, ())), owners=(0, 1))
    assert ends(apart, [1, 6], slow) == [1, 6]


def test_the_host_enqueues_in_order_and_waits() -> None:
    run = steps((COMP, 0, ()), (COMM, 1, ()), (COPY, 2, ()))
    waits = replace(run, steps=(run.steps[0], replace(run.steps[1], host_after=(0,)), run.steps[2]))
    cost = replace(GATE, enqueue_ms=0.25)
    assert ends(waits, [1, 1, 1], cost) == [1.25, 2.5, 2.75]


# ---- factors


def test_the_factors_of_a_pair_are_those_of_the_machine() -> None:
    pair = next(one for one in pairs_of(ddp(MACHINE, 2, 2)) if one.comp == 1 and one.comm == 3)
    assert pair.comm_slowdown == pytest.approx(MACHINE.comm_slowdown, rel=0.01)
    assert pair.comp_slowdown == pytest.approx(MACHINE.comp_slowdown, rel=0.01)


def test_the_wait_for_sms_is_not_counted_as_a_slowdown() -> None:
    calm = Machine(comm_slowdown=1, comp_slowdown=1)
    for pair in pairs_of(ddp(calm, 2, 1)):
        assert pair.comm_slowdown == pytest.approx(1, abs=0.01)


def test_only_kernels_wait_for_sms() -> None:
    assert {pair.waits for pair in pairs_of(ddp(MACHINE, 2, 1))} == {1}
    assert {pair.waits for pair in pairs_of(ddp(MACHINE, 2, 1, "copy"))} == {0}
    host = replace(MACHINE, backend="host")
    assert {pair.waits for pair in pairs_of(ddp(host, 2, 1, "nccl"))} == {0}


# ---- three lanes

# Of a gather, a copy and a product, each beside each.
THREE = [[1.0, 1.4, 1.2], [1.7, 1.0, 1.1], [1.3, 1.25, 1.0]]


def test_of_three_works_each_disturbs_as_much_less_as_the_third_slows_it_down() -> None:
    run = steps((0, 0, ()), (1, 1, ()), (2, 2, ()))
    gather, copy = (1 + 0.4 / 1.1) * (1 + 0.2 / 1.25), (1 + 0.7 / 1.2) * (1 + 0.1 / 1.3)
    product = (1 + 0.3 / 1.4) * (1 + 0.25 / 1.7)
    first = 0.6 * copy
    second = first + (1 - first / gather) * 1.2
    last = second + (1.5 - first / product - (second - first) / 1.3)
    found = ends(run, [1, 0.6, 1.5], Rules(THREE, PASS))
    assert found == [round(t, 6) for t in (second, first, last)]


# The rows of Lab/Triple, from their parts and pairs.
@pytest.mark.parametrize("gpus", [2, 4])
def test_recorded_rows_of_three_lanes_are_within_six_percent(gpus: int) -> None:
    rows = read_rows([str(RECORDED / f"h200x{gpus}/triple.json.gz")])
    book = Book(rows)
    off = [abs(replayed(book, row) / row.own.time.ms - 1) for row in rows if row.own.time]
    assert len(off) == 36
    assert mean(off) < 0.04


@pytest.mark.parametrize("backend", ["cuda", "host"])
def test_three_lanes_are_predicted_from_their_pairs(tmp_path: Path, backend: str) -> None:
    row = predictable.triple(THREE, backend=backend)
    assert {(pair.comm, pair.comp) for pair in pairs_of(row)} == {(0, 1), (0, 2), (1, 2)}
    assert not any(pair.waits for pair in pairs_of(row))  # copies and their sums pass
    (found,) = ob.predict(predictable.write(tmp_path / "three.json", [row]))
    assert found.error == pytest.approx(0, abs=0.002)
    (off,) = ob.predict(predictable.write(tmp_path / "off.json", [predictable.triple(THREE, 1.3)]))
    assert off.error is not None
    assert off.error < -0.05


def test_a_collective_may_have_a_transport_of_its_own(tmp_path: Path) -> None:
    row = predictable.triple(THREE)
    mixed = replace(row, works=(replace(row.works[0], transport="nccl"), *row.works[1:]))
    (read,) = read_rows([predictable.write(tmp_path / "mixed.json", [mixed])])
    assert [read.by_kernel(work) for work in read.works] == [True, False, False]
    assert [*links_of([read])] == [("AllGather", "nccl", 2, 1)]
    assert [*links_of([row])] == [("AllGather", "copy", 2, 1)]
