"""The time of training steps beyond their computation alone, and its causes, one bar per step.

A bar is the exposed communication as a share of the computation, and its parts are

  no computation beside it  communication beside which the order of the steps leaves no
                            computation: the bound, less the time of the pattern's computation
  cutting                   the time of the pattern's computation beyond that of the plain form's
  interference              the slowdown of the sides by each other, and the cost of dependencies

The tick marks the end of the plain form, in which nothing overlaps.
"""

from collections.abc import Sequence

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.naming import by, named, together, transport_names
from overlapbench.view.charts.panels import state_text
from overlapbench.view.charts.stacks import Bar, draw_stacks
from overlapbench.view.series import joined
from overlapbench.view.theme import Drawing

# Layers against tokens and pipelines have their own charts. Batches wait for the host or are many
# small sums beside one product: shares of the computation say little about them.
_OTHERS = ("Pp/", "Prefetch", "Ddp/Batch")
_OTHER_WORKLOADS = ("ColumnParallel", "RowParallel")
_COLOURS = {
    "no computation beside it": theme.BLUE,
    "cutting": theme.GREEN,
    "interference": theme.ORANGE,
}
_COUNTERS = {"exposed_comm_ms", "chunking_cost_ms", "interference_ms", "sequential_ms"}
_PERCENT = 100
_TITLE = "time beyond the step's computation (%)"


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of whole training steps that report exposed communication."""
    return [
        row
        for row in rows
        if row.counters.keys() >= _COUNTERS
        and not row.name.family.startswith(_OTHERS)
        and row.name.workloads[0] not in _OTHER_WORKLOADS
        and _computation_ms(row) > 0
    ]


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw the bars, those of a family together."""
    return draw_stacks(rows, _NAMES(rows), _bar, _COLOURS, _TITLE)


def _computation_ms(row: Row) -> float:
    return row.time_ms - row.counters["exposed_comm_ms"]


def _bar(row: Row) -> Bar:
    computation_ms, exposed_ms = _computation_ms(row), row.counters["exposed_comm_ms"]
    exposed = _PERCENT * exposed_ms / computation_ms
    figure = f"{exposed:.0f} %" if abs(exposed) >= 10 else f"{exposed:.1f} %"
    if not row.trusted:
        tick = max(0.0, exposed)
        return Bar(tick, tick, joined(figure, state_text(row)))
    tick = max(0.0, _PERCENT * (row.counters["sequential_ms"] / computation_ms - 1))
    cutting, interference = row.counters["chunking_cost_ms"], row.counters["interference_ms"]
    lengths = (exposed_ms - cutting - interference, cutting, interference)
    parts = [
        {"part": part, "adds": _PERCENT * ms / computation_ms}
        for part, ms in zip(_COLOURS, lengths, strict=True)
    ]
    return Bar(tick, max(tick, exposed), figure, parts)


def _family(row: Row) -> str:
    return "/".join((row.name.family, *row.name.workloads))


_NAMES = named("transport", head=together(by(_family), transport_names), alike=_family)
