"""A section's rows as the page shows them: what stands in a cell, which cells stand out.

Every counter that a row has is in its table; those that the section does not name are shown on
request. Figures have four digits, as nothing measured here is known better.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from overlapbench.compare.table import percent
from overlapbench.compare.verdicts import Row as Judged
from overlapbench.metrics import METRICS, TIME
from overlapbench.report.sections import OTHER, SECTIONS, Section
from overlapbench.result import Row

_DIGITS = 4
_UNITS = {"ms": "ms", "us": "µs", "GBps": "GB/s", "pct": "%"}
# What the rule of `heading` would not make readable.
_HEADINGS = {
    "comp_ms": ("C", "ms"),
    "comm_ms": ("M", "ms"),
    "overlap_ms": ("T", "ms"),
    TIME: ("time", "ms"),
    "GBps": ("bandwidth", "GB/s"),
    "TFLOPs": ("rate", "TFLOP/s"),
}
_SLOWDOWN = "slowdown"
_HEAT = (1.05, 1.15, 1.3, 1.6)  # a slowdown above the first is tinted, above the last most


@dataclass(frozen=True)
class Column:
    """A counter; `extra` columns are shown on request."""

    key: str
    heading: str
    unit: str
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
    state: str  # "", "invalid" or "failed"
    cells: Sequence[Cell]  # of the section's own columns
    more: str  # figures of the extra columns, each behind a |
    judged: Judged | None
    change: str  # of the time


@dataclass(frozen=True)
class Table:
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


def make_tables(rows: Sequence[Row], anchors: Anchors, judged: Mapping[str, Judged]) -> list[Table]:
    """Part the rows into the sections that have any, in the order of SECTIONS."""
    known = {family for section in SECTIONS for family in section.families}
    tables = []
    for section in (*SECTIONS, OTHER):
        members = [row for row in rows if _belongs(row, section, known)]
        if members:
            columns = _columns(section, members)
            lines = [_line(row, columns, anchors, judged) for row in members]
            tables.append(Table(section, columns, lines))
    return tables


def _belongs(row: Row, section: Section, known: Collection[str]) -> bool:
    family = row.name.family
    return family in section.families or (section is OTHER and family not in known)


def _columns(section: Section, rows: Sequence[Row]) -> list[Column]:
    """Return the section's own counters, then all others that a row has."""
    present = {key for row in rows for key in row.counters} | {TIME}
    named = [key for key in section.counters or (TIME,) if key in present]
    others = [key for key in METRICS if key in present and key not in named]
    return [Column(key, *heading(key), extra=key in others) for key in (*named, *others)]


def heading(key: str) -> tuple[str, str]:
    """Part a counter's name into words and unit: `exposed_comm_ms` is `exposed comm`, `ms`."""
    if key in _HEADINGS:
        return _HEADINGS[key]
    words = key.split("_")
    unit = next((_UNITS[word] for word in words if word in _UNITS), "")
    return " ".join(word for word in words if word not in _UNITS), unit


def _line(
    row: Row, columns: Sequence[Column], anchors: Anchors, judged: Mapping[str, Judged]
) -> Line:
    head, axes = part_name(str(row.name))
    verdict = judged.get(str(row.name))
    return Line(
        anchors.of(row),
        head,
        axes,
        row,
        anchors.ambiguous(row),
        state(row),
        [_cell(row, column.key) for column in columns if not column.extra],
        "".join(f"|{_cell(row, column.key).text}" for column in columns if column.extra),
        verdict,
        _time_change(verdict),
    )


def part_name(name: str) -> tuple[str, Sequence[str]]:
    """Part a name into `Family/Workloads` and its axes, each with its slash."""
    family, workloads, *axes = name.split("/")
    return f"{family}/{workloads}", [f"/{axis}" for axis in axes]


def state(row: Row) -> str:
    """Say in a word why a row is not to be trusted; "" of a good one."""
    if not row.problem:
        return ""
    return "failed" if math.isnan(row.time_ms) else "invalid"


def _cell(row: Row, key: str) -> Cell:
    value = row.time_ms if key == TIME else row.counters.get(key, math.nan)
    heated = key == _SLOWDOWN and not row.problem
    return Cell(figure(value), sum(value > limit for limit in _HEAT) if heated else 0)


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


def _time_change(judged: Judged | None) -> str:
    for finding in judged.findings if judged else ():
        if finding.metric == TIME:
            return percent(finding.natural(finding.change))
    return ""
