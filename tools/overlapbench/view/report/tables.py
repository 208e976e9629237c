"""What a report says: a section for each family, its rows and their figures, and machines.

Sections are those of the families that the files define, in their order.

A section's table initially shows the family's `lead` counters, if its rows have them; all others
are shown on request. A figure whose interval says nothing is `?`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from overlapbench.grouping import grouped
from overlapbench.judge.verdicts import Row as Judged
from overlapbench.judge.wording import percent
from overlapbench.reading.counters import TIME, Counter, Family, Table
from overlapbench.reading.rows import Row, State
from overlapbench.statistics import intervals
from overlapbench.view.page import LEFT_OUT
from overlapbench.view.report.runs import Run

_LARGEST = 1e12  # count that is written out
_SLOWDOWN = "slowdown"
_MEASURED = ("ms", "us", "GB/s", "TFLOP/s", "1/s")  # units
_OTHER = Family("Other families", "Families that these results do not describe.", ())
_HEAT = (1.05, 1.15, 1.3, 1.6)  # a slowdown above the first is tinted, above the last most strongly
_BAD = {State.NOISY: "noisy", State.INVALID: "invalid", State.ERROR: "failed"}


@dataclass(frozen=True)
class Section:
    """The section of a family: its rows, and the counters that are their columns."""

    family: Family
    columns: Sequence[Counter]
    extra: Sequence[Counter]  # shown on request
    rows: Sequence[Row]


def worst_slowdown(rows: Iterable[Row]) -> Row | None:
    """Return the trusted row with the largest slowdown."""
    slowed = (row for row in rows if row.trusted and _SLOWDOWN in row.counters)
    return max(slowed, key=lambda row: row.counters[_SLOWDOWN], default=None)


class Anchors:
    """Fragments that name a row: its name or, if several files contain it, its name and file."""

    def __init__(self, rows: Iterable[Row]) -> None:
        named = grouped(rows, lambda row: str(row.name))
        self._files = {name: [row.file for row in rows] for name, rows in named.items()}

    def of(self, row: Row) -> str:
        name = str(row.name)
        return name if self._files[name][0] == row.file else f"{name}@{row.file}"

    def find(self, name: str) -> str:
        """Return the anchor of the first row of a name; "" if there is none."""
        return name if name in self._files else ""


def make_sections(rows: Sequence[Row], table: Table) -> list[Section]:
    """Divide the rows into nonempty sections, in the order of the table's families.

    A section shows the family's lead counters that rows have, then all others.
    """
    known = {family.name for family in table.families}
    members = grouped(rows, lambda r: r.name.family if r.name.family in known else _OTHER.name)
    sections = []
    for family in (one for one in (*table.families, _OTHER) if one.name in members):
        lead = [table.counters[name] for name in family.lead if name in table.counters]
        present = {key for row in members[family.name] for key in row.counters} | {TIME}
        columns = [one for one in lead or [table.counters[TIME]] if one.name in present]
        shown = [one for one in table.counters.values() if one.name in present]
        extra = [one for one in shown if one not in columns]
        sections.append(Section(family, columns, extra, members[family.name]))
    return sections


def state(row: Row) -> str:
    """Say why a row cannot be trusted: "noisy", "invalid" or "failed"; otherwise ""."""
    return _BAD[row.state] if row.bad else ""


def change(judged: Judged) -> str:
    """Write the change of a row's time."""
    times = (percent(one.relative) for one in judged.judgements if one.metric == TIME)
    return next(times, "")


def cell(row: Row, key: str) -> tuple[str, int]:
    """Write a counter of a row, with its heat, 0 to 4."""
    value = row.time_ms if key == TIME else row.counters.get(key, math.nan)
    heated = key == _SLOWDOWN and row.trusted
    counter = row.table.counters.get(key)
    ends = row.intervals.get(key)
    if ends and counter and counter.says_nothing(value, *ends, row.time_ms):
        return "?", 0
    unit = counter.unit if counter else ""
    text = intervals.measured(value, *ends) if ends else figure(value, unit)
    return text, sum(value > limit for limit in _HEAT) if heated else 0


def figure(value: float, unit: str = "") -> str:
    """Write a figure with four digits; a count, and no time or rate, as the whole number it is."""
    is_count = not math.isnan(value) and value == int(value) and unit not in _MEASURED
    return f"{value:.0f}" if is_count and abs(value) < _LARGEST else intervals.digits(value)


# ---- the top and the end of the page


def machine(runs: Sequence[Run]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the context that all runs share, and each differing key with a value per run."""
    contexts = [run.result.context for run in runs]
    keys = sorted({key for context in contexts for key in context} - LEFT_OUT)
    table = {key: [_text(context.get(key, "")) for context in contexts] for key in keys}
    shared = {key: values[0] for key, values in table.items() if len(set(values)) == 1}
    return shared, {key: values for key, values in table.items() if key not in shared}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
