"""Why the device was idle, as far as the trace shows.

The device is idle when no computation, communication or copy runs. The first cause that applies:

gate        a gate held the work back
dependency  the device waited for an event or a flag; or work was enqueued in time, and the idle
            time is the hand-over from the previous work
host        a host function ran on a stream; or the call that launched the span after the gap
            returned after the gap began ("stairs": the launch lags behind the device)
ranks       the span after the gap was enqueued, and another rank was still working
unknown     anything else, and all idle time of a trace without launch calls

Our own files contain more: when each sample began on each rank, the lane of each gate, and what
work awaits on its stream. So in a sample, idle time is divided by the rule of the row's own
counters (fixtures/breakdown.h); their `other` is `unknown` here.

In traces of other tools, an idle device with enqueued work cannot wait for its own work for longer
than a hand-over, since none of it runs. Any longer wait is for other ranks.
"""

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum

from overlapbench.traces.intervals import Interval, Intervals, difference, intersection, union
from overlapbench.traces.model import RUNS, Class, Span, Trace, Window

# The time of an idle device from a launch, or from the end of a dependency, to the first
# instruction; a few microseconds on current GPUs, more with many streams.
HAND_OVER_NS = 10_000


class Cause(StrEnum):
    DEPENDENCY = "dependency"
    RANKS = "ranks"
    HOST = "host"
    GATE = "gate"
    UNKNOWN = "unknown"


Part = tuple[Class, ...] | Cause  # of a window: exactly these classes, or idle for a cause
_AWAITED = {cause.value: cause for cause in (Cause.DEPENDENCY, Cause.RANKS, Cause.GATE)}


def explain_idle(
    trace: Trace, idle: Intervals, others: Intervals, began_ns: Mapping[str, int]
) -> Mapping[Part, Intervals]:
    """Divide a rank's idle time by cause.

    `others` is when other ranks were busy. `began_ns` is when the last rank began a window, by the
    window's name. Both use this rank's clock.
    """
    causes: dict[Part, Intervals] = {}
    known: list[tuple[Cause, Intervals]] = [
        *_as_the_row(trace, began_ns),
        (Cause.GATE, trace.of(Class.GATE)),
        (Cause.DEPENDENCY, trace.of(Class.WAIT)),
        (Cause.HOST, trace.of(Class.HOST)),
        *_by_launches(trace, others),
    ]
    for cause, when in known:
        causes[cause] = union(causes.get(cause, ()), intersection(idle, when))
        idle = difference(idle, when)
    return causes | {Cause.UNKNOWN: union(causes.get(Cause.UNKNOWN, ()), idle)}


def _as_the_row(trace: Trace, began_ns: Mapping[str, int]) -> Iterator[tuple[Cause, Intervals]]:
    """Divide the gaps in our own samples by the rule of fixtures/breakdown.h."""
    if not trace.row:
        return
    yield Cause.HOST, trace.of(Class.HOST)  # unknown to that rule; --class assigns it
    gates = [span for span in trace.spans if span.kind is Class.GATE and span.step]
    parts: dict[Cause, list[Interval]] = {cause: [] for cause in Cause}
    for window in (window for window in trace.windows if window.number is not None):
        all_began = began_ns.get(window.name, window.begin_ns)
        for reached, end, place in _gaps(trace, window):
            span = trace.spans[place]
            held = (gate.end_ns for gate in gates if _holds(gate, span))
            limits = (
                (Cause.RANKS, all_began),
                (Cause.GATE, max(held, default=reached)),
                (Cause.HOST, reached if span.launched_ns is None else span.launched_ns),
                (_AWAITED.get(span.awaits, Cause.UNKNOWN), end),
            )
            for cause, limit in limits:
                until = min(end, max(reached, limit))
                parts[cause].append((reached, until))
                reached = until
    yield from ((cause, union(when)) for cause, when in parts.items())


def _holds(gate: Span, span: Span) -> bool:
    """Tell whether a gate is in a span's sample and on its lane, which may have several tracks."""
    is_on_lane = span.lane == gate.lane or span.lane.startswith(f"{gate.lane}, stream ")
    return is_on_lane and gate.sample == span.sample


def _by_launches(trace: Trace, others: Intervals) -> list[tuple[Cause, Intervals]]:
    """Return the causes that follow from the launches of the spans that end gaps."""
    host: list[Interval] = []
    dependency: list[Interval] = []
    enqueued: list[Interval] = []
    for begin, end, place in _gaps(trace):
        returned = trace.spans[place].launched_ns
        if returned is None:
            continue
        passed = min(end, max(begin, returned) + HAND_OVER_NS)
        (host if returned > begin else dependency).append((begin, passed))
        enqueued.append((passed, end))
    ranks = intersection(union(enqueued), others)
    return [(Cause.HOST, union(host)), (Cause.DEPENDENCY, union(dependency)), (Cause.RANKS, ranks)]


def _gaps(trace: Trace, window: Window | None = None) -> list[tuple[int, int, int]]:
    """Return the gaps between busy spans, each with the index of the span that ends it.

    If several spans begin at once, the one launched first ends the gap. The time in a window before
    its first span is a gap, too.
    """
    gaps: list[tuple[int, int, int]] = []
    reached = None if window is None else window.begin_ns
    for place, span in enumerate(trace.spans):
        if span.kind not in RUNS or (window and not _is_within(span, window)):
            continue
        if reached is not None and span.begin_ns > reached:
            gaps.append((reached, span.begin_ns, place))
        elif gaps and gaps[-1][1] == span.begin_ns:
            begin, end, other = gaps[-1]
            gaps[-1] = (begin, end, min(other, place, key=lambda i: _launched(trace.spans[i])))
        reached = span.end_ns if reached is None else max(reached, span.end_ns)
    return gaps


def _is_within(span: Span, window: Window) -> bool:
    return window.begin_ns < span.end_ns and span.begin_ns < window.end_ns


def _launched(span: Span) -> float:
    return math.inf if span.launched_ns is None else span.launched_ns
