"""Charts of curves, as data: the rows that are points, the axes, and the curves.

A row becomes a record (panels.py) of `series`, `panel`, its number on the x axis, and each field of
the Figures, which `derived` computes, or else the counter of that name.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.view.charts.curves import Figures, draw_curves
from overlapbench.view.charts.naming import Naming
from overlapbench.view.charts.panels import FULL_WIDTH, Record, bounds, lay_out, record_of, split
from overlapbench.view.theme import Drawing


@dataclass(frozen=True)
class Rows:
    """Rows that are points, and the differences of their records from others."""

    of: str  # a pattern for `Family/Workload`: `Comm/*`
    above_zero: Sequence[str] = ()  # required counters
    known: Sequence[str] = ()  # required too, and may be zero or less
    where: Mapping[str, str] = field(default_factory=dict)  # values of axes
    measured: str = ""  # the counter with the measured figure, if it has another name
    told: Mapping[str, str] = field(default_factory=dict)  # further fields of their records

    def takes(self, row: Row) -> bool:
        return (
            fnmatchcase(f"{row.name.family}/{'+'.join(row.name.workloads)}", self.of)
            and all(row.counters.get(key, 0.0) > 0 for key in self.above_zero)
            and row.counters.keys() >= {*self.known}
            and all(row.name.axis(axis) == value for axis, value in self.where.items())
        )


@dataclass(frozen=True)
class X:
    """The x axis: a whole number in the names."""

    axis: str
    title: str
    place: Callable[[str, Collection[int], str], alt.X]  # of axes.py
    field: str = ""  # of the records; empty: the name of the axis
    least: int = 1
    unwritten: int | None = None  # the value for a name without the axis

    @property
    def name(self) -> str:
        return self.field or self.axis

    def of(self, row: Row) -> int | None:
        """Return the place of a row; None if it has none."""
        written = row.name.axis(self.axis)
        value = self.unwritten if written is None else whole(row, self.axis)
        return value if value is not None and value >= self.least else None

    def encoded(self, records: Sequence[Record]) -> alt.X:
        return self.place(self.name, [record[self.name] for record in records], self.title)


def whole(row: Row, axis: str) -> int | None:
    """Return the value of an axis, or None if it is missing or not a whole number."""
    text = row.name.axis(axis) or ""
    return int(text) if text.isascii() and text.isdecimal() else None


@dataclass(frozen=True)
class Curves:
    """A chart of curves, in one panel or several."""

    rows: Sequence[Rows]  # a row is one point for each entry that matches it
    x: X
    figures: Sequence[Figures]  # stacked
    series: Naming
    panel: Naming | None = None  # None: one panel, or `rows` name it
    derived: Mapping[str, Callable[[Row], object]] = field(default_factory=dict)
    columns: int = 2  # of panels, at most; 0: stacked, as wide as the picture
    panel_by_panel: bool = False  # the legend lists the curves of the first panel first
    scale_of_each: str = ""  # the field by whose values scales differ; empty: one scale
    panel_title: Callable[[Sequence[Record]], str] | None = None  # None: the value of `panel`

    def select(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if self.takes(row)]

    def takes(self, row: Row) -> bool:
        return any(self._takes(row, taking) for taking in self.rows)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        return self.draw_records(self.records(rows))

    def _takes(self, row: Row, taking: Rows) -> bool:
        return taking.takes(row) and self.x.of(row) is not None

    def records(self, rows: Sequence[Row]) -> list[Record]:
        """Make the records of the rows that are points; names are derived from all rows."""
        series = self.series(rows)
        panel = self.panel(rows) if self.panel else None
        records = [
            record_of(row, series=series(row))
            | {self.x.name: self.x.of(row)}
            | ({"panel": panel(row)} if panel else {})
            | {**taking.told}
            | self._figures_of(row, taking)
            for row in rows
            for taking in self.rows
            if self._takes(row, taking)
        ]
        return list(chain(*split(records, "panel").values())) if self.panel_by_panel else records

    def _figures_of(self, row: Row, taking: Rows) -> Record:
        fields = chain(*(figures.fields for figures in self.figures))
        told: Record = {name: row.counters.get(name) for name in fields}
        told |= {name: derived(row) for name, derived in self.derived.items()}
        for figures in self.figures:
            if taking.measured:
                told[figures.measured] = row.counters[taking.measured]
            counter = taking.measured or figures.interval or figures.measured
            told |= bounds(row, counter, figures.measured)
        return told

    def draw_records(
        self, records: Sequence[Record], series: Sequence[str] | None = None
    ) -> Drawing:
        """Draw records of any kind; `series` are those of all charts with the same legend."""
        legend = series or list(split(records, "series"))
        drawn = [self._draw(figures, records, legend) for figures in self.figures]
        return drawn[0] if len(drawn) == 1 else alt.vconcat(*drawn)

    def _draw(self, figures: Figures, records: Sequence[Record], series: Sequence[str]) -> Drawing:
        x, key = self.x.encoded(records), self.scale_of_each
        scales = {value: figures.scale_of(part) for value, part in split(records, key).items()}

        def draw(part: Sequence[Record]) -> Drawing:
            return draw_curves(part, x, figures, scales[part[0].get(key, "")], series)

        panels = split(records, "panel")
        if len(panels) == 1 and figures.alone:
            return draw(records).properties(width=FULL_WIDTH, height=figures.alone)
        told = [rows.told["panel"] for rows in self.rows if "panel" in rows.told]
        titled = {
            self.panel_title(panels[panel]) if self.panel_title else panel: panels[panel]
            for panel in [*told, *panels]  # in the order of `rows` if these name them
            if panel in panels
        }
        return lay_out(titled, draw, self.columns, figures.height)


@dataclass(frozen=True)
class Stacked:
    """Stacked charts of curves, each with its own legend."""

    charts: Sequence[Curves]

    def select(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if any(chart.takes(row) for chart in self.charts)]

    def draw(self, rows: Sequence[Row]) -> Drawing:
        made = ((chart, chart.records(rows)) for chart in self.charts)
        drawn = (chart.draw_records(records) for chart, records in made if records)
        stacked: Drawing = alt.vconcat(*drawn).resolve_scale(
            color="independent", shape="independent"
        )
        return stacked
