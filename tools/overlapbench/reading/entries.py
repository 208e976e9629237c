"""The one reader: a result file as checked columns, from which all rows and runs are made.

A file is accepted or refused as a whole, by a ResultError that names the entry and the field. In a
file of this suite every counter must be valid. From any other Google Benchmark file only the time
is read (plain.py).

Entries with the same keys, kind and state form a block, and nearly all entries are good. So each
column of a block is checked at once, and only a column with a doubtful value is looked at value by
value, to refuse the first that is invalid.

X_low and X_high beside a counter X are the ends of its 95 % interval, not counters; the time's are
time_low_ms and time_high_ms. A file's aggregates are ignored, except in plain files that have
nothing else: they do not say how many repetitions failed.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from overlapbench.grouping import grouped
from overlapbench.output import ResultError
from overlapbench.reading.counters import (
    EFFICIENCY,
    SHOWN,
    TIME,
    VALID,
    Counter,
    Table,
    parse_table,
    stored_table,
)
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.plain import (
    MEDIAN_ERROR,
    TO_MS,
    read_is_aggregate,
    read_plain,
    read_unit,
)
from overlapbench.reading.rows import Entry, State
from overlapbench.reading.source import (
    LARGEST,
    SMALLEST,
    Document,
    Fields,
    check_context,
    is_own,
    measurement_of,
    read_incomplete,
)
from overlapbench.statistics.intervals import Interval

Array = NDArray[np.float64]
Value = TypeVar("Value")
Number = TypeVar("Number", float, Array)  # of one row, or of many
ONLY_AGGREGATES = "only aggregates are in the file"
# Columns that are derived; no counter can have these names.
SAVED = "saved share"  # of T by overlapping: speedup - 1, by which efficiency is judged
ERROR = "standard error"  # of the time, relative, inside the run
QUANTILE = 1.96  # of the normal distribution, for the 95 % intervals of rows
TIME_ENDS = ("time_low_ms", "time_high_ms")
_STATE = ("state", "reason", "error_occurred", "error_message", "skipped", "skip_message")
_REQUIRED = {"Overlap": frozenset({"comp_ms", "comm_ms", "overlap_ms", "slowdown"})}


@dataclass(frozen=True)
class Entries:
    """All entries of a file, in its order."""

    document: Document
    backend: str  # "" if another suite wrote the file
    table: Table
    rows: list[Entry]

    @cached_property
    def places(self) -> Mapping[BenchmarkName, list[int]]:
        """The indices of each benchmark's repetitions; ResultError if one is there twice."""
        places: dict[BenchmarkName, list[int]] = {}
        for place, row in enumerate(self.rows):
            if row.name is not None:
                places.setdefault(row.name, []).extend([] if row.repetition is None else [place])
        for name, found in places.items():
            first: dict[float | None, int] = {}
            for place in found if len(found) > 1 else ():
                one = first.setdefault(self.rows[place].repetition, place)
                if one != place:
                    path = self.document.rows[one].path
                    told = f"{name} is already at {path}"
                    raise self.document.rows[place].error("run_name", told)
        return places

    @property
    def incomplete(self) -> str:
        """Why the run ended before all rows were measured; "" if all were."""
        return read_incomplete(self.document)

    @cached_property
    def measurement(self) -> object:
        """What copies of the file share, and no other measurement has."""
        measured = (row for row in self.rows if row.figures)
        rows = ((row.name, row.repetition, *row.figures.values()) for row in measured)
        return measurement_of(self.document.context.values.get("date"), rows)

    def column(self, name: str) -> Array:
        """Return a counter, SAVED or ERROR of every entry; NaN where it is missing."""
        if name == SAVED:
            pair = (EFFICIENCY, "comp_ms", "comm_ms", "overlap_ms")
            return np.asarray(saved_share({each: self.column(each) for each in pair}))
        if name == ERROR:
            return self._standard_errors()
        return np.array([row.figures.get(name, math.nan) for row in self.rows])

    def _standard_errors(self) -> Array:
        """Return the precision of each entry's time: the standard error of its logarithm.

        From its own interval, or else from its samples, assumed normal; NaN without either.
        """
        ends = np.array([row.intervals.get(TIME, (math.nan, math.nan)) for row in self.rows])
        low, high = np.log(np.maximum(ends, SMALLEST)).T
        samples = np.maximum(self.column("samples"), 1.0)
        from_samples = MEDIAN_ERROR * self.column("cv") / np.sqrt(samples)
        return np.where(np.isnan(low), from_samples, (high - low) / (2 * QUANTILE))


