"""Time of a transfer against its fragments, beside the same bytes in one transfer."""

from collections.abc import Sequence

from overlapbench import theme
from overlapbench.charts.curves import (
    Figures,
    count_axis,
    draw_curves,
    is_measured,
    log_scale,
    whole,
)
from overlapbench.charts.panels import Record, bounds, identity, split
from overlapbench.counters import TIME
from overlapbench.result import Row
from overlapbench.series import axes_label, shared_axes
from overlapbench.theme import Drawing


def select_fragments(rows: Sequence[Row]) -> list[Row]:
    """Return the Copy/Fragmented rows that have fragments and both times."""
    return [
        row
        for row in rows
        if is_measured(row, "Copy/Fragmented", "one_transfer_ms", "fragmented_slowdown")
        and whole(row, "fragments")
    ]


def draw_fragments(rows: Sequence[Row]) -> Drawing:
    """Draw time against fragments, log-log, one curve a way of calling."""
    records = _records(rows)
    x = count_axis("fragments", [record["fragments"] for record in records], "fragments")
    times = [record[key] for record in records for key in ("time_ms", "one_transfer_ms")]
    scale = log_scale(times)
    figures = Figures("time_ms", "time (ms)", scale, "one_transfer_ms", ("fragmented_slowdown",))
    return draw_curves(records, x, figures, list(split(records, "series"))).properties(
        width=theme.WIDTH - 90, height=340
    )


def _records(rows: Sequence[Row]) -> list[Record]:
    leave_out = {"fragments", *shared_axes(rows)}
    several_files = len({row.file for row in rows}) > 1
    return [
        identity(row)
        | {
            "series": axes_label(row, leave_out, several_files),
            "fragments": whole(row, "fragments"),
            "time_ms": row.counters["one_transfer_ms"] * row.counters["fragmented_slowdown"],
            "one_transfer_ms": row.counters["one_transfer_ms"],
            "fragmented_slowdown": row.counters["fragmented_slowdown"],
        }
        | bounds(row, TIME, "time_ms")
        for row in rows
    ]
