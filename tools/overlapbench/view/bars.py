"""The bars of a timeline's picture: their places, labels and tooltips.

A bar too short to be visible gets a one-pixel stroke at its start. Where many short bars are close
together, only some of them get a stroke, so that a mostly idle lane does not look busy. If there
are very many bars, those that are shorter than a quarter of a pixel and begin in the same one are
merged into one bar, which is paler the more time lies between them.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from overlapbench.grouping import grouped
from overlapbench.output import harmless
from overlapbench.traces.model import WORK, Class
from overlapbench.view import theme
from overlapbench.view.console import shortened
from overlapbench.view.timeline import Bar, Lane, Link, Timeline
from overlapbench.view.vega import Record

MOST_BARS = 6000  # drawn individually per panel: a browser takes a second
_SHORT = 3  # pixels, below which a bar is hard to see
_APART = 4  # pixels between strokes
_CELLS = 4  # of a pixel
_LETTER, _LEAST_LETTERS = 6.6, 4  # pixels of a letter; letters of a name that is cut
_ARROWHEADS = 14  # pixels of a bar that names keep free for them
# In the order of the legend: a class's name, its colour, and that of text on it.
LOOKS: Mapping[Class, tuple[str, str, str]] = {
    Class.COMP: ("computation", theme.COMPUTATION, "#ffffff"),
    Class.COMM: ("communication", theme.COMMUNICATION, theme.ON_CELL),
    Class.FUSED: ("both at once", theme.SKY, theme.ON_CELL),
    Class.MEM: ("copy", theme.ORANGE, theme.ON_CELL),
    Class.HOST: ("host", theme.PURPLE, theme.ON_CELL),
    Class.WAIT: ("waits", "#B4B4B4", theme.ON_CELL),
    Class.GATE: ("held by a gate", theme.GREY, theme.ON_CELL),
}
TOLD = ("step", "work", "class", "begin (ms)", "duration (ms)", "bytes", "blocks", "engine", "peer",
        "SMs", "lane", "rank", "sample", "longest path")  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """The track of each lane, and the duration of a pixel."""

    tracks: Mapping[Lane, str]
    pixel_ns: float

    def record(self, bar: Bar) -> Record:
        """Return a bar as drawn: its place, how it looks, its label if it fits, its tooltip."""
        span, alone = bar.span, bar.count == 1
        kind, _, ink = LOOKS[span.kind]
        width = bar.end_ns - bar.begin_ns
        short = "short" if is_short(bar, self.pixel_ns) else "wide"
        step, work = harmless(span.step or span.name), harmless(span.name)
        record = {
            "track": self.tracks[bar.lane],
            "from": bar.begin_ns / 1e6,
            "to": bar.end_ns / 1e6,
            "look": short if span.kind in WORK else "held",
            "kind": kind,
            "share": 1 if alone else min(1, bar.busy_ns / max(1, width)),
            "step": step if alone else f"{step} and {bar.count - 1} more",
            "work": work if work != step else "",
            "class": span.kind.value,
            "begin (ms)": f"{bar.since_ns / 1e6:.6f}",
            "duration (ms)": f"{bar.busy_ns / 1e6:.6f}",
            "bytes": f"{span.bytes:,}" if span.bytes and alone else "",
            "blocks": f"{span.blocks:,}" if span.blocks and alone else "",
            "engine": harmless(span.engine) if alone else "",
            "peer": span.peer if span.peer is not None and alone else "",
            "SMs": span.sms if span.sms is not None and alone else "",
            "lane": harmless(bar.lane.name),
            "rank": bar.lane.rank,
            "sample": span.sample if span.sample is not None else "",
            "longest path": "yes" if bar.on_path else "",
        }
        label = _fitting(step, width / self.pixel_ns) if alone else ""
        if not label or record["look"] != "wide":
            return record
        return record | {"label": label, "ink": ink, "middle": (bar.begin_ns + bar.end_ns) / 2e6}

    def link(self, link: Link) -> Record:
        """Return the start and the end of an arrow."""
        return {
            "from": link.leaves_ns / 1e6,
            "track": self.tracks[link.source.lane],
            "reach": link.reaches_ns / 1e6,
            "into": self.tracks[link.target.lane],
        }


def name_tracks(timeline: Timeline, letters: int) -> dict[Lane, str]:
    """Give the lanes unique names of at most so many letters."""
    tracks: dict[Lane, str] = {}
    for lane in timeline.lanes:
        whose = f"rank {lane.rank} " if timeline.ranks > 1 else ""
        name = shortened(f"{whose}{harmless(lane.name)}", letters)
        number = 2
        while name in tracks.values():
            name = f"{shortened(name.partition('#')[0], letters - 4)}#{number}"
            number += 1
        tracks[lane] = name
    return tracks


def merged(bars: Sequence[Bar], pixel_ns: float) -> list[Bar]:
    """If there are too many bars, merge those that are indistinguishable."""
    if len(bars) <= MOST_BARS:
        return list(bars)
    cell_ns = pixel_ns / _CELLS

    def cell(bar: Bar) -> Hashable:
        if bar.end_ns - bar.begin_ns >= cell_ns:
            return id(bar)
        return (bar.lane, bar.span.kind, bar.on_path, bar.begin_ns // cell_ns)

    return [
        replace(
            group[0],
            end_ns=max(bar.end_ns for bar in group),
            count=len(group),
            busy_ns=sum(bar.busy_ns for bar in group),
        )
        for group in grouped(bars, cell).values()
    ]


def with_strokes(bars: Iterable[Bar], pixel_ns: float) -> list[Bar]:
    """Return those of short bars that get a stroke: they are not too close together."""
    found: list[Bar] = []
    for bar in bars:
        near = found and found[-1].lane == bar.lane
        if not near or bar.begin_ns - found[-1].begin_ns >= _APART * pixel_ns:
            found.append(bar)
    return found


def is_short(bar: Bar, pixel_ns: float) -> bool:
    """Tell whether a bar is hard to see."""
    return bar.end_ns - bar.begin_ns < _SHORT * pixel_ns


def _fitting(name: str, pixels: float) -> str:
    """Return the part of a name that fits on a bar; "" if it would not distinguish names."""
    letters = int((pixels - _ARROWHEADS) / _LETTER)
    if len(name) <= letters:
        return name
    return shortened(name, letters) if letters >= _LEAST_LETTERS else ""
