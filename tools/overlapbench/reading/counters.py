"""The table of counters: each one's name, unit, range, and which direction is better.

Every result file contains its own table, from which the tools read everything about a counter.
Where there is no file, as for the names of floors, they use counters.json beside this file. The
program writes it (`./bench --list_counters=json`), and no Python code lists counters by hand.

A table also contains the families, with the counters to show first, and the axes of each workload.

Times, sizes and rates are compared as ratios. `efficiency` is not: it may be 0 or negative, and if
one side is short it is mostly noise, since it divides by that side (docs/metrics.md, Pitfalls). So
it is judged as 1 + efficiency x min(C, M) / T, which is the speedup (C + M) / T.
"""

import functools
import json
import math
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from pathlib import Path

from overlapbench.output import ResultError, harmless
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.source import LARGEST, SMALLEST, Document, Fields, short
from overlapbench.statistics.intervals import digits

TIME = "time"  # Google Benchmark's `real_time`
VALID = "valid"
EFFICIENCY = "efficiency"
SHOWN = ("slowdown",)  # counters that a comparison shows but does not judge
PARTS = ("counters", "families", "workloads")  # of a result file, which make up the table

_STORED = Path(__file__).with_name("counters.json")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WHOLE = ("count", "bool")
_PRINTED_UNITS = {"us": "µs", **dict.fromkeys(_WHOLE, "")}
_UNITS_IN_NAMES = {"%": "pct", "TFLOP/s": "TFLOPs", "1/s": "s"}


class Range(Enum):
    """The valid values."""

    POSITIVE = "positive"
    NOT_NEGATIVE = "not_negative"
    SIGNED = "signed"  # differences: noise, or a loss, makes them negative
    AT_MOST_1 = "at_most_1"
    FLAG = "flag"


# The units of counters in whose earlier results they are missing.
_UNITS = {**dict.fromkeys(("slowest_rank", "straggler_rank", "chunks"), "count"), "direct": "bool"}
# The lowest value, whether it is inclusive, and the highest.
_LIMITS: Mapping[Range, tuple[float, bool, float]] = {
    Range.POSITIVE: (0.0, False, math.inf),
    Range.NOT_NEGATIVE: (0.0, True, math.inf),
    Range.SIGNED: (-math.inf, True, math.inf),
    Range.AT_MOST_1: (-math.inf, True, 1.0),
    Range.FLAG: (0.0, True, 1.0),
}


