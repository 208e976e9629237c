"""Curves of measured figures, each beside its reference where it has one: drawn alike everywhere.

Measured figures are points joined by a line, references short strokes joined by a dashed line, both
in the colour of the series. A record holds what `identity` returns (panels.py), `series` and the
figures; one that is not trusted is a grey, hollow point, and its reference is not drawn.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import altair as alt

from overlapbench import theme
from overlapbench.charts.panels import Record, interval_bars, parted
from overlapbench.charts.plot import plot, tooltip
from overlapbench.result import Row
from overlapbench.series import binary_count, binary_size
from overlapbench.theme import Drawing

_REFERENCE_DASH = [4, 4]
_MARGIN = 0.08  # on each side, as a share of a logarithmic axis
_LEAST_MARGIN = 1.1  # a factor


@dataclass(frozen=True)
class Figures:
    """What stands on the y axis: fields of the records, and how the axis measures them."""

    measured: str
    title: str
    scale: alt.Scale
    reference: str = ""  # empty: there is none
    tooltip: tuple[str, ...] = ()  # further fields


def is_measured(row: Row, workload: str, *counters: str) -> bool:
    """Tell whether a row is of `Family/Workload` and has the counters, each above zero."""
    name = f"{row.name.family}/{'+'.join(row.name.workloads)}"
    return name == workload and all(row.counters.get(key, 0.0) > 0 for key in counters)


def whole(row: Row, axis: str) -> int | None:
    """Return the value of an axis that is a whole number, or None where it is not or is missing."""
    text = row.name.axis(axis) or ""
    return int(text) if text.isascii() and text.isdecimal() else None


def draw_curves(
    records: Sequence[Record], x: alt.X, figures: Figures, series: Sequence[str]
) -> Drawing:
    """Draw the curves of one panel; `series` are those of all panels, for one legend."""
    colour, shape = theme.curve_style(series)
    shown = [figures.measured, *filter(None, [figures.reference]), *figures.tooltip]
    base = plot(records).encode(
        x=x, tooltip=tooltip(["name:N", "file:N", *(f"{field}:Q" for field in shown), "problem:N"])
    )
    good, bad = parted(base)
    measured = _y(figures, figures.measured)
    layers: list[alt.Chart] = [
        *interval_bars(base, records, measured, colour),
        good.mark_line(strokeWidth=2).encode(y=measured, color=colour),
        good.mark_point(filled=True, size=50, opacity=1).encode(
            y=measured, color=colour, shape=shape
        ),
        bad.mark_point(**theme.UNTRUSTED_POINT).encode(y=measured, shape=shape),
    ]
    if figures.reference:
        reference = good.encode(y=_y(figures, figures.reference), color=colour)
        layers[:0] = [
            reference.mark_line(strokeWidth=1.5, strokeDash=_REFERENCE_DASH),
            reference.mark_point(shape="stroke", size=120, strokeWidth=2, opacity=1),
        ]
    return alt.layer(*layers)


def count_axis(field: str, counts: Collection[int], title: str) -> alt.X:
    """Place whole numbers from 1 on by their logarithm."""
    return _log_axis(field, counts, title, str)


def elements_axis(field: str, counts: Collection[int], title: str) -> alt.X:
    """Place numbers of elements by their logarithm, and label them as `64 Mi` or `50257`."""
    return _log_axis(field, counts, title, binary_count)


def size_axis(field: str, sizes: Collection[int], title: str) -> alt.X:
    """Place sizes by their logarithm and label them as people write them."""
    return _log_axis(field, sizes, title, binary_size)


def log_scale(values: Collection[float]) -> alt.Scale:
    """Hold all values, and a margin for the points at both ends."""
    low, high = min(values), max(values)
    margin = max((high / low) ** _MARGIN, _LEAST_MARGIN)
    return alt.Scale(type="log", domain=[low / margin, high * margin], nice=False)


def _log_axis(
    field: str, values: Collection[int], title: str, write: Callable[[int], str]
) -> alt.X:
    ticks = sorted(set(values))
    labels = json.dumps({value: write(value) for value in ticks}, ensure_ascii=False)
    return alt.X(
        f"{field}:Q",
        title=title,
        scale=log_scale(ticks),
        axis=alt.Axis(values=ticks, labelExpr=f"({labels})[datum.value]", labelOverlap=True),
    )


def _y(figures: Figures, field: str) -> alt.Y:
    return alt.Y(f"{field}:Q", title=figures.title, scale=figures.scale)
