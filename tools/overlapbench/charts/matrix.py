"""The matrix of the laboratory: computations down, communications by every transport across.

Each pair has a cell of two halves: above what the computation loses, below what the communication
does, each half with its own figure and colour. So it is seen at once who takes from whom.
"""

from collections.abc import Callable, Collection, Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.lab import has_pair, state_text, two_digits
from overlapbench.charts.naming import in_order, order_title, orders_of, transport_names
from overlapbench.charts.panels import Record, bounds, identity, panel_title, parted, split
from overlapbench.charts.plot import plot, tooltip
from overlapbench.result import Row
from overlapbench.series import SEPARATOR, describe
from overlapbench.theme import Drawing

_HALVES = ("comp_slowdown", "comm_slowdown")  # from above
_HALF_HEIGHT = 17
_LEAST_WIDTH, _MOST_WIDTH = 34, 70  # of a cell; the least holds `invalid`
_LETTER_WIDTH = 6.2  # of an axis label, on average, in pixels
_MARGINS = 60
_FULL_COLOUR = (1.5, 3.0)  # the colour is full at the highest slowdown, within these


def select_matrix(rows: Sequence[Row]) -> list[Row]:
    """Return the Lab/Matrix rows, failed ones too: their cells say so."""
    found = [row for row in rows if has_pair(row, "Lab/Matrix", "slowdown")]
    return found if any(row.counters for row in found) else []


def draw_matrix(rows: Sequence[Row]) -> Drawing:
    """Draw a panel for each side that may start first, side by side where they fit."""
    records = _records(rows)
    across = list(split(records, "communication"))
    down = list(split(records, "computation"))
    parts = split(records, "panel")
    labels = _LETTER_WIDTH * max(map(len, down))
    width = (theme.WIDTH - labels - _MARGINS) / len(parts) / len(across)
    columns = len(parts) if width >= _LEAST_WIDTH else 1
    if columns == 1:
        width = max(_LEAST_WIDTH, (theme.WIDTH - labels - _MARGINS) / len(across))
    colour = _colour(records)
    panels = (
        _panel(
            _whole(part, across, down), across, down, colour, labelled=place % columns == 0
        ).properties(
            title=panel_title(title, columns),
            width=min(_MOST_WIDTH, width) * len(across),
            height=2 * _HALF_HEIGHT * len(down),
        )
        for place, (title, part) in enumerate(parts.items())
    )
    chart: alt.ConcatChart = alt.concat(*panels, columns=columns, spacing=14)
    return chart


def _records(rows: Sequence[Row]) -> list[Record]:
    """Make two records of each row, one a half."""
    communication, computation = _labels(rows)
    order = orders_of(rows)
    orders = in_order([order(row) for row in rows])
    several_files = len({row.file for row in rows}) > 1
    ordered = sorted(rows, key=lambda row: orders.index(order(row)))
    return [
        identity(row)
        | {
            "panel": order_title(order(row)) + (SEPARATOR + row.file) * several_files,
            "communication": communication(row),
            "computation": computation(row),
            "half": half,
            "text": two_digits(row, half) if row.trusted else state_text(row),
            "loss": row.counters.get(half),
        }
        | {key: row.counters[key] for key in (*_HALVES, "slowdown") if key in row.counters}
        | bounds(row, half, "loss")
        for row in ordered
        for half in _HALVES
    ]


def _labels(rows: Sequence[Row]) -> tuple[Callable[[Row], str], Callable[[Row], str]]:
    """Return what names the communication and the computation of a row.

    By workload, transport, and axes that set rows of the same workload apart.
    """
    transport = transport_names(rows)

    def communication(row: Row) -> str:
        alike = [one for one in rows if one.name.workloads[0] == row.name.workloads[0]]
        theirs = _varying(alike, row.first_axes - {"transport", "first"})
        return _label(row, 0, theirs, transport(row))

    def computation(row: Row) -> str:
        alike = [one for one in rows if one.name.workloads[1] == row.name.workloads[1]]
        axes = {axis for axis, _ in row.name.axes} - row.first_axes - {"transport", "first"}
        return _label(row, 1, _varying(alike, axes))

    return communication, computation


def _varying(rows: Sequence[Row], axes: Collection[str]) -> set[str]:
    return {axis for axis in axes if len({row.name.axis(axis) for row in rows}) > 1}


def _label(row: Row, side: int, axes: Collection[str], transport: str = "") -> str:
    told = [describe(axis, value) for axis, value in row.name.axes if axis in axes]
    return SEPARATOR.join(filter(None, [row.name.workloads[side], transport, *told]))


def _whole(records: Sequence[Record], across: Sequence[str], down: Sequence[str]) -> list[Record]:
    """Add the cells that no row fills: they are grey, and say so."""
    there = {(record["communication"], record["computation"]) for record in records}
    missing = {"trusted": False, "problem": "not measured", "text": ""}
    return [
        *records,
        *(
            missing | {"communication": column, "computation": line, "half": half}
            for column in across
            for line in down
            if (column, line) not in there
            for half in _HALVES
        ),
    ]


def _colour(records: Sequence[Record]) -> alt.Color:
    """White where a side loses nothing, orange where it does."""
    least, most = _FULL_COLOUR
    highest = max((record["loss"] or 0 for record in records if record["trusted"]), default=least)
    return alt.Color(
        "loss:Q",
        title="slowdown of the side",
        scale=alt.Scale(
            domain=[0.9, 1.0, min(most, max(least, highest))],
            range=[theme.SKY, "#FFFFFF", theme.VERMILION],
            interpolate="lab",
            clamp=True,
        ),
        legend=alt.Legend(orient="bottom", direction="horizontal", gradientLength=260),
    )


def _panel(
    records: Sequence[Record],
    across: Sequence[str],
    down: Sequence[str],
    colour: alt.Color,
    *,
    labelled: bool,
) -> Drawing:
    axis = alt.Axis(labels=labelled, **theme.CELL_AXIS)
    base = plot(records).encode(
        x=alt.X(
            "communication:N",
            title=None,
            scale=alt.Scale(domain=list(across), paddingInner=0.04, paddingOuter=0.02),
            axis=alt.Axis(orient="top", labelAngle=-45, **theme.CELL_AXIS),
        ),
        y=alt.Y(
            "computation:N",
            title=None,
            scale=alt.Scale(domain=list(down), paddingInner=0.08, paddingOuter=0.04),
            axis=axis,
        ),
        yOffset=alt.YOffset("half:N", sort=list(_HALVES), scale=alt.Scale(domain=list(_HALVES))),
        tooltip=tooltip(
            [
                *("name:N", "file:N", "communication:N", "computation:N", "half:N"),
                *("loss:Q", "loss_low:Q", "loss_high:Q", "slowdown:Q", "problem:N"),
            ]
        ),
    )
    good, bad = parted(base)
    return alt.layer(
        good.mark_rect().encode(color=colour),
        bad.mark_rect(**theme.UNTRUSTED_CELL),
        good.mark_text(color=theme.ON_CELL, **theme.CELL_DETAIL).encode(text="text:N"),
        bad.transform_filter(f"datum.half === '{_HALVES[0]}'")
        .mark_text(color=theme.ON_CELL, dy=_HALF_HEIGHT / 2, **theme.CELL_DETAIL)
        .encode(text="text:N"),
    )
