"""The chart of everything that has none of its own: a panel for each kind of row.

It shows the family's first leading counter that is no time, or a latency that comes before all
others, against the axis of the names with the most different whole numbers. So every family has a
chart, also a new one.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from overlapbench.grouping import grouped
from overlapbench.reading.counters import Better, Counter
from overlapbench.reading.rows import Row
from overlapbench.statistics import intervals
from overlapbench.view import theme, vega
from overlapbench.view.charts import axes, findings, naming
from overlapbench.view.charts.curves import COLUMNS, Curves, X, Y
from overlapbench.view.charts.records import ChartKind, Rows, kind_of, whole
from overlapbench.view.vega import Spec

_OWN = ("Overlap", "Priority", "Tp", "Fsdp", "Moe", "Layers", "MixedPrecision", "Lab/")
_TIMES = ("ms", "us")  # units
_LATENCY = "us"  # a family's first counter may have it
_HEIGHT = 240
_BESIDE = 100  # a panel: its y axis
_EXPECTED = ("predicted_", "formula_")  # what the names of references begin with


def _place(values: Sequence[Any], columns: int) -> tuple[str, Spec]:
    return (axes.elements_axis if min(values) > 0 else axes.linear_axis)(values, columns)


def _shown(row: Row) -> Counter | None:
    """Return the counter of a row that the chart shows: preferably one with a reference."""
    leads = [name for one in row.table.families if one.name == row.name.family for name in one.lead]
    known = (row.table.counters[name] for name in leads if name in row.counters)
    fit = (
        one
        for one in known
        if one.unit not in _TIMES or (one.unit == _LATENCY and one.name == leads[0])
    )
    return min(fit, key=lambda one: _expected(row, one) is None, default=None)


def _expected(row: Row, counter: Counter | None) -> float | None:
    names = [f"{word}{counter.name}" for word in _EXPECTED] if counter else []
    return next((row.counters[name] for name in names if name in row.counters), None)


def _found(rows: Sequence[Row], counter: Counter, axis: str) -> str:
    """Say which row has the best figure; "" if no direction is better, or none is known well."""
    trusted = [row for row in rows if row.trusted]
    figure = findings.known(trusted, counter.name)
    choose, words = (max, "up to") if counter.better is Better.HIGHER else (min, "as low as")
    best = choose(
        (row for row in trusted if id(row) in figure), key=lambda row: figure[id(row)], default=None
    )
    if best is None or counter.better is Better.NEITHER:
        return ""
    value, low, high = figure[id(best)]
    if high - low > value:  # the interval says little
        return ""
    told = f"{words} {intervals.measured(value, low, high)} {counter.printed_unit}".strip()
    at = naming.describe(axis, best.name.axis(axis) or "")
    where = naming.joined(naming.transport_names(rows)(best), at)
    said = f"{told} {counter.title}" if _is_share(counter) else f"{counter.title} {told}"
    return f"{said} ({where})"


def _is_share(counter: Counter) -> bool:
    return counter.title.startswith("of ")  # a copy, in %


def _titled(counter: Counter) -> str:
    """Return the title of an axis: `busbw (GB/s)`, or `% of a copy`."""
    unit = counter.printed_unit
    if _is_share(counter):
        return f"{unit} {counter.title}"
    return f"{counter.title} ({unit})" if unit else counter.title


def _charts(rows: Sequence[Row]) -> dict[str, tuple[Curves, Sequence[Row]]]:
    """Return, by title, a chart and its rows for each kind of these rows that can be drawn."""
    charts: dict[str, tuple[Curves, Sequence[Row]]] = {}
    own = (row for row in rows if not kind_of(row).startswith(_OWN))
    for kind, members in grouped(own, kind_of).items():
        counter = next(filter(None, map(_shown, members)), None)
        sizes = {
            axis: {size for row in members if (size := whole(row, axis)) is not None}
            for axis in dict.fromkeys(axis for row in members for axis, _ in row.name.axes)
        }
        axis = max(sizes, key=lambda one: len(sizes[one]), default="")
        if counter and sizes.get(axis):
            chart = _chart(counter, axis)
            drawn = chart.select(members)
            topic = _found(drawn, counter, axis) or f"{counter.label} against {axis}"
            charts |= {f"{kind}: {topic}": (chart, drawn)} if drawn else {}
    return charts


def _chart(counter: Counter, axis: str) -> Curves:
    return Curves(
        rows=Rows(known=[counter.name]),
        x=X("size", axis, _place, partial(whole, axis=axis)),
        y=Y(counter.name, _titled(counter), axes.FROM_ZERO),
        reference="expected",
        derived={"expected": lambda row: _expected(row, counter)},
        series=naming.named("transport", axis, head=naming.transport_names),
    )


def _only(rows: Sequence[Row]) -> str:
    """Return the title of the panel if there is one alone."""
    titles = [*_charts(rows)]
    return titles[0] if len(titles) == 1 else ""


class General(ChartKind):
    """Curves of any rows that are swept."""

    def select(self, rows: Sequence[Row]) -> list[Row]:
        shown = {id(row) for _, drawn in _charts(rows).values() for row in drawn}
        return [row for row in rows if id(row) in shown]

    def draw(self, rows: Sequence[Row]) -> Spec:
        def draw(part: tuple[Curves, Sequence[Row]]) -> Spec:
            chart, drawn = part
            records = chart.records(drawn)
            return chart.draw_panel(records, records, columns)

        parts = _charts(rows)
        columns = min(COLUMNS, len(parts))
        width = theme.WIDTH / columns - _BESIDE
        if columns == 1:  # the chart has its title
            (part,) = parts.values()
            return vega.lay_out({"": part}, draw, 1, _HEIGHT, width)
        drawn = vega.lay_out(parts, draw, columns, _HEIGHT, width)
        return drawn | {"resolve": {"scale": dict.fromkeys(("color", "shape"), "independent")}}


GENERAL = General(
    name="families",
    title="Each family",
    finding=_only,
    reading="A figure of each family against what varies most; dashed is a prediction.",
)
