"""The one reader: a result file as checked columns, from which all rows and launches are made.

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
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from overlapbench.grouping import grouped
from overlapbench.reading.context import check_context, is_own, read_incomplete
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
    DEVIATION,
    MEAN,
    MEDIAN,
    TO_MS,
    Entry,
    read_is_aggregate,
    read_plain,
    read_unit,
)
from overlapbench.reading.rows import State
from overlapbench.reading.source import LARGEST, SMALLEST, Document, Fields, ResultError, short

Array = NDArray[np.float64]
Intervals = Mapping[str, tuple[Array, Array]]  # the ends, by counter
Value = TypeVar("Value")
Number = TypeVar("Number", float, Array)  # of one row, or of many
ONLY_AGGREGATES = "only aggregates are in the file"
# Columns that are derived; no counter can have these names.
SAVED = "saved share"  # of T by overlapping: speedup - 1, by which efficiency is judged
ERROR = "standard error"  # of the time, relative, inside the launch
# The standard error of a median over that of a mean, in large normal samples: sqrt(pi / 2).
MEDIAN_ERROR = 1.2533
_QUANTILE = 1.96  # of the normal distribution, for the 95 % intervals of rows
TIME_ENDS = ("time_low_ms", "time_high_ms")
_STATE = ("state", "reason", "error_occurred", "error_message", "skipped", "skip_message")
_REQUIRED = {"Overlap": frozenset({"comp_ms", "comm_ms", "overlap_ms", "slowdown"})}


@dataclass(frozen=True)
class Block:
    """Measured entries with the same columns."""

    places: Sequence[int]  # indices in the file
    figures: Mapping[str, Array]  # by counter; the time in ms, NaN where it is no measurement
    intervals: Intervals = field(default_factory=dict)


@dataclass(frozen=True)
class Entries:
    """All entries of a file, in its order."""

    document: Document
    backend: str  # "" if another suite wrote the file
    table: Table
    names: list[BenchmarkName | None]  # None for an entry that belongs to no benchmark
    repetitions: list[float | None]  # None for an entry that is not measured, as an aggregate
    units: list[str]
    states: list[State]
    reasons: list[str]
    blocks: list[Block] = field(default_factory=list)

    @cached_property
    def places(self) -> Mapping[BenchmarkName, list[int]]:
        """The indices of each benchmark's repetitions; ResultError if one is there twice."""
        places: dict[BenchmarkName, list[int]] = {}
        for place, (name, number) in enumerate(zip(self.names, self.repetitions, strict=True)):
            if name is not None:
                places.setdefault(name, []).extend([] if number is None else [place])
        for name, found in places.items():
            first: dict[float | None, int] = {}
            for place in found if len(found) > 1 else ():
                if first.setdefault(self.repetitions[place], place) != place:
                    path = self.document.rows[first[self.repetitions[place]]].path
                    fields = self.document.rows[place]
                    raise fields.error("run_name", f"{name} is already at {path}")
        return places

    @property
    def incomplete(self) -> str:
        """Why the run ended before all rows were measured; "" if all were."""
        return read_incomplete(self.document)

    def columns(self, wanted: Sequence[str]) -> Array:
        """Return entries x columns: counters, SAVED and ERROR; NaN if missing."""
        values = np.full((len(self.names), len(wanted)), np.nan)
        for block in self.blocks:
            for place, metric in enumerate(wanted):
                derive = _DERIVED.get(metric)
                known = block.figures.get(metric, np.nan)
                values[block.places, place] = derive(block) if derive else known
        return values

    def each(self) -> Iterator[tuple[int, dict[str, float], dict[str, tuple[float, float]]]]:
        """Yield the place of each measured entry with its counters, and with their intervals."""
        for block in self.blocks:
            names, counters = sorted(block.figures.keys() - _DERIVED.keys()), []
            if names:
                counters = list(zip(*(block.figures[name].tolist() for name in names), strict=True))
            bounds = [
                list(zip(low.tolist(), high.tolist(), strict=True))
                for low, high in block.intervals.values()
            ]
            for index, place in enumerate(block.places):
                ends = zip(block.intervals, (ends[index] for ends in bounds), strict=True)
                yield place, dict(zip(names, counters[index], strict=True)), dict(ends)


