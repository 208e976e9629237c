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

from overlapbench.grouping import grouped
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.result import Row
from overlapbench.view import theme, vega
from overlapbench.view.charts.axes import Place, Scale
from overlapbench.view.charts.naming import Naming, transport_names
from overlapbench.view.charts.records import ChartKind, Rows, bounds, record_of, whole
from overlapbench.view.vega import BAD, GOOD, Record, Spec

_REFERENCE_DASH, _BOUND_DASH = [4, 4], [1, 3]
_STYLES = ("color", "shape")
_COLUMNS = 2  # of panels, at most

# Curves, given with their transports, differ in colour and point shape.
Style = Callable[[Mapping[str, str]], dict[str, Any]]
Records = list[Record]


@dataclass(frozen=True)
class X:
    """The x axis: by default, a whole number in the names."""

    axis: str  # of the names
    title: str  # empty: the axis
    place: Place  # of axes.py
    field: str = ""  # of the records; empty: the name of the axis
    least: int = 1
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
        value = whole(row, axis)
        return value if value is not None and value >= self.least else None


@dataclass(frozen=True)
class Y:
    """The y axis."""

    measured: str  # the field that curves show
    title: str
    scale: Scale  # of axes.py, for all values drawn

    def encoded(self, field: str, scale: Spec) -> Spec:
        return vega.field(f"{field}:Q", title=self.title, scale=scale)


