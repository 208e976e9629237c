"""Result files of overlapbench, validated. Every tool reads results through this module.

A result is Google Benchmark's JSON whose `context` contains `overlapbench_schema`. A file is either
accepted or refused as a whole, by a ResultError (source.py).

Repetitions of one benchmark become one Row, whose counters are medians over them. A benchmark that
failed, or that the suite marked invalid in any repetition, is kept, with its `state` and `reason`.
Google Benchmark's aggregates are ignored: they do not say how many repetitions failed.

X_low and X_high beside a counter X are the bounds of its 95 % interval, not counters. The intervals
of several repetitions or launches are pooled (intervals.py).

A file of schema "2" contains the table of counters and each row's `state` and `reason`. Schema "1"
has neither: the stored table replaces its own (counters.py), and `state_of_label` reads its labels.
"""

import itertools
import math
import os
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from overlapbench.reading.counters import (
    TIME,
    VALID,
    Table,
    merge_tables,
    parse_table,
    stored_table,
)
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.source import Document, Fields, ResultError, expand, harmless, load, short
from overlapbench.statistics.intervals import Interval, pool

__all__ = ["BACKENDS", "SCHEMAS", "Result", "ResultError", "Row", "parse_result", "read_results"]

SCHEMAS = ("1", "2")
_STATED = "2"  # of SCHEMAS: rows have their state, and the file its table
BACKENDS = ("cuda", "host")
TIME_BOUNDS = ("time_low_ms", "time_high_ms")
_AGGREGATES = "only aggregates are in the file"
TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
_REQUIRED = {"Overlap": frozenset({"comp_ms", "comm_ms", "overlap_ms", "slowdown"})}


class State(Enum):
    """The state of a row, from best to worst."""

    OK = "ok"
    SERIALIZED = "serialized"  # measured well: the two sides did not run at once
    CONTROL = "control"  # a negative control with the expected outcome
    NOISY = "noisy"  # measured, but uncertain, disturbed by other load, or impossible
    INVALID = "invalid"  # does not measure what its name says
    ERROR = "error"  # not measured

    @property
    def trusted(self) -> bool:
        """Tell whether the figures measure what the name says, and can be read alone."""
        return self in (State.OK, State.SERIALIZED)

    @property
    def comparable(self) -> bool:
        """Tell whether the figures measure what the name says, however wide their intervals."""
        return self not in (State.INVALID, State.ERROR)

    def line(self, reason: str) -> str:
        """Write a state with its reason, where nothing else shows the state; "" for a plain row."""
        if self in (State.OK, State.ERROR):
            return reason
        return f"{self.value}: {reason or 'no reason is given'}"


# The rows of a family that are negative controls: an axis and its value.
_CONTROLS = {"Overlap": ("streams", "1"), "Priority": ("priority", "equal")}
_NOT_OVERLAPPED = "not overlapped"  # the start of the reason of a pair that could not overlap


@dataclass(frozen=True)
class Row:
    """One benchmark of one file, its repetitions summed up."""

    file: str  # the label of the Result it belongs to
    name: BenchmarkName
    counters: Mapping[str, float]  # empty where nothing was measured
    state: State = State.OK
    time_ms: float = math.nan  # Google Benchmark's; NaN where nothing was measured
    reason: str = ""  # of the state; for a good row a finding such as `bandwidth-bound`, or ""
    first_axes: frozenset[str] = frozenset()  # of the workload named first
    intervals: Mapping[str, Interval] = field(default_factory=dict)  # by counter, or TIME in ms

    @property
    def trusted(self) -> bool:
        return self.state.trusted

    @property
    def passed_control(self) -> bool:
        """Tell whether this is a negative control with the expected outcome.

        Rows of Priority with equal priorities must gain nothing. In older files, two sides on one
        stream, which must not overlap, do not have the state CONTROL.
        """
        if self.state is State.CONTROL:
            return True
        axis, value = _CONTROLS.get(self.name.family, ("", ""))
        if not axis or self.name.axis(axis) != value:
            return False
        if self.name.family == "Priority":
            return self.state is State.OK
        refused = self.state is State.INVALID and self.reason.startswith(_NOT_OVERLAPPED)
        return refused or self.state is State.SERIALIZED

    @property
    def bad(self) -> bool:
        """Tell whether the row is neither trusted nor a passed control."""
        return not self.trusted and not self.passed_control

    @property
    def problem(self) -> str:
        """Why the figures cannot be trusted; "" for a good row."""
        if self.trusted:
            return ""
        passed = f"control passed: {self.reason}"
        return passed if self.passed_control else self.state.line(self.reason)

    @property
    def remark(self) -> str:
        """What the suite says about a good row."""
        return self.state.line(self.reason) if self.trusted else ""


