"""The entries of a result file as checked arrays, from which a launch is made.

In a file of this suite, every counter must be valid. From any other Google Benchmark file, only the
time is read. Blocks of plainly good rows are read at once (columns.py). The entries of any other
block are read one by one, to separate failed rows from good ones and to refuse invalid values by
field and line. They are read by `read_run` (result.py), as in all tools, or by `read_plain`
(plain.py). Those are authoritative: blocks accept only what they would accept.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from overlapbench.grouping import grouped
from overlapbench.reading.columns import Array, Block, split_blocks
from overlapbench.reading.counters import EFFICIENCY, SHOWN, TIME, Table
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.plain import DEVIATION, MEAN, MEDIAN, Entry, read_plain
from overlapbench.reading.result import (
    TIME_BOUNDS,
    TO_MS,
    Contract,
    State,
    read_name,
    read_repetition,
    read_run,
    read_unit,
)
from overlapbench.reading.source import LARGEST, SMALLEST, Document, Fields

Figure = TypeVar("Figure", float, Array)  # of one row, or of many
# Columns that are derived; no counter can have these names.
SAVED = "saved share"  # of T by overlapping: speedup - 1, by which efficiency is judged
ERROR = "standard error"  # of the time, relative, inside the launch
# The standard error of a median over that of a mean, in large normal samples: sqrt(pi / 2).
MEDIAN_ERROR = 1.2533
_QUANTILE = 1.96  # of the normal distribution, for the 95 % intervals of rows
_FAILED = frozenset({"error_occurred", "skipped"})
_COMPARABLE = frozenset(state.value for state in State if state.comparable)


def columns_of(table: Table) -> tuple[str, ...]:
    """Return the columns that a comparison keeps of a row."""
    return (*dict.fromkeys((*table.judged, *SHOWN)), SAVED, ERROR)


@dataclass(frozen=True)
class Entries:
    """All entries of a file, in its order."""

    names: list[str]  # "" for an entry that belongs to no benchmark
    numbers: list[float | None]  # of repetitions; None for an aggregate, which has no figures
    units: list[str]
    problems: list[str]  # why the figures cannot be trusted; "" for a good row
    columns: tuple[str, ...]
    values: Array  # entries x columns, NaN if missing
    aggregates: dict[int, Entry] = field(default_factory=dict)  # of a plain file, by place


class Names(dict[tuple[str, str], tuple[str, frozenset[str]]]):
    """What each `run_name` denotes, and the counters its family requires, parsed once."""

    def resolve(self, fields: Fields, contract: Contract) -> tuple[str, frozenset[str]]:
        text = fields.values.get("run_name")
        found = self.get((text, contract.schema)) if isinstance(text, str) else None
        if found is None:
            name = read_name(fields) if contract.ours else fields.name()
            family = name.family if isinstance(name, BenchmarkName) else ""
            found = (str(name), contract.required(family))
            self[fields.text("run_name"), contract.schema] = found
        return found


def read_entries(document: Document, contract: Contract, names: Names) -> Entries:
    """Read all entries and check them against the file's contract. Raises ResultError."""
    return _Reader(document, contract, names).read()


