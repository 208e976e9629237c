"""A plot: what layers and panels are made of, quick to join; and the Vega-Lite of a whole drawing.

Altair copies a chart whole with every layer, panel or title around it, and what is in it with it:
for the 48 plots of one picture 2,400 times, which took most of the time of drawing. Nothing changes
what a plot holds, so copies of a plot share it.

Altair also checks each part of a drawing against the schema of Vega-Lite, and the whole again. That
takes three quarters of the time of drawing. Tests make that check, so that users need not.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import altair as alt
from altair.utils.schemapi import debug_mode

from overlapbench import theme
from overlapbench.charts.panels import Record
from overlapbench.theme import Drawing

_RING, _RING_STEP = 15, 6  # across, in pixels: of a ring, and of one round another


class Plot(alt.Chart):
    """One kind of mark, as Altair's Chart; of the given records, or of those of a chart around."""

    def __deepcopy__(self, memo: object) -> Self:
        """Altair's hook for whoever knows better how to be copied."""
        return self.copy(deep=False)


def plot(records: Sequence[Record]) -> Plot:
    """Return a plot of the records, without a mark yet."""
    return Plot(alt.InlineData(values=list(records)))


def tooltip(fields: Iterable[str]) -> list[alt.Tooltip]:
    """Return what is told of a mark; Altair would take a hundred times as long to make the same."""
    return [alt.Tooltip(field) for field in fields]


def told(*fields: str) -> list[alt.Tooltip]:
    """Return what is told of a row's mark: which row it is, the fields, and what is wrong."""
    return tooltip(["name:N", "file:N", *fields, "problem:N"])


def parted(base: alt.Chart) -> tuple[alt.Chart, alt.Chart]:
    """Return the chart of the records that can be trusted, and that of the others."""
    good: alt.Chart = base.transform_filter("datum.trusted")
    bad: alt.Chart = base.transform_filter("!datum.trusted")
    return good, bad


def interval_bars(
    base: alt.Chart, records: Sequence[Record], y: alt.Y, colour: alt.Color
) -> list[alt.Chart]:
    """Draw a bar for each interval of what stands on the y axis, if there are any."""
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
    """Write labels that can be read over any line."""
    return [label.mark_text(style="halo", **looks), label.mark_text(**looks)]


def rings(base: alt.Chart) -> alt.Chart:
    """Ring each record; its field `ring` is of ring_area."""
    size = alt.Size("ring:Q", scale=None, legend=None)
    ring: alt.Chart = base.mark_point(strokeWidth=2, opacity=1).encode(size=size)
    return ring


def ring_area(inside: int) -> int:
    """Return the area of a ring round so many others."""
    return (_RING + _RING_STEP * inside) ** 2


def specification(draw: Callable[[], Drawing]) -> dict[str, Any]:
    """Return the Vega-Lite of what is drawn, unchecked."""
    with debug_mode(False):
        made: dict[str, Any] = draw().to_dict(validate=False)
    return made