class Better(Enum):
    """Which direction is an improvement."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True)
class Counter:
    """One entry of the table."""

    name: str
    unit: str  # "" for a ratio
    better: Better
    range: Range
    judged: bool  # whether a comparison judges it if a row has it
    title: str  # a column's heading, without the unit
    definition: str

    @property
    def printed_unit(self) -> str:
        return _PRINTED_UNITS.get(self.unit, self.unit)

    @property
    def label(self) -> str:
        """The name and, unless the name contains it, the unit: `time ms`, `busbw_GBps`."""
        word = _UNITS_IN_NAMES.get(self.unit, self.unit.replace("/", "p"))
        told = not self.printed_unit or word in self.name.split("_")
        return self.name if told else f"{self.name} {self.printed_unit}"

    def text(self, value: float) -> str:
        """Write a figure without its unit: a count as the whole number it is."""
        is_whole = self.unit in _WHOLE and value.is_integer()
        return f"{value:.0f}" if is_whole else digits(value)

    def says_nothing(self, value: float, low: float, high: float, time_ms: float) -> bool:
        """Tell whether an interval reaches too far for its figure to be shown (report/value.h)."""
        whole = {"": 1.0, "%": 100.0}.get(self.unit, 0.0)
        if self.range in (Range.SIGNED, Range.AT_MOST_1):
            most = whole or time_ms * (1000 if self.unit == "us" else 1)
        else:
            most = max(whole, abs(value))
        return 2 * max(value - low, high - value) > most

    @property
    def can_be_judged(self) -> bool:
        """Tell whether changes are ratios, or this is efficiency, judged by another figure."""
        return self.name == EFFICIENCY or self.range in (Range.POSITIVE, Range.NOT_NEGATIVE)

    def surely_fine(self) -> tuple[float, float]:
        """Return an interval that contains only valid numbers."""
        low, low_allowed, high = _LIMITS[self.range]
        least = max(low, -LARGEST) if low_allowed else SMALLEST
        return (high if self.range is Range.FLAG else least), min(high, LARGEST)

    def fault(self, value: float) -> str:
        """Say why a finite value is invalid; "" if it is valid."""
        low, low_allowed, high = _LIMITS[self.range]
        if self.range is Range.FLAG:
            return "" if value in (0, 1) else f"{value:g} is neither 0 nor 1"
        if value < low or (value == low and not low_allowed):
            return f"{value:g} is {'negative' if low_allowed else 'not above 0'}"
        return f"{value:g} is above {high:g}" if value > high else ""

    def difference(self, other: "Counter") -> str:
        """Say how another counter of this name differs in meaning; "" if it is the same figure.

        Titles and definitions may be reworded; a new meaning requires a new name.
        """
        if self.unit != other.unit:
            return f"unit is {other.unit!r}, but {self.unit!r}"
        if self.better is not other.better:
            return f"better is {other.better.value}, but {self.better.value}"
        return ""


@dataclass(frozen=True)
class Family:
    """What the report says about a family, and the counters that its table shows first."""

    name: str
    about: str
    lead: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """All counters and families of a file, in its order, and the axes of its workloads."""

    counters: Mapping[str, Counter]
    families: tuple[Family, ...] = ()
    workloads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def keys(self) -> Set[str]:
        """The keys that counters have in a row. `time` is not one."""
        return self.counters.keys() - {TIME}

    @cached_property
    def judged(self) -> tuple[str, ...]:
        """The names of the counters that comparisons judge."""
        return tuple(counter.name for counter in self.counters.values() if counter.judged)

    @cached_property
    def plain(self) -> "Table":
        """The table for files of other suites: they have no counter but the time."""
        return Table({TIME: self.counters[TIME]})

    def axes_of_first(self, name: BenchmarkName) -> frozenset[str]:
        """Return the axes of the workload named first.

        If the table does not contain it, they are the axes before the first one of the others: in a
        name, the axes follow the order of the workloads.
        """
        first, *others = name.workloads
        if first in self.workloads:
            return frozenset(self.workloads[first])
        theirs = {axis for other in others for axis in self.workloads.get(other, ())}
        axes = [axis for axis, _ in name.axes]
        end = next((i for i, axis in enumerate(axes) if axis in theirs), 1)
        return frozenset(axes[:end])


# ---- reading


def parse_table(document: Document) -> Table:
    """Read the table of a document; ResultError names an invalid entry."""
    counters: dict[str, Counter] = {}
    for fields in _objects(document, "counters"):
        counter = _counter(fields)
        if counters.setdefault(counter.name, counter) is not counter:
            first = [*counters].index(counter.name)
            raise fields.error("name", f"{counter.name} is already at counters[{first}]")
    if TIME not in counters or not counters[TIME].judged:
        raise ResultError(f"{document.source}: counters: no judged counter {TIME}")
    families = tuple(map(_family, _objects(document, "families")))
    axes = {_name(fields): _names(fields, "axes") for fields in _objects(document, "workloads")}
    return Table(counters, families, axes)


@functools.cache
def stored_table() -> Table:
    """Return the table for files without one."""
    text = _STORED.read_text(encoding="utf-8")
    return parse_table(Document(str(_STORED), json.loads(text)))


def _objects(document: Document, part: str) -> list[Fields]:
    entries = document.values.get(part)
    if not isinstance(entries, list):
        raise ResultError(f"{document.source}: {part}: missing, or not a list")
    return list(replace(document, list_name=part).rows) if entries else []


def _counter(fields: Fields) -> Counter:
    judged = fields.values.get("judged")
    if not isinstance(judged, bool):
        raise fields.error("judged", f"{short(judged)} is neither true nor false")
    name = _name(fields)
    counter = Counter(
        name,
        _UNITS.get(name) or harmless(fields.text("unit")),
        fields.choice("better", Better),
        fields.choice("range", Range),
        judged,
        fields.line("title") or name,
        fields.line("definition"),
    )
    if judged and (counter.better is Better.NEITHER or not counter.can_be_judged):
        raise fields.error("judged", f"{name} has no ratios, or no direction, to judge by")
    return counter


def _family(fields: Fields) -> Family:
    name = fields.text("name")
    for word in name.split("/", 1):  # a family has one word or two
        _checked(fields, "name", word)
    return Family(name, fields.line("about"), _names(fields, "lead"))


def _name(fields: Fields) -> str:
    return _checked(fields, "name", fields.text("name"))


def _names(fields: Fields, key: str) -> tuple[str, ...]:
    names = fields.values.get(key)
    if not isinstance(names, list):
        raise fields.error(key, f"{short(names)} is not a list")
    return tuple(_checked(fields, key, name) for name in names)


def _checked(fields: Fields, key: str, name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise fields.error(key, f"{short(name)} is not a name of letters, digits and _")
    return name


# ---- several files


def merge_tables(tables: Iterable[tuple[str, Table]]) -> Table:
    """Merge the tables of files, given with their names; ResultError if two contradict.

    The first file describes a counter. One that some file does not judge is not judged.
    """
    distinct: list[tuple[str, Table]] = []
    for source, table in tables:
        if all(table is not other and table != other for _, other in distinct):
            distinct.append((source, table))
    if len(distinct) == 1:
        return distinct[0][1]
    merged: dict[str, Counter] = {}
    sources: dict[str, str] = {}
    for source, table in distinct:
        for name, counter in table.counters.items():
            known = merged.setdefault(name, counter)
            where = sources.setdefault(name, source)
            if difference := known.difference(counter):
                raise ResultError(f"{source}: counters: {name}: {difference} in {where}")
            merged[name] = replace(known, judged=known.judged and counter.judged)
    families = {family.name: family for _, table in reversed(distinct) for family in table.families}
    order = dict.fromkeys(family.name for _, table in distinct for family in table.families)
    workloads: dict[str, tuple[str, ...]] = {}
    for _, table in distinct:  # an older file may lack an axis
        for name, axes in table.workloads.items():
            workloads[name] = tuple(dict.fromkeys((*workloads.get(name, ()), *axes)))
    return Table(merged, tuple(families[name] for name in order), workloads)
