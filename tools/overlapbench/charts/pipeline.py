"""Speedup of a pipeline against its streams, beside the bound that its stages set."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from overlapbench.charts.curves import (
    Figures,
    count_axis,
    draw_curves,
    is_measured,
    whole,
)
from overlapbench.charts.panels import (
    Record,
    bounds,
    identity,
    panel_size,
    panel_title,
    parted,
    split,
)
from overlapbench.charts.plot import plot
from overlapbench.result import Row
from overlapbench.series import axes_label, shared_axes
from overlapbench.theme import Drawing

_MOST_COLUMNS = 3
_BELOW: dict[str, Any] = {"dy": 13, "fontSize": 11}  # a point


def select_pipelines(rows: Sequence[Row]) -> list[Row]:
    """Return the Copy/Pipelined rows that have streams, a speedup and a bound."""
    needed = ("speedup", "sequential_ms", "bound_ms", "pct_of_bound")
    return [
        row
        for row in rows
        if is_measured(row, "Copy/Pipelined", *needed) and whole(row, "pipeline_streams")
    ]


def draw_pipelines(rows: Sequence[Row]) -> Drawing:
    """Draw speedup against streams, one panel a configuration, one curve a file."""
    records = _records(rows)
    files = list(split(records, "series"))
    parts = split(records, "panel")
    columns = min(_MOST_COLUMNS, len(parts))
    x = count_axis("streams", [record["streams"] for record in records], "streams")
    scale = alt.Scale(domain=_range(records), nice=False, zero=False)
    panels = (
        _panel(part, x, scale, files).properties(
            title=panel_title(title, columns), **panel_size(columns, 240)
        )
        for title, part in parts.items()
    )
    chart: alt.ConcatChart = alt.concat(*panels, columns=columns)
    return chart


def _records(rows: Sequence[Row]) -> list[Record]:
    leave_out = {"pipeline_streams", *shared_axes(rows)}
    return [
        identity(row)
        | {
            "series": row.file,
            "panel": axes_label(row, leave_out, several_files=False),
            "streams": whole(row, "pipeline_streams"),
            "speedup": row.counters["speedup"],
            "bound_speedup": row.counters["sequential_ms"] / row.counters["bound_ms"],
            "pct_of_bound": row.counters["pct_of_bound"],
            "share": f"{row.counters['pct_of_bound']:.0f} %",
        }
        | bounds(row, "speedup")
        for row in rows
    ]


def _range(records: Sequence[Record]) -> list[float]:
    """Hold the rule at 1, all figures, and a label above the highest."""
    figures = [record[key] for record in records for key in ("speedup", "bound_speedup")]
    low, high = min(1.0, *figures), max(1.0, *figures)
    margin = max(high - low, 0.1)
    return [low - 0.15 * margin, high + 0.08 * margin]


def _as_sequential(scale: alt.Scale) -> alt.Chart:
    base = plot([{"level": 1.0}])
    rule: alt.Chart = base.mark_rule().encode(y=alt.Y("level:Q", scale=scale))
    return rule


def _panel(records: Sequence[Record], x: alt.X, scale: alt.Scale, files: Sequence[str]) -> Drawing:
    title = "speedup over sequential"
    figures = Figures("speedup", title, scale, "bound_speedup", tooltip=("pct_of_bound",))
    layers: list[Drawing | alt.Chart] = [
        _as_sequential(scale),
        draw_curves(records, x, figures, files),
    ]
    if len(files) == 1:  # of several files the labels would lie on each other
        good, _ = parted(plot(records))
        label = good.encode(x=x, y=alt.Y("speedup:Q", title=title, scale=scale), text="share:N")
        layers += [label.mark_text(style="halo", **_BELOW), label.mark_text(**_BELOW)]
    return alt.layer(*layers)
