"""Charts of pairs: slowdown against grid, all pairs at a glance, and priority."""

import re
from collections.abc import Callable, Sequence

from overlapbench.reading.rows import Row
from overlapbench.statistics import intervals
from overlapbench.view.charts import axes, findings, finish, naming
from overlapbench.view.charts.cells import Cells
from overlapbench.view.charts.curves import Curves, X, Y
from overlapbench.view.charts.naming import Name
from overlapbench.view.charts.records import Rows, ratio_text, whole

_CURVES_A_PANEL = 6  # that are distinguishable; more are split into a panel for each pair
_BY_PAIR = naming.named("grid", head=naming.by_workload)


def _blocks(row: Row) -> int:
    """Return the blocks of the axis `grid`; 0 if the name has none."""
    sides = re.fullmatch(r"(\d+)x(\d+)", row.name.axis("grid") or "")
    return int(sides[1]) * int(sides[2]) if sides else 0


def _grid(row: Row) -> str:
    return (row.name.axis("grid") or "").replace("x", "×")


_GRID = X(
    "grid",
    "grid of the compute kernel (gx × gy thread blocks)",
    axes.grid_axis,
    of=lambda row: _grid(row) if _blocks(row) else None,
    order=lambda row: (_blocks(row), _grid(row)),
)


def _panel_of_pair(rows: Sequence[Row]) -> Name:
    curves = set(map(_BY_PAIR(rows), rows))
    return (naming.by_workload if len(curves) > _CURVES_A_PANEL else naming.unnamed)(rows)


SLOWDOWN = Curves(
    name="slowdown",
    title="Slowdown against grid",
    finding=findings.up_to("At {grid}, both take {figure} × the longer side: {what}", "slowdown"),
    reading=f"The ring marks the knee: {finish.KNEE_MEANING}.",
    rows=Rows("Overlap/*", known=["slowdown"]),
    x=_GRID,
    y=Y("slowdown", "slowdown T / max(C, M): 1 is perfect overlap", axes.CLOSE, [0.95, 1.1]),
    tooltip=["grid:N"],
    level=1.0,
    height=380,
    panel=_panel_of_pair,
    series=_BY_PAIR,
    finish=finish.telling(finish.knee_of),
    least=2,
    independent=["color", "shape"],
)


def _spread(row: Row) -> str:
    """Write how far the slowdown's interval reaches; "" if there is none to show."""
    if "slowdown" not in row.intervals:
        return ""
    (low, high), value = row.intervals["slowdown"], row.counters["slowdown"]
    return f"±{max(high - value, value - low):.2f}"  # cells have no room for two sides


def _by_size(rows: Sequence[Row]) -> Callable[[Row], tuple[int, int]]:
    """Order communications as they first appear, and each one's sizes from small to large."""
    appeared = list(dict.fromkeys(row.name.workloads[0] for row in rows))
    return lambda row: (appeared.index(row.name.workloads[0]), whole(row, "bytes") or 0)


PAIRS = Cells(
    name="pairs",
    title="Slowdown of pairs",
    finding=findings.up_to("Both sides take up to {figure} × the longer one: {what}", "slowdown"),
    reading="For a pair measured at several grids, the cell shows the worst and its grid."
    " Hatched: not measured.",
    rows=Rows("Overlap/*", when=lambda row: len(row.name.workloads) == 2),
    across=naming.side(0, "grid", "transport", head=naming.transport_names),
    down=naming.side(1, "grid"),
    panel=naming.file_names,
    lines=[_spread, _grid],
    across_order=_by_size,
    across_title="communication",
    down_title="computation",
    angle=-35,
    margin=85,
)


PRIORITY = Cells(
    name="priority",
    title="Latency under a load, with and without priority",
    finding=findings.up_to("Priority lowers a latency up to {figure} times: {what}", "gain"),
    reading="Each cell shows the slowdown of the work beside the load, and below it the latency and"
    " gain, the speedup that priority gives. Equal priorities are the control.",
    rows=Rows("Priority/*", known=["gain", "latency_ms"]),
    measured="work_slowdown",
    across=naming.by(lambda row: f"{row.name.axis('priority')} priority"),
    down=naming.named("priority", head=naming.by(lambda row: " beside ".join(row.name.workloads))),
    colour="slowdown of the work",
    lines=[
        lambda row: f"{intervals.digits(row.counters['latency_ms'], 3)} ms",
        lambda row: f"gain {ratio_text(row, 'gain')}",
    ],
    tooltip=["gain", "latency_ms", "latency_alone_ms", "latency_equal_ms"],
    most_width=180,
)

CHARTS = (SLOWDOWN, PAIRS, PRIORITY)
