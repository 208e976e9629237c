"""Bars whose parts add up, one a row, with a tick and a text at their ends.

A part may be negative by noise: it then stands left of zero, and the others reach beyond the sum.
A chart tells of each row's bar, besides those fields that all records have:

  tick     where the tick stands; a bar that is not trusted ends there, hollow
  parted   whether it has parts and a tick
  reach    where the text begins
  text     what is written there
"""

from collections.abc import Callable, Mapping, Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.naming import Name
from overlapbench.charts.panels import Record, identity, parted, split
from overlapbench.charts.plot import plot, told, tooltip
from overlapbench.result import Row
from overlapbench.theme import Drawing

_STEP = 22  # of a bar
_LETTER_WIDTH = 6.2
_MARGINS = 30
_TEXT_ROOM = 1.3  # of the longest bar: what is written beside it must fit
_LEAST = 0.1  # that the axis holds


def stack(bar: Record, lengths: Mapping[str, float]) -> list[Record]:
    """Return the parts of a bar, each after the other: negative ones leftwards from zero."""
    ends = {True: 0.0, False: 0.0}  # by whether a part is positive
    parts = []
    for part, length in lengths.items():
        start = ends[length >= 0]
        ends[length >= 0] = start + length
        parts.append(bar | {"part": part, "adds": length, "from": start, "to": start + length})
    return parts


def draw_stacks(
    rows: Sequence[Row],
    name: Name,
    bar: Callable[[Row], Record],
    parts_of: Callable[[Row, Record], list[Record]],
    colours: Mapping[str, str],
    title: str,
    shares: Sequence[str] = (),
) -> Drawing:
    """Draw the bars from top to bottom.

    `colours` are those of the parts by their names, in the legend's order; `title` is the x axis's;
    `shares` are further fields of parts that hovering tells.
    """
    bars = [identity(row) | {"bar": name(row)} | bar(row) for row in rows]
    whole = [pair for pair in zip(rows, bars, strict=True) if pair[1]["parted"]]
    parts = [part for pair in whole for part in parts_of(*pair)]
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
