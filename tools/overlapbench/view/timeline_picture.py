"""The picture of timelines: one panel each, on its own time scale.

A panel has a track for each lane of each rank. Work is a bar in the colour of its class; a thin bar
shows what holds a lane back: grey, or red for SMs that another kernel held. Arrows lead to work
that waited for another lane, and the longest path is outlined. Steps are named where there is room;
tooltips show everything.

A bar too short to be visible gets a one-pixel stroke at its start. Where many short bars are close
together, only some of them get a stroke, so that a mostly idle lane does not look busy. If there
are very many bars, those that are shorter than a quarter of a pixel and begin in the same one are
merged into one bar, which is paler the more time lies between them.
"""

import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from overlapbench.grouping import grouped
from overlapbench.output import ResultError, Wrapper, counted, harmless
from overlapbench.statistics.intervals import digits
from overlapbench.traces.model import WORK, Class
from overlapbench.view import theme, vega
from overlapbench.view.charts.naming import joined
from overlapbench.view.console import shortened
from overlapbench.view.timeline import FOR_SMS, Bar, Lane, Link, Timeline, path_parts
from overlapbench.view.vega import Drawing, Record, Spec

TITLE = "Timeline"
HINT = "Drag to pan, Ctrl + wheel to zoom, double-click to reset."
_WAITS = "Arrows lead to what waited for another lane."
_PATH = "Outlined is the longest path: the chain of work that decides when the last one ends."
_SMS = "What waited for SMs could have begun, but another kernel held them."
READING = (_WAITS, _PATH, _SMS, HINT)
_MOST_LANES, _MOST_DRAWN = 128, 30_000  # of a panel
_MOST_LINKS = 400  # if there are more, only those of the longest path
_LOOK = "datum.look"
_LANE, _TICKS = 24, 12  # pixels; ticks of the time axis
_BAR, _HELD = 0.85, 0.3  # of a lane's height
_LETTERS, _BOLD_LETTERS = 118, 108  # per line of text as wide as the picture
_LABELS, _LANE_LETTERS = 180, 26  # pixels beside a panel, for the names of its lanes; letters
_PLOT = theme.WIDTH - _LABELS - 50
_ZOOM = "wheel![event.ctrlKey]"  # otherwise a page with pictures could not be scrolled
MOST_BARS = 6000  # drawn individually per panel: a browser takes a second
_SHORT = 3  # pixels, below which a bar is hard to see
_APART = 4  # pixels between strokes
_CELLS = 4  # of a pixel
_LETTER, _LEAST_LETTERS = 6.6, 4  # pixels of a letter; letters of a name that is cut
_ARROWHEADS = 14  # pixels of a bar that names keep free for them
# In the order of the legend: a class's name, its colour, and that of text on it.
LOOKS: Mapping[str, tuple[str, str, str]] = {
    Class.COMP: ("computation", theme.COMPUTATION, "#ffffff"),
    Class.COMM: ("communication", theme.COMMUNICATION, theme.ON_CELL),
    Class.FUSED: ("both at once", theme.SKY, theme.ON_CELL),
    Class.MEM: ("copy", theme.ORANGE, theme.ON_CELL),
    Class.HOST: ("host", theme.PURPLE, theme.ON_CELL),
    FOR_SMS: ("waited for SMs", theme.VERMILION, theme.ON_CELL),
    Class.WAIT: ("waits", "#B4B4B4", theme.ON_CELL),
    Class.GATE: ("held by a gate", theme.GREY, theme.ON_CELL),
}
_TOLD = ("step", "work", "class", "begin (ms)", "duration (ms)", "bytes", "blocks", "engine",
         "peer", "SMs", "lane", "rank", "sample", "longest path")  # fmt: skip


# ---- the bars of a panel: their places, labels and tooltips


