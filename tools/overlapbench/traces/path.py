"""Who waited for whom in our own traces: arrows between spans, and the longest path of a window.

An arrow connects moments on two tracks: from just before the end of a step's last work to the start
of the first work that waited for it. A lane may have several tracks, and its arrows are on the
first. So spans are found by the lane's name and the moment.

The longest path is the chain of work that decides when a window ends. The search goes back from the
work that ends last. Each time, it continues at the last to end of everything the work had to wait
for: the work before it on its lane, the sources of its arrows, and earlier work of its own step, on
any stream, and the kernel that held the SMs for which it waited. A communication of several ranks
only begins when the last rank does, so the path continues at that rank. Our files state which works
of different ranks are one communication: a collective of all ranks, or a send and its receive
(collectives.py).

A kernel waited for SMs if nothing else held it back: it was launched, what it had to wait for had
ended, and it began as a kernel of many blocks on another lane ended or ran its last ones. With
fewer hardware queues than lanes (CUDA_DEVICE_MAX_CONNECTIONS), it may have waited for its queue.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from overlapbench.traces.collectives import Work, stated
from overlapbench.traces.idle import HAND_OVER_NS
from overlapbench.traces.intervals import union
from overlapbench.traces.model import WORK, Arrow, Span, Trace

Held = Mapping[Work, tuple[Work, int]]  # each kernel's holder of SMs, and since when it waited
_FEW_BLOCKS = 64  # of a kernel that leaves SMs free
_TAIL = 0.25  # of a kernel: the time in which its last blocks may end


def longest_path(
    traces: Sequence[Trace], spans: Mapping[Work, Span], held: Held = MappingProxyType({})
) -> list[Work]:
    """Return the path through spans of the traces, from its begin; `held` is `waits_for_sms`.

    Empty if a trace does not state who waits for whom. Traces that do share a clock.
    """
    if any(trace.arrows is None for trace in traces):
        return []
    earlier = _waited_for(traces, spans)
    for waiting, (holder, _) in held.items():
        earlier[waiting].append(holder)
    parts = stated(spans)
    path: dict[Work, Span] = {}
    work = _last(spans, spans)
    while work is not None:
        work = _last_to_begin(work, parts.get(work, ()), spans, path)
        path[work] = spans[work]
        work = _last([one for one in earlier[work] if one not in path], spans)
    return [*path][::-1]


def waits_for_ranks(spans: Mapping[Work, Span]) -> list[tuple[Work, Work]]:
    """Return which part of a communication waited for which: the one that began last, and another.

    Ranks that begin within a hand-over of each other have not waited.
    """
    parts = stated(spans)
    found = []
    for work, span in spans.items():
        last = _last_to_begin(work, parts.get(work, ()), spans, ())
        if spans[last].begin_ns - span.begin_ns > HAND_OVER_NS:
            found.append((last, work))
    return found


def waits_for_sms(traces: Sequence[Trace], spans: Mapping[Work, Span]) -> Held:
    """Return each kernel that waited for SMs, with the kernel that held them, and since when."""
    if any(trace.arrows is None for trace in traces):
        return {}
    kernels = {work: span for work, span in spans.items() if span.engine == "SM"}
    found = {}
    for work, earlier in _waited_for(traces, spans).items():
        span = spans[work]
        ready_ns = max([span.launched_ns or 0, *(spans[one].end_ns for one in earlier)])
        late = work in kernels and span.begin_ns - ready_ns > HAND_OVER_NS
        if late and (holder := _holder(work, ready_ns, kernels)):
            found[work] = holder
    return found


def _holder(work: Work, ready_ns: int, kernels: Mapping[Work, Span]) -> tuple[Work, int] | None:
    """Return the kernel that held SMs for which one waited, and since when; None without one."""
    own = kernels[work]
    others = {
        other: span
        for other, span in kernels.items()
        if other[0] == work[0]
        and span.lane != own.lane
        and span.begin_ns < own.begin_ns
        and span.end_ns > ready_ns
        and (span.blocks is None or span.blocks > _FEW_BLOCKS)
    }
    last = _last(others, others)
    if last is None:
        return None
    begin_ns, end_ns = others[last].interval
    in_tail = -HAND_OVER_NS <= end_ns - own.begin_ns <= _TAIL * (end_ns - begin_ns)
    since_ns = max(ready_ns, union(span.interval for span in others.values())[-1][0])
    long = own.begin_ns - since_ns > HAND_OVER_NS
    return (last, since_ns) if in_tail and long else None


def _waited_for(traces: Sequence[Trace], spans: Mapping[Work, Span]) -> dict[Work, list[Work]]:
    """Return the works for which each work had to wait on its own rank."""
    earlier: dict[Work, list[Work]] = {work: [] for work in spans}
    before: dict[tuple[int, str], Work] = {}
    of_step: dict[tuple[int, int, str | None], list[Work]] = {}
    for work, span in spans.items():  # by their begin
        lane = (work[0], span.lane)
        if lane in before:
            earlier[work].append(before[lane])
        if lane not in before or spans[before[lane]].end_ns <= span.end_ns:
            before[lane] = work
        if span.operation is not None:
            parts = of_step.setdefault((work[0], span.operation, span.step), [])
            earlier[work] += [part for part in parts if spans[part].end_ns <= span.begin_ns]
            parts.append(work)
    for rank, trace in enumerate(traces):
        for source, target in trace.arrows or ():
            if (rank, source) in spans and (rank, target) in spans:
                earlier[rank, target].append((rank, source))
    # Arrows lead to a step's first work; concurrent work of the step waited for the same.
    for works in of_step.values():
        for work in works:
            earlier[work] = earlier[work] or earlier[works[0]]
    return earlier


def _last(works: Iterable[Work], spans: Mapping[Work, Span]) -> Work | None:
    return max(works, key=lambda work: (spans[work].end_ns, work), default=None)


def _last_to_begin(
    work: Work, parts: Sequence[Work], spans: Mapping[Work, Span], passed: Collection[Work]
) -> Work:
    """Return the part of a communication that began last, if the work itself waited for it."""
    own = spans[work]
    waited_for = [
        part
        for part in parts
        if own.begin_ns < spans[part].begin_ns < own.end_ns and part not in passed
    ]
    return max(waited_for, key=lambda part: spans[part].begin_ns, default=work)


Track = tuple[int, int]  # process and thread
_INSIDE_NS = 1  # how long before the end of a step its arrow starts


def track_of(event: Mapping[str, object]) -> Track | None:
    """Return the track of an event; None if the event does not name one."""
    process, thread = event.get("pid"), event.get("tid")
    return (process, thread) if isinstance(process, int) and isinstance(thread, int) else None


@dataclass
class Arrows:
    """The tracks and arrows of a file, as far as it has been read."""

    names: dict[Track | None, str] = field(default_factory=dict)
    sources: dict[int, tuple[Track, int]] = field(default_factory=dict)  # by the arrow's number
    targets: dict[int, tuple[Track, int]] = field(default_factory=dict)

    def between(
        self, spans: Sequence[Span], lanes: Sequence[str], base_ns: int = 0
    ) -> tuple[Arrow, ...]:
        """Return the arrows between spans; `lanes` are the spans' lanes, as the file names them.

        The spans' times count from the moment that is `base_ns` before that of the arrows.
        """
        begins: dict[tuple[str, int], int] = {}
        ends: dict[tuple[str, int], int] = {}
        for place, (span, lane) in enumerate(zip(spans, lanes, strict=True)):
            if span.kind in WORK:
                begins.setdefault((lane, span.begin_ns - base_ns), place)
                ends.setdefault((lane, span.end_ns - base_ns - _INSIDE_NS), place)
        found = set()
        for number in self.sources.keys() & self.targets.keys():
            source = self._at(self.sources[number], ends)
            target = self._at(self.targets[number], begins)
            if source is not None and target is not None and source != target:
                found.add((source, target))
        return tuple(sorted(found))

    def _at(self, end: tuple[Track, int], moments: Mapping[tuple[str, int], int]) -> int | None:
        """Return the index of a span that begins or ends there; the files' times are rounded."""
        lane, at_ns = self.names.get(end[0], ""), end[1]
        near = (moments.get((lane, at_ns + off_ns)) for off_ns in (0, -1, 1))
        return next((place for place in near if place is not None), None)
