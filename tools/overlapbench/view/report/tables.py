"""The sections of a report: one for each family that the files define, in their order.

A section's table initially shows the family's `lead` counters, if its rows have them; all others
are shown on request. The notable figure of a section, named in the summary, is the largest value of
the first lead counter that is not a time: times depend on the chosen sizes.

A figure with a 95 % interval ends at the interval's first digit, `1.45 ±0.01`, or `1.45 -0.00
+0.09` if its sides differ. Others have four digits, since nothing measured here is more precise.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from overlapbench.grouping import grouped
from overlapbench.judge.verdicts import Row as Judged
from overlapbench.judge.wording import percent
from overlapbench.reading.counters import TIME, Better, Counter, Family, Table
from overlapbench.reading.names import part_name
from overlapbench.reading.result import Row, State
from overlapbench.statistics import intervals

_DIGITS = 4
_MOST_DECIMALS = 6
_SLOWDOWN = "slowdown"
_TIMES = ("ms", "us")  # units
_WORDS = {Better.LOWER: "worst", Better.HIGHER: "highest", Better.NEITHER: "largest"}
_OTHER = Family("Other families", "Families that these results do not describe.", ())
_HEAT = (1.05, 1.15, 1.3, 1.6)  # a slowdown above the first is tinted, above the last most strongly
_BAD = {State.NOISY: "noisy", State.INVALID: "invalid", State.ERROR: "failed"}


@dataclass(frozen=True)
class Line:
    """One row of a table."""

    anchor: str  # the page's fragment that leads here
    row: Row
    cells: Sequence[tuple[str, int]]  # of the columns: a figure and its heat, 0 to 4
    more: str  # figures of the extra columns, each after a |
    judged: Judged | None

    @property
    def state(self) -> str:
        """Why the row cannot be trusted: "noisy", "invalid" or "failed"; otherwise ""."""
        return _BAD[self.row.state] if self.row.bad else ""

    @property
    def change(self) -> str:
        """The change of the time."""
        findings = self.judged.findings if self.judged else ()
        times = (percent(finding.relative) for finding in findings if finding.metric == TIME)
        return next(times, "")


@dataclass(frozen=True)
class Section:
    """The section of a family: its rows, and the counters that are their columns."""

    family: Family
    columns: Sequence[Counter]
    extra: Sequence[Counter]  # shown on request
    lines: Sequence[Line]
    notable: Counter | None  # whose largest figure is highlighted

    @property
    def fragment(self) -> str:
        """The part of the page's address that leads here."""
        return self.family.name.replace(" ", "-")

    @cached_property  # asked for at every row
    def several(self) -> bool:
        """Tell whether the rows come from several runs."""
        return len({line.row.file for line in self.lines}) > 1

    @property
    def stands_out(self) -> tuple[str, str, Line] | None:
        """The notable counter, its largest figure, and the row of that figure."""
        largest = self.largest(self.notable.name) if self.notable else []
        if not self.notable or not largest:
            return None
        value = figure(largest[0].row.counters[self.notable.name])
        words = f"{_WORDS[self.notable.better]} {self.notable.title}"
        return words, f"{value} {self.notable.printed_unit}".strip(), largest[0]

    def largest(self, counter: str) -> list[Line]:
        """Return the good rows that have a counter, those with the largest figures first."""
        good = [line for line in self.lines if line.row.trusted and counter in line.row.counters]
        return sorted(good, key=lambda line: -line.row.counters[counter])


class Anchors:
    """Fragments that name a row: its name or, if several files contain it, its name and file."""

    def __init__(self, rows: Iterable[Row]) -> None:
        named = grouped(rows, lambda row: str(row.name))
        self._files = {name: [row.file for row in rows] for name, rows in named.items()}

    def of(self, row: Row) -> str:
        name = str(row.name)
        return name if self._files[name][0] == row.file else f"{name}@{row.file}"

    def ambiguous(self, row: Row) -> bool:
        """Tell whether several files contain the row's name."""
        return len(set(self._files[str(row.name)])) > 1

    def find(self, name: str) -> str:
        """Return the anchor of the first row of a name; "" if there is none."""
        return name if name in self._files else ""


def make_tables(
    rows: Sequence[Row], table: Table, anchors: Anchors, judged: Mapping[str, Judged]
) -> list[Section]:
    """Divide the rows into nonempty sections, in the order of the table's families."""
    known = {family.name for family in table.families}
    members = grouped(
        rows, lambda row: row.name.family if row.name.family in known else _OTHER.name
    )
    return [
        _section(family, members[family.name], table, anchors, judged)
        for family in (*table.families, _OTHER)
        if family.name in members
    ]


def _section(
    family: Family,
    rows: Sequence[Row],
    table: Table,
    anchors: Anchors,
    judged: Mapping[str, Judged],
) -> Section:
    """Show the family's lead counters that rows have, then all others."""
    lead = [table.counters[name] for name in family.lead if name in table.counters]
    present = {key for row in rows for key in row.counters} | {TIME}
    columns = [one for one in lead or [table.counters[TIME]] if one.name in present]
    extra = [one for one in table.counters.values() if one.name in present and one not in columns]
    lines = [
        Line(
            anchors.of(row),
            row,
            [_cell(row, counter.name) for counter in columns],
            "".join(f"|{_cell(row, counter.name)[0]}" for counter in extra),
            judged.get(str(row.name)),
        )
        for row in rows
    ]
    notable = next((one for one in lead if one.unit not in _TIMES), None)
    return Section(family, columns, extra, lines, notable)


def meaning(counter: Counter) -> str:
    """Write the explanation of a counter that the page shows on request."""
    better = "" if counter.better is Better.NEITHER else f" ({counter.better.value} is better)"
    return f"{counter.name}: {counter.definition}{better}" if counter.definition else counter.name


def split_axes(name: str) -> tuple[str, Sequence[str]]:
    """Split a name into `Family/Workloads` and its axes, each with its slash."""
    words, axes = part_name(name)
    return "/".join(words), [f"/{axis}" for axis in axes]


def _cell(row: Row, key: str) -> tuple[str, int]:
    value = row.time_ms if key == TIME else row.counters.get(key, math.nan)
    heated = key == _SLOWDOWN and row.trusted
    text = measured(value, *row.intervals[key]) if key in row.intervals else figure(value)
    return text, sum(value > limit for limit in _HEAT) if heated else 0


def figure(value: float) -> str:
    """Write a figure with four digits; a whole number unchanged, NaN as ""."""
    if math.isnan(value):
        return ""
    size = abs(value)
    if value == int(value) or size >= 10**_DIGITS:
        return f"{value:.0f}" if size < 1e12 else f"{value:.{_DIGITS - 1}e}"
    if size < 1e-4:
        return f"{value:.{_DIGITS - 1}e}"
    return f"{value:.{max(0, _DIGITS - 1 - math.floor(math.log10(size)))}f}"


def measured(value: float, low: float, high: float) -> str:
    """Write a figure and its interval, to one digit of the larger reach."""
    reach = max(high - value, value - low)
    if reach <= 0:
        return f"{figure(value)} ±0"
    decimals = max(0, -math.floor(math.log10(reach)))
    if decimals > _MOST_DECIMALS:
        return f"{value:.{_DIGITS - 1}e} ±{reach:.0e}"
    return f"{value:.{decimals}f} {intervals.written(value, low, high, decimals)}"
