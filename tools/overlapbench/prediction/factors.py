"""Factors: how much two works slow each other down, from the run in which they were a pair.

A factor is the one with which the replay of that run takes as long as it was measured to take.
Waits for SMs are the replay's, so they are not counted twice. How many kernels a step has is not
known. So several numbers are tried: the one with which the communication's factor is the smallest,
but not below 1, is taken.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from overlapbench.output import ResultError
from overlapbench.prediction.links import OF_SMS, Asked, Links, curve_of, slope
from overlapbench.prediction.replay import Rules, replay
from overlapbench.prediction.schedules import Row, Run

HANDOVER_MS = 0.004  # from a step to one on another stream, where a result does not tell
LATENCY_MS = 0.006  # of the start of a communication: a kernel that is ready too comes first
_ROUNDS = 15
_WAYS = (1, 2, 4, 0)  # kernels of a step; a communication waits for one of them, or for none
_OFF = 0.05  # of its ends: the replay does not follow such a way
_NO_GAIN = 0.9  # a communication is not faster beside another work, but for noise
_TILE = 128 * 256  # of a product, by cuBLAS on Hopper
_LEAST_COMPANY = 0.15  # a side that has less of it, as a share of its time, tells nothing


@dataclass(frozen=True)
class Pair:
    """Two works of a row beside each other. At least one does not compute."""

    row: Row
    comm: int
    comp: int  # or the later of two communications
    comm_slowdown: float
    comp_slowdown: float | None  # None if the computation had too little company
    waits: int  # of how many kernels the computation's step is, for which the other waits
    spread: float  # their standard error, as a share
    company: float = 1.0  # the larger share of a side's time in which the other ran


def even(row: Row) -> list[list[float]]:
    """Return slowdowns of 1."""
    return [[1.0] * len(row.works) for _ in row.works]


def passing(row: Row) -> list[list[int]]:
    """Return that nothing waits for SMs."""
    return [[0] * len(row.works) for _ in row.works]


def rules_of(
    row: Row, slowdown: Sequence[Sequence[float]], waits: Sequence[Sequence[int]]
) -> Rules:
    """Return the rules that a row's works follow on its backend."""
    on_gpu = row.backend != "host"
    return Rules(
        slowdown,
        waits,
        [LATENCY_MS * row.by_kernel(work) for work in row.works],
        handover_ms=(row.handover_ms or HANDOVER_MS) if on_gpu else 0.0,
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
    # Two communications leave each other SMs.
    waits = gate and row.works[comp].computes and row.by_kernel(row.works[comm])
    ways = _WAYS if waits else (0,)
    fits = [_fit(row, run, alone_ms, comm, comp, way) for way in ways]
    pair, _ = min(fits, key=lambda fit: (fit[1] > _OFF, fit[0].comm_slowdown < _NO_GAIN,
                                         abs(fit[0].comm_slowdown - _NO_GAIN)))  # fmt: skip
    return pair if pair.waits or pair.company > _LEAST_COMPANY else None


def _fit(
    row: Row, run: Run, alone_ms: Sequence[float], comm: int, comp: int, way: int
) -> tuple[Pair, float]:
    """Return the factors of a way to wait, and by what share of the time the ends are then off."""
    slowdown, waits = even(row), passing(row)
    waits[comm][comp] = way
    rules = rules_of(row, slowdown, waits)
    starts_ms = [begin for begin, _ in run.lanes_ms]
    lane_of = {step.work: step.lane for step in run.steps}
    company, off_ms = {comm: 0.0, comp: 0.0}, 0.0
    for _ in range(_ROUNDS):
        done, off_ms = replay(run, alone_ms, rules, starts_ms), 0.0
        for work, other in ((comm, comp), (comp, comm)):
            own = [place for place, step in enumerate(run.steps) if step.work == work]
            begin, end = run.lanes_ms[lane_of[work]]
            beside = sum(done.beside_ms[place] for place in own)
            company[work] = beside / (end - begin)
            missing = end - max(done.end_ms[place] for place in own)
            off_ms = max(off_ms, abs(missing))
            if beside > 0:
                factor = slowdown[work][other] * (1 + 0.8 * missing / beside)
                slowdown[work][other] = min(max(factor, 0.5), 20.0)
    told = slowdown[comp][comm] if company[comp] > _LEAST_COMPANY else None
    spread = run.time.spread if run.time else 0.0
    most = max(company.values())
    pair = Pair(row, comm, comp, slowdown[comm][comp], told, way, spread, most)
    return pair, off_ms / max(end for _, end in run.lanes_ms)


def closest(pairs: Iterable[Pair], asked: Asked) -> Pair | None:
    """Return the pair whose communication has these SMs, or else the usual, and a similar size."""

    def distance(pair: Pair) -> tuple[bool, float]:
        had = pair.row.works[pair.comm].sms
        is_other = had != asked.sms if asked.sms else pair.row.sets_sms
        return is_other, asked.unlike(pair.row.step_bytes(pair.comm))

    return min(pairs, key=distance, default=None)


def pair_with_sms(pair: Pair, row: Row, comp: int, asked: Asked, links: Links) -> Pair:
    """Return a pair as if its communication had the SMs that are asked for.

    A row's product takes as many times as long as it has more waves. A communication that is slowed
    down acts as if it had fewer SMs, so the more they matter, the more it is slowed down.
    """
    was = pair.row.works[pair.comm].sms
    if asked.sms in (0, was):
        return pair
    if not was:
        raise ResultError(f"{pair.row.name}: does not state its comm_sms: measure it again")
    curve = curve_of(links, asked, row.ranks // row.hosts, was)
    of_comm = max(pair.comm_slowdown, 1.0) ** (slope(curve, asked.sms) / slope(curve, was))
    more = _waves(row, comp, asked.sms) / _waves(row, comp, was)
    of_comp = None if pair.comp_slowdown is None else pair.comp_slowdown * more
    return replace(pair, comm_slowdown=of_comm, comp_slowdown=of_comp, spread=OF_SMS)


def _waves(row: Row, comp: int, held: float) -> int:
    """Return how many waves a product's tiles take on the SMs that are left; 1 if it is none."""
    flops = row.works[comp].flops * max(s.share for s in row.own.steps if s.work == comp)
    tiles = math.pow(flops / 2, 2 / 3) / _TILE  # as if it were a cube
    return max(1, math.ceil(tiles / (row.sms - held)))
