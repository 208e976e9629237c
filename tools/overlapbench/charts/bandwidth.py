"""Bus bandwidth against size: what each communication reaches alone."""

from collections.abc import Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.curves import size_axis
from overlapbench.charts.panels import Record, bounds, identity, interval_bars, parted
from overlapbench.charts.plot import plot, tooltip
from overlapbench.result import Row
from overlapbench.series import series_label, shared_axes
from overlapbench.theme import Drawing


def select_bandwidths(rows: Sequence[Row]) -> list[Row]:
    """Return the Comm rows that have a size and a bus bandwidth."""
    return [
        row
        for row in rows
        if row.name.family == "Comm" and row.name.axis("bytes") and "busbw_GBps" in row.counters
    ]


def draw_bandwidth(rows: Sequence[Row]) -> Drawing:
    """Draw bus bandwidth against size, one curve a series."""
    records = _records(rows)
    colour, dash = theme.series_style(list(dict.fromkeys(record["series"] for record in records)))
    y = alt.Y("busbw_GBps:Q", title="bus bandwidth (GB/s)", scale=alt.Scale(zero=True))
    base = plot(records).encode(
        x=size_axis("size_bytes", {record["size_bytes"] for record in records}, "size a rank"),
        y=y,
        tooltip=tooltip(["name:N", "file:N", "busbw_GBps:Q", "problem:N"]),
    )
    good, bad = parted(base)
    return alt.layer(
        *interval_bars(base, records, y, colour),
        good.mark_line(strokeWidth=2).encode(color=colour, strokeDash=dash),
        good.mark_point(filled=True, size=50, opacity=1).encode(color=colour),
        bad.mark_point(**theme.UNTRUSTED_POINT),
    ).properties(width=theme.WIDTH - 90, height=340)


def _records(rows: Sequence[Row]) -> list[Record]:
    leave_out = {"bytes", *shared_axes(rows)}
    several = len({row.file for row in rows}) > 1
    return [
        identity(row)
        | {
            "series": series_label(row, leave_out, several),
            "size_bytes": int(row.name.axis("bytes") or 0),
            "busbw_GBps": row.counters["busbw_GBps"],
        }
        | bounds(row, "busbw_GBps")
        for row in rows
    ]