def read_entries(source: str, text: str, *, own: bool = False) -> Entries:
    """Read and check a whole file; ResultError refuses it, and other suites' files if `own`."""
    document = Document.parse(source, text)
    ours = own or is_own(document.context)
    backend = check_context(document.context) if ours else ""
    table = parse_table(document) if ours else stored_table().plain
    rows = _read_own(document, table) if ours else read_plain(document)
    return Entries(document, backend, table, rows)


# ---- files of this suite


def _read_own(document: Document, table: Table) -> list[Entry]:
    def layout(fields: Fields) -> tuple[object, ...]:
        row = fields.values
        said = (row.get("run_type"), row.get("state"))
        kinds = (value if isinstance(value, str) else type(value) for value in said)
        return *kinds, bool(row.get("error_occurred") or row.get("skipped")), *row

    read: dict[int | None, Entry] = {}
    for rows in grouped(document.rows, layout).values():
        for fields, entry in zip(rows, _Columns(rows, table).entries(), strict=True):
            read[fields.index] = entry
    return [read[place] for place in range(len(document.rows))]


def _read_state(fields: Fields) -> tuple[State, str]:
    if failure := fields.failure():
        return State.ERROR, failure
    state, reason = fields.choice("state", State), fields.line("reason")
    return state, reason or ("failed, giving no reason" if state is State.ERROR else "")


@functools.lru_cache(maxsize=1 << 16)
def _parsed(text: str) -> BenchmarkName:
    """Parse a name once for all files and repetitions that have it."""
    return BenchmarkName.parse(text)


