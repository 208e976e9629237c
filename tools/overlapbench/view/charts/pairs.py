"""The heat map of pairs: which communications and computations slow each other down, and how much.

The axes of the communication, according to the file's table, are on its side; all others belong to
the computation or the pair.
"""

from collections.abc import Sequence

import altair as alt

from overlapbench.grouping import grouped
from overlapbench.reading.result import Row
from overlapbench.statistics.intervals import written
from overlapbench.view import theme
from overlapbench.view.charts import heat_map
from overlapbench.view.charts.curve_chart import whole
from overlapbench.view.charts.naming import axes_of_side
from overlapbench.view.charts.panels import Record, bounds, record_of, split, state_text
from overlapbench.view.charts.plot import Plot, told
from overlapbench.view.series import label, shared_axes
from overlapbench.view.theme import Drawing

_CELL_HEIGHT = 36  # for a figure and one line below it
_LINE_HEIGHT = 14
_LEAST_CELL_WIDTH = 46  # fits `256×256`
_MARGINS = 110  # beside the cells: the title, and the last slanted label
_FULL_COLOUR = 1.5  # the colour is full at this slowdown, or at the highest one if that is more


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of pairs, including failed ones: their cells say so."""
    return [row for row in rows if row.name.family == "Overlap"]


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw one panel per file: computation down, communication across, slowdown in the cell."""
    cells = _cells(rows)
    communications = _across(cells)
    computations = list(split(cells, "computation"))
    known = any("slowdown_low" in cell for cell in cells)
    interval = ["slowdown_low:Q", "slowdown_high:Q"] if known else []
    both = any(cell["grid"] and cell["spread"] for cell in cells)
    base = Plot().encode(
        x=heat_map.across("communication", communications, "communication", -35),
        y=heat_map.down("computation", computations, "computation"),
        tooltip=told("slowdown:Q", *interval, "grid:N"),
    )
    panel = alt.layer(
        *heat_map.filled(base, _slowdown_colour(cells)),
        *_cell_texts(base),
        data=alt.InlineData(values=cells),
    ).properties(
        width=max(
            theme.WIDTH - _MARGINS - heat_map.label_width(computations),
            _LEAST_CELL_WIDTH * len(communications),
        ),
        height=(_CELL_HEIGHT + (_LINE_HEIGHT if both else 0)) * len(computations),
    )
    files = list(split(cells, "file"))
    if len(files) == 1:
        return panel
    header = alt.Header(title=None, labelOrient="top", labelAnchor="start")
    return panel.facet(row=alt.Row("file:N", header=header, sort=files))


def _across(cells: Sequence[Record]) -> list[str]:
    """Order communications as they first appear, and each one's sizes from small to large."""
    appeared = list(split(cells, "workload"))
    ordered = sorted(cells, key=lambda cell: (appeared.index(cell["workload"]), cell["bytes"]))
    return list(split(ordered, "communication"))


def _cells(rows: Sequence[Row]) -> list[Record]:
    """Make one cell per pair; a sweep over grids is represented by its worst grid."""
    leave_out = {"grid", *shared_axes(rows)}
    cells = [_cell(row, leave_out) for row in rows]
    places = grouped(cells, lambda cell: (cell["file"], cell["communication"], cell["computation"]))
    return [max(grids, key=_badness) for grids in places.values()]


def _cell(row: Row, leave_out: set[str]) -> Record:
    communication, computation = row.name.workloads
    cell = record_of(
        row,
        workload=communication,
        bytes=whole(row, "bytes") or 0,
        communication=label(communication, axes_of_side(0)(row), leave_out),
        computation=label(computation, axes_of_side(1)(row), leave_out),
        slowdown=row.counters.get("slowdown"),
        grid=(row.name.axis("grid") or "").replace("x", "×"),
        text=heat_map.two_digits(row, "slowdown") if row.trusted else state_text(row),
        spread=_spread(row),
    )
    return cell | bounds(row, "slowdown")


def _spread(row: Row) -> str:
    """Write how far the slowdown's interval reaches; "" if there is none to show."""
    if not row.trusted or "slowdown" not in row.intervals:
        return ""
    return written(row.counters["slowdown"], *row.intervals["slowdown"], decimals=2)


def _badness(cell: Record) -> tuple[bool, float]:
    """Order cells so that the highest trusted figure comes last."""
    return cell["trusted"], cell["slowdown"] or 0.0


def _slowdown_colour(cells: Sequence[Record]) -> alt.Color:
    figures = [cell["slowdown"] for cell in cells if cell["trusted"]]
    low, high = min([0.9, *figures]), max([_FULL_COLOUR, *figures])
    return heat_map.colour("slowdown", "slowdown", [low, 1.0, high])


def _cell_texts(base: alt.Chart) -> list[alt.Chart]:
    """Write the slowdown into the cell; below it, its interval and a sweep's worst grid."""
    lines = {  # the middle of each, in pixels below the cell's
        "text": "datum.spread && datum.grid ? -13 : datum.spread || datum.grid ? -6 : 0",
        "spread": "datum.grid ? 1 : 8",
        "grid": "datum.spread ? 15 : 8",
    }
    return [
        heat_map.written(base, field, small=field != "text", dy=alt.expr(middle))
        for field, middle in lines.items()
    ]
