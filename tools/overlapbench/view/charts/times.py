"""Times against grid: the parts of the slowdown.

The chart of slowdowns uses the same rows, records and axis (slowdown.py).
"""

from collections import Counter
from collections.abc import Sequence

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.naming import by_workload, named
from overlapbench.view.charts.panels import Record, bounds, lay_out, record_of, split
from overlapbench.view.charts.plot import interval_bars, parted, plot, told
from overlapbench.view.series import grid_of, label
from overlapbench.view.theme import Drawing

# Drawn in this order, so that T is on top where lines meet.
_STYLES = {
    "C: computation alone": theme.COMPUTATION,
    "M: communication alone": theme.COMMUNICATION,
    "T: both together": theme.VERMILION,
}
_TIMES = ("comp_ms", "comm_ms", "overlap_ms")
_LEVEL_LABELS = 14  # labels as wide as `256×256` that fit side by side into a picture


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the Overlap rows with figures, of curves with at least two grids."""
    pairs = [row for row in rows if row.name.family == "Overlap" and row.counters]
    candidates = [row for row in pairs if grid_of(row.name)]
    sizes = Counter(map(_curve, candidates))
    return [row for row in candidates if sizes[_curve(row)] > 1]


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw C, M and T against grid, one panel per series, all at one scale."""
    curves = split(_one_time_each(grid_records(rows)), "series")
    columns = min(2, len(curves))
    every_grid = grid_axis([record for curve in curves.values() for record in curve], columns)
    return lay_out(curves, lambda part: _panel(part, every_grid), columns, 240, y="shared")


def grid_records(rows: Sequence[Row]) -> list[Record]:
    """Make one record per row, ordered by grid."""
    series = named("grid", head=by_workload)(rows)
    records = []
    for row in rows:
        gx, gy = grid_of(row.name) or (0, 0)
        point = record_of(
            row,
            ["slowdown", *_TIMES],
            pair="+".join(row.name.workloads),
            series=series(row),
            grid=f"{gx}×{gy}",
            grid_blocks=gx * gy,
        )
        for key in ("slowdown", *_TIMES):
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


def _one_time_each(records: Sequence[Record]) -> list[Record]:
    return [
        {key: value for key, value in record.items() if not key.startswith(_TIMES)}
        | {"what": what}
        | {
            key.replace(counter, "time_ms"): value
            for key, value in record.items()
            if key.startswith(counter)
        }
        for record in records
        for counter, what in zip(_TIMES, _STYLES, strict=True)
    ]


def _panel(records: Sequence[Record], x: alt.X) -> Drawing:
    legend = alt.Legend(orient="top", title=None)
    colour = theme.coloured("what", _STYLES, legend)
    shape = alt.Shape("what:N", scale=alt.Scale(domain=list(_STYLES)), legend=legend)
    y = alt.Y("time_ms:Q", title="time (ms)", scale=alt.Scale(type="log"))
    base = plot(records).encode(x=x, y=y, tooltip=told("what:N", "time_ms:Q"))
    good, bad = parted(base)
    return alt.layer(
        *interval_bars(base, records, y, colour),
        good.mark_line(strokeWidth=2).encode(color=colour),
        good.mark_point(filled=True, size=50, opacity=1).encode(color=colour, shape=shape),
        bad.mark_point(**theme.UNTRUSTED_POINT).encode(shape=shape),
    )