@dataclass(frozen=True)
class _Columns:
    """The columns of entries that have the same keys, the same kind and the same state."""

    rows: Sequence[Fields]
    table: Table

    @cached_property
    def values(self) -> Mapping[str, Sequence[Any]]:
        columns = zip(*(row.values.values() for row in self.rows), strict=True)
        return dict(zip(self.rows[0].values, columns, strict=True))

    def entries(self) -> list[Entry]:
        names = list(self.names())
        if read_is_aggregate(self.rows[0]):
            return [Entry(name) for name in names]
        units, states = self.each(read_unit, "time_unit"), self.each(_read_state, *_STATE)
        numbered = "repetition_index" in self.values
        numbers = self.numbers("repetition_index") if numbered else np.zeros(len(names))
        heads = zip(names, units, *zip(*states, strict=True), numbers.tolist(), strict=True)
        if states[0][0] is State.ERROR:
            return [Entry(*head) for head in heads]
        figures, intervals = self.figures([TO_MS[unit] for unit in units])
        self.require(figures.keys(), names)
        if VALID in figures:
            self.require_valid(figures[VALID], states[0][0])
        return [*map(Entry, *zip(*heads, strict=True), _split(figures), _split(intervals))]

    def each(self, read: Callable[[Fields], Value], *keys: str) -> list[Value]:
        """Read keys of every entry; only once if all entries have the same values."""
        columns = [self.values[key] for key in keys if key in self.values]
        if all(column.count(column[0]) == len(column) for column in columns):
            return [read(self.rows[0])] * len(self.rows)
        return [*map(read, self.rows)]

    def names(self) -> Iterator[BenchmarkName]:
        for fields in self.rows:
            try:
                yield _parsed(fields.printable("run_name"))
            except ValueError as error:
                if isinstance(error, ResultError):
                    raise
                raise fields.error("run_name", str(error)) from None

    def require(self, known: Set[str], names: Sequence[BenchmarkName]) -> None:
        """Refuse an entry that lacks a counter of its family, or whose file does not define it."""
        lacking = {family for family, counters in _REQUIRED.items() if not counters <= known}
        for fields, name in zip(self.rows, names, strict=True):
            if name.family in lacking:
                least = min(_REQUIRED[name.family] - known)
                there = least in fields.values
                raise fields.error(least, "not in the file's table" if there else "missing")

    def require_valid(self, flags: Sequence[float], state: State) -> None:
        """Refuse an entry whose state says another thing than its counter VALID."""
        for fields, valid in zip(self.rows, flags, strict=True):
            if bool(valid) is not state.comparable:
                raise fields.error("state", f'"{state.value}" contradicts valid: {valid:g}')

    def figures(
        self, to_ms: Sequence[float]
    ) -> tuple[dict[str, list[float]], dict[str, list[Interval]]]:
        """Return the time, by each entry's factor, the counters, and the intervals of both."""
        table, keys = self.table, self.values.keys()
        time = self.numbers("real_time", table.counters[TIME]) * np.array(to_ms)
        figures, ends = {TIME: time}, {TIME: TIME_ENDS}
        for name in sorted(table.keys & keys):
            if not _is_end(name, keys):
                figures[name] = self.numbers(name, table.counters[name])
                ends[name] = (f"{name}_low", f"{name}_high")
        found = {name: pair for name, pair in ends.items() if not keys.isdisjoint(pair)}
        intervals = {name: self._interval(*pair) for name, pair in found.items()}
        return {name: figures[name].tolist() for name in sorted(figures)}, intervals

    def _interval(self, low: str, high: str) -> list[Interval]:
        least, most = self.numbers(low), self.numbers(high)
        for index in np.flatnonzero(least > most).tolist():
            told = f"{least[index]:g} is above {high}: {most[index]:g}"
            raise self.rows[index].error(low, told)
        return list(zip(least.tolist(), most.tolist(), strict=True))

    def numbers(self, key: str, counter: Counter | None = None) -> Array:
        """Return a column of valid numbers; ResultError names the first that is not."""
        column = self.values.get(key)
        if column and set(map(type, column)) <= {float, int}:
            with contextlib.suppress(OverflowError):  # of an integer that is no float
                values = np.array(column, dtype=np.float64)
                size = np.abs(values)
                low, high = counter.surely_fine() if counter else (-LARGEST, LARGEST)
                fine = (values >= low) & (values <= high) & ((size >= SMALLEST) | (size == 0))
                if fine.all():
                    return values
        return np.array([_number(fields, key, counter) for fields in self.rows])


def _split(columns: Mapping[str, list[Value]]) -> Iterator[dict[str, Value]]:
    """Yield what each entry has of columns."""
    if not columns:
        return itertools.repeat({})
    values = zip(*columns.values(), strict=True)
    return (dict(zip(columns, each, strict=True)) for each in values)


def _number(fields: Fields, key: str, counter: Counter | None) -> float:
    value = fields.number(key)
    if counter and (fault := counter.fault(value)):
        raise fields.error(key, fault)
    return value


def _is_end(key: str, keys: Set[str]) -> bool:
    stem, _, end = key.rpartition("_")
    return key in TIME_ENDS or (
        end in ("low", "high") and {stem, f"{stem}_low", f"{stem}_high"} <= keys
    )


# ---- columns of a comparison


def columns_of(table: Table) -> tuple[str, ...]:
    """Return the columns that a comparison keeps of a row."""
    return (*dict.fromkeys((*table.judged, *SHOWN)), SAVED, ERROR)


def saved_share(figures: Mapping[str, Number]) -> Number | float:
    """Return efficiency x min(C, M) / T; NaN if the row lacks one of them."""
    try:
        shorter = np.minimum(figures["comp_ms"], figures["comm_ms"])
        share: Number = figures[EFFICIENCY] * shorter / figures["overlap_ms"]
    except KeyError:
        return math.nan
    return share
