"""Device work that cannot have been: left out, counted, and named in a note.

Profilers sometimes write no time for a kernel (0, or far from the rest of the recording), an end
before the begin, or a duration that overflowed. One such record would decide T and every share.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median_low

from overlapbench.output import counted, harmless, listed
from overlapbench.traces.intervals import Interval
from overlapbench.traces.model import Span

_DAY_NS = 86_400 * 10**9  # no recording is this long
_GIANT_NS, _PROPORTION, _MANY = 10**9, 100, 10  # a second; times the rest; spans in the rest
_LETTERS, _LISTED = 70, 3  # of a name; names in a note


class Fault(StrEnum):
    """Why an event is left out."""

    NO_TIME = "without a valid time"
    NO_DURATION = "without a duration"
    BACKWARD = "ending before it begins"
    UNREADABLE = "whose fields cannot be read"
    FAR = "more than a day away from the rest"
    LONG = "longer than the rest of the recording"


@dataclass
class Omitted:
    """What is left out, by reason."""

    names: dict[Fault, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, reason: Fault, name: str) -> None:
        self.names[reason].append(harmless(name[:_LETTERS]))

    def notes(self) -> tuple[str, ...]:
        """Return a note for each reason."""
        return tuple(
            f"left out {counted(len(names), 'span')} {reason}: {listed(names, _LISTED)}"
            for reason, names in self.names.items()
        )


def plausible(spans: Iterable[Span], host: Interval | None, omitted: Omitted) -> list[Span]:
    """Return the spans of a device that can have been, by their begin.

    `host` is when the host was recorded, if it was.
    """
    found = sorted(spans, key=lambda span: span.interval)
    if not found:
        return []
    middle = median_low(span.begin_ns for span in found)
    near = []
    for span in found:
        if abs(span.begin_ns - middle) > _DAY_NS:
            omitted.add(Fault.FAR, span.name)
        elif span.end_ns - span.begin_ns > _DAY_NS:
            omitted.add(Fault.LONG, _with_length(span))
        else:
            near.append(span)
    return _without_overflows(near, host, omitted)


def _without_overflows(
    spans: Sequence[Span], host: Interval | None, omitted: Omitted
) -> list[Span]:
    """Leave out spans that last beyond everything else, and longer than it.

    Their stream must have gone on meanwhile, or they must be out of all proportion.
    """
    swallowing = set(_swallowing(spans))
    giants = {place for place, span in enumerate(spans) if span.end_ns - span.begin_ns > _GIANT_NS}
    rest = [span.interval for place, span in enumerate(spans) if place not in swallowing | giants]
    if len(rest) == len(spans) or not rest:
        return list(spans)
    many = len(rest) >= _MANY
    rest += [host] if host else []
    begin, end = min(b for b, _ in rest), max(e for _, e in rest)
    kept = []
    for place, span in enumerate(spans):
        times = 1 if place in swallowing else _PROPORTION if place in giants and many else math.inf
        if span.end_ns > end and span.end_ns - span.begin_ns > times * (end - begin):
            omitted.add(Fault.LONG, _with_length(span))
        else:
            kept.append(span)
    return kept


def _swallowing(spans: Sequence[Span]) -> Iterable[int]:
    """Return the spans during which a later one of their stream, from another call, ran whole."""
    last: dict[str, int] = {}  # of each stream, to end
    for place, span in enumerate(spans):
        before = last.get(span.lane)
        if before is None or spans[before].end_ns < span.end_ns:
            last[span.lane] = place
        elif spans[before].launched_ns != span.launched_ns or span.launched_ns is None:
            yield before


def _with_length(span: Span) -> str:
    return f"{(span.end_ns - span.begin_ns) / 1e6:.3f} ms of {span.name}"
