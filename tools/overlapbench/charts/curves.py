"""Curves of measured figures, each beside what it is compared with: drawn alike everywhere.

Measured figures are points joined by a line, references short strokes joined by a dashed line,
bounds dotted lines, all in the colour of the series. A record holds what `identity` returns
(panels.py), `series` and the figures; one that is not trusted is a grey, hollow point, and neither
its reference nor its bound is drawn. A record may lack the reference: then it has no bound either.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt

from overlapbench import theme
from overlapbench.charts.panels import Record, interval_bars, parted
from overlapbench.charts.plot import haloed, plot, told
from overlapbench.theme import Drawing

_REFERENCE_DASH = [4, 4]
_BOUND: dict[str, Any] = {"strokeWidth": 1.5, "strokeDash": [1, 3]}

# What tells curves apart: colour, and point shape or dash.
Style = Callable[[Sequence[str]], tuple[alt.Color, alt.Shape | alt.StrokeDash]]


@dataclass(frozen=True)
class Figures:
    """What stands on the y axis: fields of the records, and how the axis measures them."""

    measured: str
    title: str
    scale: Callable[[Collection[float]], alt.Scale]  # of axes.py, for all values that are drawn
    reference: str = ""  # empty: there is none
    bound: str = ""  # likewise
    tooltip: Sequence[str] = ()  # further fields
    interval: str = ""  # the counter whose interval is drawn; empty: called as the measured field
    holds_intervals: bool = False  # the axis does, where they reach beyond all figures
    label: str = ""  # a field that is written at the points of a single curve
    label_dy: Any = 0
    level: float | None = None  # of a rule across the panel
    level_style: Mapping[str, Any] = field(default_factory=dict)
    style: Style = theme.curve_style
    height: int = 240  # of a panel
    alone: int = 0  # of a panel that is the only one and has no title; 0: it is like others

    @property
    def told(self) -> list[str]:
        return [self.measured, *filter(None, [self.reference]), *self.tooltip]

    @property
    def fields(self) -> list[str]:
        return [*self.told, *filter(None, [self.bound, self.label])]

    def scale_of(self, records: Sequence[Record]) -> alt.Scale:
        """Return the scale that holds all that is drawn of the records."""
        ends = [f"{self.measured}_high"] * self.holds_intervals
        drawn = [self.measured, self.reference, self.bound, *ends]
        return self.scale([record[key] for record in records for key in drawn if key in record])


def draw_curves(
    records: Sequence[Record], x: alt.X, figures: Figures, scale: alt.Scale, series: Sequence[str]
) -> Drawing:
    """Draw the curves of one panel; `series` are those of all panels, for one legend."""
    compared = [r for r in records if not figures.reference or figures.reference in r]
    others = [r for r in records if figures.reference and figures.reference not in r]
    curves = _measured(compared, x, figures, scale, series)
    below = [*_level(figures, scale), *_bound(compared, x, figures, scale, series)]
    above: list[Drawing | alt.Chart] = []
    if others:
        plain = replace(figures, reference="", tooltip=())
        above.append(_measured(others, x, plain, scale, series))
    if figures.label and len(series) == 1:  # of several curves the labels would lie on each other
        above += _labels(compared, x, figures, scale)
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
    y = _y(figures, figures.measured, scale)
    layers: list[alt.Chart] = [
        *interval_bars(base, records, y, colour),
        good.mark_line(strokeWidth=2).encode(y=y, color=colour, **dash),
        good.mark_point(filled=True, size=50, opacity=1).encode(y=y, color=colour, **shape),
        bad.mark_point(**theme.UNTRUSTED_POINT).encode(y=y, **shape),
    ]
    if figures.reference:
        reference = good.encode(y=_y(figures, figures.reference, scale), color=colour)
        layers[:0] = [
            reference.mark_line(strokeWidth=1.5, strokeDash=_REFERENCE_DASH),
            reference.mark_point(shape="stroke", size=120, strokeWidth=2, opacity=1),
        ]
    return alt.layer(*layers)


def _level(figures: Figures, scale: alt.Scale) -> list[alt.Chart]:
    if figures.level is None:
        return []
    base = plot([{"level": figures.level}]).encode(y=alt.Y("level:Q", scale=scale))
    return [base.mark_rule(**figures.level_style)]


def _bound(
    records: Sequence[Record], x: alt.X, figures: Figures, scale: alt.Scale, series: Sequence[str]
) -> list[alt.Chart]:
    if not figures.bound:
        return []
    good, _ = parted(plot(records))
    colour, _ = figures.style(series)
    y = _y(figures, figures.bound, scale)
    return [good.mark_line(**_BOUND).encode(x=x, y=y, color=colour)]


def _labels(
    records: Sequence[Record], x: alt.X, figures: Figures, scale: alt.Scale
) -> list[alt.Chart]:
    good, _ = parted(plot(records))
    label = good.encode(x=x, y=_y(figures, figures.measured, scale), text=f"{figures.label}:N")
    return haloed(label, dy=figures.label_dy, fontSize=11)


def _y(figures: Figures, field: str, scale: alt.Scale) -> alt.Y:
    return alt.Y(f"{field}:Q", title=figures.title, scale=scale)
