"""Arrows of our own traces: which span waited for which.

An arrow connects moments on two tracks: from just before the end of a step's last work to the start
of the first work that waited for it. A lane may have several tracks, and its arrows are on the
first. So spans are found by the lane's name and the moment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from overlapbench.traces.model import WORK, Arrow, Span

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
