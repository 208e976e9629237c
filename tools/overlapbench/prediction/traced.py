"""Traces: a recorded step as a row, as if --predictable had measured it.

A span becomes a step. It starts when it is enqueued, and when what it waited for has ended: the
span before it on its lane; those that the file states; the work enqueued before a communication on
the lane that computes most; and, if it began later than that, the span on another lane that ended
just before. What is left of its delay stays. So the replay of an unchanged step takes as long as
the step did.

A span's time alone is its recorded time at the rate that the factors give it. The trace tells them
if spans of one name ran with different shares of company. Else they come from measured pairs.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median, stdev

import numpy as np

from overlapbench.grouping import grouped
from overlapbench.output import ResultError
from overlapbench.prediction.factors import LATENCY_MS, Pair
from overlapbench.prediction.replay import Rules, rate_of, replay
from overlapbench.prediction.schedules import SUMS, TRACE, Recorded, Row, Run, Step, Time, Work
from overlapbench.reading.names import BenchmarkName
from overlapbench.traces.collectives import operation
from overlapbench.traces.idle import HAND_OVER_NS
from overlapbench.traces.intervals import intersection, length, union
from overlapbench.traces.model import RUNS, Category, Class, Span, Trace, Window
from overlapbench.traces.windows import candidates, choose

_COLLECTIVES = ("AllReduce", "AllGather", "ReduceScatter", "AllToAll", "SendRecv", "Broadcast")
_BY_OPERATION = {name.lower(): name for name in _COLLECTIVES}
_ROUNDED_NS = 1000
_KNOWN = 0.1  # the standard error up to which a factor counts as known
_LEAST_SPANS = 6
_LARGEST = 10.0  # of a factor
_LEAST_MS = 1e-6  # of a work


def row_of(
    traces: Sequence[Trace], step: int | None = None, pattern: str | None = None
) -> tuple[Row, list[Pair]]:
    """Return the step of median length, and its pairs; ResultError if the trace has none.

    Of several ranks, the one that communicates for the shortest time is taken: it waits the least.
    """
    trace = min(traces, key=lambda one: length(one.of(Class.COMM)))
    windows = sorted(candidates(trace, step, pattern), key=lambda w: w.end_ns - w.begin_ns)
    window = windows[len(windows) // 2]
    label, _, _ = choose(trace, step, pattern)
    within = _within(trace, window)
    spans = [span for span, _ in within]
    if not spans:
        raise ResultError(f"{trace.source}: {window.name}: no work of the device in it")
    works, work_of = _works(trace, spans)
    lanes = list(dict.fromkeys(span.lane for span in spans))
    place_of = {index: place for place, (_, index) in enumerate(within)}
    arrows = [(place_of.get(a), place_of.get(b)) for a, b in trace.arrows or ()]
    awaited = _awaited(window, spans, arrows)
    counts = [work_of.count(place) for place in range(len(works))]
    steps = tuple(
        Step(work_of[i], lanes.index(span.lane), 1 / counts[work_of[i]], tuple(sorted(awaited[i])),
             recorded=_recorded(i, spans, awaited[i], window))
        for i, span in enumerate(spans)
    )  # fmt: skip
    tail_ms = (window.end_ns - max(span.end_ns for span in spans)) / 1e6
    last = max(range(len(spans)), key=lambda i: spans[i].end_ns)
    works.append(Work("until the next step", "HOST"))
    tail = Step(len(works) - 1, len(lanes), 1.0, (last,), recorded=Recorded(tail_ms))
    lengths = [(one.end_ns - one.begin_ns) / 1e6 for one in windows]
    own = Run("step", (None,) * (len(lanes) + 1), (*steps, tail),
              Time((window.end_ns - window.begin_ns) / 1e6, _error(lengths)))  # fmt: skip
    sizes = [work.ranks for work in works if work.ranks]
    ranks = max([trace.world or len(traces), *sizes])
    name = BenchmarkName(TRACE, (f"{Path(trace.source).name} {label}",))
    row = Row(name, trace.backend or "cuda", ranks, 1, _transport(trace, spans), tuple(works), ())
    row = replace(row, runs=(*_alone(row, steps), own))
    return row, _pairs(row, spans, work_of)


def settled(row: Row, rules: Rules) -> Row:
    """Return the row with its spans' times alone, by the factors in the rules."""
    run, moments = row.own, _moments(row.own)
    alone_ms = [0.0] * len(run.steps)
    running: list[int] = []
    for (now_ms, begins, place), (next_ms, _, _) in pairwise([*moments, (moments[-1][0], 0, 0)]):
        running = [*running, place] if begins else [one for one in running if one != place]
        for one in running:
            alone_ms[one] += (next_ms - now_ms) * rate_of(run, running, one, rules)
    steps = tuple(
        replace(step, recorded=replace(step.recorded, ms=ms)) if step.recorded else step
        for step, ms in zip(run.steps, alone_ms, strict=True)
    )
    return replace(row, runs=(*_alone(row, steps[:-1]), replace(run, steps=steps)))


