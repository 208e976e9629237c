"""Time of transfers and computation on two streams against buffers, beside both in turn on one."""

from collections.abc import Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.curves import Figures, draw_curves, is_measured, whole
from overlapbench.charts.panels import Record, bounds, identity, split
from overlapbench.counters import TIME
from overlapbench.result import Row
from overlapbench.series import axes_label, shared_axes
from overlapbench.theme import Drawing

_DEFAULTS = {"tie": "events"}  # that a name does not write


def select_compute_transfers(rows: Sequence[Row]) -> list[Row]:
    """Return the Copy/ComputeTransfer rows that have buffers and both times."""
    return [
        row
        for row in rows
        if is_measured(row, "Copy/ComputeTransfer", "sequential_ms", "speedup")
        and whole(row, "buffers")
    ]


def draw_compute_transfers(rows: Sequence[Row]) -> Drawing:
    """Draw time against buffers, one curve a way of tying the two streams."""
    records = _records(rows)
    buffers = sorted({record["buffers"] for record in records})
    x = alt.X(
        "buffers:O", title="buffers", scale=alt.Scale(domain=buffers), axis=alt.Axis(labelAngle=0)
    )
    figures = Figures("time_ms", "time (ms)", alt.Scale(zero=True), "sequential_ms", ("speedup",))
    return draw_curves(records, x, figures, list(split(records, "series"))).properties(
        width=theme.WIDTH - 90, height=300
    )


def _records(rows: Sequence[Row]) -> list[Record]:
    leave_out = {"buffers", *shared_axes(rows)} - _DEFAULTS.keys()
    several_files = len({row.file for row in rows}) > 1
    return [
        identity(row)
        | {
            "series": axes_label(row, leave_out, several_files, _DEFAULTS),
            "buffers": whole(row, "buffers"),
            "time_ms": row.counters["sequential_ms"] / row.counters["speedup"],
            "sequential_ms": row.counters["sequential_ms"],
            "speedup": row.counters["speedup"],
        }
        | bounds(row, TIME, "time_ms")
        for row in rows
    ]