def read_entries(source: str, text: str, *, own: bool = False) -> Entries:
    """Read and check a whole file; ResultError refuses it, and other suites' files if `own`."""
    document = Document.parse(source, text)
    ours = own or is_own(document.context)
    backend = check_context(document.context) if ours else ""
    table = parse_table(document) if ours else stored_table().plain
    count = len(document.entries)
    entries = Entries(
        document,
        backend,
        table,
        [None] * count,
        [None] * count,
        [""] * count,
        [State.OK] * count,
        [""] * count,
    )
    (_read_ours if ours else _read_plain)(entries)
    return entries


# ---- files of this suite


def _read_ours(entries: Entries) -> None:
    document = entries.document

    def layout(place: int) -> tuple[object, ...]:
        row = document.rows[place].values
        said = (row.get("run_type"), row.get("state"))
        kinds = (value if isinstance(value, str) else type(value) for value in said)
        return *kinds, bool(row.get("error_occurred") or row.get("skipped")), *row

    for places in grouped(range(len(document.entries)), layout).values():
        columns = _Columns([document.rows[place] for place in places], entries.table)
        names = list(columns.names())
        _put(entries.names, places, names)
        if read_is_aggregate(columns.rows[0]):
            continue
        numbered = "repetition_index" in columns.values
        numbers = columns.numbers("repetition_index").tolist() if numbered else [0.0] * len(places)
        units, states = columns.each(read_unit, "time_unit"), columns.each(_read_state, *_STATE)
        _put(entries.repetitions, places, numbers)
        _put(entries.units, places, units)
        _put(entries.states, places, [state for state, _ in states])
        _put(entries.reasons, places, [reason for _, reason in states])
        state, _ = states[0]
        if state is not State.ERROR:
            figures, intervals = columns.figures([TO_MS[unit] for unit in units])
            columns.require(figures.keys(), names)
            if VALID in figures:
                columns.require_valid(figures[VALID], state)
            entries.blocks.append(Block(places, figures, intervals))


def _put(column: list[Any], places: Sequence[int], values: Sequence[object]) -> None:
    for place, value in zip(places, values, strict=True):
        column[place] = value


def _read_state(fields: Fields) -> tuple[State, str]:
    if failure := fields.failure():
        return State.ERROR, failure
    text, reason = fields.text("state"), fields.line("reason")
    try:
        state = State(text)
    except ValueError:
        known = ", ".join(state.value for state in State)
        raise fields.error("state", f"{short(text)} is not one of {known}") from None
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

    def each(self, read: Callable[[Fields], Value], *keys: str) -> list[Value]:
        """Read keys of every entry; only once if all entries have the same values."""
        columns = [self.values[key] for key in keys if key in self.values]
        if all(column.count(column[0]) == len(column) for column in columns):
            return [read(self.rows[0])] * len(self.rows)
        return [*map(read, self.rows)]

    def names(self) -> Iterator[BenchmarkName]:
        for fields in self.rows:
            try:
                yield _parsed(fields.name())
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

    def require_valid(self, valid: Array, state: State) -> None:
        """Refuse an entry whose state says another thing than its counter VALID."""
        for index in np.flatnonzero((valid != 0) != state.comparable).tolist():
            told = f'"{state.value}" contradicts valid: {valid[index]:g}'
            raise self.rows[index].error("state", told)

    def figures(self, to_ms: Sequence[float]) -> tuple[dict[str, Array], Intervals]:
        """Return the time, by each entry's factor, the counters, and the intervals of both."""
        table, keys = self.table, self.values.keys()
        figures = {TIME: self.numbers("real_time", table.counters[TIME]) * np.array(to_ms)}
        ends = {TIME: TIME_ENDS}
        for key in sorted(table.keys.keys() & keys):
            if _is_end(key, keys):
                continue
            name = table.keys[key]
            values = self.numbers(key, table.counters[name])
            other = figures.setdefault(name, values)
            for index in np.flatnonzero(other != values).tolist():
                told = f"{name} is there twice, with different values"
                raise self.rows[index].error(key, told)
            ends[name] = (f"{key}_low", f"{key}_high")
        found = {name: pair for name, pair in ends.items() if not keys.isdisjoint(pair)}
        return figures, {name: self._interval(*pair) for name, pair in found.items()}

    def _interval(self, low: str, high: str) -> tuple[Array, Array]:
        least, most = self.numbers(low), self.numbers(high)
        for index in np.flatnonzero(least > most).tolist():
            told = f"{least[index]:g} is above {high}: {most[index]:g}"
            raise self.rows[index].error(low, told)
        return least, most

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