@dataclass(frozen=True, kw_only=True)
class Curves(ChartKind):
    """A chart of curves, in one panel or several."""

    rows: Sequence[Rows]  # a row is one point for each entry that matches it
    x: X
    y: Y
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
    style: Style = theme.curve_style
    height: int = 240  # of a panel
    alone: int = 0  # of a single panel without a title; 0: like others
    least: int = 1  # points of a curve at different places
    own_legends: bool = False  # of each panel
    own_x: bool = False  # of each panel
    scale_of_each: str = ""  # the field by whose values scales differ; empty: one scale

    def select(self, rows: Sequence[Row]) -> list[Row]:
        shown = {id(row) for row, _ in self._points(rows)}
        return [row for row in rows if id(row) in shown]

    def draw(self, rows: Sequence[Row]) -> Spec:
        records = self.records(rows)
        key, panels = self.scale_of_each, vega.split(records, "panel")
        scales = {value: self._scale_of(part) for value, part in vega.split(records, key).items()}
        columns = min(_COLUMNS, len(panels))

        def draw(part: Sequence[Record]) -> Spec:
            values = [one[self.x.name] for one in (part if self.own_x else records)]
            kind, looks = self.x.place(values, columns)
            title = part[0].get("x_axis", self.x.title)
            x = vega.field(f"{self.x.name}:{kind}", title=title, **looks)
            curves = vega.split(part if self.own_legends else records, "series")
            transports = {curve: points[0]["transport"] for curve, points in curves.items()}
            return self._panel(part, x, scales[part[0].get(key, "")], transports)

        if len(panels) == 1 and self.alone:
            return draw(records) | {"width": vega.FULL_WIDTH, "height": self.alone}
        independent = _STYLES if self.own_legends else ()
        return vega.lay_out(panels, draw, _COLUMNS, self.height, independent=independent)

    @property
    def _told(self) -> list[str]:
        return [self.y.measured, *filter(None, [self.reference]), *self.tooltip]

    def _scale_of(self, records: Sequence[Record]) -> Spec:
        """Return the scale that contains everything drawn of the records."""
        drawn = [self.y.measured, self.reference, self.bound]
        ends = [f"{self.y.measured}_low", f"{self.y.measured}_high"] * self.holds_intervals
        keys = {True: [*drawn, *ends], False: drawn}  # by whether a record is trusted
        values = (r.get(key) for r in records for key in keys[r["trusted"]])
        return self.y.scale([value for value in values if value is not None])

    def _points(self, rows: Sequence[Row]) -> list[tuple[Row, Rows]]:
        """Return each row with each entry that takes it."""
        found: list[tuple[Row, Rows]] = []
        for taking in self.rows:
            taken = [row for row in taking.taken(rows) if self.x.of(row, taking.x) is not None]
            long = self._long(taken, taking.x or self.x.axis) if self.least > 1 else taken
            found += [(row, taking) for row in long]
        if self.panel and any(taking.beside for _, taking in found):
            name = self.panel([row for row, _ in found])
            panels = {name(row) for row, taking in found if not taking.beside}
            found = [one for one in found if name(one[0]) in panels]
        return found

    def _long(self, rows: Sequence[Row], axis: str) -> list[Row]:
        curves = grouped(rows, lambda row: (row.file, _without(row, axis).name))
        kept = {
            id(row)
            for curve in curves.values()
            if len({row.name.axis(axis) for row in curve}) >= self.least
            for row in curve
        }
        return [row for row in rows if id(row) in kept]

    def records(self, rows: Sequence[Row]) -> Records:
        """Make the records of the rows that are points; names are derived from all rows."""
        points = self._points(sorted(rows, key=self.x.order) if self.x.order else rows)
        panel, records = self.panel(rows) if self.panel else None, []
        transport = transport_names(rows)
        for axis, group in grouped(points, lambda point: point[1].x).items():
            # Curves of an axis of their own have names of their own.
            named = [row for row, _ in group] if axis else rows
            hidden = axis or self.x.axis
            name = self.series([_without(row, hidden) for row in named])
            records += [
                record_of(row, series=name(_without(row, hidden)))
                | {self.x.name: self.x.of(row, axis), "transport": transport(row)}
                | ({"panel": panel(row)} if panel else {})
                | ({"x_axis": axis} if axis else {})
                | {**taking.told}
                | self._figures_of(row, taking)
                for row, taking in group
            ]
        if self.finish:
            records = self.finish(records)
        return list(chain(*vega.split(records, "panel").values()))

    def _figures_of(self, row: Row, taking: Rows) -> Record:
        fields = [*self._told, self.bound, self.label]
        made: Record = {name: row.counters[name] for name in fields if name in row.counters}
        if not taking.beside:
            made |= {name: derived(row) for name, derived in self.derived.items()}
        if taking.measured:
            made[self.y.measured] = row.counters.get(taking.measured, row.time_ms)
        counter = taking.measured or self.interval or self.y.measured
        return made | bounds(row, counter, self.y.measured)

    def _panel(
        self,
        records: Sequence[Record],
        x: Spec,
        scale: Spec,
        curves: Mapping[str, str],
    ) -> Spec:
        """Draw the curves of one panel, which are given with their transports."""
        style = self.style(curves)
        colour = {"color": style["color"]}
        tooltip = {"tooltip": vega.told(*(one if ":" in one else f"{one}:Q" for one in self._told))}
        y = self.y.encoded(self.y.measured, scale)
        at, point = {"x": x, "y": y}, {"x": x, "y": y, **tooltip}
        layers = []
        if self.level is not None:
            level = {"y": vega.field("level:Q", scale=scale)}
            layers.append(vega.mark("rule", level, "", [{"level": self.level}]))
        if self.bound:
            bound = at | colour | {"y": self.y.encoded(self.bound, scale)}
            layers.append(vega.mark("line", bound, GOOD, strokeWidth=1.5, strokeDash=_BOUND_DASH))
        if self.reference:
            at_reference = point | colour | {"y": self.y.encoded(self.reference, scale)}
            stroke: Spec = {"shape": "stroke", "size": 120, "strokeWidth": 2, "opacity": 1}
            layers += [
                vega.mark("line", at_reference, GOOD, strokeWidth=1.5, strokeDash=_REFERENCE_DASH),
                vega.mark("point", at_reference, GOOD, **stroke),
            ]
        shape = {"shape": style["shape"]}
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


def _without(row: Row, axis: str) -> Row:
    """Return a row whose name has no such axis."""
    name = row.name
    axes = tuple(one for one in name.axes if one[0] != axis)
    return replace(row, name=BenchmarkName(name.family, name.workloads, axes))
