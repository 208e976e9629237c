"""Why the device was idle, as far as the trace shows.

The device is idle when no computation, communication or copy runs.

Our own files state why. The program divides the idle time of a sample when it measures it, by a
rule that needs more than spans (fixtures/breakdown.h), and nothing here repeats that rule. Its
`other` is `unknown` here, as is all idle time that a file does not state.

In traces of other tools, the first cause that applies:

gate        a gate held the work back
dependency  the device waited for an event or a flag; or work was enqueued in time, and the idle
            time is the hand-over from the previous work
host        a host function ran on a stream; or the call that launched the span after the gap
            returned after the gap began ("stairs": the launch lags behind the device)
ranks       the span after the gap was enqueued, and another rank was still working
unknown     anything else, and all idle time of a trace without launch calls

An idle device with enqueued work cannot wait for its own work for longer than a hand-over, since
none of it runs. Any longer wait is for other ranks.
"""

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum

from overlapbench.traces.intervals import Interval, Intervals, difference, intersection, union
from overlapbench.traces.model import RUNS, Class, Span, Trace

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


def explain_idle(trace: Trace, idle: Intervals, others: Intervals) -> Mapping[Part, Intervals]:
    """Divide a rank's idle time by cause; `others` is when other ranks were busy."""
    causes: dict[Part, Intervals] = dict.fromkeys(Cause, ())
    for cause, when in _stated(trace) if trace.row else _inferred(trace, others):
        causes[cause] = union(causes[cause], intersection(idle, when))
        idle = difference(idle, when)
    return causes | {Cause.UNKNOWN: union(causes[Cause.UNKNOWN], idle)}


def _stated(trace: Trace) -> Iterator[tuple[Cause, Intervals]]:
    for cause, when in trace.idle.items():
        yield Cause(cause) if cause in list(Cause) else Cause.UNKNOWN, when


def _inferred(trace: Trace, others: Intervals) -> Iterator[tuple[Cause, Intervals]]:
    yield Cause.GATE, trace.of(Class.GATE)
    yield Cause.DEPENDENCY, trace.of(Class.WAIT)
    yield Cause.HOST, trace.of(Class.HOST)
    yield from _by_launches(trace, others)


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


def _gaps(trace: Trace) -> list[tuple[int, int, int]]:
    """Return the gaps between busy spans, each with the index of the span that ends it.

    If several spans begin at once, the one launched first ends the gap.
    """
    gaps: list[tuple[int, int, int]] = []
    reached: int | None = None
    for place, span in enumerate(trace.spans):
        if span.kind not in RUNS:
            continue
        if reached is not None and span.begin_ns > reached:
            gaps.append((reached, span.begin_ns, place))
        elif gaps and gaps[-1][1] == span.begin_ns:
            begin, end, other = gaps[-1]
            gaps[-1] = (begin, end, min(other, place, key=lambda i: _launched(trace.spans[i])))
        reached = span.end_ns if reached is None else max(reached, span.end_ns)
    return gaps


def _launched(span: Span) -> float:
    return math.inf if span.launched_ns is None else span.launched_ns
