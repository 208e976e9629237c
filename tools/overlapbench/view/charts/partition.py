"""The best division of a GPU's SMs: one pair at every combination, and the fastest one marked.

The SMs of the computation are across, the transport and its SMs or CTAs down. A cell's figure is T,
with the loss of each side below: the slowdown of the computation, then of the communication.
"""

import math
from collections.abc import Sequence

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts import heat_map, naming
from overlapbench.view.charts.curve_chart import whole
from overlapbench.view.charts.panels import Record, bounds, lay_out, record_of, split, state_text
from overlapbench.view.charts.plot import plot, told
from overlapbench.view.theme import Drawing

_ALL_SMS = "all"
_LEAST_WIDTH, _MOST_WIDTH = 66, 110  # of a cell; the least fits `1.02 | 1.31`
_CELL_HEIGHT = 36
_MARGIN = 25  # beside a panel
_TOLD = ("overlap_ms", "overlap_ms_low", "overlap_ms_high", "to_best")
_SIDES = ("comp_slowdown", "comm_slowdown")


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the Lab/Partition rows, including failed ones: their cells say so."""
    return heat_map.select_pairs(rows, "Lab/Partition", "overlap_ms")


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw a panel for each side that may start first; each marks its best cell."""
    parts = {title: _compared(part) for title, part in split(_records(rows), "panel").items()}
    records = [cell for part in parts.values() for cell in part]
    sms = list(split(records, "comp_sms"))
    sms.sort(key=lambda text: math.inf if text == _ALL_SMS else int(text))
    lines = list(split(sorted(records, key=lambda cell: cell["place"]), "down"))
    beside = heat_map.label_width(lines) + _MARGIN
    fitting = theme.WIDTH // (_LEAST_WIDTH * len(sms) + beside)
    columns = min(len(parts), max(1, int(fitting)))
    width = (theme.WIDTH / columns - beside) / len(sms)
    worst = heat_map.highest_loss(records, "to_best")
    colour = heat_map.colour("to_best", "T / the panel's best", [1.0, worst], clamp=True)
    return lay_out(
        parts,
        lambda part: _panel(part, sms, lines, colour),
        columns,
        _CELL_HEIGHT * len(lines),
        max(_LEAST_WIDTH, min(_MOST_WIDTH, width)) * len(sms),
    )


def _records(rows: Sequence[Row]) -> list[Record]:
    transport = naming.transport_names(rows)
    names = list(dict.fromkeys(map(transport, rows)))
    order, title = naming.places_of(rows), _TITLES(rows)
    return [
        record_of(
            row,
            ["overlap_ms", *_SIDES],
            panel=title(row),
            order=order(row),
            comp_sms=str(whole(row, "comp_sms") or _ALL_SMS),
            down=_taken(row, transport(row)),
            place=(names.index(transport(row)), _sms(row)),
            text=f"{row.counters['overlap_ms']:.3g} ms" if row.trusted else state_text(row),
            sides=" | ".join(heat_map.two_digits(row, side) for side in _SIDES)
            if row.trusted
            else "",
        )
        | bounds(row, "overlap_ms")
        for row in sorted(rows, key=order)
    ]


# Of a panel: the order, and other axes that distinguish panels.
_TITLES = naming.named(
    "transport",
    "comp_sms",
    "first",
    *naming.SM_AXES,
    head=naming.together(naming.by_order, naming.if_several(naming.by_workload)),
)


def _sms(row: Row) -> int:
    return next((sms for axis in naming.SM_AXES if (sms := whole(row, axis))), 0)


def _taken(row: Row, transport: str) -> str:
    """Write a transport with its SMs or CTAs: `nccl 16 CTAs`."""
    unit = "CTAs" if row.name.axis("comm_ctas") else "SMs"
    head = transport or row.name.workloads[0]
    return f"{head} {_sms(row)} {unit}" if _sms(row) else head


def _compared(records: Sequence[Record]) -> list[Record]:
    """Add to each cell of a panel the ratio of its T to the best one."""
    best_ms = min((cell["overlap_ms"] for cell in records if cell["trusted"]), default=0.0)
    return [
        cell
        | (
            {"to_best": cell["overlap_ms"] / best_ms, "best": cell["overlap_ms"] == best_ms}
            if cell["trusted"]
            else {"best": False}
        )
        for cell in records
    ]


def _panel(
    records: Sequence[Record], columns: Sequence[str], lines: Sequence[str], colour: alt.Color
) -> Drawing:
    base = plot(records).encode(
        x=heat_map.across("comp_sms", columns, "SMs of the computation", 0),
        y=heat_map.down("down", lines, None),
        tooltip=told(*(f"{field}:Q" for field in (*_TOLD, *_SIDES))),
    )
    best, others = base.transform_filter("datum.best"), base.transform_filter("!datum.best")
    return alt.layer(
        *heat_map.filled(base, colour),
        best.mark_rect(filled=False, stroke=theme.GREEN, strokeWidth=3),
        heat_map.written(best, small=False, dy=-7, fontWeight="bold"),
        heat_map.written(others, small=False, dy=alt.expr("datum.sides ? -7 : 0")),
        heat_map.written(base, "sides", dy=8),
    )
