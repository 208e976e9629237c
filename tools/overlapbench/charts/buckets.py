"""What a data-parallel step shows of its gradient exchange, against the size of its buckets."""

from collections.abc import Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.curves import Figures, draw_curves, size_axis, whole
from overlapbench.charts.lab import names_of_curves
from overlapbench.charts.panels import Record, bounds, identity, split
from overlapbench.result import Row
from overlapbench.theme import Drawing

_EXPOSED = "exposed_comm_ms"
_PREDICTED = "predicted_ms"
_LEAST_MS = 0.001  # that the axis holds


def select_buckets(rows: Sequence[Row]) -> list[Row]:
    """Return the Ddp/Buckets rows that have a size of buckets and an exposed communication."""
    return [
        row
        for row in rows
        if row.name.family == "Ddp"
        and row.name.workloads == ("Buckets",)
        and whole(row, "bucket_bytes")
        and {_EXPOSED, "bound_ms"} <= row.counters.keys()
    ]


def draw_buckets(rows: Sequence[Row]) -> Drawing:
    """Draw the exposed communication against the size, one curve a transport.

    Beside it, what the step's parts alone predict: its bound, less its computation.
    """
    records = _records(rows)
    ends = (_EXPOSED, f"{_EXPOSED}_high", _PREDICTED)
    exposed = [record[end] for record in records for end in ends if end in record]
    scale = alt.Scale(domain=[min(0.0, *exposed), 1.1 * max(_LEAST_MS, *exposed)], nice=False)
    x = size_axis("bucket_bytes", [record["bucket_bytes"] for record in records], "bucket size")
    title = "exposed communication (ms)"
    figures = Figures(_EXPOSED, title, scale, _PREDICTED, ("step_overhead_pct",))
    return draw_curves(records, x, figures, list(split(records, "series"))).properties(
        width=theme.WIDTH - 90, height=300
    )


def _records(rows: Sequence[Row]) -> list[Record]:
    series = names_of_curves(rows, {"bucket_bytes"}, "in buckets")
    return [
        identity(row)
        | {
            "series": series(row),
            "bucket_bytes": whole(row, "bucket_bytes"),
            _EXPOSED: row.counters[_EXPOSED],
            _PREDICTED: row.counters["bound_ms"] - _computation_ms(row),
            "step_overhead_pct": row.counters.get("step_overhead_pct"),
        }
        | bounds(row, _EXPOSED)
        for row in rows
    ]


def _computation_ms(row: Row) -> float:
    return row.time_ms - row.counters[_EXPOSED]
