"""Bars whose parts add up, one per row, with a tick and a text at their ends.

A part may be negative due to noise: it is then left of zero, and the others reach beyond the sum.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.naming import Name
from overlapbench.view.charts.panels import Record, record_of, split
from overlapbench.view.charts.plot import parted, plot, told, tooltip
from overlapbench.view.theme import Drawing

_STEP = 22  # of a bar
_LETTER_WIDTH = 6.2
_MARGINS = 30
_TEXT_ROOM = 1.3  # of the longest bar, for the text beside it
_LEAST = 0.1  # minimum of the axis


@dataclass(frozen=True)
class Bar:
    """One row's bar."""

    tick: float  # the place of the tick; an untrusted bar ends there, hollow
    reach: float  # the place of the text
    text: str
    # Each with its name, `part`, and its length, `adds`. A bar without parts has no tick.
    parts: Sequence[Record] = ()


def draw_stacks(
    rows: Sequence[Row],
    name: Name,
    bar_of: Callable[[Row], Bar],
    colours: Mapping[str, str],
    title: str,
    shares: Sequence[str] = (),
) -> Drawing:
    """Draw the bars from top to bottom.

    `colours` are the colours of parts by name, in the legend's order; `title` is the x axis's;
    `shares` are further fields of parts for tooltips.
    """
    bars, parts = [], []
    for row in rows:
        bar = bar_of(row)
        record = record_of(row, bar=name(row), parted=bool(bar.parts))
        record |= {"tick": bar.tick, "reach": bar.reach, "text": bar.text}
        bars.append(record)
        parts += [record | part for part in _stacked(bar.parts)]
    low = 1.1 * min([0.0, *(part["from"] for part in parts), *(part["to"] for part in parts)])
    high = max([_LEAST, *(bar["reach"] for bar in bars)])
    x = alt.X("from:Q", title=title, scale=alt.Scale(domain=[low, _TEXT_ROOM * high], nice=False))
    names = list(split(bars, "bar"))
    y = alt.Y("bar:N", title=None, scale=alt.Scale(domain=names), axis=alt.Axis(**theme.CELL_AXIS))
    letters = max(map(len, names))
    return alt.layer(
        *_stacks(parts, x, y, colours, shares),
        *_ends(bars, x, y),
        width=theme.WIDTH - _MARGINS - _LETTER_WIDTH * letters,
        height=_STEP * len(names),
    )


def _stacked(parts: Sequence[Record]) -> Iterator[Record]:
    """Place parts one after the other; negative ones extend left from zero."""
    ends = {True: 0.0, False: 0.0}  # by whether a part is positive
    for part in parts:
        start = ends[part["adds"] >= 0]
        ends[part["adds"] >= 0] = end = start + part["adds"]
        yield part | {"from": start, "to": end}


def _stacks(
    parts: Sequence[Record], x: alt.X, y: alt.Y, colours: Mapping[str, str], shares: Sequence[str]
) -> list[alt.Chart]:
    if not parts:
        return []
    legend = alt.Legend(orient="bottom", title=None, columns=len(colours))
    colour = theme.coloured("part", colours, legend)
    fields = tooltip(["name:N", "file:N", "part:N", "adds:Q", *(f"{field}:Q" for field in shares)])
    base = plot(parts).encode(x=x, x2="to", y=y, color=colour, tooltip=fields)
    return [base.mark_bar(height=_STEP * 0.6)]


def _ends(bars: Sequence[Record], x: alt.X, y: alt.Y) -> list[alt.Chart]:
    base = plot(bars).encode(y=y, tooltip=told("text:N"))
    good, bad = parted(base)
    at = {}
    for field in ("tick", "reach"):
        at[field] = x.copy()
        at[field].shorthand = f"{field}:Q"
    return [
        bad.mark_bar(height=_STEP * 0.6, **theme.UNTRUSTED_BAR).encode(x=at["tick"]),
        good.transform_filter("datum.parted")
        .mark_tick(thickness=3, opacity=1, height=_STEP * 0.8, color=theme.GREY)
        .encode(x=at["tick"]),
        base.mark_text(align="left", dx=6).encode(x=at["reach"], text="text:N"),
    ]
