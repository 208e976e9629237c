"""Batches a second against workers, beside what the parts alone predict; and idling."""

from collections.abc import Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.curves import Figures, draw_curves, is_measured, whole
from overlapbench.charts.panels import Record, bounds, identity, split
from overlapbench.result import Row
from overlapbench.series import axes_label, shared_axes
from overlapbench.theme import Drawing


def select_supplies(rows: Sequence[Row]) -> list[Row]:
    """Return the Supply/Batches rows that have workers, both rates and the idle share."""
    return [
        row
        for row in rows
        if is_measured(row, "Supply/Batches", "batches_per_s", "predicted_batches_per_s")
        and whole(row, "workers") is not None
        and "device_idle_share" in row.counters
    ]


def draw_supplies(rows: Sequence[Row]) -> Drawing:
    """Draw the rate above the idle share, one curve a way of supplying."""
    records = _records(rows)
    series = list(split(records, "series"))
    workers = sorted({record["workers"] for record in records})
    x = alt.X("workers:Q", title="workers", axis=alt.Axis(values=workers, format="d"))
    rates = Figures(
        "batches_per_s",
        "batches per second",
        alt.Scale(zero=True),
        "predicted_batches_per_s",
        ("prediction_error_pct",),
    )
    idling = Figures("device_idle_share", "device idle (share of the time)", _shares(records))
    chart: alt.VConcatChart = alt.vconcat(
        draw_curves(records, x, rates, series).properties(width=theme.WIDTH - 90, height=280),
        draw_curves(records, x, idling, series).properties(width=theme.WIDTH - 90, height=150),
    )
    return chart


def _shares(records: Sequence[Record]) -> alt.Scale:
    """Hold all shares from 0 to 1, and below 0 what noise put there."""
    lowest = min(record["device_idle_share"] for record in records)
    return alt.Scale(domain=[min(0.0, lowest), 1.0], nice=False)


def _records(rows: Sequence[Row]) -> list[Record]:
    leave_out = {"workers", *shared_axes(rows)}
    several_files = len({row.file for row in rows}) > 1
    figures = ("batches_per_s", "predicted_batches_per_s", "device_idle_share")
    return [
        identity(row)
        | {
            "series": axes_label(row, leave_out, several_files),
            "workers": whole(row, "workers"),
            "prediction_error_pct": row.counters.get("prediction_error_pct"),
        }
        | {key: row.counters[key] for key in figures}
        | bounds(row, "batches_per_s")
        | bounds(row, "device_idle_share")
        for row in rows
    ]
