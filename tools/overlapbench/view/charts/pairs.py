"""Charts of pairs: slowdown against grid, all pairs at a glance, and priority."""

from collections.abc import Callable, Sequence

from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts import axes, findings, finish, naming
from overlapbench.view.charts.bars import Bar, Bars
from overlapbench.view.charts.cells import Cells
from overlapbench.view.charts.curves import Curves, X, Y
from overlapbench.view.charts.naming import Name, joined
from overlapbench.view.charts.records import Rows, bounds, whole
from overlapbench.view.vega import Record

_CURVES_A_PANEL = 6  # that are distinguishable; more are split into a panel for each pair
_BY_PAIR = naming.named("grid", head=naming.by_workload)


def grid_of(name: BenchmarkName) -> tuple[int, int] | None:
    """Return (gx, gy) of `grid:gxXgy`, or None if the name has no such axis."""
    sides = (name.axis("grid") or "").split("x")
    if len(sides) != 2 or not all(side.isdecimal() for side in sides):
        return None
    return int(sides[0]), int(sides[1])


def _blocks(row: Row) -> tuple[int, str]:
    """Order grids by their blocks."""
    gx, gy = grid_of(row.name) or (0, 0)
    return gx * gy, _grid(row)


def _grid(row: Row) -> str:
    return (row.name.axis("grid") or "").replace("x", "×")


_GRID = X(
    "grid",
    "grid of the compute kernel (gx × gy thread blocks)",
    axes.grid_axis,
    of=lambda row: _grid(row) if grid_of(row.name) else None,
    order=_blocks,
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
    y=Y("slowdown", "slowdown T / max(C, M): 1 is perfect overlap", axes.SLOWDOWNS),
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
    one_of=True,
    below_one=True,
    across_order=_by_size,
    across_title="communication",
    down_title="computation",
    angle=-35,
    margin=85,
)


_LATENCIES = {"alone": theme.GREEN, "more, beside the load": theme.BLUE}
_PRIORITIES = {"high": "high priority", "equal": "control: equal priority"}


def _latency(row: Row) -> Bar:
    """Divide the latency beside the load into that alone, and what the load adds."""
    alone_ms, equal_ms, ms = (
        row.counters[f"latency{which}_ms"] for which in ("_alone", "_equal", "")
    )
    if not row.trusted:
        return Bar(ms, joined(f"{ms:.3f} ms", row.state.value))
    parts: list[Record] = [
        {"part": part, "adds": adds, "gain": row.counters["gain"]} | bounds(row, "latency_ms")
        for part, adds in zip(_LATENCIES, (alone_ms, ms - alone_ms), strict=True)
    ]
    text = joined(f"{ms:.3f} ms", f"gain {row.counters['gain']:.2f}")
    return Bar(equal_ms, text, parts)


PRIORITY = Bars(
    name="priority",
    title="Latency under a load, with and without priority",
    finding=findings.up_to("Priority lowers a latency up to {figure} times: {what}", "gain"),
    reading="The tick is the latency with equal priority. gain is that / the bar: the speedup that"
    " priority gives.",
    rows=Rows(
        "Priority/*",
        known=["gain", "latency_alone_ms", "latency_equal_ms", "latency_ms"],
        when=lambda row: row.name.axis("priority") in _PRIORITIES,
    ),
    group=naming.by(lambda row: _PRIORITIES[row.name.axis("priority") or ""]),
    label=naming.named("priority", head=naming.by(lambda row: " beside ".join(row.name.workloads))),
    bar=_latency,
    colours=_LATENCIES,
    x_title="latency (ms)",
    tooltip=["gain", "latency_ms_low", "latency_ms_high"],
)

CHARTS = (SLOWDOWN, PAIRS, PRIORITY)