def _moments(run: Run) -> list[tuple[float, int, int]]:
    """Return when steps end and begin, in order, as the replay at the recorded times has it."""
    known = [step.recorded.ms if step.recorded else 0.0 for step in run.steps]
    even = [[1.0] * (max(step.work for step in run.steps) + 1)] * len(run.steps)
    none = [[0] * len(one) for one in even]
    done = replay(run, known, Rules(even, none))
    found: list[tuple[float, int, int]] = []
    for place, (begin, end) in enumerate(zip(done.begin_ms, done.end_ms, strict=True)):
        found += [(end, 0, place), (begin, 1, place)] if end > begin else []
    return sorted(found)


# ---- spans


def _within(trace: Trace, window: Window) -> list[tuple[Span, int]]:
    """Return the spans that begin in the window, and their indices in the trace.

    A lane's spans are made not to overlap, and none outlasts the window.
    """
    found = []
    busy: dict[str, int] = {}
    for index, span in enumerate(trace.spans):
        if span.kind in RUNS and window.begin_ns <= span.begin_ns < window.end_ns:
            begin = max(span.begin_ns, busy.get(span.lane, 0))
            end = max(begin, min(span.end_ns, window.end_ns))
            busy[span.lane] = end
            found.append((replace(span, begin_ns=begin, end_ns=end), index))
    return sorted(found, key=lambda one: one[0].interval)


def _works(trace: Trace, spans: Sequence[Span]) -> tuple[list[Work], list[int]]:
    """Return the works of the spans: one for each class, and for each size of a collective."""
    own = [_work(trace, span) for span in spans]
    counts = Counter(own)
    places = {work: place for place, work in enumerate(counts)}
    works = [replace(work, wire_bytes=work.wire_bytes * count) for work, count in counts.items()]
    return works, [places[work] for work in own]


def _work(trace: Trace, span: Span) -> Work:
    kind = "COMP" if span.kind is Class.FUSED else span.kind.value
    if span.kind is not Class.COMM:
        return Work({"COMP": "computation", "MEM": "copies"}.get(kind, span.name), kind)
    bytes_ = (span.bytes or 0) * (span.category is Category.KERNEL and not trace.row)
    known = _BY_OPERATION.get(operation(span), "") if bytes_ else ""
    name = f"{known} {bytes_:,} B" if known else span.name
    return Work(name, kind, known, wire_bytes=bytes_, ranks=span.ranks or 0)


def _transport(trace: Trace, spans: Sequence[Span]) -> str:
    """Return by what most of the communication ran."""
    if trace.row:
        return BenchmarkName.parse(trace.row).axis("transport") or "nccl"
    comm = [span for span in spans if span.kind is Class.COMM]
    copied = sum(s.end_ns - s.begin_ns for s in comm if s.category is Category.PEER)
    return "copy" if 2 * copied > sum(s.end_ns - s.begin_ns for s in comm) else "nccl"


def _main_lane(spans: Sequence[Span]) -> str:
    """Return the lane that computes most."""
    lanes = grouped([s for s in spans if s.kind is not Class.COMM] or spans, lambda s: s.lane)
    return max(lanes, key=lambda lane: sum(s.end_ns - s.begin_ns for s in lanes[lane]))


def _awaited(
    window: Window, spans: Sequence[Span], arrows: Sequence[tuple[int | None, int | None]]
) -> list[set[int]]:
    """Return for which earlier spans each waited, besides the one before it on its lane."""
    found: list[set[int]] = [set() for _ in spans]
    for source, target in arrows:
        if source is not None and target is not None and source < target:
            found[target].add(source)
    main = _main_lane(spans)
    launched = sorted(
        (s.launched_ns, i) for i, s in enumerate(spans) if s.lane == main and s.launched_ns
    )
    ends = sorted((span.end_ns, place) for place, span in enumerate(spans))
    before: dict[str, int] = {}
    for place, span in enumerate(spans):
        if span.kind is Class.COMM and span.launched_ns and span.lane != main:
            at = bisect_left(launched, (span.launched_ns, 0)) - 1
            if at >= 0 and spans[launched[at][1]].end_ns <= span.begin_ns + _ROUNDED_NS:
                found[place].add(launched[at][1])
        ready_ns, _ = _ready(place, spans, found[place], before.get(span.lane), window)
        if span.begin_ns - ready_ns > HAND_OVER_NS:
            found[place] |= _just_before(place, spans, ends, bool(found[place]))
        before[span.lane] = place
    _await_sums(spans, found, main)
    return [{one for one in earlier if one < place} for place, earlier in enumerate(found)]


_HOST, _LANE, _OTHER = range(3)  # what held a span back last


def _ready(
    place: int, spans: Sequence[Span], awaited: Iterable[int], before: int | None, window: Window
) -> tuple[int, int]:
    """Return from when on nothing is known to have held a span back, and what did until then."""
    own = spans[place]
    ends = [(spans[one].end_ns, _OTHER) for one in awaited]
    ends += [(spans[before].end_ns, _LANE)] if before is not None else []
    return max([(max(own.launched_ns or 0, window.begin_ns), _HOST), *ends])


