"""Heat maps: parts that their cells, axes and texts share.

A cell's colour shows a loss; white means none. A cell with untrusted figures is grey.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.panels import Record
from overlapbench.view.charts.plot import parted

_LETTER_WIDTH = 6.2  # of an axis label, on average, in pixels
_FULL_COLOUR = (1.5, 3.0)  # the colour is full at the highest loss, within these limits
_UNKNOWN = "?"


def select_pairs(rows: Sequence[Row], family: str, counter: str) -> list[Row]:
    """Return a family's rows with a counter, and its failed rows; none if all failed."""
    members = [row for row in rows if row.name.family == family]
    found = [row for row in members if not row.counters or row.counters.get(counter, 0.0) > 0]
    return found if any(row.counters for row in found) else []


def two_digits(row: Row, counter: str) -> str:
    """Write a ratio for a cell."""
    return f"{row.counters[counter]:.2f}" if counter in row.counters else _UNKNOWN


def label_width(labels: Sequence[str]) -> float:
    """Return the width of the longest label of an axis."""
    return _LETTER_WIDTH * max(map(len, labels))


def filled(base: alt.Chart, fill: alt.Color) -> list[alt.Chart]:
    """Fill the cells."""
    good, bad = parted(base)
    return [good.mark_rect().encode(color=fill), bad.mark_rect(**theme.UNTRUSTED_CELL)]


def written(base: alt.Chart, field: str = "text", small: bool = True, **looks: Any) -> alt.Chart:
    """Write a field into the cells."""
    font = theme.CELL_DETAIL if small else {}
    text: alt.Chart = base.mark_text(color=theme.ON_CELL, **font, **looks)
    return text.encode(text=f"{field}:N")


def across(field: str, values: Sequence[str], title: str | None, angle: int, **scale: Any) -> alt.X:
    """Place cells side by side, and their labels above them."""
    axis = alt.Axis(orient="top", labelAngle=angle, **theme.CELL_AXIS)
    bands = alt.Scale(domain=list(values), **scale)
    return alt.X(f"{field}:N", title=title, scale=bands, axis=axis)


def down(
    field: str, values: Sequence[str], title: str | None, *, labelled: bool = True, **scale: Any
) -> alt.Y:
    """Stack cells."""
    axis = alt.Axis(labels=labelled, **theme.CELL_AXIS)
    bands = alt.Scale(domain=list(values), **scale)
    return alt.Y(f"{field}:N", title=title, scale=bands, axis=axis)


def highest_loss(records: Sequence[Record], field: str) -> float:
    """Return the loss at which the colour is full."""
    least, most = _FULL_COLOUR
    losses = (record[field] or 0.0 for record in records if record["trusted"])
    return min(most, max([least, *losses]))


def colour(field: str, title: str, domain: Sequence[float], **scale: Any) -> alt.Color:
    """Colour a loss: white at 1, orange above it, and blue below it if the domain reaches there."""
    colours = [theme.SKY, "#FFFFFF", theme.VERMILION][-len(domain) :]
    return alt.Color(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(domain=list(domain), range=colours, interpolate="lab", **scale),
        legend=alt.Legend(orient="bottom", direction="horizontal", gradientLength=260),
    )
