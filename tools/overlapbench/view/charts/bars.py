"""Bars, as data: of parts that add up, with a tick and a text at their ends, or side by side.

A part that adds up may be negative due to noise: it is then left of zero, and the others reach
beyond the sum.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from overlapbench.grouping import grouped
from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.kind import ChartKind
from overlapbench.view.charts.naming import Naming, unnamed
from overlapbench.view.charts.records import Rows, record_of
from overlapbench.view.vega import (
    BAD,
    GOOD,
    Record,
    Spec,
    intervals,
    lay_out,
    mark,
    panel,
    split,
    told,
    tooltip,
)
from overlapbench.view.vega import field as encoded

_STEP = 22  # of a bar
_THIN_STEP = 19  # of bars side by side
_LETTER_WIDTH = 6.2
_MARGINS = 30
_LEAST = 0.1  # minimum of the axis


@dataclass(frozen=True)
class Bar:
    """One row's bar."""

    tick: float  # the place of the tick; an untrusted bar ends there, hollow
    reach: float  # the place of the text
    text: str
    # Each with its name, `part`, and its length, `adds`. A bar without parts has no tick.
    parts: Sequence[Record] = ()


@dataclass(frozen=True, kw_only=True)
class Bars(ChartKind):
    """A chart of bars, from top to bottom."""

    wide: ClassVar[bool] = True

    rows: Rows
    label: Naming
    bar: Callable[[Row], Bar]
    colours: Mapping[str, str]  # of parts by name, in the legend's order
    x_title: str
    panel: Naming = unnamed
    tooltip: Sequence[str] = ()  # further fields of parts
    apart: bool = False  # the parts of a row are bars side by side, each with its own text
    text_room: float = 1.3  # of the longest bar, for the text beside it

    def select(self, rows: Sequence[Row]) -> list[Row]:
        return self.rows.taken(rows)

    def draw(self, rows: Sequence[Row]) -> Spec:
        bars, parts = self._records(rows)
        low = 1.1 * min([0.0, *(part["from"] for part in parts), *(part["to"] for part in parts)])
        high = max([_LEAST * (not self.apart), *(bar["reach"] for bar in [*bars, *parts])])
        scale = {"domain": [low, self.text_room * high], "nice": False}
        x = encoded("from:Q", title=self.x_title, scale=scale)
        names = list(split(bars, "bar"))
        panels = list(split(bars, "panel"))
        labels = _LETTER_WIDTH * max(len(line) for name in names for line in name.split("\n"))
        step = _THIN_STEP * (len(self.colours) + 1) if self.apart else _STEP
        width = (theme.WIDTH - labels) / len(panels) - _MARGINS
        inside = split(parts, "panel")

        def draw(title: str) -> Spec:
            y = self._y(names, labelled=title == panels[0])
            mine = split(bars, "panel")[title]
            if self.apart:
                return panel(self._side_by_side(inside[title], x, y), inside[title])
            return panel([*self._stacks(inside.get(title, []), x, y), *self._ends(mine, x, y)])

        if panels == [""]:
            return draw("") | {"width": width, "height": step * len(names)}
        titled = {title: title for title in panels}
        return lay_out(titled, draw, len(panels), step * len(names), width)

    def _records(self, rows: Sequence[Row]) -> tuple[list[Record], list[Record]]:
        """Make a record of each bar, and of each part."""
        name, title = self.label(rows), self.panel(rows)
        bars, parts = [], []
        for row in self._ordered(rows):
            bar = self.bar(row)
            record = record_of(row, bar=name(row), panel=title(row), parted=bool(bar.parts))
            bars.append(record | {"tick": bar.tick, "reach": bar.reach, "text": bar.text})
            placed = self._beside(bar.parts) if self.apart else _stacked(bar.parts)
            parts += [(record if self.apart else bars[-1]) | part for part in placed]
        return bars, parts

    def _ordered(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Put the same pairs of several files together, where their bars are apart."""
        if not self.apart:
            return rows
        return [
            row for pair in grouped(rows, lambda row: row.name.workloads).values() for row in pair
        ]

    @staticmethod
    def _beside(parts: Sequence[Record]) -> Iterator[Record]:
        for part in parts:
            yield {
                "from": 0.0,
                "to": part["adds"],
                "reach": part.get("adds_high", part["adds"]),
            } | part

    def _y(self, names: Sequence[str], *, labelled: bool) -> Spec:
        lines = {"labelExpr": "split(datum.label, '\\n')"} if self.apart else {}
        axis = {**theme.CELL_AXIS, "labels": labelled, **lines}
        gap = {"paddingInner": 0.25, "paddingOuter": 0.125} if self.apart else {}
        return encoded("bar:N", title=None, scale={"domain": list(names), **gap}, axis=axis)

    def _legend(self) -> Spec:
        legend = {"orient": "bottom", "title": None, "columns": len(self.colours)}
        return {"color": theme.styled(self.colours, legend, "part")}

    def _stacks(self, parts: Sequence[Record], x: Spec, y: Spec) -> list[Spec]:
        if not parts:
            return []
        fields = ["name:N", "file:N", "part:N", "adds:Q", *(f"{one}:Q" for one in self.tooltip)]
        at = {"x": x, "x2": {"field": "to"}, "y": y, **self._legend(), "tooltip": tooltip(*fields)}
        return [mark("bar", at, "", parts, height=_STEP * 0.6)]

    def _ends(self, bars: Sequence[Record], x: Spec, y: Spec) -> list[Spec]:
        base = {"y": y, "tooltip": told("text:N")}
        tick, reach = ({"x": x | {"field": one}} for one in ("tick", "reach"))
        grey = {"thickness": 3, "opacity": 1, "height": _STEP * 0.8, "color": theme.GREY}
        text = base | reach | {"text": encoded("text:N")}
        return [
            mark("bar", base | tick, BAD, bars, height=_STEP * 0.6, **theme.UNTRUSTED_BAR),
            mark("tick", base | tick, f"{GOOD} && datum.parted", bars, **grey),
            mark("text", text, "", bars, align="left", dx=6),
        ]

    def _side_by_side(self, parts: Sequence[Record], x: Spec, y: Spec) -> list[Spec]:
        offset = {"yOffset": encoded("part:N", scale={"domain": list(self.colours)})}
        fields = told("part:N", "adds:Q", *(f"{one}:Q" for one in self.tooltip))
        base = {"x": x | {"field": "to"}, "y": y, **offset, "tooltip": fields}
        text = base | {"x": x | {"field": "reach"}, "text": encoded("text:N")}
        return [
            mark("bar", base | self._legend(), GOOD),
            mark("bar", base, BAD, **theme.UNTRUSTED_BAR),
            *intervals(parts, base | {"x": x | {"field": "adds"}}, "x"),
            mark("text", text, align="left", dx=5),
        ]


def _stacked(parts: Sequence[Record]) -> Iterator[Record]:
    """Place parts one after the other; negative ones extend left from zero."""
    ends = {True: 0.0, False: 0.0}  # by whether a part is positive
    for part in parts:
        start = ends[part["adds"] >= 0]
        ends[part["adds"] >= 0] = end = start + part["adds"]
        yield part | {"from": start, "to": end}
