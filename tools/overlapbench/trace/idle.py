"""Why the device was idle, as far as the trace tells.

Idle is when no computation, communication or copy runs. In this order:

gate        a gate held the work back
dependency  the device waited for an event or a flag; or work was enqueued in time, and idle is
            the hand-over from what ran before
host        a function of the host ran on a stream; or the call that launched what ends the gap
            returned after the gap began ("stairs": the launch runs behind the device)
ranks       what ends the gap was enqueued, and another rank was still at work
unknown     anything else, and everything of a trace that has no launch calls

Before the first work of a sample of our own there is nothing that could have been handed over, so
that gap is divided as the row's own counters are (fixtures/breakdown.h): until the last rank had
begun the sample, by a gate, by the host, and what launching takes is unknown.

A device that has work and does not run it can wait for nothing of its own for longer than a
hand-over, since nothing of its own runs. So beyond that it waits for others.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from overlapbench.trace.intervals import Interval, Intervals, difference, intersection, union
from overlapbench.trace.model import BUSY, Class, Span, Trace, Window

# What an idle device takes from a launch, or from the end of a dependency, to the first
# instruction; a few microseconds on current GPUs, more with many streams.
HAND_OVER_NS = 10_000


class Cause(StrEnum):
    DEPENDENCY = "dependency"
    RANKS = "ranks"
    HOST = "host"
    GATE = "gate"
    UNKNOWN = "unknown"


def explain_idle(
    trace: Trace, idle: Intervals, others: Intervals, began_ns: Mapping[str, int]
) -> Mapping[Cause, Intervals]:
    """Part a rank's idle time by cause.

    `others` is when other ranks were busy, and `began_ns` when the last rank began a window, by its
    name; both by this rank's clock.
    """
    causes: dict[Cause, Intervals] = {}
    known: list[tuple[Cause, Intervals]] = [
        *_before_samples(trace, others, began_ns),
        (Cause.GATE, trace.of(Class.GATE)),
        (Cause.DEPENDENCY, trace.of(Class.WAIT)),
        (Cause.HOST, trace.of(Class.HOST)),
        *_by_launches(trace, others),
    ]
    for cause, when in known:
        causes[cause] = union(causes.get(cause, ()), intersection(idle, when))
        idle = difference(idle, when)
    return causes | {Cause.UNKNOWN: union(causes.get(Cause.UNKNOWN, ()), idle)}


def _before_samples(
    trace: Trace, others: Intervals, began_ns: Mapping[str, int]
) -> Iterator[tuple[Cause, Intervals]]:
    """Divide the gaps between the begins of samples of our own and their first works.

    Where the trace has no waits, work that is held back beyond a launch waits for other ranks.
    """
    infers = not trace.of(Class.WAIT)
    gates = trace.of(Class.GATE)
    for window in trace.windows if trace.row else ():
        first = _first_work(trace, window)
        if window.number is None or first is None:
            continue
        reached, end = window.begin_ns, first.begin_ns
        held = max((until for since, until in gates if since < end), default=reached)
        returned = reached if first.launched_ns is None else first.launched_ns
        for cause, limit in (
            (Cause.RANKS, began_ns.get(window.name, reached)),
            (Cause.GATE, held),
            (Cause.HOST, returned),
        ):
            until = min(end, max(reached, limit))
            yield cause, union([(reached, until)])
            reached = until
        launched = min(end, reached + HAND_OVER_NS)
        yield Cause.UNKNOWN, union([(reached, launched)])
        if infers and first.launched_ns is not None:
            yield Cause.RANKS, intersection(union([(launched, end)]), others)
        yield Cause.UNKNOWN, union([(launched, end)])


def _first_work(trace: Trace, window: Window) -> Span | None:
    """Return the busy span of a window that begins first."""
    within = (
        span
        for span in trace.spans
        if span.kind in BUSY and window.begin_ns <= span.begin_ns < window.end_ns
    )
    return next(within, None)


def _by_launches(trace: Trace, others: Intervals) -> list[tuple[Cause, Intervals]]:
    """Return what the launches of the spans that end gaps say of them."""
    host: list[Interval] = []
    dependency: list[Interval] = []
    enqueued: list[Interval] = []
    for begin, end, span in _gaps(trace):
        returned = span.launched_ns
        if returned is None:
            continue
        passed = min(end, max(begin, returned) + HAND_OVER_NS)
        (host if returned > begin else dependency).append((begin, passed))
        enqueued.append((passed, end))
    ranks = intersection(union(enqueued), others)
    return [
        (Cause.HOST, union(host)),
        (Cause.DEPENDENCY, union(dependency)),
        (Cause.RANKS, ranks),
    ]


def _gaps(trace: Trace) -> list[tuple[int, int, Span]]:
    """Return the gaps between busy spans, each with the span that ends it.

    Of several that begin at once, the one that was launched first.
    """
    gaps: list[tuple[int, int, Span]] = []
    reached: int | None = None
    for span in trace.spans:
        if span.kind not in BUSY:
            continue
        if reached is not None and span.begin_ns > reached:
            gaps.append((reached, span.begin_ns, span))
        elif gaps and gaps[-1][1] == span.begin_ns and _earlier(span, gaps[-1][2]):
            gaps[-1] = (*gaps[-1][:2], span)
        reached = span.end_ns if reached is None else max(reached, span.end_ns)
    return gaps


def _earlier(span: Span, other: Span) -> bool:
    if span.launched_ns is None or other.launched_ns is None:
        return other.launched_ns is None and span.launched_ns is not None
    return span.launched_ns < other.launched_ns
