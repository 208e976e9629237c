"""Kernels bound by memory: their share of a copy's bandwidth, against size or row length."""

from collections.abc import Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.curves import (
    Figures,
    draw_curves,
    elements_axis,
    is_measured,
    whole,
)
from overlapbench.charts.panels import Record, bounds, identity, panel_size, panel_title, split
from overlapbench.charts.plot import plot
from overlapbench.result import Row
from overlapbench.series import series_label, shared_axes
from overlapbench.theme import Drawing

# What stands on the x axis of each family: the axis of its names, and its title.
_X = {"Gelu": ("count", "elements"), "Softmax": ("columns", "elements of a row")}


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
    """Draw a line of panels a family, one an element type; each kernel and variant is a curve."""
    lines = [_family(part) for part in split(_records(rows), "family").values()]
    chart: alt.VConcatChart = alt.vconcat(*lines).resolve_scale(
        color="independent", shape="independent"
    )
    return chart


def _family(records: Sequence[Record]) -> Drawing:
    series = list(split(records, "series"))
    parts = split(records, "panel")
    x = elements_axis("x", {record["x"] for record in records}, _X[records[0]["family"]][1])
    figures = Figures(
        "pct_of_copy",
        "% of a copy",
        alt.Scale(domain=[0, max(105.0, *(record["pct_of_copy"] for record in records))]),
        tooltip=("fused_speedup", "predicted_speedup"),
    )
    panels = (
        alt.layer(_copy(), draw_curves(part, x, figures, series)).properties(
            title=panel_title(title, len(parts)), **panel_size(len(parts), 240)
        )
        for title, part in parts.items()
    )
    chart: alt.HConcatChart = alt.hconcat(*panels)
    return chart


def _copy() -> alt.Chart:
    rule: alt.Chart = (
        plot([{"copy": 100}]).mark_rule(color=theme.GREY, strokeDash=[4, 4]).encode(y="copy:Q")
    )
    return rule


def _records(rows: Sequence[Row]) -> list[Record]:
    several_files = len({row.file for row in rows}) > 1
    leave_out = {"count", "columns", "precision", *shared_axes(rows)}
    return [
        identity(row)
        | {
            "family": row.name.family,
            "panel": f"{row.name.family} {row.name.axis('precision') or ''}".strip(),
            "series": series_label(row, leave_out, several_files),
            "x": whole(row, _X[row.name.family][0]),
            "pct_of_copy": row.counters["pct_of_copy"],
            "fused_speedup": row.counters.get("fused_speedup"),
            "predicted_speedup": row.counters.get("predicted_speedup"),
        }
        | bounds(row, "pct_of_copy")
        for row in rows
    ]