@dataclass(frozen=True)
class _Reader:
    document: Document
    contract: Contract
    names: Names

    def read(self) -> Entries:
        count, columns = len(self.document.entries), columns_of(self.contract.table)
        values = np.full((count, len(columns)), np.nan)
        entries = Entries([""] * count, [None] * count, [""] * count, [""] * count, columns, values)
        for block in split_blocks(self.document.entries):
            if not self._read_block(block, entries):
                for place in block.places:
                    self._read_entry(place, entries)
        _let_aggregates_stand_in(entries)
        return entries

    # ---- a block at once

    def _read_block(self, block: Block, entries: Entries) -> bool:
        """Read a block; False, and nothing is read, if a row is not plainly good."""
        texts = block.only(str, "run_name")
        # In plain files, a name may be given to several benchmarks, each with its repetitions.
        numbers = block.only(int, "repetition_index") if self.contract.ours else block.places
        unit = block.always("time_unit")
        if texts is None or numbers is None or not isinstance(unit, str) or unit not in TO_MS:
            return False
        if _FAILED & block.columns.keys() or block.always("run_type") != "iteration":
            return False
        if self.contract.stated and not _plainly_good(block):
            return False
        schema = self.contract.schema
        known = [
            self.names.get((text, schema))
            or self.names.resolve(self.document.fields(place), self.contract)
            for place, text in zip(block.places, texts, strict=True)
        ]
        counters = self._counters(block, {required for _, required in known})
        if counters is None:
            return False
        for place, (name, _), number in zip(block.places, known, numbers, strict=True):
            entries.names[place], entries.numbers[place] = name, number
            entries.units[place] = unit
        counters[TIME] *= TO_MS[unit]
        for place, metric in enumerate(entries.columns):
            derive = _DERIVED.get(metric)
            column = derive(counters) if derive else counters.get(metric, np.nan)
            entries.values[block.places, place] = column
        return True

    def _counters(self, block: Block, required: set[frozenset[str]]) -> dict[str, Array] | None:
        """Return the time and all counters of a block; None if one needs a closer look."""
        table = self.contract.table
        names = {key: table.keys[key] for key in self.contract.keys_of(block.columns.keys())}
        present = frozenset(names.values())
        if len(present) < len(names) or not all(counters <= present for counters in required):
            return None
        counters = {}
        for key, name in (("real_time", TIME), *names.items()):
            # Floats in these bounds are valid; the reader of an entry decides about all others.
            column = block.floats(key, *table.counters[name].surely_fine())
            if column is None:
                return None
            counters[name] = column
        if not self.contract.ours or block.columns.keys().isdisjoint(TIME_BOUNDS):
            return counters
        low, high = (block.floats(key, SMALLEST, LARGEST) for key in TIME_BOUNDS)
        if low is None or high is None or (low > high).any():
            return None
        return counters | dict(zip(TIME_BOUNDS, (low, high), strict=True))

    # ---- an entry

    def _read_entry(self, place: int, entries: Entries) -> None:
        fields = self.document.fields(place)
        if not self.contract.ours:
            self._read_plain(fields, place, entries)
            return
        entries.names[place], required = self.names.resolve(fields, self.contract)
        entries.numbers[place] = read_repetition(fields, optional=True)
        if entries.numbers[place] is None:
            return
        entries.units[place] = read_unit(fields)
        run = read_run(fields, self.contract, required, all_intervals=False)
        entries.problems[place] = "" if run.state.comparable else run.state.line(run.reason)
        if run.state is not State.ERROR:
            bounds = dict(zip(TIME_BOUNDS, run.intervals.get(TIME, ()), strict=False))
            counters = {TIME: run.time_ms, **run.counters, **bounds}
            derived = {metric: derive(counters) for metric, derive in _DERIVED.items()}
            figures = {**counters, **derived}
            entries.values[place] = [figures.get(metric, math.nan) for metric in entries.columns]

    def _read_plain(self, fields: Fields, place: int, entries: Entries) -> None:
        entry = read_plain(fields, self._plain_names)
        entries.names[place], entries.units[place] = entry.name, entry.unit
        if entry.aggregate:
            entries.aggregates[place] = entry
            return
        entries.numbers[place] = float(place)
        entries.problems[place] = entry.problem
        entries.values[place, entries.columns.index(TIME)] = entry.time_ms

    @cached_property
    def _plain_names(self) -> frozenset[str]:
        names = (row.get("name") for row in self.document.entries if isinstance(row, dict))
        return frozenset(name for name in names if isinstance(name, str))


def _let_aggregates_stand_in(entries: Entries) -> None:
    """Give the benchmarks that have only aggregates the figures of their medians or means."""
    numbered = zip(entries.names, entries.numbers, strict=True)
    measured = {name for name, number in numbered if number is not None}
    time, error = map(entries.columns.index, (TIME, ERROR))
    for name, places in grouped(entries.aggregates, lambda place: entries.names[place]).items():
        if name in measured:
            continue
        of = grouped(places, lambda place: entries.aggregates[place].aggregate)
        # If a name is there twice, each has its own deviation.
        deviations = of.get(DEVIATION, [])
        for turn, place in enumerate(of.get(MEDIAN, of.get(MEAN, []))):
            entry = entries.aggregates[place]
            if not SMALLEST <= entry.time_ms <= LARGEST:
                continue
            entries.numbers[place] = float(place)
            entries.values[place, time] = entry.time_ms
            if turn < len(deviations):
                relative = entries.aggregates[deviations[turn]].time_ms / entry.time_ms
                scale = MEDIAN_ERROR if entry.aggregate == MEDIAN else 1.0
                entries.values[place, error] = scale * relative / math.sqrt(entry.repetitions)


def _plainly_good(block: Block) -> bool:
    """Tell whether all rows of a block have a good state, and reasons that are text."""
    state = block.always("state")
    if not isinstance(state, str) or state not in _COMPARABLE:
        return False
    return "reason" not in block.columns or block.only(str, "reason") is not None


def saved_share(counters: Mapping[str, Figure]) -> Figure | float:
    """Return efficiency x min(C, M) / T; NaN if the row lacks one of them."""
    try:
        shorter = np.minimum(counters["comp_ms"], counters["comm_ms"])
        share: Figure = counters[EFFICIENCY] * shorter / counters["overlap_ms"]
    except KeyError:
        return math.nan
    return share


def standard_error(counters: Mapping[str, Figure]) -> Figure | float:
    """Return the precision of a row's time: the standard error of its logarithm.

    From the row's own interval, or else from its samples, assumed normal; NaN without either.
    """
    low, high = map(counters.get, TIME_BOUNDS)
    if low is not None and high is not None:
        ends = np.log(np.maximum(low, SMALLEST)), np.log(np.maximum(high, SMALLEST))
        width: Figure = np.abs(ends[1] - ends[0]) / (2 * _QUANTILE)
        return width
    variation, samples = counters.get("cv"), counters.get("samples")
    if variation is None or samples is None:
        return math.nan
    error: Figure = MEDIAN_ERROR * variation / np.sqrt(np.maximum(samples, 1.0))
    return error


_DERIVED: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    SAVED: saved_share,
    ERROR: standard_error,
}
