"""Kernels bound by memory: their share of a copy's bandwidth, against size or row length."""

from collections.abc import Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.curves import (
    Figures,
    count_axis,
    draw_curves,
    identity,
    is_measured,
    whole,
)
from overlapbench.charts.panels import Record, panel_size, panel_title, split
from overlapbench.result import Row
from overlapbench.series import axes_label, shared_axes
from overlapbench.theme import Drawing

# What stands on the x axis of each family: the axis of its names, and its title.
_X = {"Gelu": ("count", "elements"), "Softmax": ("columns", "elements of a row")}
_COLUMNS = 2


def select_copy_shares(rows: Sequence[Row]) -> list[Row]:
    """Return the Gelu and Softmax rows that were held against a copy."""
    return [
        row
        for row in rows
        if row.name.family in _X
        and is_measured(row, f"{row.name.family}/{row.name.workloads[0]}", "pct_of_copy")
        and whole(row, _X[row.name.family][0]) is not None
    ]


def draw_copy_shares(rows: Sequence[Row]) -> Drawing:
    """Draw a panel a family and form of kernel, one curve a type."""
    records = _records(rows)
    series = list(split(records, "series"))
    panels = [_panel(part, series) for part in split(records, "panel").values()]
    chart: alt.ConcatChart = alt.concat(*panels, columns=_COLUMNS)
    return chart


def _panel(records: Sequence[Record], series: Sequence[str]) -> Drawing:
    family = records[0]["family"]
    x = count_axis("x", {record["x"] for record in records}, _X[family][1])
    figures = Figures(
        "pct_of_copy",
        "% of a copy",
        alt.Scale(domain=[0, max(105.0, *(record["pct_of_copy"] for record in records))]),
        tooltip=("fused_speedup", "predicted_speedup"),
    )
    line: alt.Chart = (
        alt.Chart(alt.InlineData(values=[{"copy": 100}]))
        .mark_rule(color=theme.GREY, strokeDash=[4, 4])
        .encode(y="copy:Q")
    )
    return alt.layer(line, draw_curves(records, x, figures, series)).properties(
        title=panel_title(records[0]["panel"], _COLUMNS), **panel_size(_COLUMNS, 240)
    )


def _records(rows: Sequence[Row]) -> list[Record]:
    several_files = len({row.file for row in rows}) > 1
    leave_out = {"count", "columns", *shared_axes(rows)}
    return [
        identity(row)
        | {
            "family": row.name.family,
            "panel": f"{row.name.family} {row.name.workloads[0]}",
            "series": axes_label(row, leave_out, several_files),
            "x": whole(row, _X[row.name.family][0]),
            "pct_of_copy": row.counters["pct_of_copy"],
            "fused_speedup": row.counters.get("fused_speedup"),
            "predicted_speedup": row.counters.get("predicted_speedup"),
        }
        for row in rows
    ]
