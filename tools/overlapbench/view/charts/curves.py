"""Charts of curves, as data: the rows that are points, the axes, the curves and their panels.

A row becomes a record of `series`, `panel`, its place on the x axis, and each field that is drawn
or told, which `derived` computes, or else the counter of that name.

Measured figures are points joined by a line, references short strokes joined by a dashed line,
bounds dotted lines, all in the colour of the series. A record with a `ring`, which `finish` may
add, has a ring around its point.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.axes import Place, Scale
from overlapbench.view.charts.kind import ChartKind
from overlapbench.view.charts.naming import Naming
from overlapbench.view.charts.records import Rows, bounds, record_of, whole
from overlapbench.view.series import curves_along
from overlapbench.view.vega import (
    BAD,
    FULL_WIDTH,
    GOOD,
    Record,
    Spec,
    haloed,
    intervals,
    lay_out,
    mark,
    panel,
    split,
    told,
)
from overlapbench.view.vega import field as encoded

_REFERENCE_DASH, _BOUND_DASH = [4, 4], [1, 3]
_STYLES = ("color", "shape")

# Curves differ in colour and point shape.
Style = Callable[[Mapping[str, int]], dict[str, Any]]
Records = list[Record]


@dataclass(frozen=True)
class X:
    """The x axis: by default, a whole number in the names."""

    axis: str  # of the names
    title: str  # empty: the axis
    place: Place  # of axes.py
    field: str = ""  # of the records; empty: the name of the axis
    least: int = 1
    unwritten: int | None = None  # the value for a name without the axis
    value: Callable[[Row], Any] | None = None  # another value; None has no place
    order: Callable[[Row], Any] | None = None  # of the points, if not that of the rows

    @property
    def name(self) -> str:
        return self.field or self.axis

    def of(self, row: Row, axis: str = "") -> Any:
        """Return the place of a row; None if it has none."""
        if self.value:
            return self.value(row)
        axis = axis or self.axis
        value = self.unwritten if row.name.axis(axis) is None else whole(row, axis)
        return value if value is not None and value >= self.least else None

    def encoded(self, records: Sequence[Record], columns: int, title: str = "") -> Spec:
        kind, looks = self.place([record[self.name] for record in records], columns)
        return encoded(f"{self.name}:{kind}", title=title or self.title, **looks)


@dataclass(frozen=True, kw_only=True)
class Curves(ChartKind):
    """A chart of curves, in one panel or several."""

    rows: Sequence[Rows]  # a row is one point for each entry that matches it
    x: X
    measured: str  # the field on the y axis
    y_title: str
    scale: Scale  # from axes.py, for all values drawn
    series: Naming
    panel: Naming | None = None  # None: one panel, or `rows` name it
    derived: Mapping[str, Callable[[Row], object]] = field(default_factory=dict)
    finish: Callable[[Records], Records] | None = None
    reference: str = ""  # a field; empty: none
    bound: str = ""  # likewise
    tooltip: Sequence[str] = ()  # further fields
    interval: str = ""  # the counter whose interval is drawn; empty: that of the measured field
    holds_intervals: bool = False  # the axis contains intervals that reach beyond all figures
    label: str = ""  # a field written at the points of a single curve
    label_dy: Any = 0
    level: float | None = None  # of a rule across the panel
    level_style: Mapping[str, Any] = field(default_factory=dict)
    line: str = ""  # the field that the line joins; empty: the measured one
    style: Style = theme.curve_style
    height: int = 240  # of a panel
    alone: int = 0  # of a single panel without a title; 0: like others
    least: int = 1  # points of a curve at different places
    columns: int = 2  # of panels, at most; 0: stacked, as wide as the picture
    own_legends: bool = False  # of each panel
    own_x: bool = False  # of each panel
    scale_of_each: str = ""  # the field by whose values scales differ; empty: one scale
    panel_title: Callable[[Sequence[Record]], str] | None = None  # None: the value of `panel`

    def select(self, rows: Sequence[Row]) -> list[Row]:
        shown = {id(row) for row, _ in self._points(rows)}
        return [row for row in rows if id(row) in shown]

    def draw(self, rows: Sequence[Row]) -> Spec:
        records = self.records(rows)
        key, panels = self.scale_of_each, split(records, "panel")
        scales = {value: self._scale_of(part) for value, part in split(records, key).items()}
        columns = min(self.columns, len(panels)) or 1

        def draw(part: Sequence[Record]) -> Spec:
            x = self.x.encoded(part if self.own_x else records, columns, part[0].get("x_axis", ""))
            curves = split(part if self.own_legends else records, "series")
            places = {curve: place for place, curve in enumerate(curves)}
            return self._panel(part, x, scales[part[0].get(key, "")], places)

        if len(panels) == 1 and self.alone:
            return draw(records) | {"width": FULL_WIDTH, "height": self.alone}
        titled = {
            self.panel_title(part) if self.panel_title else title: part
            for title, part in panels.items()
        }
        independent = _STYLES if self.own_legends else ()
        return lay_out(titled, draw, self.columns, self.height, independent=independent)

    @property
    def _told(self) -> list[str]:
        return [self.measured, *filter(None, [self.reference]), *self.tooltip]

    def _scale_of(self, records: Sequence[Record]) -> Spec:
        """Return the scale that contains everything drawn of the records."""
        drawn = [self.measured, self.reference, self.bound]
        ends = [f"{self.measured}_low", f"{self.measured}_high"] * self.holds_intervals
        keys = {True: [*drawn, *ends], False: drawn}  # by whether a record is trusted
        values = (r.get(key) for r in records for key in keys[r["trusted"]])
        return self.scale([value for value in values if value is not None])

    def _y(self, field: str, scale: Spec) -> Spec:
        return encoded(f"{field}:Q", title=self.y_title, scale=scale)

    def _points(self, rows: Sequence[Row]) -> list[tuple[Row, Rows]]:
        """Return each row with each entry that takes it."""
        found: list[tuple[Row, Rows]] = []
        for taking in self.rows:
            taken = taking.taken(rows)
            if self.least > 1:
                taken = self._swept(taken, taking.x or self.x.axis)
            else:
                taken = [row for row in taken if self.x.of(row, taking.x) is not None]
            found += [(row, taking) for row in taken]
        if self.panel and any(taking.beside for _, taking in found):
            name = self.panel([row for row, _ in found])
            panels = {name(row) for row, taking in found if not taking.beside}
            found = [one for one in found if name(one[0]) in panels]
        return found

    def _swept(self, rows: Sequence[Row], axis: str) -> list[Row]:
        """Return the rows of curves that are long enough; a line is fitted to trusted rows."""
        long = [
            curve
            for curve in curves_along([row for row in rows if row.name.axis(axis)], axis)
            if len({r.name.axis(axis) for r in curve if r.trusted or not self.line}) >= self.least
        ]
        kept = {id(row) for curve in long for row in curve if self.x.of(row, axis) is not None}
        return [row for row in rows if id(row) in kept]

    def records(self, rows: Sequence[Row]) -> Records:
        """Make the records of the rows that are points; names are derived from all rows."""
        points = self._points(sorted(rows, key=self.x.order) if self.x.order else rows)
        names = {
            axis: self.series([_without(row, axis) for row in self._named(rows, points, axis)])
            for axis in {taking.x or self.x.axis for _, taking in points}
        }
        panel = self.panel(rows) if self.panel else None
        records = [
            record_of(row, series=names[axis](_without(row, axis)))
            | {self.x.name: self.x.of(row, taking.x)}
            | ({"panel": panel(row)} if panel else {})
            | ({"x_axis": taking.x} if taking.x else {})
            | {**taking.told}
            | self._figures_of(row, taking)
            for row, taking in points
            for axis in [taking.x or self.x.axis]
        ]
        if self.finish:
            records = self.finish(records)
        return list(chain(*split(records, "panel").values()))

    @staticmethod
    def _named(rows: Sequence[Row], points: Sequence[tuple[Row, Rows]], axis: str) -> Sequence[Row]:
        """Return the rows among which a curve is named: those with its x axis, if these differ."""
        own = [row for row, taking in points if taking.x == axis]
        return own or rows

    def _figures_of(self, row: Row, taking: Rows) -> Record:
        fields = [*self._told, self.bound, self.label]
        made: Record = {name: row.counters[name] for name in fields if name in row.counters}
        if not taking.beside:
            made |= {name: derived(row) for name, derived in self.derived.items()}
        if taking.measured:
            made[self.measured] = row.counters.get(taking.measured, row.time_ms)
        counter = taking.measured or self.interval or self.measured
        return made | bounds(row, counter, self.measured)

    def _panel(
        self, records: Sequence[Record], x: Spec, scale: Spec, places: Mapping[str, int]
    ) -> Spec:
        """Draw the curves of one panel; `places` determine their styles."""
        style = self.style(places)
        colour = {"color": style["color"]}
        tooltip = {"tooltip": told(*(one if ":" in one else f"{one}:Q" for one in self._told))}
        y = self._y(self.measured, scale)
        at, point = {"x": x, "y": y}, {"x": x, "y": y, **tooltip}
        line = at | {"y": self._y(self.line or self.measured, scale)}
        layers = []
        if self.level is not None:
            level = {"y": encoded("level:Q", scale=scale)}
            layers.append(mark("rule", level, "", [{"level": self.level}], **self.level_style))
        if self.bound:
            bound = at | colour | {"y": self._y(self.bound, scale)}
            layers.append(mark("line", bound, GOOD, strokeWidth=1.5, strokeDash=_BOUND_DASH))
        if self.reference:
            at_reference = point | colour | {"y": self._y(self.reference, scale)}
            stroke: Spec = {"shape": "stroke", "size": 120, "strokeWidth": 2, "opacity": 1}
            layers += [
                mark("line", at_reference, GOOD, strokeWidth=1.5, strokeDash=_REFERENCE_DASH),
                mark("point", at_reference, GOOD, **stroke),
            ]
        shape = {"shape": style["shape"]}
        layers += intervals(records, point | colour)
        layers.append(mark("line", line | colour | tooltip, GOOD, strokeWidth=2))
        if any("ring" in record for record in records):
            area = {"size": {"field": "ring", "type": "quantitative", "scale": None}}
            layers.append(mark("point", point | colour | area, "datum.ring", **theme.RING))
        layers += [
            mark("point", point | shape, BAD, **theme.UNTRUSTED_POINT),
            mark("point", point | colour | shape, GOOD, filled=True, size=50, opacity=1),
        ]
        if self.label and len(places) == 1:  # labels of several curves would overlap
            text = at | {"text": encoded(f"{self.label}:N")}
            layers += haloed(text, GOOD, dy=self.label_dy, fontSize=11)
        return panel(layers, records)


def _without(row: Row, axis: str) -> Row:
    """Return a row whose name has no such axis."""
    name = row.name
    axes = tuple(one for one in name.axes if one[0] != axis)
    return replace(row, name=BenchmarkName(name.family, name.workloads, axes))
