"""Bars, as data: of parts that add up, with a tick and a text at their ends.

A part may be negative due to noise: it is then left of zero, and the others reach
beyond the sum. Bars are small multiples: a panel for each group.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from overlapbench.grouping import grouped
from overlapbench.reading.rows import Row
from overlapbench.view import theme, vega
from overlapbench.view.charts.naming import Naming
from overlapbench.view.charts.records import ChartKind, Rows, record_of
from overlapbench.view.vega import BAD, GOOD, Record, Spec

_STEP = 22  # of a bar
_LETTER_WIDTH = 5.3
_LEAST_WIDTH = 150  # of a panel
_MARGINS = 30
_TICK = 50  # pixels between ticks, at least
_GAP = 10  # beside the text of a bar
_MOST_TEXT = 0.8  # of the width
_ROOM = 0.12  # of the axis: it holds a text, also on a small screen
_LEAST = 0.1  # minimum of the axis
_COLUMNS = 2  # of panels


@dataclass(frozen=True)
class Bar:
    """One row's bar."""

    tick: float  # the place of the tick; an untrusted bar ends there, hollow
    text: str
    # Each with its name, `part`, and its length, `adds`. A bar without parts has no tick.
    parts: Sequence[Record] = ()

    @property
    def end(self) -> float:
        """The end of the parts."""
        return sum(max(0.0, float(part["adds"])) for part in self.parts)

    def text_at(self, span: float) -> float:
        """The place of the text on an axis of this span: beyond the parts and a near tick."""
        return self.end if self.parts and self.tick - self.end > _ROOM * span else self.reach

    @property
    def reach(self) -> float:
        """Beyond the tick and the parts."""
        return max(self.tick, self.end)


@dataclass(frozen=True, kw_only=True)
class Bars(ChartKind):
    """A chart of bars, from top to bottom."""

    rows: Rows
    group: Naming  # the panel of a bar
    label: Naming
    bar: Callable[[Row], Bar]
    colours: Mapping[str, str]  # of parts by name, in the legend's order
    x_title: str
    scale_of_each: bool = False  # of the panels
    tooltip: Sequence[str] = ()  # further fields of parts

    def select(self, rows: Sequence[Row]) -> list[Row]:
        return self.rows.taken(rows)

    def draw(self, rows: Sequence[Row]) -> Spec:
        name, title = self.label(rows), self.group(rows)
        bars = [(self.bar(row), record_of(row, bar=name(row), panel=title(row))) for row in rows]
        panels = grouped(bars, lambda one: one[1]["panel"])
        labels = _LETTER_WIDTH * max(len(record["bar"]) for _, record in bars)
        fitting = min(_COLUMNS, len(panels), int(theme.WIDTH / (labels + _LEAST_WIDTH)))
        columns = max(1, fitting)
        width = max(_LEAST_WIDTH, theme.WIDTH / columns - labels - _MARGINS)

        def draw(mine: Sequence[tuple[Bar, Record]]) -> Spec:
            names = list(dict.fromkeys(record["bar"] for _, record in mine))
            y = vega.field("bar:N", title=None, scale={"domain": names}, axis=theme.CELL_AXIS)
            scale = _scale(mine if self.scale_of_each else bars, width)
            below = mine[0][1]["panel"] in [*panels][-columns:]  # nothing is
            told = textwrap.wrap(self.x_title, int(width / _LETTER_WIDTH)) if below else None
            ticks = {"tickCount": max(2, width // _TICK)}
            x = vega.field("adds:Q", title=told, scale=scale, axis=ticks)
            low, high = scale["domain"]
            layers = [*self._stacks(mine, x, y), *self._ends(mine, x, y, high - low)]
            return vega.panel(layers, height=_STEP * len(names))

        return vega.lay_out(panels, draw, columns, 0, width)

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

    def _ends(
        self, bars: Sequence[tuple[Bar, Record]], x: Spec, y: Spec, span: float
    ) -> list[Spec]:
        records = [
            record
            | {"tick": bar.tick, "reach": bar.text_at(span), "text": bar.text}
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


def _scale(bars: Sequence[tuple[Bar, Record]], width: float) -> Spec:
    """Return the scale that holds all these bars, and the texts beside them."""
    low = min([0.0, *(sum(min(0.0, part["adds"]) for part in bar.parts) for bar, _ in bars)])
    spans = (
        (bar.reach - low) / (1 - min(_MOST_TEXT, (_GAP + _LETTER_WIDTH * len(bar.text)) / width))
        for bar, _ in bars
    )
    return {"domain": [1.1 * low, low + max(_LEAST, *spans)], "nice": False}
