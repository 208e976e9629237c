"""Factors: how much two works slow each other down, from the run in which they were a pair.

A factor is the one with which the replay of that run takes as long as it was measured to take.
Waits for SMs are the replay's, so they are not counted twice.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from overlapbench.prediction.replay import Rules, replay
from overlapbench.prediction.schedules import Row, Run

HANDOVER_MS = 0.004  # from a step to one on another stream; docs/prediction.md
_ROUNDS = 15
_LEAST_COMPANY = 0.15  # a side that has less of it, as a share of its time, tells nothing


@dataclass(frozen=True)
class Pair:
    """Two works of a row beside each other."""

    row: Row
    comm: int
    comp: int
    comm_slowdown: float
    comp_slowdown: float | None  # None if the computation had too little company
    spread: float  # their standard error, as a share


def even(row: Row) -> list[list[float]]:
    """Return slowdowns of 1."""
    return [[1.0] * len(row.works) for _ in row.works]


def rules_of(row: Row, slowdown: Sequence[Sequence[float]], *, gate: bool = True) -> Rules:
    """Return the rules that a row's works follow on its backend."""
    on_gpu = row.backend != "host"
    return Rules(
        slowdown,
        holds=[gate and on_gpu and work.computes for work in row.works],
        waits=[gate and on_gpu and row.needs_sms(work) for work in row.works],
        handover_ms=HANDOVER_MS if on_gpu else 0.0,
        enqueue_ms=0.0 if row.own.gated else row.own.enqueue_ms / len(row.own.steps),
    )


def pairs_of(row: Row, *, gate: bool = True) -> list[Pair]:
    """Return the factors of all pairs that a row has measured."""
    return [pair for run in row.runs if (pair := _pair(row, run, gate))]


def _pair(row: Row, run: Run, gate: bool) -> Pair | None:
    lane_of = {step.work: step.lane for step in run.steps}
    free = not any(step.after or step.host_after for step in run.steps)
    if len(lane_of) != 2 or sorted(lane_of.values()) != [0, 1] or len(run.lanes_ms) != 2:
        return None
    comm, comp = sorted(lane_of, key=lambda work: row.works[work].computes)
    times = {work: alone[1].ms for work in lane_of if (alone := row.alone(work))}
    if row.works[comm].computes or not free or len(times) != 2 or not run.time:
        return None
    alone_ms = [times[step.work] * step.share for step in run.steps]
    slowdown, company = even(row), dict.fromkeys(lane_of, 0.0)
    starts_ms = [begin for begin, _ in run.lanes_ms]
    for _ in range(_ROUNDS):
        done = replay(run, alone_ms, rules_of(row, slowdown, gate=gate), starts_ms)
        for work, other in ((comm, comp), (comp, comm)):
            own = [place for place, step in enumerate(run.steps) if step.work == work]
            begin, end = run.lanes_ms[lane_of[work]]
            beside = sum(done.beside_ms[place] for place in own)
            company[work] = beside / (end - begin)
            if beside > 0:
                missing = end - max(done.end_ms[place] for place in own)
                factor = slowdown[work][other] * (1 + 0.8 * missing / beside)
                slowdown[work][other] = min(max(factor, 0.8), 20.0)
    told = slowdown[comp][comm] if company[comp] > _LEAST_COMPANY else None
    return Pair(row, comm, comp, slowdown[comm][comp], told, run.time.spread)


def closest(pairs: Iterable[Pair], bytes_: float) -> Pair | None:
    """Return the pair whose communication has the most similar size."""

    def distance(pair: Pair) -> float:
        return abs(math.log((pair.row.step_bytes(pair.comm) or 1) / (bytes_ or 1)))

    return min(pairs, key=distance, default=None)


def shuffled(pairs: Sequence[Pair], order: Sequence[int]) -> list[Pair]:
    """Give pairs each other's factors."""
    return [
        replace(one, comm_slowdown=other.comm_slowdown, comp_slowdown=other.comp_slowdown)
        for one, other in zip(pairs, (pairs[place] for place in order), strict=True)
    ]
