"""The matrix of the laboratory: computations down, communications by every transport across.

Each pair has a cell with two halves: the loss of the computation above, that of the communication
below, each with its own figure and colour. This shows at once which side slows the other.
"""

from collections.abc import Sequence
from itertools import product

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts import heat_map, naming
from overlapbench.view.charts.panels import Record, bounds, lay_out, record_of, split, state_text
from overlapbench.view.charts.plot import parted, plot, told
from overlapbench.view.series import file_names
from overlapbench.view.theme import Drawing

_HALVES = ("comp_slowdown", "comm_slowdown")  # from top to bottom
_HALF_HEIGHT = 17
_LEAST_WIDTH, _MOST_WIDTH = 34, 70  # of a cell; the least fits `invalid`
_MARGINS = 60


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the Lab/Matrix rows, including failed ones: their cells say so."""
    return heat_map.select_pairs(rows, "Lab/Matrix", "slowdown")


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw a panel for each side that may start first, side by side where they fit."""
    records = _records(rows)
    communications = list(split(records, "communication"))
    computations = list(split(records, "computation"))
    parts = split(records, "panel")
    room = theme.WIDTH - _MARGINS - heat_map.label_width(computations)
    width = room / len(parts) / len(communications)
    columns = len(parts) if width >= _LEAST_WIDTH else 1
    if columns == 1:
        width = max(_LEAST_WIDTH, room / len(communications))
    colour = heat_map.colour(
        "loss",
        "slowdown of each side",
        [0.9, 1.0, heat_map.highest_loss(records, "loss")],
        clamp=True,
    )
    leftmost = list(parts)[::columns]

    def draw_panel(part: Sequence[Record]) -> Drawing:
        cells = _whole(part, communications, computations)
        labelled = part[0]["panel"] in leftmost
        return _panel(cells, communications, computations, colour, labelled=labelled)

    height = 2 * _HALF_HEIGHT * len(computations)
    width = min(_MOST_WIDTH, width) * len(communications)
    return lay_out(parts, draw_panel, columns, height, width).properties(spacing=14)


def _records(rows: Sequence[Row]) -> list[Record]:
    """Make two records of each row, one per half."""
    communication, computation = _COMMUNICATION(rows), _COMPUTATION(rows)
    panel = _PANEL(rows)
    return [
        record_of(
            row,
            [*_HALVES, "slowdown"],
            panel=panel(row),
            communication=communication(row),
            computation=computation(row),
            half=half,
            text=heat_map.two_digits(row, half) if row.trusted else state_text(row),
            loss=row.counters.get(half),
        )
        | bounds(row, half, "loss")
        for row in sorted(rows, key=naming.places_of(rows))
        for half in _HALVES
    ]


def _side(side: int, transport: naming.Naming) -> naming.Naming:
    """Name a side of a pair by its differences from others of its workload."""
    return naming.named(
        "transport",
        "first",
        head=naming.together(naming.by(lambda row: row.name.workloads[side]), transport),
        alike=lambda row: row.name.workloads[side],
        axes=naming.axes_of_side(side),
        file=naming.unnamed,
    )


_PANEL = naming.together(naming.by_order, file_names)
_COMMUNICATION = _side(0, naming.transport_names)
_COMPUTATION = _side(1, naming.unnamed)


def _whole(records: Sequence[Record], across: Sequence[str], down: Sequence[str]) -> list[Record]:
    """Add grey cells, with a text, where there is no row."""
    there = {(cell["communication"], cell["computation"]) for cell in records}
    missing = {"trusted": False, "problem": "not measured", "text": ""}
    return [
        *records,
        *(
            missing | {"communication": column, "computation": line, "half": half}
            for column, line, half in product(across, down, _HALVES)
            if (column, line) not in there
        ),
    ]


def _panel(
    records: Sequence[Record],
    columns: Sequence[str],
    lines: Sequence[str],
    colour: alt.Color,
    *,
    labelled: bool,
) -> Drawing:
    base = plot(records).encode(
        x=heat_map.across(
            "communication", columns, None, -45, paddingInner=0.04, paddingOuter=0.02
        ),
        y=heat_map.down(
            "computation", lines, None, labelled=labelled, paddingInner=0.08, paddingOuter=0.04
        ),
        yOffset=alt.YOffset("half:N", sort=list(_HALVES), scale=alt.Scale(domain=list(_HALVES))),
        tooltip=told(
            *("communication:N", "computation:N", "half:N"),
            *("loss:Q", "loss_low:Q", "loss_high:Q", "slowdown:Q"),
        ),
    )
    good, bad = parted(base)
    return alt.layer(
        *heat_map.filled(base, colour),
        heat_map.written(good),
        heat_map.written(
            bad.transform_filter(f"datum.half === '{_HALVES[0]}'"), dy=_HALF_HEIGHT / 2
        ),
    )
