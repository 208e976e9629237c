"""Sweeps over grids, as the grid charts need them: rows, records, the axis."""

from collections.abc import Sequence

import altair as alt

from overlapbench.charts.naming import by_workload, named
from overlapbench.charts.panels import Record, bounds, record_of, split
from overlapbench.grouping import grouped
from overlapbench.result import Row
from overlapbench.series import grid_of, label

TIMES = ("comp_ms", "comm_ms", "overlap_ms")
_LEVEL_LABELS = 14  # labels as wide as `256×256` that fit side by side into a picture


def select_sweeps(rows: Sequence[Row]) -> list[Row]:
    """Return the Overlap rows with figures, of curves with at least two grids."""
    pairs = [row for row in rows if row.name.family == "Overlap" and row.counters]
    candidates = [row for row in pairs if grid_of(row.name)]
    curves = grouped(candidates, _curve)
    return [row for row in candidates if len(curves[_curve(row)]) > 1]


def sweep_records(rows: Sequence[Row]) -> list[Record]:
    """Make one record of each row, ordered by grid."""
    series = named("grid", head=by_workload)(rows)
    records = []
    for row in rows:
        gx, gy = grid_of(row.name) or (0, 0)
        point = record_of(
            *(row, "slowdown", *TIMES),
            pair="+".join(row.name.workloads),
            series=series(row),
            grid=f"{gx}×{gy}",
            grid_blocks=gx * gy,
        )
        for key in ("slowdown", *TIMES):
            point |= bounds(row, key)
        records.append(point)
    return sorted(records, key=lambda point: (point["grid_blocks"], point["grid"]))


def grid_axis(records: Sequence[Record], columns: int) -> alt.X:
    """Place the grids side by side in the order of their blocks, as tables of sweeps do."""
    grids = list(split(records, "grid"))
    level = columns * len(grids) <= _LEVEL_LABELS
    return alt.X(
        "grid:O",
        title="grid of the compute kernel (gx × gy thread blocks)",
        scale=alt.Scale(domain=grids),
        axis=alt.Axis(labelAngle=0 if level else -45, grid=True),
    )


def _curve(row: Row) -> tuple[str, str]:
    return row.file, label("+".join(row.name.workloads), dict(row.name.axes), {"grid"})
