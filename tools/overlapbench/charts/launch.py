"""What launching costs: of kernels that do nothing, and of work cut into ever shorter kernels."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from overlapbench import theme
from overlapbench.charts.curves import (
    Figures,
    count_axis,
    draw_curves,
    is_measured,
    log_scale,
    whole,
)
from overlapbench.charts.panels import Record, bounds, identity, panel_size, panel_title, split
from overlapbench.charts.plot import plot
from overlapbench.result import Row
from overlapbench.series import SEPARATOR, axes_label, describe, series_label, shared_axes
from overlapbench.theme import Drawing

# The panels of an empty kernel: their title, the workloads they show, and each one's counter.
_EMPTY = {
    "cost to the host of an empty kernel": {
        "EmptyKernel": "host_us_per_launch",
        "RoundTrip": "round_trip_us",
    },
    "cost to the device of an empty kernel": {"EmptyKernel": "device_us_per_launch"},
}
_PIECES = ("pieces_slowdown", "kernel_us", "dominated_below_us")
_RULE_LABEL_STEP = 16  # in pixels, so that the labels of close rules do not meet


def select_launches(rows: Sequence[Row]) -> list[Row]:
    """Return the Launch rows that have the figures of a panel."""
    return [row for row in rows if _is_piece(row) or any(_cost(row, title) for title in _EMPTY)]


def draw_launches(rows: Sequence[Row]) -> Drawing:
    """Draw the cost of an empty kernel to host and device, above what pieces cost."""
    several_files = len({row.file for row in rows}) > 1
    costs = _cost_records(rows, several_files)
    cut = [row for row in rows if _is_piece(row)]
    pieces = _piece_records(cut, several_files)
    series = list(split([*costs, *pieces], "series"))
    drawings = [_draw_costs(costs, series)] if costs else []
    drawings += [_draw_pieces(pieces, series, _pieces_title(cut, rows))] if pieces else []
    chart: alt.VConcatChart = alt.vconcat(*drawings)
    return chart


def _is_piece(row: Row) -> bool:
    return is_measured(row, "Launch/Pieces", *_PIECES)


def _cost(row: Row, title: str) -> float:
    """Return a row's figure in a panel of an empty kernel, or 0 where it has none there."""
    workload = row.name.workloads[0]
    counter = _EMPTY[title].get(workload, "")
    known = is_measured(row, f"Launch/{workload}", counter) and _launches(row)
    return row.counters[counter] if known else 0.0


def _launches(row: Row) -> int | None:
    """Return the launches; a round trip is of one."""
    return 1 if row.name.workloads == ("RoundTrip",) else whole(row, "launches")


def _cost_records(rows: Sequence[Row], several_files: bool) -> list[Record]:
    shown = [row for row in rows if any(_cost(row, title) for title in _EMPTY)]
    kernels = [row for row in shown if row.name.workloads == ("EmptyKernel",)]
    shown.sort(key=lambda row: row not in kernels)  # in the legend a round trip comes last
    leave_out = {"launches", *(shared_axes(kernels) if kernels else ())} - {"call"}

    def series(row: Row) -> str:
        name = axes_label if row in kernels else series_label
        return name(row, leave_out, several_files)

    return [
        identity(row)
        | {
            "series": series(row),
            "panel": title,
            "launches": _launches(row),
            "us_per_launch": _cost(row, title),
        }
        | bounds(row, _EMPTY[title].get(row.name.workloads[0], ""), "us_per_launch")
        for row in shown
        for title in _EMPTY
        if _cost(row, title)
    ]


def _draw_costs(records: Sequence[Record], series: Sequence[str]) -> Drawing:
    scale = log_scale([record["us_per_launch"] for record in records])
    figures = Figures("us_per_launch", "µs per launch", scale)
    x = count_axis("launches", [record["launches"] for record in records], "launches")
    parts = split(records, "panel")
    columns = len(parts)
    panels = (
        draw_curves(part, x, figures, series).properties(
            title=panel_title(title, columns), **panel_size(columns, 240)
        )
        for title, part in parts.items()
    )
    chart: alt.HConcatChart = alt.hconcat(*panels)
    return chart


def _piece_records(rows: Sequence[Row], several_files: bool) -> list[Record]:
    leave_out = {"launches", *(shared_axes(rows) if rows else ())} - {"call"}
    return [
        identity(row)
        | {"series": axes_label(row, leave_out, several_files), "launches": whole(row, "launches")}
        | {key: row.counters[key] for key in _PIECES}
        | bounds(row, "pieces_slowdown")
        for row in rows
    ]


def _pieces_title(pieces: Sequence[Row], rows: Sequence[Row]) -> str:
    """Say what all pieces have in common, unless the chart says it of all rows."""
    everywhere = shared_axes(rows)
    common = [
        describe(axis, value)
        for axis, value in shared_axes(pieces).items()
        if axis not in {*everywhere, "call"}
    ]
    return SEPARATOR.join(["one kernel's work cut into pieces", *common])


def _draw_pieces(records: Sequence[Record], series: Sequence[str], title: str) -> Drawing:
    x = alt.X(
        "kernel_us:Q",
        title="length of one kernel (µs)",
        scale=log_scale(
            [record[key] for record in records for key in ("kernel_us", "dominated_below_us")]
        ),
        axis=alt.Axis(format="~g", tickCount=6),
    )
    figures = Figures(
        "pieces_slowdown",
        "time / time in one kernel",
        log_scale([1.0, *(record["pieces_slowdown"] for record in records)]),
        tooltip=("kernel_us", "launches", "dominated_below_us"),
    )
    return alt.layer(
        _domination(records, x, series), draw_curves(records, x, figures, series)
    ).properties(
        title=panel_title(title, 1),
        width=theme.WIDTH - 90,
        height=260,
    )


def _domination(records: Sequence[Record], x: alt.X, series: Sequence[str]) -> Drawing:
    """Draw below which length launches dominate, as the shortest trusted kernels found it."""
    good = [record for record in records if not record["problem"]]
    rules = []
    for step, curve in enumerate(split(good, "series").values()):
        shortest = min(curve, key=lambda record: float(record["kernel_us"]))
        length_us = shortest["dominated_below_us"]
        rules.append(
            {
                "series": shortest["series"],
                "kernel_us": length_us,  # where the rule stands
                "label": f"launches dominate below {length_us:.2g} µs",
                "label_y": 10 + _RULE_LABEL_STEP * step,
            }
        )
    colour, _ = theme.curve_style(series)
    base = plot(rules).encode(x=x, color=colour)
    label = base.encode(y=alt.Y("label_y:Q", scale=None, axis=None), text="label:N")
    beside: dict[str, Any] = {"align": "left", "dx": 5}
    return alt.layer(
        base.mark_rule(), label.mark_text(style="halo", **beside), label.mark_text(**beside)
    )
