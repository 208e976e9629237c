"""Training a network: time against steps and against layers, each with its fitted line.

The rows of a curve differ in only one of the two axes. Its line is fitted to the trusted rows, and
its legend shows the cost per step or layer, the fixed cost, and the deviation of the rows from the
line.
"""

from collections.abc import Sequence

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.statistics.fit import Line, fit_line
from overlapbench.view import theme
from overlapbench.view.charts.panels import Record, bounds, lay_out, record_of, split
from overlapbench.view.charts.plot import interval_bars, parted, plot, told
from overlapbench.view.series import curves_along, file_names, label, shared_axes
from overlapbench.view.theme import Drawing

_SWEPT = ("steps", "layers")
_LEAST_POINTS = 3  # a line through two points has no information
_MICROSECONDS = 1e3  # in a millisecond


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the Mlp rows that belong to a curve along one of the axes."""
    timed = [row for row in rows if row.name.family == "Mlp" and "train_ms" in row.counters]
    drawn = {id(row) for axis in _SWEPT for curve in _curves(timed, axis) for row in curve}
    return [row for row in timed if id(row) in drawn]


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw a panel for each axis that has curves."""
    panels = {
        f"Time against {axis}": (axis, _records(axis, curves))
        for axis in _SWEPT
        if (curves := _curves(rows, axis))
    }
    return lay_out(
        panels, lambda panel: _draw(*panel), 2, 300, color="independent", shape="independent"
    )


def _curves(rows: Sequence[Row], axis: str) -> list[list[Row]]:
    """Group rows that differ only in the axis, and keep groups long enough for a fit."""
    return [
        curve
        for curve in curves_along([row for row in rows if row.name.axis(axis)], axis)
        if len({row.name.axis(axis) for row in curve if row.trusted}) >= _LEAST_POINTS
    ]


def _records(axis: str, curves: Sequence[Sequence[Row]]) -> list[Record]:
    every_row = [row for curve in curves for row in curve]
    leave_out, file = {axis, *shared_axes(every_row)}, file_names(every_row)
    records: list[Record] = []
    for curve in curves:
        line = fit_line([_point(row, axis) for row in curve if row.trusted])
        head = label("", dict(curve[0].name.axes), leave_out, file(curve[0]))
        legend = _legend(head, line, axis.removesuffix("s"))
        for row in curve:
            count, _ = _point(row, axis)
            fitted_ms = line.at(count)
            point = record_of(row, ["train_ms"], series=legend, count=count, fitted_ms=fitted_ms)
            records.append(point | bounds(row, "train_ms"))
    return records


def _point(row: Row, axis: str) -> tuple[float, float]:
    return float(row.name.axis(axis) or 0), row.counters["train_ms"]


def _legend(head: str, line: Line, unit: str) -> str:
    slope, intercept, residual = (
        value * _MICROSECONDS for value in (line.slope, line.intercept, line.residual)
    )
    sign = "+" if intercept >= 0 else "-"
    fitted = f"{slope:.1f} µs per {unit} {sign} {abs(intercept):.1f} µs, residual {residual:.1f} µs"
    return f"{head}: {fitted}" if head else fitted


def _draw(axis: str, records: Sequence[Record]) -> Drawing:
    series = list(split(records, "series"))
    colour, _ = theme.curve_style(series)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=series), legend=theme.key())
    base = plot(records).encode(
        x=alt.X("count:Q", title=axis, axis=alt.Axis(tickMinStep=1), scale=alt.Scale(zero=False)),
        tooltip=told("train_ms:Q", "fitted_ms:Q"),
    )
    good, bad = parted(base)
    measured = alt.Y("train_ms:Q", title="time (ms)")
    return alt.layer(
        *interval_bars(base, records, measured, colour),
        good.mark_line(strokeWidth=1.5).encode(y=alt.Y("fitted_ms:Q"), color=colour),
        good.mark_point(filled=True, size=60, opacity=1).encode(
            y=measured, color=colour, shape=shape
        ),
        bad.mark_point(**theme.UNTRUSTED_POINT).encode(y=measured),
    )
