"""A plot: the unit of layers and panels, cheap to combine; and the Vega-Lite of a whole drawing.

Altair deep-copies a chart for every layer, panel or title around it: for the 48 plots of one
picture 2,400 times, which took most of the drawing time. Nothing changes the contents of a plot, so
its copies share them.

Altair also checks each part of a drawing against the schema of Vega-Lite, and the whole again. That
takes three quarters of the drawing time. Tests make that check, so that users need not.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import altair as alt
from altair.utils.schemapi import debug_mode

from overlapbench.view import theme
from overlapbench.view.charts.panels import Record
from overlapbench.view.theme import Drawing

_RING, _RING_STEP = 15, 6  # diameters in pixels: of a ring, and the step to one around it


class Plot(alt.Chart):
    """One kind of mark, as Altair's Chart; of the given records, or those of the outer chart."""

    def __deepcopy__(self, memo: object) -> Self:
        """Copy without the contents, which copies share."""
        return self.copy(deep=False)


def plot(records: Sequence[Record]) -> Plot:
    """Return a plot of the records, without a mark yet."""
    return Plot(alt.InlineData(values=list(records)))


def tooltip(fields: Iterable[str]) -> list[alt.Tooltip]:
    """Return the tooltip of a mark; Altair would take a hundred times as long to make it."""
    return [alt.Tooltip(field) for field in fields]


def told(*fields: str) -> list[alt.Tooltip]:
    """Return the tooltip of a row's mark: the row, the fields, and its problem."""
    return tooltip(["name:N", "file:N", *fields, "problem:N"])


def parted(base: alt.Chart) -> tuple[alt.Chart, alt.Chart]:
    """Return the chart of the trusted records, and that of the others."""
    good: alt.Chart = base.transform_filter("datum.trusted")
    bad: alt.Chart = base.transform_filter("!datum.trusted")
    return good, bad


def interval_bars(
    base: alt.Chart, records: Sequence[Record], y: alt.Y, colour: alt.Color
) -> list[alt.Chart]:
    """Draw a bar for each interval of the field on the y axis, if there are any."""
    field = y.shorthand.removesuffix(":Q")
    if not any(f"{field}_low" in record for record in records):
        return []
    lower = y.copy()
    lower.shorthand = f"{field}_low:Q"
    known = base.transform_filter(f"isValid(datum.{field}_low)").encode(y=lower, y2=f"{field}_high")
    good, bad = parted(known)
    return [
        good.mark_rule(**theme.INTERVAL).encode(color=colour),
        bad.mark_rule(**theme.INTERVAL, color=theme.GREY),
    ]


def haloed(label: alt.Chart, **looks: Any) -> list[alt.Chart]:
    """Write labels that are legible over any line."""
    return [label.mark_text(style="halo", **looks), label.mark_text(**looks)]


def rings(base: alt.Chart) -> alt.Chart:
    """Draw a ring around each record; its field `ring` comes from ring_area."""
    size = alt.Size("ring:Q", scale=None, legend=None)
    ring: alt.Chart = base.mark_point(strokeWidth=2, opacity=1).encode(size=size)
    return ring


def ring_area(inside: int) -> int:
    """Return the area of a ring around so many others."""
    return (_RING + _RING_STEP * inside) ** 2


def specification(draw: Callable[[], Drawing]) -> dict[str, Any]:
    """Return the Vega-Lite of a drawing, unchecked."""
    with debug_mode(False):
        made: dict[str, Any] = draw().to_dict(validate=False)
    return made
