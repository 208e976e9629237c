"""Time of a tensor-parallel layer against its tokens: in chunks, in its plain form, and the bound.

Of rows that differ only in their chunks, the fastest is drawn, with its chunks and its speedup.
PyTorch's times of the same layers are drawn beside them, if a file has both
(tools/torch_training.py).
"""

from collections.abc import Sequence

from overlapbench.grouping import grouped
from overlapbench.reading.counters import TIME
from overlapbench.reading.result import Row
from overlapbench.view.charts.axes import count_axis, log_scale
from overlapbench.view.charts.curve_chart import Curves, Rows, X, whole
from overlapbench.view.charts.curves import Figures
from overlapbench.view.charts.naming import by, by_transport, named, together
from overlapbench.view.charts.panels import Record, bounds, record_of
from overlapbench.view.series import file_names, joined
from overlapbench.view.theme import Drawing


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of layers that have tokens, chunks and all figures, and their peers."""
    panels = {_panel_of(row) for row in rows if _is_layer(row)}
    return [
        row
        for row in rows
        if _is_layer(row) or (_peer(row) and _panel_of(row) in panels and row.time_ms > 0)
    ]


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw times against tokens, log-log, a panel for each operation and model."""
    layers = [row for row in rows if _is_layer(row)]
    peers = [row for row in rows if _peer(row)]
    return _LAYERS.draw_records([*_fastest(_LAYERS.records(layers)), *_peer_records(peers)])


def _is_layer(row: Row) -> bool:
    return _LAYERS.takes(row) and row.name.axis("chunks") is not None


def _peer(row: Row) -> str:
    """Return the peer of PyTorch that a row measures; "" for the suite's rows."""
    return (row.name.axis("peer") or "") if whole(row, "tokens") else ""


def _panel_of(row: Row) -> str:
    return joined("+".join(row.name.workloads), row.name.axis("model") or "")


def _peer_records(rows: Sequence[Row]) -> list[Record]:
    series = together(by(lambda row: f"PyTorch {_peer(row)}"), file_names)(rows)
    return [
        record_of(
            row,
            panel=_panel_of(row),
            series=series(row),
            tokens=whole(row, "tokens"),
            time_ms=row.time_ms,
        )
        | bounds(row, TIME, "time_ms")
        for row in rows
    ]


def _chunks(row: Row) -> str:
    """Return the number of chunks of the tokens, even if the row chose it itself."""
    chosen = row.counters.get("chunks")
    return row.name.axis("chunks") or "" if chosen is None else f"{chosen:.0f}"


def _fastest(records: Sequence[Record]) -> list[Record]:
    """Drop rows that are slower than another number of chunks; untrusted rows stay."""
    trusted = [record for record in records if record["trusted"]]
    places = grouped(trusted, lambda point: (point["panel"], point["series"], point["tokens"]))
    kept = [min(points, key=lambda point: float(point["time_ms"])) for points in places.values()]
    return [record for record in records if not record["trusted"] or record in kept]


_LAYERS = Curves(
    rows=[Rows("Tp/*Parallel", ("sequential_ms", "bound_ms", "speedup"))],
    x=X("tokens", "tokens of all ranks", count_axis),
    figures=[
        Figures(
            "time_ms",
            "time (ms)",
            log_scale,
            reference="sequential_ms",
            bound="bound_ms",
            tooltip=["bound_ms", "speedup"],
            interval=TIME,
            label="label",
            # Away from the plain form: below a faster point, above a slower one.
            label_dy={"expr": "datum.speedup < 1 ? -14 : 17"},
            height=260,
        )
    ],
    derived={
        "time_ms": lambda row: row.time_ms,
        "label": lambda row: f"{_chunks(row)}: {row.counters['speedup']:.2f}×",
    },
    panel=lambda _: _panel_of,
    scale_of_each="panel",
    series=named("transport", "tokens", "model", "chunks", head=by_transport("in chunks")),
)
