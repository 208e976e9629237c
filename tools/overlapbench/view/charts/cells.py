"""Heat maps, as data: a cell for each row, with its figure, and a colour for its loss.

White means no loss; a cell with untrusted figures is grey and says why. A cell has further lines of
text below its figure, or else one half for each of two figures.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

from overlapbench.grouping import grouped
from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.kind import ChartKind
from overlapbench.view.charts.naming import Naming, unnamed
from overlapbench.view.charts.records import (
    Rows,
    bounds,
    counters_of,
    ratio_text,
    record_of,
    state_text,
)
from overlapbench.view.vega import BAD, GOOD, Record, Spec, lay_out, mark, panel, split, told
from overlapbench.view.vega import field as encoded

_LETTER_WIDTH = 6.2  # of an axis label, on average, in pixels
_MARGIN = 25  # beside a panel
_LINE = 14  # pixels, of text in a cell
_FULL_COLOUR = (1.5, 3.0)  # the colour is full at the highest loss, within these limits
Order = Callable[[Sequence[Row]], Callable[[Row], Any]]  # from all rows, a sort key
in_order: Order = lambda _: lambda _: 0  # noqa: E731


@dataclass(frozen=True, kw_only=True)
class Cells(ChartKind):
    """A heat map in one panel or several."""

    wide: ClassVar[bool] = True

    rows: Rows
    measured: str  # the counter without which a row that did not fail is not drawn
    across: Naming
    down: Naming
    colour: str  # what the legend calls the loss
    panel: Naming = unnamed
    losses: Sequence[str] = ()  # counters, one for each half of a cell, from top to bottom
    to_best: bool = False  # the loss is the ratio of the measured figure to the panel's best
    text: Callable[[Row, str], str] = ratio_text  # of the row and its counter
    lines: Sequence[Callable[[Row], str]] = ()  # below the figure, if they are not empty
    one_of: bool = False  # of rows with the same place, the worst is drawn
    below_one: bool = False  # the colour shows gains, too
    panel_order: Order = in_order
    across_order: Order = in_order
    down_order: Order = in_order
    across_title: str | None = None
    down_title: str | None = None
    angle: int = 0  # of the labels across
    tooltip: Sequence[str] = ()
    height: int = 36  # of a cell
    least_width: int = 46
    most_width: int = 10_000
    margin: int = _MARGIN  # beside all panels
    compact: bool = False  # small figures
    gaps: Mapping[str, float] = field(default_factory=dict)  # between cells: of the scales

    def select(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows with the figure, and failed rows; none if all failed."""
        members = self.rows.taken(rows)
        found = [r for r in members if not r.counters or r.counters.get(self.measured, 0.0) > 0]
        return found if self.one_of or any(row.counters for row in found) else []

    def draw(self, rows: Sequence[Row]) -> Spec:
        rows = sorted(rows, key=self.panel_order(rows))
        cells = self._cells(rows)
        across = _places(rows, self.across, self.across_order)
        down = _places(rows, self.down, self.down_order)
        parts = split(cells, "panel")
        lines = max(cell["lines"] for cell in cells)
        columns, width = self._width(len(parts), len(across), _LETTER_WIDTH * max(map(len, down)))
        colour, leftmost = self._colour(cells), list(parts)[::columns]

        def draw(part: Sequence[Record]) -> Spec:
            labelled = part[0]["panel"] in leftmost
            places = self._encoded(across, down, labelled=labelled)
            return self._panel([*part, *self._missing(part, across, down)], places, colour)

        height = (self.height + _LINE * max(0, lines - 2)) * len(down)
        if len(parts) == 1 and "" in parts:
            return draw(cells) | {"width": width * len(across), "height": height}
        return lay_out(parts, draw, columns, height, width * len(across))

    def _width(self, panels: int, cells: int, labels: float) -> tuple[int, float]:
        """Return the number of panels side by side, and the width of a cell."""
        room = theme.WIDTH - labels - self.margin
        fitting = room // (self.least_width * cells + _MARGIN)
        columns = int(max(1, min(panels, fitting)))
        width = (room / columns - _MARGIN) / cells
        return columns, max(self.least_width, min(self.most_width, width))

    def _cells(self, rows: Sequence[Row]) -> list[Record]:
        """Make the records of all cells, one for each half."""
        across, down, title = self.across(rows), self.down(rows), self.panel(rows)
        losses = self.losses or (self.measured,)
        cells = [
            self._cell(row, loss, panel=title(row), across=across(row), down=down(row))
            for row in rows
            for loss in losses
        ]
        if self.one_of:
            places = grouped(cells, lambda one: (one["panel"], one["across"], one["down"]))
            cells = [max(same, key=_badness) for same in places.values()]
        return [one for part in split(cells, "panel").values() for one in self._compared(part)]

    def _cell(self, row: Row, loss: str, **place: str) -> Record:
        lines = [line(row) for line in self.lines] if row.trusted else []
        texts = [self.text(row, loss) if row.trusted else state_text(row), *filter(None, lines)]
        counters = [one.removesuffix("_low").removesuffix("_high") for one in self.tooltip]
        return (
            record_of(row, **place, half=loss, loss=row.counters.get(loss), lines=len(texts))
            | {f"line{number}": text for number, text in enumerate(texts)}
            | counters_of(row, [self.measured, *counters])
            | bounds(row, loss, "loss")
        )

    def _compared(self, cells: Sequence[Record]) -> Sequence[Record]:
        """Make the loss of each cell of a panel the ratio to the panel's best, where asked for."""
        if not self.to_best:
            return cells
        best = min((cell["loss"] for cell in cells if cell["trusted"]), default=1.0)
        return [
            {key: value for key, value in cell.items() if not key.startswith("loss")}
            | {f"{self.measured}{key[4:]}": cell[key] for key in cell if key.startswith("loss_")}
            | {"best": cell["trusted"] and cell["loss"] == best}
            | ({"loss": cell["loss"] / best} if cell["trusted"] else {"loss": None})
            for cell in cells
        ]

    def _missing(
        self, part: Sequence[Record], across: Sequence[str], down: Sequence[str]
    ) -> list[Record]:
        """Return grey cells, without a text, where a map of halves has no row."""
        there = {(cell["across"], cell["down"]) for cell in part}
        empty = {"trusted": False, "problem": "not measured", "line0": "", "lines": 1}
        return [
            empty | {"across": column, "down": line, "half": half}
            for column, line, half in product(across, down, self.losses)
            if (column, line) not in there
        ]

    def _encoded(self, across: Sequence[str], down: Sequence[str], *, labelled: bool) -> Spec:
        above = {"orient": "top", "labelAngle": self.angle, **theme.CELL_AXIS}
        beside = {"labels": labelled, **theme.CELL_AXIS}
        gap = {f"padding{side}": size for side, size in self.gaps.items()}
        places = {
            "x": encoded(
                "across:N",
                title=self.across_title,
                scale={"domain": list(across), **gap},
                axis=above,
            ),
            "y": encoded(
                "down:N", title=self.down_title, scale={"domain": list(down), **gap}, axis=beside
            ),
        }
        if len(self.losses) > 1:
            halves = {"sort": list(self.losses), "scale": {"domain": list(self.losses)}}
            places["yOffset"] = encoded("half:N", **halves)
        return places

    def _panel(self, cells: Sequence[Record], places: Spec, colour: Spec) -> Spec:
        base = places | {"tooltip": told("across:N", "down:N", *self._told())}
        layers = [
            mark("rect", base | {"color": colour}, GOOD),
            mark("rect", base, BAD, **theme.UNTRUSTED_CELL),
        ]
        if self.to_best:
            frame: Spec = {"filled": False, "stroke": theme.GREEN, "strokeWidth": 3}
            layers.append(mark("rect", base, "datum.best", **frame))
        if len(self.losses) > 1:
            first = f"{BAD} && datum.half === '{self.losses[0]}'"
            middle = self.height / len(self.losses) / 2
            return panel(
                [*layers, self._text(base, 0, GOOD), self._text(base, 0, first, dy=middle)], cells
            )
        for line in range(max(cell["lines"] for cell in cells)):
            dy = f"{_LINE} * ({line} - (datum.lines - 1) / 2) + (datum.lines > 1)"
            layers.append(self._text(base, line, f"datum.lines > {line}", dy={"expr": dy}))
        return panel(layers, cells)

    def _text(self, base: Spec, line: int, where: str = "", **looks: Any) -> Spec:
        font = theme.CELL_DETAIL if self.compact or line else {}
        if self.to_best and not line:
            font = {"fontWeight": {"expr": "datum.best ? 'bold' : 'normal'"}}
        text = base | {"text": encoded(f"line{line}:N")}
        return mark("text", text, where, color=theme.ON_CELL, **font, **looks)

    def _told(self) -> list[str]:
        halves = ["half:N"] if len(self.losses) > 1 else []
        low = [] if self.to_best else ["loss_low:Q", "loss_high:Q"]
        return [*halves, "loss:Q", *low, *(f"{one}:Q" for one in self.tooltip)]

    def _colour(self, cells: Sequence[Record]) -> Spec:
        """Colour a loss: white at 1, orange above it, and blue below it."""
        figures = [cell["loss"] for cell in cells if cell["trusted"] and cell["loss"] is not None]
        least, most = _FULL_COLOUR
        highest = max([least, *figures])
        clamp = {} if self.below_one else {"clamp": True}
        domain = [1.0, highest if self.below_one else min(most, highest)]
        if not self.to_best:
            domain.insert(0, min([0.9, *figures]) if self.below_one else 0.9)
        colours = [theme.SKY, "#FFFFFF", theme.VERMILION][-len(domain) :]
        scale = {"domain": domain, "range": colours, "interpolate": "lab", **clamp}
        legend = {"orient": "bottom", "direction": "horizontal", "gradientLength": 260}
        return encoded("loss:Q", title=self.colour, scale=scale, legend=legend)


def _badness(cell: Record) -> tuple[bool, float]:
    """Order cells so that the highest trusted figure comes last."""
    return cell["trusted"], cell["loss"] or 0.0


def _places(rows: Sequence[Row], naming: Naming, order: Order) -> list[str]:
    """Return the labels of an axis, in their order."""
    return list(dict.fromkeys(map(naming(rows), sorted(rows, key=order(rows)))))
