"""Bars, as data: of parts that add up, with a tick and a text at their ends.

A part may be negative due to noise: it is then left of zero, and the others reach
beyond the sum.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from overlapbench.grouping import grouped
from overlapbench.reading.result import Row
from overlapbench.view import theme, vega
from overlapbench.view.charts.naming import Naming, unnamed
from overlapbench.view.charts.records import ChartKind, Rows, record_of
from overlapbench.view.vega import BAD, GOOD, Record, Spec

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
        name, title = self.label(rows), self.panel(rows)
        bars = [(self.bar(row), record_of(row, bar=name(row), panel=title(row))) for row in rows]
        names = list(dict.fromkeys(record["bar"] for _, record in bars))
        panels = grouped(bars, lambda one: one[1]["panel"])
        low = min([0.0, *(sum(min(0.0, part["adds"]) for part in bar.parts) for bar, _ in bars)])
        high = max([_LEAST, *(bar.reach for bar, _ in bars)])
        scale = {"domain": [1.1 * low, self.text_room * high], "nice": False}
        x = vega.field("adds:Q", title=self.x_title, scale=scale)
        labels = _LETTER_WIDTH * max(map(len, names))
        width = (theme.WIDTH - labels) / len(panels) - _MARGINS

        def draw(mine: Sequence[tuple[Bar, Record]]) -> Spec:
            labelled = mine[0][1]["panel"] == next(iter(panels))
            axis = {**theme.CELL_AXIS, "labels": labelled}
            y = vega.field("bar:N", title=None, scale={"domain": names}, axis=axis)
            return vega.panel([*self._stacks(mine, x, y), *self._ends(mine, x, y)])

        return vega.lay_out(panels, draw, len(panels), _STEP * len(names), width)

    def _stacks(self, bars: Sequence[tuple[Bar, Record]], x: Spec, y: Spec) -> list[Spec]:
        parts = [
            record | part | {"place": place}
            for bar, record in bars
            for place, part in enumerate(bar.parts)
        ]
        fields = ["name:N", "file:N", "part:N", "adds:Q", *(f"{one}:Q" for one in self.tooltip)]
        legend = {"orient": "bottom", "title": None, "columns": len(self.colours)}
        colour = theme.styled(self.colours, legend, "part")
        at: Spec = {"x": x, "y": y, "color": colour, "order": vega.field("place:Q")}
        at["tooltip"] = vega.tooltip(*fields)
        return [vega.mark("bar", at, "", parts, height=_STEP * 0.6)] if parts else []

    def _ends(self, bars: Sequence[tuple[Bar, Record]], x: Spec, y: Spec) -> list[Spec]:
        records = [
            record
            | {"tick": bar.tick, "reach": bar.reach, "text": bar.text}
            | {"parted": bool(bar.parts)}
            for bar, record in bars
        ]
        base = {"y": y, "tooltip": vega.told("text:N")}
        tick, reach = ({"x": x | {"field": one}} for one in ("tick", "reach"))
        grey = {"thickness": 3, "opacity": 1, "height": _STEP * 0.8, "color": theme.GREY}
        text = base | reach | {"text": vega.field("text:N")}
        return [
            vega.mark("bar", base | tick, BAD, records, height=_STEP * 0.6, **theme.UNTRUSTED_BAR),
            vega.mark("tick", base | tick, f"{GOOD} && datum.parted", records, **grey),
            vega.mark("text", text, "", records, align="left", dx=6),
        ]
