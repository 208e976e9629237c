"""Bars, as data: of parts that add up, with a tick and a text at their ends.

A part may be negative due to noise: it is then left of zero, and the others reach
beyond the sum.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

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
    lay_out,
    mark,
    panel,
    split,
    told,
    tooltip,
)
from overlapbench.view.vega import field as encoded

_STEP = 22  # of a bar
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
    text_room: float = 1.3  # of the longest bar, for the text beside it

    def select(self, rows: Sequence[Row]) -> list[Row]:
        return self.rows.taken(rows)

    def draw(self, rows: Sequence[Row]) -> Spec:
        bars, parts = self._records(rows)
        low = 1.1 * min([0.0, *(part["from"] for part in parts), *(part["to"] for part in parts)])
        high = max([_LEAST, *(bar["reach"] for bar in bars)])
        scale = {"domain": [low, self.text_room * high], "nice": False}
        x = encoded("from:Q", title=self.x_title, scale=scale)
        names = list(split(bars, "bar"))
        panels = list(split(bars, "panel"))
        labels = _LETTER_WIDTH * max(map(len, names))
        width = (theme.WIDTH - labels) / len(panels) - _MARGINS
        inside = split(parts, "panel")

        def draw(title: str) -> Spec:
            y = self._y(names, labelled=title == panels[0])
            mine = split(bars, "panel")[title]
            return panel([*self._stacks(inside.get(title, []), x, y), *self._ends(mine, x, y)])

        if panels == [""]:
            return draw("") | {"width": width, "height": _STEP * len(names)}
        titled = {title: title for title in panels}
        return lay_out(titled, draw, len(panels), _STEP * len(names), width)

    def _records(self, rows: Sequence[Row]) -> tuple[list[Record], list[Record]]:
        """Make a record of each bar, and of each part."""
        name, title = self.label(rows), self.panel(rows)
        bars, parts = [], []
        for row in rows:
            bar = self.bar(row)
            record = record_of(row, bar=name(row), panel=title(row), parted=bool(bar.parts))
            bars.append(record | {"tick": bar.tick, "reach": bar.reach, "text": bar.text})
            parts += [bars[-1] | part for part in _stacked(bar.parts)]
        return bars, parts

    def _y(self, names: Sequence[str], *, labelled: bool) -> Spec:
        axis = {**theme.CELL_AXIS, "labels": labelled}
        return encoded("bar:N", title=None, scale={"domain": list(names)}, axis=axis)

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


def _stacked(parts: Sequence[Record]) -> Iterator[Record]:
    """Place parts one after the other; negative ones extend left from zero."""
    ends = {True: 0.0, False: 0.0}  # by whether a part is positive
    for part in parts:
        start = ends[part["adds"] >= 0]
        ends[part["adds"] >= 0] = end = start + part["adds"]
        yield part | {"from": start, "to": end}
