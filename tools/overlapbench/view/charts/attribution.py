"""The causes of a slowdown: what each shared resource adds to it, one bar per pair.

A bar is as long as the excess, slowdown - 1, and its parts are the measured shares of it. A share
may be negative due to noise: it is then left of zero, and the others reach beyond the excess.
"""

from collections.abc import Sequence

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.curve_chart import Rows
from overlapbench.view.charts.naming import (
    Name,
    by_order,
    if_several,
    named,
    together,
    transport_names,
)
from overlapbench.view.charts.panels import Record, bounds, state_text
from overlapbench.view.charts.stacks import Bar, draw_stacks
from overlapbench.view.series import file_names, joined
from overlapbench.view.theme import Drawing

LEAST_SLOWDOWN = 1.1  # below it, shares of the excess are shares of noise
# Counter, its name, and its colour.
_CAUSES = (
    ("by_sm", "SMs", theme.BLUE),
    ("by_hbm", "device memory", theme.ORANGE),
    ("by_l2", "L2", theme.GREEN),
    ("by_clock", "clock", theme.PURPLE),
    ("by_lead", "late start", theme.VERMILION),
    ("residual", "unexplained", theme.SKY),
)
_MAY_LACK = {"by_lead"}  # as in results of earlier versions
_TITLE = "slowdown - 1: cost of the overlap beyond the longer side"


def _pair(rows: Sequence[Row]) -> Name:
    transport = transport_names(rows)

    def name(row: Row) -> str:
        communication, computation = row.name.workloads
        return " ".join(filter(None, [computation, "beside", communication, transport(row)]))

    return name


_NAMES = named(
    "transport",
    "first",
    head=_pair,
    alike=lambda row: row.name.workloads,
    file=together(if_several(by_order), file_names),
)


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the Lab/Attribution rows with shares: those with a slowdown worth explaining."""
    shares = {counter for counter, _, _ in _CAUSES} - _MAY_LACK
    explained = Rows("Lab/Attribution/*", above_zero=["slowdown"], known=[*shares])
    return [row for row in rows if explained.takes(row)]


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw the bars; a pair without a slowdown worth explaining has a line that says so."""
    colours = {cause: colour for _, cause, colour in _CAUSES}
    shares = ("share", "share_low", "share_high")
    return draw_stacks(rows, _NAMES(rows), _bar, colours, _TITLE, shares)


def _bar(row: Row) -> Bar:
    excess = row.counters["slowdown"] - 1
    tick = max(0.0, excess)
    parts: list[Record] = [
        {"part": cause, "adds": share * tick, "share": share} | bounds(row, counter, "share")
        for counter, cause, _ in _CAUSES
        if (share := row.counters.get(counter)) is not None
    ]
    figure = f"{row.counters['slowdown']:.2f}"
    if not row.trusted:
        return Bar(tick, tick, joined(figure, state_text(row)))
    if row.counters["slowdown"] <= LEAST_SLOWDOWN:
        return Bar(tick, 0.0, f"{figure}: no slowdown to explain")
    return Bar(tick, sum(part["adds"] for part in parts if part["adds"] > 0), figure, parts)