@dataclass(frozen=True)
class Run:
    """One repetition, an entry that is not an aggregate, with every figure checked."""

    state: State
    reason: str
    counters: Mapping[str, float] = field(default_factory=dict)  # none where it failed
    time_ms: float = math.nan
    intervals: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """One result file."""

    label: str  # the file's name with backend and device, unique among the files read together
    backend: str
    context: Mapping[str, object]
    rows: tuple[Row, ...]
    table: Table
    incomplete: str = ""  # why the run ended before all rows were measured; "" if all were


@dataclass(frozen=True)
class Contract:
    """What a file guarantees about its rows."""

    schema: str  # "" for a plain Google Benchmark file, whose times alone are read
    table: Table

    @property
    def ours(self) -> bool:
        return bool(self.schema)

    @property
    def stated(self) -> bool:
        """Tell whether rows have `state` and `reason`."""
        return self.schema == _STATED

    def keys_of(self, values: Collection[str]) -> list[str]:
        """Return the keys of a row that are counters to read, in no particular order."""
        keys = self.table.keys.keys() & values if self.ours else ()
        return [key for key in keys if not _is_bound(key, values)]

    def required(self, family: str) -> frozenset[str]:
        """Return the counters that every measured row of a family has."""
        if not self.ours:
            return frozenset()
        always = frozenset() if self.stated else frozenset({VALID})
        return always | _REQUIRED.get(family, frozenset())


def _is_bound(key: str, keys: Collection[str]) -> bool:
    if key in TIME_BOUNDS:
        return True
    stem, _, end = key.rpartition("_")
    return end in ("low", "high") and {stem, f"{stem}_low", f"{stem}_high"} <= set(keys)


def read_results(arguments: Sequence[str]) -> list[Result]:
    """Read files, globs and `-` (standard input); ResultError unless every one is a result."""
    titles = source_titles(expand(arguments))
    return unite([parse_result(source, load(source), title) for source, title in titles.items()])


def unite(results: Sequence[Result]) -> list[Result]:
    """Return results that share one table; ResultError if the files' tables contradict."""
    table = merge_tables((result.label, result.table) for result in results)
    return [one if one.table == table else _under(table, one) for one in results]


def _under(table: Table, result: Result) -> Result:
    rows = (
        replace(
            row,
            counters={table.canonical(name): value for name, value in row.counters.items()},
            intervals={table.canonical(name): bounds for name, bounds in row.intervals.items()},
        )
        for row in result.rows
    )
    return replace(result, table=table, rows=tuple(rows))


def source_titles(sources: Sequence[str]) -> dict[str, str]:
    """Name files by their stems, preceded by as many folders as distinguish them.

    ResultError if a file is given twice.
    """
    paths = {source: _path(source) for source in sources}
    times = Counter(map(_path, sources))
    for source, path in paths.items():
        if times[path] > 1:
            raise ResultError(f"{source}: given twice")
    stems = {source: path.with_name(path.stem).parts for source, path in paths.items()}
    count = Counter(stems.values())
    names = {s: stems[s] if count[stems[s]] == 1 else path.parts for s, path in paths.items()}
    return {source: "/".join(_distinct_end(source, names)) for source in sources}


