"""A section's rows as the page shows them: what stands in a cell, which cells stand out.

Every counter that a row has is in its table; those that the family does not lead with are shown on
request. A figure with a 95 % interval ends where the interval begins to tell, `1.45 ±0.01`. Others
have four digits, as nothing measured here is known better.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from overlapbench.compare.table import percent
from overlapbench.compare.verdicts import Row as Judged
from overlapbench.counters import TIME, Better, Counter, Table
from overlapbench.names import part_name
from overlapbench.report.sections import OTHER, Section, section_of
from overlapbench.result import Row, State

_DIGITS = 4
_MOST_DECIMALS = 6
_SLOWDOWN = "slowdown"
_HEAT = (1.05, 1.15, 1.3, 1.6)  # a slowdown above the first is tinted, above the last most
_BAD = {State.NOISY: "noisy", State.INVALID: "invalid", State.ERROR: "failed"}


@dataclass(frozen=True)
class Column:
    """A counter; `extra` columns are shown on request."""

    key: str
    heading: str
    unit: str
    meaning: str
    extra: bool


@dataclass(frozen=True)
class Cell:
    text: str
    heat: int = 0  # 0 to 4


@dataclass(frozen=True)
class Line:
    """One row of a table."""

    anchor: str  # the page's fragment that leads here
    head: str  # `Overlap/AllToAll+Gemm`
    axes: Sequence[str]  # each with its slash
    row: Row
    ambiguous: bool  # several files have this name
    state: str  # "", or why it is not to be trusted: "noisy", "invalid" or "failed"
    cells: Sequence[Cell]  # of the section's own columns
    more: str  # figures of the extra columns, each behind a |
    judged: Judged | None
    change: str  # of the time


@dataclass(frozen=True)
class Rows:
    """A section with its rows."""

    section: Section
    columns: Sequence[Column]
    lines: Sequence[Line]

    @property
    def several(self) -> bool:
        """Tell whether the rows come from several runs."""
        return len({line.row.file for line in self.lines}) > 1


class Anchors:
    """Fragments that name a row: its name, or where several files have it, its name and file."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._first: dict[str, str] = {}
        self._several: set[str] = set()
        for row in rows:
            if self._first.setdefault(str(row.name), row.file) != row.file:
                self._several.add(str(row.name))

    def of(self, row: Row) -> str:
        name = str(row.name)
        return name if self._first[name] == row.file else f"{name}@{row.file}"

    def ambiguous(self, row: Row) -> bool:
        """Tell whether several files have the row's name."""
        return str(row.name) in self._several

    def find(self, name: str) -> str:
        """Return the anchor of the first row of a name; "" where there is none."""
        return name if name in self._first else ""


def make_tables(
    rows: Sequence[Row], table: Table, anchors: Anchors, judged: Mapping[str, Judged]
) -> list[Rows]:
    """Part the rows into the sections that have any, in the order of the table's families."""
    sections = {row.name.family: section_of(row.name.family, table) for row in rows}
    families = [family.name for family in table.families if family.name in sections]
    made = []
    for section in (*(sections[family] for family in families), OTHER):
        members = [row for row in rows if sections[row.name.family] is section]
        if members:
            columns = _columns(section, table, members)
            lines = [_line(row, columns, anchors, judged) for row in members]
            made.append(Rows(section, columns, lines))
    return made


def _columns(section: Section, table: Table, rows: Sequence[Row]) -> list[Column]:
    """Return the section's own counters, then all others that a row has."""
    present = {key for row in rows for key in row.counters} | {TIME}
    named = [key for key in section.counters or (TIME,) if key in present]
    others = [key for key in table.counters if key in present and key not in named]
    return [
        Column(one.name, one.title, one.printed_unit, _meaning(one), one.name in others)
        for one in (table.counters[key] for key in (*named, *others))
    ]


def _meaning(counter: Counter) -> str:
    """Write what a reader of the page can ask for."""
    better = "" if counter.better is Better.NEITHER else f" ({counter.better.value} is better)"
    return f"{counter.name}: {counter.definition}{better}" if counter.definition else counter.name


def _line(
    row: Row, columns: Sequence[Column], anchors: Anchors, judged: Mapping[str, Judged]
) -> Line:
    head, axes = split_axes(str(row.name))
    verdict = judged.get(str(row.name))
    return Line(
        anchors.of(row),
        head,
        axes,
        row,
        anchors.ambiguous(row),
        _BAD[row.state] if row.bad else "",
        [_cell(row, column.key) for column in columns if not column.extra],
        "".join(f"|{_cell(row, column.key).text}" for column in columns if column.extra),
        verdict,
        _time_change(verdict),
    )


def split_axes(name: str) -> tuple[str, Sequence[str]]:
    """Part a name into `Family/Workloads` and its axes, each with its slash."""
    words, axes = part_name(name)
    return "/".join(words), [f"/{axis}" for axis in axes]


def _cell(row: Row, key: str) -> Cell:
    value = row.time_ms if key == TIME else row.counters.get(key, math.nan)
    heated = key == _SLOWDOWN and row.trusted
    text = measured(value, *row.intervals[key]) if key in row.intervals else figure(value)
    return Cell(text, sum(value > limit for limit in _HEAT) if heated else 0)


def figure(value: float) -> str:
    """Write a figure with four digits; a whole number as it is, NaN as nothing."""
    if math.isnan(value):
        return ""
    size = abs(value)
    if value == int(value) or size >= 10**_DIGITS:
        return f"{value:.0f}" if size < 1e12 else f"{value:.{_DIGITS - 1}e}"
    if size < 1e-4:
        return f"{value:.{_DIGITS - 1}e}"
    return f"{value:.{max(0, _DIGITS - 1 - math.floor(math.log10(size)))}f}"


def measured(value: float, low: float, high: float) -> str:
    """Write a figure and how far its interval reaches at most, to one digit of that."""
    reach = max(high - value, value - low)
    if reach <= 0:
        return f"{figure(value)} ±0"
    decimals = max(0, -math.floor(math.log10(reach)))
    if decimals > _MOST_DECIMALS:
        return f"{value:.{_DIGITS - 1}e} ±{reach:.0e}"
    return f"{value:.{decimals}f} ±{reach:.{decimals}f}"


def _time_change(judged: Judged | None) -> str:
    for finding in judged.findings if judged else ():
        if finding.metric == TIME:
            return percent(finding.relative)
    return ""