# ---- files of other suites


def _read_plain(entries: Entries) -> None:
    document = entries.document
    named = (row.values.get("name") for row in document.rows)
    names = {name for name in named if isinstance(name, str)}
    rows = [read_plain(fields, names) for fields in document.rows]
    times, errors = (np.full(len(rows), np.nan) for _ in range(2))
    for place, row in enumerate(rows):
        entries.names[place] = BenchmarkName.foreign(row.name) if row.name else None
        entries.units[place] = row.unit
        entries.states[place], entries.reasons[place] = row.state, row.reason
        if not row.aggregate:
            # A name may be given to several benchmarks, each with its repetitions.
            entries.repetitions[place], times[place] = float(place), row.time_ms
    measured = {row.name for row in rows if not row.aggregate}
    for place, time_ms, error in _standing_in(rows, measured):
        entries.repetitions[place], times[place], errors[place] = float(place), time_ms, error
    places = [place for place, number in enumerate(entries.repetitions) if number is not None]
    entries.blocks.append(Block(places, {TIME: times[places], ERROR: errors[places]}))


def _standing_in(rows: Sequence[Entry], measured: Set[str]) -> Iterator[tuple[int, float, float]]:
    """Yield the medians or means that stand for benchmarks of which only aggregates are there.

    That is their place, their time and its relative standard error.
    """
    lonely = [place for place, row in enumerate(rows) if row.name and row.name not in measured]
    for places in grouped(lonely, lambda place: rows[place].name).values():
        of = grouped(places, lambda place: rows[place].aggregate)
        # If a name is there twice, each has its own deviation.
        deviations = of.get(DEVIATION, [])
        for turn, place in enumerate(of.get(MEDIAN, of.get(MEAN, []))):
            row = rows[place]
            if not SMALLEST <= row.time_ms <= LARGEST:
                continue
            error = math.nan
            if turn < len(deviations):
                scale = MEDIAN_ERROR if row.aggregate == MEDIAN else 1.0
                relative = rows[deviations[turn]].time_ms / row.time_ms
                error = scale * relative / math.sqrt(row.repetitions)
            yield place, row.time_ms, error


# ---- derived columns


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


def standard_error(block: Block) -> Array | float:
    """Return the precision of the rows' times: the standard error of their logarithms.

    From a row's own interval, or else from its samples, assumed normal; NaN without either.
    """
    if ERROR in block.figures:
        return block.figures[ERROR]
    if TIME in block.intervals:
        low, high = (np.log(np.maximum(end, SMALLEST)) for end in block.intervals[TIME])
        return np.asarray((high - low) / (2 * _QUANTILE))
    if not {"cv", "samples"} <= block.figures.keys():
        return math.nan
    samples = np.maximum(block.figures["samples"], 1.0)
    return np.asarray(MEDIAN_ERROR * block.figures["cv"] / np.sqrt(samples))


_DERIVED: Mapping[str, Callable[[Block], Array | float]] = {
    SAVED: lambda block: saved_share(block.figures),
    ERROR: standard_error,
}