def _distinct_end(source: str, names: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the shortest end of a name that no other name ends in."""
    mine = names[source]
    others = [name for other, name in names.items() if other != source]
    ends = (mine[-length:] for length in itertools.count(1))
    return next(end for end in ends if all(other[-len(end) :] != end for other in others))


def _path(source: str) -> Path:
    # Not Path.resolve, which fails at a loop of links; reading one is refused in one line.
    return Path("standard input" if source == "-" else os.path.realpath(source))


def parse_result(source: str, text: str, title: str = "") -> Result:
    """Validate the text of one result file; errors name it by `source`, labels by `title`."""
    document = Document.parse(source, text)
    context = document.context
    backend = check_context(context)
    contract = read_contract(document)
    label = _label(title or _path(source).stem, backend, context.line("device"))
    rows = _read_rows(document, label, contract)
    return Result(label, backend, context.values, rows, contract.table, read_incomplete(document))


def read_contract(document: Document) -> Contract:
    """Return the contract of a file, which may be another suite's."""
    context = document.context
    if "overlapbench_schema" not in context.values:
        return Contract("", stored_table().plain)
    check_context(context)
    schema = context.text("overlapbench_schema")
    return Contract(schema, parse_table(document) if schema == _STATED else stored_table())


def read_incomplete(document: Document) -> str:
    """Return why the run ended before all rows were measured; "" if all were."""
    reason = document.values.get("incomplete", "")
    if not isinstance(reason, str):
        raise document.error(f"incomplete: {short(reason)} is not text", None)
    return harmless(reason)


def failed_self_test(context: Mapping[str, object]) -> bool:
    """Tell whether known delays were measured wrong, so that no figure of the file is trusted."""
    return str(context.get("self_test", "")).startswith("failed")


def _label(title: str, backend: str, device: str) -> str:
    title = harmless(title)
    if backend == "host":
        return f"{title} (backend: host)"
    return f"{title} ({', '.join(filter(None, (backend, device)))})"


def check_context(context: Fields) -> str:
    """Return the backend of a result of this suite; ResultError for any other file."""
    if "overlapbench_schema" not in context.values:
        raise context.error("overlapbench_schema", "missing: not a result of overlapbench")
    schema = context.text("overlapbench_schema")
    if schema not in SCHEMAS:
        known = " or ".join(map(repr, SCHEMAS))
        raise context.error("overlapbench_schema", f"{schema!r} is not supported: must be {known}")
    backend = context.text("backend")
    if backend not in BACKENDS:
        raise context.error("backend", f"{backend!r} is not one of {', '.join(BACKENDS)}")
    return backend


def _read_rows(document: Document, label: str, contract: Contract) -> tuple[Row, ...]:
    """Make one Row per configuration, in the order of the file."""
    runs: dict[BenchmarkName, list[Row]] = {}
    seen: dict[tuple[BenchmarkName, float], str] = {}
    for index in range(len(document.entries)):
        fields = document.fields(index)
        name = read_name(fields)
        repetitions = runs.setdefault(name, [])
        repetition = read_repetition(fields)
        if repetition is None:
            continue
        first = seen.setdefault((name, repetition), fields.path)
        if first != fields.path:
            raise fields.error("run_name", f"{name} is already at {first}")
        run = read_run(fields, contract, contract.required(name.family), all_intervals=True)
        repetitions.append(_row(label, name, run, contract.table.axes_of_first(name)))
    return tuple(
        sum_up(repetitions, "repetitions")
        if repetitions
        else Row(label, name, {}, State.ERROR, reason=_AGGREGATES)
        for name, repetitions in runs.items()
    )


def _row(label: str, name: BenchmarkName, run: Run, axes: frozenset[str]) -> Row:
    counters = {key: value for key, value in run.counters.items() if key != VALID}
    return Row(label, name, counters, run.state, run.time_ms, run.reason, axes, run.intervals)


def read_name(fields: Fields) -> BenchmarkName:
    """Return the name of an entry; ResultError if it does not follow the grammar."""
    text = fields.name()
    try:
        return BenchmarkName.parse(text)
    except ValueError as error:
        raise fields.error("run_name", str(error)) from None


def read_counters(fields: Fields, keys: Collection[str], table: Table) -> dict[str, float]:
    """Return the counters of a row by their names, each in its range."""
    counters: dict[str, float] = {}
    for key in keys:
        name = table.keys[key]
        value = fields.number(key)
        if fault := table.counters[name].fault(value):
            raise fields.error(key, fault)
        if counters.setdefault(name, value) != value:
            raise fields.error(key, f"{name} is there twice, with different values")
    return counters


def read_unit(fields: Fields) -> str:
    """Return the unit of an entry's time, one of TO_MS."""
    unit = fields.text("time_unit", "ns")
    if unit not in TO_MS:
        raise fields.error("time_unit", f"{unit!r} is not one of {', '.join(TO_MS)}")
    return unit


def read_time_ms(fields: Fields, table: Table) -> float:
    """Return the time of a measured entry, Google Benchmark's `real_time`."""
    unit = read_unit(fields)
    time = fields.number("real_time")
    if fault := table.counters[TIME].fault(time):
        raise fields.error("real_time", fault)
    return time * TO_MS[unit]


def read_intervals(fields: Fields, keys: Collection[str], table: Table) -> dict[str, Interval]:
    """Return the 95 % intervals of the counters that have one, and of the time."""
    bounds = {table.keys[key]: (f"{key}_low", f"{key}_high") for key in keys}
    bounds[TIME] = TIME_BOUNDS
    intervals = {}
    for name, (low, high) in bounds.items():
        if low not in fields.values and high not in fields.values:
            continue
        intervals[name] = interval = fields.number(low), fields.number(high)
        if interval[0] > interval[1]:
            raise fields.error(low, f"{interval[0]:g} is above {high}: {interval[1]:g}")
    return intervals


def read_failure(fields: Fields, contract: Contract) -> str:
    """Return why an entry was not measured; "" if it was."""
    failure = fields.failure()
    if not failure and contract.stated and fields.values.get("state") == State.ERROR.value:
        return fields.line("reason") or "failed, giving no reason"
    return failure


def read_state(
    fields: Fields, counters: Mapping[str, float], contract: Contract
) -> tuple[State, str]:
    """Return the state of a measured row, and the reason."""
    if not contract.stated:
        return state_of_label(bool(counters[VALID]), fields.line("label"))
    text, reason = fields.text("state"), fields.line("reason")
    try:
        state = State(text)
    except ValueError:
        known = ", ".join(state.value for state in State)
        raise fields.error("state", f"{short(text)} is not one of {known}") from None
    if bool(counters.get(VALID, state.comparable)) is not state.comparable:
        raise fields.error("state", f"{short(text)} contradicts valid: {counters[VALID]:g}")
    return state, reason


def state_of_label(valid: bool, label: str) -> tuple[State, str]:
    """Return what schema "1" says in a row's label."""
    head, separator, rest = label.partition(": ")
    if not valid:
        return State.INVALID, rest if separator and head == State.INVALID.value else label
    if separator and head == State.SERIALIZED.value:
        return State.SERIALIZED, rest
    return State.OK, label


def read_repetition(fields: Fields, *, optional: bool = False) -> float | None:
    """Return the entry's repetition, by default the first if `optional`; None: an aggregate."""
    run_type = fields.text("run_type", "iteration" if optional else None)
    if run_type == "aggregate":
        return None
    if run_type != "iteration":
        raise fields.error("run_type", f"{run_type!r} is neither iteration nor aggregate")
    if optional and "repetition_index" not in fields.values:
        return 0.0
    return fields.number("repetition_index")


def read_run(
    fields: Fields, contract: Contract, required: frozenset[str], *, all_intervals: bool
) -> Run:
    """Read an entry that is not an aggregate. The counters of a failed entry are ignored.

    Without `all_intervals`, only the interval of the time is read, which is faster.
    """
    if failure := read_failure(fields, contract):
        return Run(State.ERROR, failure)
    keys = sorted(contract.keys_of(fields.values))
    counters = read_counters(fields, keys, contract.table)
    require(fields, required, counters)
    time_ms = read_time_ms(fields, contract.table)
    intervals = read_intervals(fields, keys if all_intervals else (), contract.table)
    state, reason = read_state(fields, counters, contract)
    return Run(state, reason, counters, time_ms, intervals)


def require(fields: Fields, required: frozenset[str], counters: Collection[str]) -> None:
    """Refuse a row that lacks a counter, or whose file does not define it."""
    if missing := required.difference(counters):
        name = min(missing)
        known = "not in the file's table" if name in fields.values else "missing"
        raise fields.error(name, known)


def sum_up(runs: Sequence[Row], what: str) -> Row:
    """Return the medians over runs of one benchmark; problems call the runs `what`."""
    measured = [run for run in runs if not math.isnan(run.time_ms)]
    shared = set.intersection(*(set(run.counters) for run in measured)) if measured else set()
    state = max((run.state for run in runs), key=list(State).index)
    if state is State.ERROR and measured:
        state = State.INVALID
    alike = [run.state is state or not (run.trusted or state.trusted) for run in runs]
    return Row(
        runs[0].file,
        runs[0].name,
        {key: statistics.median(run.counters[key] for run in measured) for key in sorted(shared)},
        state,
        statistics.median(run.time_ms for run in measured) if measured else math.nan,
        _common([run.reason * same for run, same in zip(runs, alike, strict=True)], what),
        runs[0].first_axes,
        _pooled(measured),
    )


def _pooled(runs: Sequence[Row]) -> dict[str, Interval]:
    """Return the interval of each counter that has one in all runs."""
    shared = set.intersection(*(set(run.intervals) for run in runs)) if runs else set()
    return {
        name: pool([_figure(run, name) for run in runs], [run.intervals[name] for run in runs])
        for name in sorted(shared)
    }


def _figure(run: Row, name: str) -> float:
    return run.time_ms if name == TIME else run.counters[name]


def _common(texts: Sequence[str], what: str) -> str:
    """Return the first text, and how many runs have one unless all do."""
    given = [text for text in texts if text]
    if not given:
        return ""
    if len(given) == len(texts):
        return given[0]
    return f"{len(given)} of {len(texts)} {what}: {given[0]}"
