"""Curves of measured figures, each with its reference: drawn in the same way everywhere.

Measured figures are points joined by a line, references short strokes joined by a dashed line,
bounds dotted lines, all in the colour of the series. A record (panels.py) contains `series` and the
figures. An untrusted record is a grey, hollow point, without its reference and its bound. A record
may lack the reference: then it has no bound either.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt

from overlapbench.view import theme
from overlapbench.view.charts.panels import Record
from overlapbench.view.charts.plot import haloed, interval_bars, parted, plot, told
from overlapbench.view.theme import Drawing

_REFERENCE_DASH, _BOUND_DASH = [4, 4], [1, 3]

# Curves differ in colour, and in point shape or dash.
Style = Callable[[Sequence[str]], tuple[alt.Color, alt.Shape | alt.StrokeDash]]


@dataclass(frozen=True)
class Figures:
    """The y axis: fields of the records, and their scale."""

    measured: str
    title: str
    scale: Callable[[Collection[float]], alt.Scale]  # from axes.py, for all values drawn
    reference: str = ""  # empty: none
    bound: str = ""  # likewise
    tooltip: Sequence[str] = ()  # further fields
    interval: str = ""  # the counter whose interval is drawn; empty: that of the measured field
    holds_intervals: bool = False  # the axis contains intervals that reach beyond all figures
    label: str = ""  # a field written at the points of a single curve
    label_dy: Any = 0
    level: float | None = None  # of a rule across the panel
    level_style: Mapping[str, Any] = field(default_factory=dict)
    style: Style = theme.curve_style
    height: int = 240  # of a panel
    alone: int = 0  # of a single panel without a title; 0: like others

    @property
    def told(self) -> list[str]:
        return [self.measured, *filter(None, [self.reference]), *self.tooltip]

    @property
    def fields(self) -> list[str]:
        return [*self.told, *filter(None, [self.bound, self.label])]

    def scale_of(self, records: Sequence[Record]) -> alt.Scale:
        """Return the scale that contains everything drawn of the records."""
        ends = [f"{self.measured}_high"] * self.holds_intervals
        drawn = [self.measured, self.reference, self.bound, *ends]
        return self.scale([record[key] for record in records for key in drawn if key in record])

    def y(self, field: str, scale: alt.Scale) -> alt.Y:
        return alt.Y(f"{field}:Q", title=self.title, scale=scale)


def draw_curves(
    records: Sequence[Record], x: alt.X, figures: Figures, scale: alt.Scale, series: Sequence[str]
) -> Drawing:
    """Draw the curves of one panel; `series` are those of all panels, for one legend."""
    reference = figures.reference
    compared = [record for record in records if not reference or reference in record]
    others = [record for record in records if reference and reference not in record]
    good, _ = parted(plot(compared).encode(x=x))
    below: list[alt.Chart] = []
    above: list[Drawing | alt.Chart] = []
    if figures.level is not None:
        level = plot([{"level": figures.level}]).encode(y=alt.Y("level:Q", scale=scale))
        below.append(level.mark_rule(**figures.level_style))
    if figures.bound:
        colour, _ = figures.style(series)
        bound = good.encode(y=figures.y(figures.bound, scale), color=colour)
        below.append(bound.mark_line(strokeWidth=1.5, strokeDash=_BOUND_DASH))
    if others:
        above.append(
            _measured(others, x, replace(figures, reference="", tooltip=()), scale, series)
        )
    if figures.label and len(series) == 1:  # labels of several curves would overlap
        label = good.encode(y=figures.y(figures.measured, scale), text=f"{figures.label}:N")
        above += haloed(label, dy=figures.label_dy, fontSize=11)
    curves = _measured(compared, x, figures, scale, series)
    return alt.layer(*below, curves, *above) if below or above else curves


def _measured(
    records: Sequence[Record], x: alt.X, figures: Figures, scale: alt.Scale, series: Sequence[str]
) -> Drawing:
    """Draw the points and their lines, above the references."""
    colour, other = figures.style(series)
    dashed = isinstance(other, alt.StrokeDash)
    dash, shape = ({"strokeDash": other}, {}) if dashed else ({}, {"shape": other})
    base = plot(records).encode(x=x, tooltip=told(*(f"{field}:Q" for field in figures.told)))
    good, bad = parted(base)
    y = figures.y(figures.measured, scale)
    layers: list[alt.Chart] = [
        *interval_bars(base, records, y, colour),
        good.mark_line(strokeWidth=2).encode(y=y, color=colour, **dash),
        good.mark_point(filled=True, size=50, opacity=1).encode(y=y, color=colour, **shape),
        bad.mark_point(**theme.UNTRUSTED_POINT).encode(y=y, **shape),
    ]
    if figures.reference:
        reference = good.encode(y=figures.y(figures.reference, scale), color=colour)
        layers[:0] = [
            reference.mark_line(strokeWidth=1.5, strokeDash=_REFERENCE_DASH),
            reference.mark_point(shape="stroke", size=120, strokeWidth=2, opacity=1),
        ]
    return alt.layer(*layers)