def _just_before(
    place: int, spans: Sequence[Span], ends: Sequence[tuple[int, int]], known: bool
) -> set[int]:
    """Return the span on another lane whose end let this one begin; communication rather.

    If it is known what a communication awaits, the end of a computation only gave it SMs.
    """
    own = spans[place]
    first = bisect_left(ends, (own.begin_ns - HAND_OVER_NS, -1))
    last = bisect_left(ends, (own.begin_ns + 1, -1))
    near = [
        i
        for _, i in ends[first:last]
        if i < place and spans[i].lane != own.lane
        and not (known and own.kind is Class.COMM and spans[i].kind is not Class.COMM)
    ]  # fmt: skip
    best = max(near, key=lambda i: (spans[i].kind is Class.COMM, spans[i].end_ns), default=None)
    return set() if best is None else {best}


def _await_sums(spans: Sequence[Span], found: Sequence[set[int]], main: str) -> None:
    """Let the first span on the main lane after the last sum of a lane wait for it."""
    last = {s.lane: i for i, s in enumerate(spans) if _BY_OPERATION.get(operation(s)) in SUMS}
    for place in last.values():
        later = (i for i, s in enumerate(spans) if s.lane == main)
        follower = next((i for i in later if spans[i].begin_ns >= spans[place].end_ns), None)
        if follower is not None:
            found[follower].add(place)


def _recorded(
    place: int, spans: Sequence[Span], awaited: Iterable[int], window: Window
) -> Recorded:
    own = spans[place]
    before = next((i for i in reversed(range(place)) if spans[i].lane == own.lane), None)
    ready_ns, after = _ready(place, spans, awaited, before, window)
    delay_ms = max(0, own.begin_ns - ready_ns) / 1e6
    enqueued_ms = max(0, (own.launched_ns or 0) - window.begin_ns) / 1e6
    ms = (own.end_ns - own.begin_ns) / 1e6
    if after == _HOST:
        return Recorded(ms, enqueued_ms + delay_ms)
    return Recorded(ms, enqueued_ms, delay_ms, after == _OTHER)


# ---- what is known of works, and of how they slow each other down


def _alone(row: Row, steps: Sequence[Step]) -> list[Run]:
    """Return a run of each work alone; of a collective's calls, the median counts."""
    found = []
    for place, own in sorted(grouped(steps, lambda step: step.work).items()):
        work = row.works[place]
        times = [step.recorded.ms for step in own if step.recorded]
        # The replay counts the latency of a kernel as part of its time.
        typical_ms = median(times) + LATENCY_MS * row.by_kernel(work)
        ms, error = (typical_ms * len(times), _error(times)) if work.collective else (sum(times), 0)
        moved = tuple(replace(step, lane=0, after=(), recorded=None) for step in own)
        found.append(Run(work.name, (None,), moved, Time(max(ms, _LEAST_MS), error)))
    return found


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean, as a share."""
    mean = sum(values) / len(values)
    return stdev(values) / mean / math.sqrt(len(values)) if len(values) > 1 and mean else 0.0


def _pairs(row: Row, spans: Sequence[Span], work_of: Sequence[int]) -> list[Pair]:
    """Return pairs of each communication with the computation, if the spans tell their factors."""
    comp = [span for span in spans if span.kind in (Class.COMP, Class.FUSED)]
    comm = [span for span in spans if span.kind is Class.COMM]
    of_comp = _factor(comp, union(s.interval for s in comm))
    of_comm = _factor(comm, union(s.interval for s in comp))
    computes = [work for work in set(work_of) if row.works[work].computes]
    if of_comp is None or of_comm is None:
        return []
    error = max(of_comp[1], of_comm[1])
    return [
        Pair(row, one, other, of_comm[0], of_comp[0], int(row.by_kernel(row.works[one])), error)
        for one in sorted({w for w in work_of if row.works[w].kind == "COMM"})
        for other in computes
    ]


def _factor(spans: Sequence[Span], others: Sequence[tuple[int, int]]) -> tuple[float, float] | None:
    """Return how many times as long spans take beside others, and its standard error.

    Of spans of one name and size, the time is a line in the time beside others. None if they
    differ too little in their company.
    """
    company, times, groups = [], [], 0
    for same in grouped(spans, lambda s: (s.name, s.blocks, s.bytes)).values():
        beside = np.array([length(intersection((s.interval,), tuple(others))) for s in same])
        ms = np.array([s.end_ns - s.begin_ns for s in same])
        company += [*(beside - beside.mean())]
        times += [*(ms - ms.mean())]
        groups += 1
    x, y = np.array(company, float), np.array(times, float)
    free = len(x) - groups - 1
    if free < _LEAST_SPANS or not (x @ x) > 0:
        return None
    share = float(x @ y / (x @ x))
    factor = 1 / (1 - min(max(share, 0.0), 1 - 1 / _LARGEST))
    error = factor * math.sqrt(float(((y - share * x) ** 2).sum()) / free / float(x @ x))
    return (factor, error) if error < _KNOWN else None
