"""The longest path of a window: the chain of work that decides when it ends.

The search goes back from the work that ends last. Each time, it continues at the last to end of
everything the work had to wait for: the work before it on its lane, the sources of its arrows, and
earlier work of its own step, on any stream. A communication of several ranks only begins when the
last rank does, so the path continues at that rank.

Our files state which works of different ranks are one communication: a collective of all ranks, or
a send and its receive (collectives.py).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from overlapbench.traces.collectives import Work, stated
from overlapbench.traces.idle import HAND_OVER_NS
from overlapbench.traces.model import Span, Trace


def longest_path(traces: Sequence[Trace], spans: Mapping[Work, Span]) -> list[Work]:
    """Return the path through spans of the traces, from its begin.

    Empty if a trace does not state who waits for whom. Traces that do share a clock.
    """
    if any(trace.arrows is None for trace in traces):
        return []
    earlier = _waited_for(traces, spans)
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
