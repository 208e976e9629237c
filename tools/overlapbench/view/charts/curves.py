"""Charts of curves, as data: the rows that are points, the axes, the curves and their panels.

A row becomes a record of `series`, `panel`, its place on the x axis, and each field that is drawn
or told, which `derived` computes, or else the counter of that name.

Measured figures are points joined by a line, references short strokes joined by a dashed line,
bounds dotted lines, all in the colour of the series. A record with a `ring`, which `finish` may
add, has a ring around its point.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from overlapbench.grouping import grouped
from overlapbench.reading.rows import Row
from overlapbench.view import theme, vega
from overlapbench.view.charts.axes import Place
from overlapbench.view.charts.naming import Naming, transport_names, unnamed
from overlapbench.view.charts.records import ChartKind, Rows, bounds, record_of
from overlapbench.view.vega import BAD, GOOD, Record, Spec

_REFERENCE_DASH, _BOUND_DASH = [4, 4], [1, 3]
COLUMNS = 2  # of panels, at most


@dataclass(frozen=True)
class X:
    """The x axis."""

    field: str  # of the records
    title: str
    place: Place  # of axes.py
    of: Callable[[Row], Any] = lambda _: None  # the value of a row; None has no place
    order: Callable[[Row], Any] | None = None  # of the points, if not that of the rows


@dataclass(frozen=True)
class Y:
    """The y axis."""

    measured: str  # the field that curves show
    title: str
    scale: Spec  # of axes.py
    holds: Sequence[float] = ()  # values that the axis contains, whatever is drawn

    def encoded(self, field: str) -> Spec:
        return vega.field(f"{field}:Q", title=self.title, scale=self.scale)


@dataclass(frozen=True, kw_only=True)
class Curves(ChartKind):
    """A chart of curves, in one panel or several, which share the axes."""

    rows: Rows | None = None  # None: of records that are not rows
    beside: Rows | None = None  # also shown, in panels that other rows make
    x: X
    y: Y
    series: Naming = unnamed
    panel: Naming = unnamed
    derived: Mapping[str, Callable[[Row], object]] = field(default_factory=dict)
    finish: Callable[[list[Record]], list[Record]] = lambda records: records
    reference: str = ""  # a field; empty: none
    bound: str = ""  # likewise
    tooltip: Sequence[str] = ()  # further fields
    interval: str = ""  # the counter whose interval is drawn; empty: that of the measured field
    label: str = ""  # a field written at the points of a single curve
    label_dy: Any = 0
    level: float | None = None  # of a rule across the panel
    height: int = 240  # of a panel
    least: int = 1  # points of a curve at different places
    independent: Sequence[str] = ()  # channels that have a scale, or a legend, in each panel

    def select(self, rows: Sequence[Row]) -> list[Row]:
        found = self._placed(self.rows, rows)
        name = self.series(found)
        curves = grouped(found, lambda row: (row.file, name(row))).values()
        found = [row for curve in curves if len({*map(self.x.of, curve)}) >= self.least
                 for row in curve]  # fmt: skip
        others = self._placed(self.beside, rows)
        title = self.panel([*found, *others])
        panels = {*map(title, found)}
        found += [row for row in others if title(row) in panels]
        shown = {*map(id, found)}
        return [row for row in rows if id(row) in shown]

    def _placed(self, taking: Rows | None, rows: Sequence[Row]) -> list[Row]:
        taken = taking.taken(rows) if taking else []
        return [row for row in taken if self.x.of(row) is not None]

    def draw(self, rows: Sequence[Row]) -> Spec:
        records = self.records(rows)
        panels = vega.split(records, "panel")

        def draw(part: Sequence[Record]) -> Spec:
            return self.draw_panel(part, records, min(COLUMNS, len(panels)))

        drawn = vega.lay_out(panels, draw, COLUMNS, self.height)
        if len(panels) == 1:
            return drawn
        scales = {"x": "shared", "y": "shared"} | dict.fromkeys(self.independent, "independent")
        return drawn | {"resolve": {"scale": scales}}

    def records(self, rows: Sequence[Row]) -> list[Record]:
        """Make the records of the rows; names are derived from all of them."""
        name, title, transport = self.series(rows), self.panel(rows), transport_names(rows)
        records = [
            record_of(row, series=name(row), panel=title(row), transport=transport(row))
            | {self.x.field: self.x.of(row)}
            | self._figures_of(row)
            for row in (sorted(rows, key=self.x.order) if self.x.order else rows)
        ]
        return list(chain(*vega.split(self.finish(records), "panel").values()))

    def _figures_of(self, row: Row) -> Record:
        fields = [self.y.measured, self.reference, *self.tooltip, self.bound, self.label]
        made: Record = {name: row.counters[name] for name in fields if name in row.counters}
        made |= {name: derived(row) for name, derived in self.derived.items()}
        return made | bounds(row, self.interval or self.y.measured, self.y.measured)

    def draw_panel(self, records: Sequence[Record], every: Sequence[Record], columns: int) -> Spec:
        """Draw the curves of one panel, of so many side by side that have `every` record."""
        kind, looks = self.x.place([record[self.x.field] for record in every], columns)
        x = vega.field(f"{self.x.field}:{kind}", title=self.x.title, **looks)
        told = vega.split(records if "color" in self.independent else every, "series")
        curves = {curve: points[0]["transport"] for curve, points in told.items()}
        style = theme.curve_style(curves)
        colour, shape = ({channel: style[channel]} for channel in ("color", "shape"))
        fields = [self.y.measured, *filter(None, [self.reference]), *self.tooltip]
        tooltip = {"tooltip": vega.told(*(one if ":" in one else f"{one}:Q" for one in fields))}
        at = {"x": x, "y": self.y.encoded(self.y.measured)}
        point = at | tooltip
        layers = [*self._behind(at, colour, tooltip)]
        layers += vega.intervals(records, point | colour)
        layers.append(vega.mark("line", point | colour, GOOD, strokeWidth=2))
        if any("ring" in record for record in records):
            area = {"size": {"field": "ring", "type": "quantitative", "scale": None}}
            layers.append(vega.mark("point", point | colour | area, "datum.ring", **theme.RING))
        layers += [
            vega.mark("point", point | shape, BAD, **theme.UNTRUSTED_POINT),
            vega.mark("point", point | colour | shape, GOOD, filled=True, size=50, opacity=1),
        ]
        if self.label and len(curves) == 1:  # labels of several curves would overlap
            text = at | {"text": vega.field(f"{self.label}:N")}
            layers += vega.haloed(text, GOOD, dy=self.label_dy, fontSize=11)
        return vega.panel(layers, records)

    def _behind(self, at: Spec, colour: Spec, tooltip: Spec) -> Iterator[Spec]:
        """Draw the level, the bounds and the references, and nothing at values that y holds."""
        if self.y.holds:
            held = [{"held": value} for value in self.y.holds]
            yield vega.mark("rule", {"y": self.y.encoded("held")}, "", held, opacity=0)
        if self.level is not None:
            level = {"y": self.y.encoded("level")}
            yield vega.mark("rule", level, "", [{"level": self.level}])
        if self.bound:
            bound = at | colour | {"y": self.y.encoded(self.bound)}
            yield vega.mark("line", bound, GOOD, strokeWidth=1.5, strokeDash=_BOUND_DASH)
        if self.reference:
            told = at | tooltip | colour | {"y": self.y.encoded(self.reference)}
            stroke: Spec = {"shape": "stroke", "size": 120, "strokeWidth": 2, "opacity": 1}
            yield vega.mark("line", told, GOOD, strokeWidth=1.5, strokeDash=_REFERENCE_DASH)
            yield vega.mark("point", told, GOOD, **stroke)
