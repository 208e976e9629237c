"""Collectives of several ranks: which kernels are one, and how long each waited for the last rank.

A kernel of a collective begins when its rank arrives, and can only move all data once the last rank
has arrived. Until then it waits; from then on, it moves data.

In our own files, events state to which communication they belong. In others, kernels are matched by
communicator and order: the n-th on each rank is one collective. Newer versions of PyTorch state the
communicator; in other files, a stream stands for it. Recordings may begin at different collectives:
if more kernels share a moment when some are passed over, they are matched so.
Kernels that share none are not divided: a clock may be off, or one rank did not wait.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from overlapbench.output import numerically
from overlapbench.traces.intervals import (
    Interval,
    Intervals,
    difference,
    intersection,
    length,
    union,
)
from overlapbench.traces.model import Category, Class, Span, Trace

Work = tuple[int, int]  # the index of a trace, and of a span in it
Collective = tuple[Work, ...]  # one kernel of each rank
_PAIR = 2
_OPERATION = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|send_?recv|broadcast|reduce|send|recv",
    re.I,
)
_NO_GROUPS = "the traces state no communicators, so collectives are matched by stream and order"
_ABSENT = (
    "some ranks of a communicator have no trace here; the time for which others wait for them"
    " counts as moving data"
)
_MEMBERS = re.compile(r"\[([\d, ]+)\]")


@dataclass(frozen=True)
class Waiting:
    """The communication of one rank in its windows, and what other ranks waited for it."""

    total_ns: int
    waiting_ns: int  # for the last rank to arrive
    moving_ns: int  # the rest, total - waiting - moving, was not matched
    collectives: int
    last: int  # how often others waited for this rank
    awaited_ns: int  # by all others together


def split(traces: Sequence[Trace], windows: Sequence[Intervals]) -> list[Waiting] | None:
    """Divide the communication of each rank; None if no collective of several ranks is known.

    `windows` are the moments of interest of each rank. All times are of one clock.
    """
    waits: list[list[Interval]] = [[] for _ in traces]
    moves: list[list[Interval]] = [[] for _ in traces]
    counts, last, awaited = ([0] * len(traces) for _ in range(3))
    for collective in matched(traces):
        spans = {work[0]: _span(work, traces) for work in collective}
        if not _share_a_moment(spans.values()):
            continue
        arrived, latest = max((span.begin_ns, rank) for rank, span in spans.items())
        waited = 0
        for rank, span in spans.items():
            inside = intersection(((span.begin_ns, arrived),), windows[rank])
            waited += length(inside)
            counts[rank] += bool(intersection((span.interval,), windows[rank]))
            waits[rank] += inside
            moves[rank].append((arrived, span.end_ns))
        last[latest] += waited > 0
        awaited[latest] += waited
    if not any(counts):
        return None
    found = []
    for rank, trace in enumerate(traces):
        comm = intersection(trace.of(Class.COMM), windows[rank])
        moving = intersection(union(moves[rank]), comm)
        waiting = difference(intersection(union(waits[rank]), comm), moving)
        sizes = length(comm), length(waiting), length(moving)
        found.append(Waiting(*sizes, counts[rank], last[rank], awaited[rank]))
    return found


def matched(traces: Sequence[Trace]) -> Iterator[Collective]:
    """Return the collectives of all ranks."""
    if any(trace.row for trace in traces):
        spans = {
            (rank, place): span
            for rank, trace in enumerate(traces)
            for place, span in enumerate(trace.spans)
        }
        yield from (parts for parts in dict.fromkeys(stated(spans).values()) if len(parts) > 1)
        return
    found: dict[object, dict[int, list[Work]]] = defaultdict(lambda: defaultdict(list))
    for rank, trace in enumerate(traces):
        for communicator, place in _kernels(trace):
            found[communicator][rank].append((rank, place))
    for ranks in found.values():
        if len(ranks) > 1:
            yield from _in_order(list(ranks.values()), traces)


def _kernels(trace: Trace) -> Iterator[tuple[object, int]]:
    """Return a rank's collectives, each with its communicator."""
    kernels = [(place, span) for place, span in enumerate(trace.spans) if _is_collective(span)]
    lanes = sorted({span.lane for _, span in kernels}, key=numerically)
    yield from ((span.group or lanes.index(span.lane), place) for place, span in kernels)


def _in_order(ranks: Sequence[list[Work]], traces: Sequence[Trace]) -> list[Collective]:
    """Match the kernels of a communicator."""
    timed = list(_by_moments(ranks, traces))
    operations = {tuple(operation(_span(work, traces)) for work in works) for works in ranks}
    if len(operations) > 1:
        return timed
    counted = list(zip(*ranks, strict=True))
    shared = sum(_share_a_moment(_span(work, traces) for work in one) for one in counted)
    return counted if shared >= len(timed) else timed


def _by_moments(ranks: Sequence[list[Work]], traces: Sequence[Trace]) -> Iterator[Collective]:
    """Match kernels in order, and pass over those that end before all ranks have arrived."""
    queues = [works[::-1] for works in ranks]
    while all(queues):
        heads = {place: _span(queue[-1], traces) for place, queue in enumerate(queues)}
        arrived = max(head.begin_ns for head in heads.values())
        over = [place for place, head in heads.items() if head.end_ns <= arrived]
        if not over and len({operation(head) for head in heads.values()}) > 1:
            over = [min(heads, key=lambda place: heads[place].end_ns)]
        if not over:
            yield tuple(queue[-1] for queue in queues)
        for place in over or heads:
            queues[place].pop()


def _share_a_moment(spans: Iterable[Span]) -> bool:
    begins, ends = zip(*(span.interval for span in spans), strict=True)
    return bool(max(begins) < min(ends))


def _span(work: Work, traces: Sequence[Trace]) -> Span:
    return traces[work[0]].spans[work[1]]


def operation(span: Span) -> str:
    """Return what a collective does, if its file or its name tells."""
    found = _OPERATION.search(span.collective or span.name)
    return found[0].lower().replace("_", "") if found else ""


def stated(spans: Mapping[Work, Span]) -> dict[Work, Collective]:
    """Return, for each communication that our files state, the parts of all ranks.

    If a number repeats, its n-th uses on all ranks belong together. Copies belong to one rank each.
    """
    found: dict[object, dict[int, list[Work]]] = {}
    for work, span in spans.items():
        if span.communication is not None and _is_collective(span):
            key = (span.sample, span.communication)
            found.setdefault(key, {}).setdefault(work[0], []).append(work)
    together: dict[Work, Collective] = {}
    for of_ranks in found.values():
        if len({len(works) for works in of_ranks.values()}) == 1:
            for parts in zip(*of_ranks.values(), strict=True):
                together |= dict.fromkeys(parts, parts)
    return together


def doubts(traces: Sequence[Trace]) -> list[str]:
    """Return what readers must know about the matches."""
    groups = Counter(
        group
        for trace in traces
        for group in {span.group for span in trace.spans if _is_collective(span)}
    )
    world = max(trace.world or 0 for trace in traces)
    sizes = {group: _members(group) or world for group in groups}
    found = []
    if "" in groups and not any(trace.row for trace in traces) and len(traces) > _PAIR:
        found.append(_NO_GROUPS)
    if any(sizes[group] > count for group, count in groups.items()):
        found.append(_ABSENT)
    return found


def _members(group: str) -> int:
    """Return how many ranks a communicator has; 0 if it does not tell."""
    members = _MEMBERS.search(group)
    return members[1].count(",") + 1 if members else 0


def _is_collective(span: Span) -> bool:
    return span.kind is Class.COMM and span.category is Category.KERNEL
