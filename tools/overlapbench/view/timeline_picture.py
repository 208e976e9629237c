"""The picture of timelines: one panel each, stacked or in two columns, on one time scale.

A panel has a track for each lane of each rank. Work is a bar in the colour of its class; a thin
grey bar shows what holds a lane back. Arrows lead to work that waited for another lane, and the
longest path is outlined. Steps are named where there is room; tooltips show everything.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from overlapbench.output import ResultError, harmless
from overlapbench.traces.model import WORK, Class
from overlapbench.view import theme
from overlapbench.view.bars import LOOKS, TOLD, Scale, is_short, merged, name_tracks, with_strokes
from overlapbench.view.console import Wrapper
from overlapbench.view.series import SEPARATOR
from overlapbench.view.timeline import Bar, Link, Timeline, path_parts
from overlapbench.view.vega import Spec, field, mark, panel, tooltip, whole

TITLE = "Timeline"
HINT = "Drag to pan, Ctrl + wheel to zoom, double-click to reset."
_WAITS = "Arrows lead to what waited for another lane."
_PATH = "Outlined is the longest path: the chain of work that decides when the last one ends."
READING = (_WAITS, _PATH, HINT)
_MOST_LANES, _MOST_DRAWN = 128, 30_000  # of a panel
_MOST_LINKS = 400  # if there are more, only those of the longest path
_LOOK = "datum.look"
_LANE = 24  # pixels
_BAR, _HELD = 0.85, 0.3  # of a lane's height
_LETTERS = 118  # per line of text as wide as the picture
_ZOOM = "wheel![event.ctrlKey]"  # otherwise a page with pictures could not be scrolled


@dataclass(frozen=True)
class Layout:
    """The arrangement of panels, and the space of each."""

    columns: int
    labels: int  # pixels beside a panel, for the names of its lanes
    lane_letters: int  # of such a name
    row_letters: int  # of a line of the row's name, which is bold
    line_letters: int  # of other lines above a panel
    ticks: int

    @property
    def plot(self) -> int:
        return theme.WIDTH // self.columns - self.labels - 50


BELOW = Layout(1, labels=180, lane_letters=26, row_letters=108, line_letters=_LETTERS, ticks=12)
# Neighbours do not touch even in DejaVu Sans, the fallback of browsers without narrower fonts.
BESIDE = Layout(2, labels=120, lane_letters=18, row_letters=50, line_letters=66, ticks=6)


@dataclass(frozen=True)
class Picture:
    """Timelines as a chart of a page, which figures.html places."""

    name: str
    title: str
    rows: Sequence[Timeline]
    notes: Sequence[str]
    spec: dict[str, Any]
    wide: bool = True


def draw_timelines(timelines: Sequence[Timeline], title: str, layout: Layout = BELOW) -> Picture:
    """Draw timelines in one picture; ResultError if one has too much to be legible."""
    title, notes = harmless(title) or TITLE, _reading(timelines)
    headings = [_heading(timeline, layout) for timeline in timelines]
    made = _draw(timelines, headings, layout)
    made["title"] = {"text": title}
    if notes:
        made["title"]["subtitle"] = textwrap.wrap(" ".join(notes), _LETTERS)
    return Picture("timelines", title, timelines, notes, made)


def draw_for_page(timeline: Timeline, name: str) -> Picture:
    """Draw a timeline without its text, which the page writes itself."""
    made = _draw([timeline], [None], BELOW)
    return Picture(name, harmless(timeline.row), [timeline], describe(timeline), made)


def describe(timeline: Timeline) -> list[str]:
    """Say what a timeline shows, T, the parts of the longest path, and remarks."""
    about = [f"T {timeline.total_ns / 1e6:.4g} ms", harmless(timeline.window)]
    about.append(f"{timeline.ranks} {'rank' if timeline.ranks == 1 else 'ranks'}")
    if timeline.backend:
        about.append(f"backend: {timeline.backend}")
    lines = [SEPARATOR.join(about)]
    if timeline.path:
        shares = [
            f"{LOOKS[kind][0] if kind else 'gaps'} {ns / 1e6:.4g} ms"
            for kind, ns in path_parts(timeline).items()
            if ns
        ]
        lines.append(f"Longest path: {', '.join(shares)}")
    if hidden := len(_arrows(timeline)) - len(_shown(_arrows(timeline))):
        lines.append(f"{hidden} more arrows are not drawn.")
    return [*lines, *(harmless(f"{note[0].upper()}{note[1:]}") for note in timeline.notes)]


def _reading(timelines: Sequence[Timeline]) -> list[str]:
    waits = [_WAITS] if any(timeline.links for timeline in timelines) else []
    return [*waits, _PATH] if any(timeline.path for timeline in timelines) else waits


def _heading(timeline: Timeline, layout: Layout) -> Spec:
    texts = [textwrap.wrap(text, layout.line_letters) for text in describe(timeline)]
    lines = [line for text in texts for line in text]
    title = Wrapper(layout.row_letters).wrap(harmless(timeline.row))
    return {"text": title, "subtitle": lines, "fontSize": 13, "subtitlePadding": 3, "offset": 8}


def _draw(
    timelines: Sequence[Timeline], headings: Sequence[Spec | None], layout: Layout
) -> dict[str, Any]:
    longest_ns = max(timeline.length_ns for timeline in timelines)
    kinds = {bar.span.kind for timeline in timelines for bar in timeline.bars}
    colour = _legend([kind for kind in LOOKS if kind in kinds])
    first_lowest = len(timelines) - layout.columns  # from here on, a panel is its column's lowest
    panels = []
    for place, (timeline, heading) in enumerate(zip(timelines, headings, strict=True)):
        time = _time(longest_ns / 1e6, place >= first_lowest, layout.ticks)
        drawn = _panel(timeline, f"row{place}", time, colour, longest_ns, layout)
        panels.append(drawn | ({"title": heading} if heading else {}))
    pan = {"type": "interval", "encodings": ["x"], "zoom": _ZOOM}
    views = [f"row{place}" for place in range(len(panels))]
    return whole(
        {"concat": panels, "columns": layout.columns, "spacing": 26}
        | {"resolve": {"scale": {"x": "shared"}}}
        | {"params": [{"name": "time", "bind": "scales", "select": pan, "views": views}]}
    )


def _time(longest_ms: float, is_lowest: bool, ticks: int) -> Spec:
    scale = {"domain": [0, longest_ms], "nice": False}
    title = "time (ms)" if is_lowest else None
    return field("from:Q", title=title, scale=scale, axis={"tickCount": ticks})


def _legend(kinds: Sequence[Class]) -> Spec:
    legend = {"orient": "top", "title": None, "symbolType": "square"}
    return theme.styled(dict(LOOKS[kind][:2] for kind in kinds), legend, "kind")


def _panel(
    timeline: Timeline, view: str, x: Spec, colour: Spec, longest_ns: int, layout: Layout
) -> Spec:
    scale = Scale(name_tracks(timeline, layout.lane_letters), longest_ns / layout.plot)
    bars = merged(timeline.bars, scale.pixel_ns)
    if len(scale.tracks) > _MOST_LANES or len(bars) > _MOST_DRAWN:
        what = f"{len(scale.tracks)} lanes with {len(bars)} bars"
        raise ResultError(f"{timeline.row}: {what} are too many to draw: choose --step or --window")
    at = {"x": x, "y": _lanes(scale, layout.labels)}
    path = [link for link in timeline.links if link.on_path]
    layers = [
        *_bars(bars, scale, at, colour, view),
        *_links(path, scale, at, style="outline"),
        *_links(_shown(_arrows(timeline)), scale, at, style="arrow"),
    ]
    height = _LANE * len(scale.tracks)
    return panel(layers, [*map(scale.record, bars)], width=layout.plot, height=height)


def _lanes(scale: Scale, labels: int) -> Spec:
    # The same width in all panels, so that their time axes align.
    extent: dict[str, Any] = dict.fromkeys(("labelLimit", "minExtent", "maxExtent"), labels)
    axis = {"domain": False, "ticks": False, **extent}
    tracks = {"domain": list(scale.tracks.values())}
    return field("track:N", title=None, scale=tracks, axis=axis)


def _bars(bars: Sequence[Bar], scale: Scale, at: Spec, colour: Spec, view: str) -> list[Spec]:
    """Draw bars, strokes for bars that are too short, names where they fit, and the path."""
    low, high = ({"band": share} for share in (_HELD, _BAR))
    told = {"color": colour, "tooltip": tooltip(*(f"{one}:N" for one in TOLD))}
    outlined, stroked = at | {"x2": {"field": "to"}}, at | told
    filled = outlined | told
    pale = {"opacity": field("share:Q", scale=None, legend=None)}
    ink = {"text": field("label:N"), "color": field("ink:N", scale=None)}
    name = at | {"x": at["x"] | {"field": "middle"}} | ink
    path = f"datum['longest path'] && {_LOOK} !== 'held'"
    short = [bar for bar in bars if bar.span.kind in WORK and is_short(bar, scale.pixel_ns)]
    strokes = map(scale.record, with_strokes(short, scale.pixel_ns))
    return [
        mark("bar", filled, f"{_LOOK} === 'held'", clip=True, height=low) | {"name": view},
        mark("bar", filled | pale, f"{_LOOK} === 'short'", clip=True, height=high),
        mark("bar", filled, f"{_LOOK} === 'wide'", clip=True, height=high, style="edge"),
        mark("tick", stroked, "", strokes, clip=True, thickness=1, size=_LANE * _BAR),
        mark("text", name, "datum.label", clip=True, fontSize=11),
        mark("bar", outlined, path, clip=True, fill=None, style="outline", height=high),
    ]


def _links(links: Sequence[Link], scale: Scale, at: Spec, style: str) -> list[Spec]:
    records = [scale.link(link) for link in links]
    head = {"style": "arrowhead", "filled": True, "opacity": 1, "shape": "triangle-right"}
    reaches = {"x": field("reach:Q"), "y": field("into:N")}
    rule = at | {"x2": {"field": "reach"}, "y2": {"field": "into"}}
    return [
        mark("rule", rule, "", records, clip=True, style=style),
        mark("point", reaches, "", records, clip=True, **head, size=70, xOffset=-4),
    ]


def _arrows(timeline: Timeline) -> list[Link]:
    return [link for link in timeline.links if not link.on_path]


def _shown(links: Sequence[Link]) -> Sequence[Link]:
    return links if len(links) <= _MOST_LINKS else ()