@dataclass(frozen=True)
class Scale:
    """The track of each lane, and the duration of a pixel."""

    tracks: Mapping[Lane, str]
    pixel_ns: float

    def record(self, bar: Bar) -> Record:
        """Return a bar as drawn: its place, how it looks, its label if it fits, its tooltip."""
        span, alone = bar.span, bar.count == 1
        kind, _, ink = LOOKS[bar.kind]
        width = bar.end_ns - bar.begin_ns
        short = "short" if is_short(bar, self.pixel_ns) else "wide"
        step, work = harmless(span.step or span.name), harmless(span.name)
        record = {
            "track": self.tracks[bar.lane],
            "from": bar.begin_ns / 1e6,
            "to": bar.end_ns / 1e6,
            "look": short if bar.kind in WORK else "held",
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


def name_tracks(timeline: Timeline) -> dict[Lane, str]:
    """Give the lanes unique names that fit beside a panel."""
    tracks: dict[Lane, str] = {}
    for lane in timeline.lanes:
        whose = f"rank {lane.rank} " if timeline.ranks > 1 else ""
        name = shortened(f"{whose}{harmless(lane.name)}", _LANE_LETTERS)
        number = 2
        while name in tracks.values():
            name = f"{shortened(name.partition('#')[0], _LANE_LETTERS - 4)}#{number}"
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
        return (bar.lane, bar.kind, bar.on_path, bar.begin_ns // cell_ns)

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


# ---- the picture


def draw_timelines(timelines: Sequence[Timeline], title: str, one_scale: bool = False) -> Drawing:
    """Draw timelines in one picture, each on a time scale of its own or all on one.

    ResultError if one has too much to be legible.
    """
    title, notes = harmless(title) or TITLE, _reading(timelines)
    made = _draw(timelines, [_heading(timeline) for timeline in timelines], one_scale)
    made["title"] = vega.chart_title(title, [" ".join(notes)])
    return Drawing("timelines", title, timelines, notes, made)


def draw_for_page(timeline: Timeline, name: str) -> Drawing:
    """Draw a timeline without its text, which the page writes itself."""
    made = _draw([timeline], [None])
    return Drawing(name, harmless(timeline.row), [timeline], describe(timeline), made)


def describe(timeline: Timeline) -> list[str]:
    """Say what a timeline shows, T, the parts of the longest path, and remarks."""
    about = f"T {digits(timeline.total_ns / 1e6)} ms", harmless(timeline.window)
    backend = timeline.backend and f"backend: {timeline.backend}"
    lines = [joined(*about, counted(timeline.ranks, "rank"), backend)]
    if timeline.path:
        parts = path_parts(timeline)
        names: dict[str | None, str] = {kind: look[0] for kind, look in LOOKS.items()}
        names[None] = "gaps"
        decimals = len(digits(timeline.total_ns / 1e6).partition(".")[2])
        shares = [
            f"{name} {parts[kind] / 1e6:.{decimals}f} ms"
            for kind, name in names.items()
            if parts.get(kind)
        ]
        lines.append(f"Longest path: {', '.join(shares)}")
    if hidden := len(_arrows(timeline)) - len(_shown(_arrows(timeline))):
        lines.append(f"{hidden} more arrows are not drawn.")
    return [*lines, *(harmless(f"{note[0].upper()}{note[1:]}") for note in timeline.notes)]


def _reading(timelines: Sequence[Timeline]) -> list[str]:
    waits = [_WAITS] if any(timeline.links for timeline in timelines) else []
    path = [_PATH] if any(timeline.path for timeline in timelines) else []
    held = any(bar.is_wait for timeline in timelines for bar in timeline.bars)
    return [*waits, *path, *([_SMS] if held else [])]


def _heading(timeline: Timeline) -> Spec:
    lines = [line for text in describe(timeline) for line in textwrap.wrap(text, _LETTERS)]
    title = Wrapper(_BOLD_LETTERS).wrap(harmless(timeline.row))
    return {"text": title, "subtitle": lines, "fontSize": 13, "subtitlePadding": 3, "offset": 8}


def _draw(
    timelines: Sequence[Timeline],
    headings: Sequence[Spec | None],
    one_scale: bool = False,
) -> dict[str, Any]:
    longest_ns = max(timeline.length_ns for timeline in timelines)
    kinds = {bar.kind for timeline in timelines for bar in timeline.bars}
    looks = dict(look[:2] for kind, look in LOOKS.items() if kind in kinds)
    colour = theme.styled(looks, {"orient": "top", "title": None, "symbolType": "square"}, "kind")
    panels = []
    for place, (timeline, heading) in enumerate(zip(timelines, headings, strict=True)):
        title = "time (ms)" if place == len(timelines) - 1 else None
        ends_ns = longest_ns if one_scale else timeline.length_ns
        scale = {"domain": [0, ends_ns / 1e6], "nice": False}
        time = vega.field("from:Q", title=title, scale=scale, axis={"tickCount": _TICKS})
        drawn = _panel(timeline, f"row{place}", time, colour, ends_ns)
        panels.append(drawn | ({"title": heading} if heading else {}))
    pan = {"type": "interval", "encodings": ["x"], "zoom": _ZOOM}
    views = [f"row{place}" for place in range(len(panels))]
    moved = [views] if one_scale else [[view] for view in views]  # together
    params = [
        {"name": f"time{place}", "bind": "scales", "select": pan, "views": together}
        for place, together in enumerate(moved)
    ]
    scales = {"scale": {"x": "shared" if one_scale else "independent"}}
    drawn = {"concat": panels, "columns": 1, "spacing": 26}
    return vega.whole({**drawn, "resolve": scales, "params": params})


def _panel(timeline: Timeline, view: str, x: Spec, colour: Spec, ends_ns: int) -> Spec:
    scale = Scale(name_tracks(timeline), ends_ns / _PLOT)
    bars = merged(timeline.bars, scale.pixel_ns)
    if len(scale.tracks) > _MOST_LANES or len(bars) > _MOST_DRAWN:
        what = f"{len(scale.tracks)} lanes with {len(bars)} bars"
        raise ResultError(f"{timeline.row}: {what} are too many to draw: choose --step or --window")
    # The same width in all panels, so that their time axes align.
    labels = dict.fromkeys(("labelLimit", "minExtent", "maxExtent"), _LABELS)
    axis = {"domain": False, "ticks": False, **labels}
    tracks = {"domain": list(scale.tracks.values())}
    at = {"x": x, "y": vega.field("track:N", title=None, scale=tracks, axis=axis)}
    path = [link for link in timeline.links if link.on_path]
    layers = [
        *_bars(bars, scale, at, colour, view),
        *_links(path, scale, at, style="outline"),
        *_links(_shown(_arrows(timeline)), scale, at, style="arrow"),
    ]
    height = _LANE * len(scale.tracks)
    return vega.panel(layers, [*map(scale.record, bars)], width=_PLOT, height=height)


def _bars(bars: Sequence[Bar], scale: Scale, at: Spec, colour: Spec, view: str) -> list[Spec]:
    """Draw bars, strokes for bars that are too short, names where they fit, and the path."""
    low, high = ({"band": share} for share in (_HELD, _BAR))
    told = {"color": colour, "tooltip": vega.tooltip(*(f"{one}:N" for one in _TOLD))}
    outlined, stroked = at | {"x2": {"field": "to"}}, at | told
    filled = outlined | told
    pale = {"opacity": vega.field("share:Q", scale=None, legend=None)}
    ink = {"text": vega.field("label:N"), "color": vega.field("ink:N", scale=None)}
    name = at | {"x": at["x"] | {"field": "middle"}} | ink
    path = f"datum['longest path'] && {_LOOK} !== 'held'"
    short = [bar for bar in bars if bar.kind in WORK and is_short(bar, scale.pixel_ns)]
    strokes = map(scale.record, with_strokes(short, scale.pixel_ns))
    return [
        vega.mark("bar", filled, f"{_LOOK} === 'held'", clip=True, height=low) | {"name": view},
        vega.mark("bar", filled | pale, f"{_LOOK} === 'short'", clip=True, height=high),
        vega.mark("bar", filled, f"{_LOOK} === 'wide'", clip=True, height=high, style="edge"),
        vega.mark("tick", stroked, "", strokes, clip=True, thickness=1, size=_LANE * _BAR),
        vega.mark("text", name, "datum.label", clip=True, fontSize=11),
        vega.mark("bar", outlined, path, clip=True, fill=None, style="outline", height=high),
    ]


def _links(links: Sequence[Link], scale: Scale, at: Spec, style: str) -> list[Spec]:
    records = [scale.link(link) for link in links]
    head = {"style": "arrowhead", "filled": True, "opacity": 1, "shape": "triangle-right"}
    reaches = {"x": vega.field("reach:Q"), "y": vega.field("into:N")}
    rule = at | {"x2": {"field": "reach"}, "y2": {"field": "into"}}
    return [
        vega.mark("rule", rule, "", records, clip=True, style=style),
        vega.mark("point", reaches, "", records, clip=True, **head, size=70, xOffset=-4),
    ]


def _arrows(timeline: Timeline) -> list[Link]:
    return [link for link in timeline.links if not link.on_path]


def _shown(links: Sequence[Link]) -> Sequence[Link]:
    return links if len(links) <= _MOST_LINKS else ()
