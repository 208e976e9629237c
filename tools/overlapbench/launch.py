"""Launches: one result file as a comparison sees it, one figure a benchmark and metric.

The launch is the unit of comparing: repetitions inside one process share clocks, memory and
placement, so that each benchmark's repetitions are reduced to their median. Files of this suite are
checked as every tool checks them; any other file of Google Benchmark is taken too, with its time
as the only metric.

A file may hold thousands of benchmarks and a comparison hundreds of files, so that what is kept of
a benchmark is a few floats. Repeated work on names is done once for all files.
"""

import gc
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from overlapbench.metrics import JUDGED, METRICS, SHOWN, TIME, saved_share
from overlapbench.names import BenchmarkName
from overlapbench.result import check_context, read_counter, read_name, required_counters
from overlapbench.source import Document, Fields, expand, load

KEPT = (*JUDGED, *SHOWN)
# Floats in here are fine; of all others `read_counter` decides.
_BOUNDS = {key: metric.surely_fine() for key, metric in METRICS.items() if key != TIME}
TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
SAVED = "saved_share"  # what efficiency is judged by
COLUMNS = (*KEPT, SAVED)
# What makes figures comparable: the context's key, and how reports name it.
CONTEXT_FIELDS: Mapping[str, str] = {
    "backend": "backend",
    "device": "GPU",
    "driver_version": "driver",
    "nccl_version": "NCCL",
    "ranks": "ranks",
}


class Figures(NamedTuple):
    """One benchmark of one launch; both tuples follow COLUMNS, with NaN where one is missing."""

    unit: str
    values: tuple[float, ...]  # medians of the repetitions; the time in ms
    spread: tuple[float, ...]  # their standard deviation, relative but for SAVED; NaN of one
    repetitions: int
    problem: str  # why the figures are not to be trusted; empty for a good row


@dataclass(frozen=True)
class Launch:
    """One result file."""

    source: str
    context: Mapping[str, str]  # CONTEXT_FIELDS, "" where the file does not say
    rows: Mapping[str, Figures]


class Names(dict[tuple[str, bool], tuple[str, frozenset[str]]]):
    """What a `run_name` stands for, and the counters its family must have, parsed once."""

    def resolve(self, fields: Fields, ours: bool) -> tuple[str, frozenset[str]]:
        text = fields.values.get("run_name")
        found = self.get((text, ours)) if isinstance(text, str) else None
        if found is None:
            name = read_name(fields) if ours else fields.name()
            family = name.family if isinstance(name, BenchmarkName) else ""
            found = (str(name), required_counters(family) | {"valid"})
            self[fields.text("run_name"), ours] = found
        return found


def read_launches(arguments: Iterable[str]) -> list[Launch]:
    """Read files, globs and `-`; ResultError unless every one is a result."""
    names, collecting = Names(), gc.isenabled()
    # Nothing here is cyclic, and looking for cycles among so many rows takes a sixth of the time.
    gc.disable()
    try:
        return [parse_launch(source, load(source), names) for source in expand(list(arguments))]
    finally:
        if collecting:
            gc.enable()


def parse_launch(source: str, text: str, names: Names | None = None) -> Launch:
    """Validate and reduce one file."""
    document = Document.parse(source, text)
    ours = "overlapbench_schema" in document.context.values
    if ours:
        check_context(document.context)
    context = {key: document.context.line(key) for key in CONTEXT_FIELDS}
    reader = _Reader(document, ours, names if names is not None else Names())
    return Launch(source, context, reader.rows())


class _Repetition(NamedTuple):
    unit: str
    values: tuple[float, ...]
    problem: str


_NOTHING = (math.nan,) * len(COLUMNS)


@dataclass(frozen=True)
class _Reader:
    document: Document
    ours: bool
    names: Names

    def rows(self) -> dict[str, Figures]:
        runs: dict[str, list[_Repetition]] = {}
        seen: dict[tuple[str, float], int] = {}
        for index in range(len(self.document.entries)):
            fields = self.document.fields(index)
            entry = fields.values
            name, required = self.names.resolve(fields, self.ours)
            repetitions = runs.setdefault(name, [])
            run_type = fields.text("run_type", "iteration")
            if run_type == "aggregate":
                continue
            if run_type != "iteration":
                raise fields.error("run_type", f"{run_type!r} is neither iteration nor aggregate")
            repetition = fields.number("repetition_index") if "repetition_index" in entry else 0.0
            first = seen.setdefault((name, repetition), index)
            if first != index:
                raise fields.error("run_name", f"{name} stands at benchmarks[{first}] already")
            repetitions.append(self._repetition(fields, required))
        return {name: _reduce(repetitions) for name, repetitions in runs.items()}

    def _repetition(self, fields: Fields, required: frozenset[str]) -> _Repetition:
        unit = fields.text("time_unit", "ns")
        if failure := fields.failure():
            return _Repetition(unit, _NOTHING, failure)
        if unit not in TO_MS:
            raise fields.error("time_unit", f"{unit!r} is none of {', '.join(TO_MS)}")
        time = fields.number("real_time")
        if fault := METRICS[TIME].fault(time):
            raise fields.error("real_time", fault)
        counters = {TIME: time * TO_MS[unit]}
        problem = ""
        if self.ours:
            self._check_counters(fields, required, counters)
            if not counters["valid"]:
                problem = fields.line("label") or "marked invalid, giving no reason"
        values = (*[counters.get(metric, math.nan) for metric in KEPT], saved_share(counters))
        return _Repetition(unit, values, problem)

    def _check_counters(
        self, fields: Fields, required: frozenset[str], counters: dict[str, float]
    ) -> None:
        """Check every counter that the row has and must have; keep those that are of use."""
        for key, value in fields.values.items():
            if key in _BOUNDS:
                low, high = _BOUNDS[key]
                fine = type(value) is float and low <= value <= high
                counters[key] = value if fine else read_counter(fields, key)  # type: ignore[assignment]
        if missing := required - counters.keys():
            raise fields.error(min(missing), "missing")


def _reduce(runs: list[_Repetition]) -> Figures:
    if not runs:
        return Figures("", _NOTHING, _NOTHING, 0, "only aggregates are in the file")
    problems = [run.problem for run in runs if run.problem]
    problem = problems[0] if problems else ""
    if problems and len(runs) > 1:
        problem = f"{len(problems)} of {len(runs)} repetitions: {problem}"
    if len(runs) == 1:
        (run,) = runs
        return Figures(run.unit, run.values, _NOTHING, 1, problem)
    columns = list(zip(*(run.values for run in runs), strict=True))
    deviations = map(_deviation, columns[:-1]), (_deviation(columns[-1], relative=False),)
    spread = tuple(itertools.chain(*deviations))
    return Figures(runs[0].unit, tuple(map(_median, columns)), spread, len(runs), problem)


def _median(values: tuple[float, ...]) -> float:
    if any(map(math.isnan, values)):
        return math.nan
    ordered, middle = sorted(values), len(values) // 2
    return (ordered[middle] + ordered[-1 - middle]) / 2


def _deviation(values: tuple[float, ...], relative: bool = True) -> float:
    mean = math.fsum(values) / len(values)
    if math.isnan(mean) or (relative and mean <= 0):
        return math.nan
    squares = math.fsum((value - mean) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1)) / (mean if relative else 1.0)
