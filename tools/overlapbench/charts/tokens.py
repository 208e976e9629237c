"""Time of a tensor-parallel layer against its tokens: in chunks, in its plain form, and the bound.

Of rows that differ in their chunks alone, the fastest is drawn, with its chunks and its speedup.
PyTorch's times of the same layers are drawn beside them, where a file has both
(tools/torch_training.py).
"""

from collections.abc import Sequence
from typing import Any

import altair as alt

from overlapbench import theme
from overlapbench.charts.curves import (
    Figures,
    count_axis,
    draw_curves,
    is_measured,
    log_scale,
    whole,
)
from overlapbench.charts.lab import names_of_curves
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
from overlapbench.counters import TIME
from overlapbench.result import Row
from overlapbench.series import SEPARATOR
from overlapbench.theme import Drawing

_OPERATIONS = ("Tp/ColumnParallel", "Tp/RowParallel")
_TIMES = ("time_ms", "sequential_ms", "bound_ms")
_COUNTERS = ("sequential_ms", "bound_ms", "speedup")
_MOST_COLUMNS = 2
# Away from the plain form: below a point that is faster, above one that is slower.
_LABEL: dict[str, Any] = {"dy": {"expr": "datum.speedup < 1 ? -14 : 17"}, "fontSize": 11}
_BOUND: dict[str, Any] = {"strokeWidth": 1.5, "strokeDash": [1, 3]}


def select_tokens(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of layers that have tokens, chunks and all figures, and their peers."""
    panels = {_panel_of(row) for row in rows if _is_layer(row)}
    return [
        row
        for row in rows
        if _is_layer(row) or (_peer(row) and _panel_of(row) in panels and row.time_ms > 0)
    ]


def _is_layer(row: Row) -> bool:
    measured = any(is_measured(row, operation, *_COUNTERS) for operation in _OPERATIONS)
    return measured and bool(whole(row, "tokens")) and row.name.axis("chunks") is not None


def _peer(row: Row) -> str:
    """Return which way of PyTorch's a row is; "" of the suite's rows."""
    return (row.name.axis("peer") or "") if whole(row, "tokens") else ""


def _panel_of(row: Row) -> str:
    return SEPARATOR.join(filter(None, ["+".join(row.name.workloads), row.name.axis("model")]))


def draw_tokens(rows: Sequence[Row]) -> Drawing:
    """Draw times against tokens, log-log, a panel for each operation and model."""
    records = _records(rows)
    series = list(split(records, "series"))
    parts = split(records, "panel")
    columns = min(_MOST_COLUMNS, len(parts))
    x = count_axis("tokens", [record["tokens"] for record in records], "tokens of all ranks")
    panels = (
        _panel(part, x, series).properties(
            title=panel_title(title, columns), **panel_size(columns, 260)
        )
        for title, part in parts.items()
    )
    chart: alt.ConcatChart = alt.concat(*panels, columns=columns)
    return chart


def _panel(records: Sequence[Record], x: alt.X, series: Sequence[str]) -> Drawing:
    layers = [record for record in records if not record["is_peer"]]
    peers = [record for record in records if record["is_peer"]]
    times = [record[time] for record in layers for time in _TIMES]
    times += [record["time_ms"] for record in peers]
    title, scale = "time (ms)", log_scale(times)
    figures = Figures("time_ms", title, scale, "sequential_ms", ("bound_ms", "speedup"))
    colour, _ = theme.curve_style(series)
    good, _ = parted(plot(layers).encode(x=x))
    bound = good.encode(y=alt.Y("bound_ms:Q", title=title, scale=scale), color=colour)
    drawn: list[Drawing | alt.Chart] = [
        bound.mark_line(**_BOUND),
        draw_curves(layers, x, figures, series),
    ]
    if peers:
        drawn.append(draw_curves(peers, x, Figures("time_ms", title, scale), series))
    if len(series) == 1:  # of several curves the labels would lie on each other
        label = good.encode(y=alt.Y("time_ms:Q", title=title, scale=scale), text="label:N")
        drawn += [label.mark_text(style="halo", **_LABEL), label.mark_text(**_LABEL)]
    return alt.layer(*drawn)


def _records(rows: Sequence[Row]) -> list[Record]:
    layers = [row for row in rows if _is_layer(row)]
    peers = [row for row in rows if _peer(row)]
    name = names_of_curves(layers, {"tokens", "model", "chunks"}, "in chunks")
    records = _fastest([_record(row, name(row)) | _own_figures(row) for row in layers])
    several_files = len({row.file for row in peers}) > 1
    for row in peers:
        series = [f"PyTorch {_peer(row)}", *([row.file] if several_files else [])]
        records.append(_record(row, SEPARATOR.join(series)))
    return records


def _record(row: Row, series: str) -> Record:
    return (
        identity(row)
        | {
            "panel": _panel_of(row),
            "series": series,
            "is_peer": bool(_peer(row)),
            "tokens": whole(row, "tokens"),
            "time_ms": row.time_ms,
        }
        | bounds(row, TIME, "time_ms")
    )


def _own_figures(row: Row) -> Record:
    return {counter: row.counters[counter] for counter in _COUNTERS} | {
        "label": f"{_chunks(row)}: {row.counters['speedup']:.2f}×"
    }


def _chunks(row: Row) -> str:
    """Return into how many chunks the tokens were cut, where the row chose too."""
    chosen = row.counters.get("chunks")
    return row.name.axis("chunks") or "" if chosen is None else f"{chosen:.0f}"


def _fastest(records: Sequence[Record]) -> list[Record]:
    """Leave out what is slower than another number of chunks; what is not trusted stays."""
    best: dict[tuple[str, str, int], Record] = {}
    for record in filter(lambda record: record["trusted"], records):
        place = (record["panel"], record["series"], record["tokens"])
        if place not in best or record["time_ms"] < best[place]["time_ms"]:
            best[place] = record
    kept = list(best.values())
    return [record for record in records if not record["trusted"] or record in kept]
