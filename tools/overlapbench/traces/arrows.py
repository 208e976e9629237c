"""Arrows of our own traces: which span waited for which.

An arrow connects moments on two tracks: from just before the end of a step's last work to the start
of the first work that waited for it. A lane may have several tracks, and its arrows are on the
first. So spans are found by the lane's name and the moment.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from overlapbench.traces.model import WORK, Arrow, Span

Track = tuple[int, int]  # process and thread
_INSIDE_NS = 1  # how long before the end of a step its arrow starts
_ROUNDED_NS = 1  # the files' times are rounded


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
        begins: dict[str, list[tuple[int, int]]] = {}
        ends: dict[str, list[tuple[int, int]]] = {}
        for place, (span, lane) in enumerate(zip(spans, lanes, strict=True)):
            if span.kind in WORK:
                begins.setdefault(lane, []).append((span.begin_ns, place))
                ends.setdefault(lane, []).append((span.end_ns, place))
        for moments in ends.values():
            moments.sort()
        found = set()
        for number in self.sources.keys() & self.targets.keys():
            (track, left_ns), (into, reached_ns) = self.sources[number], self.targets[number]
            left_ns, reached_ns = base_ns + left_ns, base_ns + reached_ns
            source = _nearest(ends.get(self.names.get(track, ""), ()), left_ns + _INSIDE_NS)
            target = _nearest(begins.get(self.names.get(into, ""), ()), reached_ns)
            if source is not None and target is not None and source != target:
                found.add((source, target))
        return tuple(sorted(found))


def _nearest(moments: Sequence[tuple[int, int]], at_ns: int) -> int | None:
    """Return the index of a span that begins or ends at a moment; moments are sorted."""
    near = [
        (abs(moment - at_ns), place)
        for moment, place in moments[bisect_left(moments, (at_ns - _ROUNDED_NS, 0)) :][:9]
        if moment <= at_ns + _ROUNDED_NS
    ]
    return min(near)[1] if near else None
