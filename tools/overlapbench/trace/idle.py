"""Why the device was idle, as far as the trace tells.

Idle is when no computation, communication or copy runs. In this order:

gate        a gate held the work back
dependency  the device waited for an event or a flag; or work was enqueued in time, and idle is
            the hand-over from what ran before
host        a function of the host ran on a stream; or the call that launched what ends the gap
            returned after the gap began ("stairs": the launch runs behind the device)
ranks       what ends the gap was enqueued, and another rank was still at work
unknown     anything else, and everything of a trace that has no launch calls

A device that has work and does not run it can wait for nothing of its own for longer than a
hand-over, since nothing of its own runs. So beyond that it waits for others.
"""

from collections.abc import Mapping
from enum import StrEnum

from overlapbench.trace.intervals import Interval, Intervals, difference, intersection, union
from overlapbench.trace.model import BUSY, Class, Span, Trace

# What an idle device takes from a launch, or from the end of a dependency, to the first
# instruction; a few microseconds on current GPUs, more with many streams.
HAND_OVER_NS = 10_000


class Cause(StrEnum):
    DEPENDENCY = "dependency"
    RANKS = "ranks"
    HOST = "host"
    GATE = "gate"
    UNKNOWN = "unknown"


def explain_idle(trace: Trace, idle: Intervals, others: Intervals) -> Mapping[Cause, Intervals]:
    """Part a rank's idle time by cause; `others` is when other ranks were busy, by its clock."""
    causes: dict[Cause, Intervals] = {}
    known: list[tuple[Cause, Intervals]] = [
        (Cause.GATE, trace.of(Class.GATE)),
        (Cause.DEPENDENCY, trace.of(Class.WAIT)),
        (Cause.HOST, trace.of(Class.HOST)),
        *_by_launches(trace, others),
    ]
    for cause, when in known:
        causes[cause] = union(causes.get(cause, ()), intersection(idle, when))
        idle = difference(idle, when)
    return causes | {Cause.UNKNOWN: idle}


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
