"""Bus bandwidth against size: what each communication reaches alone."""

from collections.abc import Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.curves import size_axis
from overlapbench.charts.lab import transport_names
from overlapbench.charts.panels import (
    Record,
    bounds,
    identity,
    interval_bars,
    panel_size,
    panel_title,
    parted,
    split,
)
from overlapbench.charts.plot import plot, tooltip
from overlapbench.result import Row
from overlapbench.series import SEPARATOR, label, series_label, shared_axes
from overlapbench.theme import Drawing


def select_bandwidths(rows: Sequence[Row]) -> list[Row]:
    """Return the Comm rows that have a size and a bus bandwidth."""
    return [
        row
        for row in rows
        if row.name.family == "Comm" and row.name.axis("bytes") and "busbw_GBps" in row.counters
    ]


def draw_bandwidth(rows: Sequence[Row]) -> Drawing:
    """Draw bus bandwidth against size; by several transports, in a panel a collective."""
    records = _records(rows)
    parts = split(records, "panel")
    columns = min(2, len(parts))
    x = size_axis("size_bytes", {record["size_bytes"] for record in records}, "size a rank")
    colour, dash = theme.series_style(list(split(records, "series")))
    if len(parts) == 1:
        return _panel(records, x, colour, dash).properties(width=theme.WIDTH - 90, height=340)
    chart: alt.ConcatChart = alt.concat(
        *(
            _panel(part, x, colour, dash).properties(
                title=panel_title(title, columns), **panel_size(columns, 220)
            )
            for title, part in parts.items()
        ),
        columns=columns,
    )
    return chart


def _panel(records: Sequence[Record], x: alt.X, colour: alt.Color, dash: alt.StrokeDash) -> Drawing:
    y = alt.Y("busbw_GBps:Q", title="bus bandwidth (GB/s)", scale=alt.Scale(zero=True))
    base = plot(records).encode(
        x=x, y=y, tooltip=tooltip(["name:N", "file:N", "busbw_GBps:Q", "problem:N"])
    )
    good, bad = parted(base)
    return alt.layer(
        *interval_bars(base, records, y, colour),
        good.mark_line(strokeWidth=2).encode(color=colour, strokeDash=dash),
        good.mark_point(filled=True, size=50, opacity=1).encode(color=colour),
        bad.mark_point(**theme.UNTRUSTED_POINT),
    )


def _records(rows: Sequence[Row]) -> list[Record]:
    """Make a record of each row; what panels tell is not in the names of curves."""
    shared = shared_axes(rows)
    leave_out = {"bytes", *shared}
    several_files = len({row.file for row in rows}) > 1
    parted_by_transport = len({row.name.axis("transport") for row in rows}) > 1
    transport = transport_names(rows)

    def series(row: Row) -> str:
        if not parted_by_transport:
            return series_label(row, leave_out, several_files)
        head = row.name.workloads[0]
        others = {axis: value for axis, value in row.name.axes if axis != "transport"}
        text = label(transport(row) or head, others, leave_out)
        return f"{text}{SEPARATOR}{row.file}" if several_files else text

    return [
        identity(row)
        | {
            "panel": "+".join(row.name.workloads) if parted_by_transport else "",
            "series": series(row),
            "size_bytes": int(row.name.axis("bytes") or 0),
            "busbw_GBps": row.counters["busbw_GBps"],
        }
        | bounds(row, "busbw_GBps")
        for row in rows
    ]
