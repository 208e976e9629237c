"""The entries of a result file as arrays, each checked: what a launch is made of.

Of a file of this suite every counter must make sense, of any other file of Google Benchmark the
time is read and nothing else. Blocks of rows that are plainly good are read at once (columns.py);
where one is not, its entries are read one by one, to tell a failed row from a good one and to
refuse what makes no sense by field and line. So of the two readers here the second one decides, and
the first one only takes what the second would take.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from overlapbench.columns import Array, Block, split_blocks
from overlapbench.metrics import EFFICIENCY, JUDGED, METRICS, SHOWN, TIME
from overlapbench.names import BenchmarkName
from overlapbench.result import (
    TO_MS,
    read_counter,
    read_name,
    read_time_ms,
    required_counters,
)
from overlapbench.source import Document, Fields

Figure = TypeVar("Figure", float, Array)  # of one row, or of many
SAVED = "saved_share"  # what efficiency is judged by
COLUMNS = (*JUDGED, *SHOWN, SAVED)
# Floats in here are fine; of all others `read_counter` decides.
_BOUNDS = {key: metric.surely_fine() for key, metric in METRICS.items()}
_COUNTERS = METRICS.keys() - {TIME}
_FAILED = frozenset({"error_occurred", "skipped"})


@dataclass(frozen=True)
class Entries:
    """All entries of a file, in its order."""

    names: list[str]
    numbers: list[float | None]  # which repetition; None for an aggregate, which has no figures
    units: list[str]
    problems: list[str]  # why the figures are not to be trusted; empty for a good row
    values: Array  # entries x COLUMNS, NaN where there is none


class Names(dict[tuple[str, bool], tuple[str, frozenset[str]]]):
    """What a `run_name` stands for, and the counters its family must have, parsed once."""

    def resolve(self, fields: Fields, ours: bool) -> tuple[str, frozenset[str]]:
        text = fields.values.get("run_name")
        found = self.get((text, ours)) if isinstance(text, str) else None
        if found is None:
            name = read_name(fields) if ours else fields.name()
            family = name.family if isinstance(name, BenchmarkName) else ""
            required = required_counters(family) | {"valid"} if ours else frozenset()
            found = (str(name), frozenset(required))
            self[fields.text("run_name"), ours] = found
        return found


def read_entries(document: Document, ours: bool, names: Names) -> Entries:
    """Read and check all entries; `ours` are those of this suite. Raises ResultError."""
    return _Reader(document, ours, names).read()


@dataclass(frozen=True)
class _Reader:
    document: Document
    ours: bool
    names: Names

    def read(self) -> Entries:
        count = len(self.document.entries)
        values = np.full((count, len(COLUMNS)), np.nan)
        entries = Entries([""] * count, [None] * count, [""] * count, [""] * count, values)
        for block in split_blocks(self.document.entries):
            if not self._read_block(block, entries):
                for place in block.places:
                    self._read_entry(place, entries)
        return entries

    # ---- a block at once

    def _read_block(self, block: Block, entries: Entries) -> bool:
        """Read a block; False, and nothing is read, where a row is not plainly good."""
        texts, numbers = block.texts("run_name"), block.integers("repetition_index")
        unit = block.always("time_unit")
        if texts is None or numbers is None or not isinstance(unit, str) or unit not in TO_MS:
            return False
        if _FAILED & block.columns.keys() or block.always("run_type") != "iteration":
            return False
        known = [
            self.names.get((text, self.ours))
            or self.names.resolve(self.document.fields(place), self.ours)
            for place, text in zip(block.places, texts, strict=True)
        ]
        counters = self._counters(block, {required for _, required in known})
        if counters is None:
            return False
        for place, (name, _), number in zip(block.places, known, numbers, strict=True):
            entries.names[place], entries.numbers[place] = name, number
            entries.units[place] = unit
        counters[TIME] *= TO_MS[unit]
        for place, metric in enumerate(COLUMNS):
            column = saved_share(counters) if metric == SAVED else counters.get(metric, np.nan)
            entries.values[block.places, place] = column
        return True

    def _counters(self, block: Block, required: set[frozenset[str]]) -> dict[str, Array] | None:
        """Return the time and all counters of a block; None where one needs a closer look."""
        present = _COUNTERS & block.columns.keys() if self.ours else frozenset()
        if not all(counters <= present for counters in required):
            return None
        counters = {}
        for metric in (TIME, *present):
            column = block.floats("real_time" if metric == TIME else metric, *_BOUNDS[metric])
            if column is None:
                return None
            counters[metric] = column
        return counters

    # ---- an entry

    def _read_entry(self, place: int, entries: Entries) -> None:
        fields = self.document.fields(place)
        entries.names[place], required = self.names.resolve(fields, self.ours)
        run_type = fields.text("run_type", "iteration")
        if run_type == "aggregate":
            return
        if run_type != "iteration":
            raise fields.error("run_type", f"{run_type!r} is neither iteration nor aggregate")
        numbered = "repetition_index" in fields.values
        entries.numbers[place] = fields.number("repetition_index") if numbered else 0.0
        entries.units[place] = fields.text("time_unit", "ns")
        entries.problems[place] = fields.failure()
        if not entries.problems[place]:
            counters = self._read_counters(fields, required)
            if self.ours and not counters["valid"]:
                reason = fields.line("label") or "marked invalid, giving no reason"
                entries.problems[place] = reason
            figures = {**counters, SAVED: saved_share(counters)}
            entries.values[place] = [figures.get(metric, math.nan) for metric in COLUMNS]

    def _read_counters(self, fields: Fields, required: frozenset[str]) -> Mapping[str, float]:
        """Check every counter that the row has and must have."""
        counters = {TIME: read_time_ms(fields)}
        if self.ours:
            for key in _COUNTERS.intersection(fields.values):
                counters[key] = read_counter(fields, key)
        if missing := required - counters.keys():
            raise fields.error(min(missing), "missing")
        return counters


def saved_share(counters: Mapping[str, Figure]) -> Figure | float:
    """Return efficiency x min(C, M) / T; NaN where the row does not have all of them."""
    try:
        shorter = np.minimum(counters["comp_ms"], counters["comm_ms"])
        share: Figure = counters[EFFICIENCY] * shorter / counters["overlap_ms"]
    except KeyError:
        return math.nan
    return share
