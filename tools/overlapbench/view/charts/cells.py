"""Heat maps, as data: a cell for each row, with its figure, and a colour for its loss.

White means no loss; a cell with untrusted figures is grey and says why, and one that was not
measured is hatched. Further lines of text may stand below its figure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from overlapbench.grouping import grouped
from overlapbench.reading.rows import Row
from overlapbench.view import theme, vega
from overlapbench.view.charts.naming import Naming, unnamed
from overlapbench.view.charts.records import (
    ChartKind,
    Rows,
    bounds,
    ratio_text,
    record_of,
    state_text,
)
from overlapbench.view.vega import Record, Spec

_LETTER_WIDTH = 6.2  # of an axis label, on average, in pixels
_MARGIN = 25  # beside a panel
_HEIGHT, _LINE = 36, 14  # pixels: of a cell, and of a line of text in it
_FULL_COLOUR = (1.5, 3.0)  # the colour is full at the highest loss, within these limits
Order = Callable[[Sequence[Row]], Callable[[Row], Any]]  # from all rows, a sort key


@dataclass(frozen=True, kw_only=True)
class Cells(ChartKind):
    """A heat map in one panel or several."""

    rows: Rows
    measured: str = "slowdown"  # the counter without which a row that did not fail is not drawn
    across: Naming
    down: Naming
    colour: str = "slowdown"  # what the legend calls the loss
    panel: Naming = unnamed
    to_best: bool = False  # the loss is the ratio of the measured figure to the panel's best
    text: Callable[[Row, str], str] = ratio_text  # of the row and its counter
    lines: Sequence[Callable[[Row], str]] = ()  # below the figure, if they are not empty
    across_order: Order | None = None  # of the columns; None: that of the rows
    across_title: str | None = None
    down_title: str | None = None
    angle: int = 0  # of the labels across
    tooltip: Sequence[str] = ()
    least_width: int = 46
    most_width: int = 10_000
    margin: int = _MARGIN  # beside all panels

    def select(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows with the figure, and failed rows."""
        members = self.rows.taken(rows)
        return [r for r in members if not r.counters or r.counters.get(self.measured, 0.0) > 0]

    def draw(self, rows: Sequence[Row]) -> Spec:
        cells = self._cells(rows)
        ordered = sorted(rows, key=self.across_order(rows)) if self.across_order else rows
        across = list(dict.fromkeys(map(self.across(rows), ordered)))
        down = list(dict.fromkeys(map(self.down(rows), rows)))
        parts = vega.split(cells, "panel")
        columns, width = self._width(len(parts), len(across), _LETTER_WIDTH * max(map(len, down)))
        colour, leftmost = self._colour(cells), list(parts)[::columns]

        def draw(part: Sequence[Record]) -> Spec:
            above = {"orient": "top", "labelAngle": self.angle, **theme.CELL_AXIS}
            beside = {"labels": part[0]["panel"] in leftmost, **theme.CELL_AXIS}
            mine = part if columns == 1 else cells  # panels side by side share their places
            x, y = (
                {"domain": [one for one in places if any(cell[axis] == one for cell in mine)]}
                for axis, places in (("across", across), ("down", down))
            )
            places = {
                "x": vega.field("across:N", title=self.across_title, scale=x, axis=above),
                "y": vega.field("down:N", title=self.down_title, scale=y, axis=beside),
            }
            return self._panel(part, places, colour) | {"height": height * len(y["domain"])}

        height = _HEIGHT + _LINE * max(0, max(cell["lines"] for cell in cells) - 2)
        return vega.lay_out(parts, draw, columns, 0, width * len(across))

    def _width(self, panels: int, cells: int, labels: float) -> tuple[int, float]:
        """Return the number of panels side by side, and the width of a cell."""
        room = theme.WIDTH - labels - self.margin
        fitting = room // (self.least_width * cells + _MARGIN)
        columns = int(max(1, min(panels, fitting)))
        width = (room / columns - _MARGIN) / cells
        return columns, max(self.least_width, min(self.most_width, width))

    def _cells(self, rows: Sequence[Row]) -> list[Record]:
        """Make the records of all cells; of rows with the same place, the worst."""
        across, down, title = self.across(rows), self.down(rows), self.panel(rows)
        cells = [
            self._cell(row, panel=title(row), across=across(row), down=down(row)) for row in rows
        ]
        places = grouped(cells, lambda one: (one["panel"], one["across"], one["down"]))
        cells = [max(same, key=_badness) for same in places.values()]
        if self.to_best:
            for part in vega.split(cells, "panel").values():
                best = min((cell["loss"] for cell in part if cell["trusted"]), default=1.0)
                for cell in part:
                    cell["loss"] = cell["loss"] / best if cell["trusted"] else None
        return list(chain(*vega.split(cells, "panel").values()))

    def _cell(self, row: Row, **place: str) -> Record:
        measured, lines = self.measured, [line(row) for line in self.lines]
        texts = [self.text(row, measured), *filter(None, lines)]
        texts = texts if row.trusted else [state_text(row)]
        return (
            record_of(row, **place, loss=row.counters.get(measured), lines=len(texts))
            | {f"line{number}": text for number, text in enumerate(texts)}
            | {key: row.counters[key] for key in (measured, *self.tooltip) if key in row.counters}
            | bounds(row, measured)
        )

    def _panel(self, cells: Sequence[Record], places: Spec, colour: Spec) -> Spec:
        measured = (f"{self.measured}{end}" for end in ("", "_low", "_high"))
        fields = (f"{one}:Q" for one in (*measured, *self.tooltip))
        base = places | {"tooltip": vega.told("across:N", "down:N", *fields)}
        layers = [
            vega.mark("rect", base | {"color": colour}, vega.GOOD),
            vega.mark("rect", base, vega.BAD, **theme.UNTRUSTED_CELL),
        ]
        if missing := self._unmeasured(cells, places):
            why = {"tooltip": vega.tooltip("across:N", "down:N", "problem:N")}
            layers.append(vega.mark("rect", places | why, "", missing, **theme.UNMEASURED_CELL))
        for line in range(max(cell["lines"] for cell in cells)):
            font = theme.CELL_DETAIL if line else {}
            dy = f"{_LINE} * ({line} - (datum.lines - 1) / 2) + (datum.lines > 1)"
            text = base | {"text": vega.field(f"line{line}:N")}
            looks = {"color": theme.ON_CELL, **font, "dy": {"expr": dy}}
            layers.append(vega.mark("text", text, f"datum.lines > {line}", **looks))
        return vega.panel(layers, cells)

    def _unmeasured(self, cells: Sequence[Record], places: Spec) -> list[Record]:
        """Make the records of the panel's places without a row."""
        across, down = (places[axis]["scale"]["domain"] for axis in "xy")
        measured = {(cell["across"], cell["down"]) for cell in cells}
        return [
            {"across": a, "down": d, "problem": "not measured"}
            for a, d in product(across, down)
            if (a, d) not in measured
        ]

    def _colour(self, cells: Sequence[Record]) -> Spec:
        """Colour a loss: white at 1, orange above it, and blue below it."""
        figures = [cell["loss"] for cell in cells if cell["trusted"] and cell["loss"] is not None]
        least, most = _FULL_COLOUR
        highest = min(most, max([least, *figures]))
        domain = [1.0, highest] if self.to_best else [min([0.9, *figures]), 1.0, highest]
        colours = [theme.SKY, "#FFFFFF", theme.VERMILION][-len(domain) :]
        scale = {"domain": domain, "range": colours, "interpolate": "lab", "clamp": True}
        legend = {"orient": "bottom", "direction": "horizontal", "gradientLength": 260}
        return vega.field("loss:Q", title=self.colour, scale=scale, legend=legend)


def _badness(cell: Record) -> tuple[bool, float]:
    """Order cells so that the highest trusted figure comes last."""
    return cell["trusted"], cell["loss"] or 0.0
