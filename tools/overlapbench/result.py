"""Result files of overlapbench, validated: the one door through which every tool reads.

A result is Google Benchmark's JSON whose `context` carries `overlapbench_schema`. A file is taken
whole or refused whole: ResultError is one line naming the file and the field, for example
`run.json: benchmarks[3].slowdown: -1 is not above 0`.

Repetitions of one benchmark become one Row, whose counters are medians over them. A benchmark that
failed, or that the suite marked invalid in any repetition, is kept and carries the reason in
`problem`. Google Benchmark's aggregates are left out: they cannot tell how many repetitions failed.
"""

import glob
import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from overlapbench.names import BenchmarkName

SCHEMA = "1"
BACKENDS = ("cuda", "host")

# The counters' contract: which values make sense, whatever the family.
_POSITIVE = frozenset(
    {"comp_ms", "comm_ms", "overlap_ms", "slowdown", "speedup", "samples"}
    | {"sequential_ms", "ideal_ms", "in_ms", "compute_ms", "out_ms"}
    | {"one_transfer_ms", "fragmented_slowdown", "us_per_fragment"}
    | {"latency_alone_ms", "latency_equal_ms", "latency_ms", "load_alone_ms", "gain"}
    | {"make_ms", "consume_ms", "whole_ms", "kernel_us", "pieces_slowdown"}
    | {"copy_ms", "fused_ms", "fused_speedup", "predicted_speedup"}
    | {"train_ms", "loop_ms", "graph_speedup", "kernel_ms", "epilogue_speedup"}
)
_NOT_NEGATIVE = frozenset(
    {"comp_slowdown", "comm_slowdown", "coverage", "skew_us", "p05_ms", "p95_ms", "cv"}
    | {"algbw_GBps", "busbw_GBps", "GBps", "TFLOPs", "pct_of_copy", "max_rel_err"}
    | {"host_to_device_GBps", "device_to_host_GBps"}
    | {"host_to_device_slowdown", "device_to_host_slowdown"}
    | {"pct_of_ideal", "host_us_per_fragment", "pct_of_peak", "fixed_cost_share"}
    | {"work_slowdown", "work_slowdown_equal", "load_slowdown", "load_slowdown_equal"}
    | {"batches_per_s", "predicted_batches_per_s"}
    | {"host_us_per_launch", "launches_per_s", "dominated_below_us", "round_trip_us"}
)
# Differences: noise, or a loss, makes them negative.
_SIGNED = frozenset(
    {"efficiency", "hidden_comm", "exposed_comm_ms", "sync_cost_ms", "prediction_error_pct"}
    | {"device_us_per_launch"}
)
_AT_MOST_1 = frozenset({"device_idle_share"})
_FLAGS = frozenset({"valid", "identical", "bound_by_workers"})
_COUNTERS = (_POSITIVE | _NOT_NEGATIVE | _SIGNED | _AT_MOST_1 | _FLAGS) - {"valid"}
_REQUIRED: Mapping[str, frozenset[str]] = {
    "Overlap": frozenset({"comp_ms", "comm_ms", "overlap_ms", "slowdown"})
}


class ResultError(ValueError):
    """One line saying which file, and which field of it, is no result of this suite, and why."""


@dataclass(frozen=True)
class Row:
    """One benchmark of one file, its repetitions summed up."""

    file: str  # the label of the Result it belongs to
    name: BenchmarkName
    counters: Mapping[str, float]  # empty where nothing was measured
    problem: str = ""  # why the figures are not to be trusted; empty for a good row


@dataclass(frozen=True)
class Result:
    """One result file."""

    label: str  # the file's stem with backend and device, unique among the files read together
    backend: str
    context: Mapping[str, object]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class _Fields:
    """A JSON object that knows where it stands, so that a refusal can say so."""

    source: str
    path: str
    values: Mapping[str, object]

    def error(self, key: str, what: str) -> ResultError:
        return ResultError(f"{self.source}: {self.path}.{key}: {what}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if value is None:
            raise self.error(key, "missing")
        if not isinstance(value, str):
            raise self.error(key, f"{_short(value)} is not text")
        return value

    def line(self, key: str) -> str:
        """Return optional text on one line."""
        return " ".join(self.text(key, "").split())

    def number(self, key: str) -> float:
        if key not in self.values:
            raise self.error(key, "missing")
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"{_short(value)} is not a number")
        if abs(value) > sys.float_info.max or math.isnan(value):
            raise self.error(key, f"{_short(value)} is not a finite number")
        return float(value)

    def counter(self, key: str) -> float:
        value = self.number(key)
        if key in _POSITIVE and value <= 0:
            raise self.error(key, f"{value:g} is not above 0")
        if key in _NOT_NEGATIVE and value < 0:
            raise self.error(key, f"{value:g} is negative")
        if key in _AT_MOST_1 and value > 1:
            raise self.error(key, f"{value:g} is above 1")
        if key in _FLAGS and value not in (0, 1):
            raise self.error(key, f"{value:g} is neither 0 nor 1")
        return value


@dataclass(frozen=True)
class _Run:
    """One repetition: an entry of `benchmarks` that was measured, or failed."""

    counters: Mapping[str, float]
    problem: str


def read_results(arguments: Sequence[str]) -> list[Result]:
    """Read files, globs and `-` (standard input); ResultError unless every one is a result."""
    sources = [source for argument in arguments for source in _expand(argument)]
    for name, count in Counter(_stem(source) for source in sources).items():
        if count > 1:
            raise ResultError(f"{name}: {count} files have this name: rename, or give it once")
    return [parse_result(source, _load(source)) for source in sources]


def parse_result(source: str, text: str) -> Result:
    """Validate the text of one result file; `source` names it in refusals and labels."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{source}: not JSON, or cut short: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("context"), dict):
        raise ResultError(f"{source}: context: missing: not a Google Benchmark result")
    context = _Fields(source, "context", document["context"])
    backend = _check_context(context)
    entries = document.get("benchmarks")
    if not isinstance(entries, list) or not entries:
        raise ResultError(f"{source}: benchmarks: missing or empty: nothing was measured")
    label = _label(_stem(source), backend, context.line("device"))
    return Result(label, backend, context.values, _read_rows(source, label, entries))


def _expand(argument: str) -> list[str]:
    """Expand a glob that the shell left alone, unless a file has that very name."""
    if argument == "-" or not glob.has_magic(argument) or Path(argument).exists():
        return [argument]
    matches = sorted(glob.glob(argument))  # noqa: PTH207 (Path.glob takes no absolute pattern)
    if not matches:
        raise ResultError(f"{argument}: no file matches")
    return matches


def _load(source: str) -> str:
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise ResultError(f"{source}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ResultError(f"{source}: not JSON: byte {error.start} is not UTF-8") from None


def _stem(source: str) -> str:
    return "standard input" if source == "-" else Path(source).stem


def _label(stem: str, backend: str, device: str) -> str:
    if backend == "host":
        return f"{stem} (backend: host)"
    return f"{stem} ({', '.join(filter(None, (backend, device)))})"


def _check_context(context: _Fields) -> str:
    if "overlapbench_schema" not in context.values:
        raise context.error("overlapbench_schema", "missing: not a result of overlapbench")
    schema = context.text("overlapbench_schema")
    if schema != SCHEMA:
        raise context.error("overlapbench_schema", f"{schema!r} is not {SCHEMA!r}, known here")
    backend = context.text("backend")
    if backend not in BACKENDS:
        raise context.error("backend", f"{backend!r} is none of {', '.join(BACKENDS)}")
    return backend


def _read_rows(source: str, label: str, entries: Sequence[object]) -> tuple[Row, ...]:
    """Make one Row of each configuration, in the order of the file."""
    runs: dict[BenchmarkName, list[_Run]] = {}
    seen: dict[tuple[BenchmarkName, float], str] = {}
    for index, entry in enumerate(entries):
        path = f"benchmarks[{index}]"
        if not isinstance(entry, dict):
            raise ResultError(f"{source}: {path}: {_short(entry)} is not an object")
        fields = _Fields(source, path, entry)
        name = _read_name(fields)
        repetitions = runs.setdefault(name, [])
        run_type = fields.text("run_type")
        if run_type == "aggregate":
            continue
        if run_type != "iteration":
            raise fields.error("run_type", f"{run_type!r} is neither iteration nor aggregate")
        first = seen.setdefault((name, fields.number("repetition_index")), path)
        if first != path:
            raise fields.error("run_name", f"{name} stands at {first} already")
        repetitions.append(_read_run(fields, name))
    return tuple(_sum_up(label, name, repetitions) for name, repetitions in runs.items())


def _read_name(fields: _Fields) -> BenchmarkName:
    text = fields.text("run_name")
    try:
        return BenchmarkName.parse(text)
    except ValueError as error:
        raise fields.error("run_name", str(error)) from None


def _read_run(fields: _Fields, name: BenchmarkName) -> _Run:
    """Read the counters and the problem; a failed run has no counters worth reading."""
    for flag, message in (("error_occurred", "error_message"), ("skipped", "skip_message")):
        if fields.values.get(flag):
            return _Run({}, fields.line(message) or "failed, giving no reason")
    present = _COUNTERS.intersection(fields.values) | _REQUIRED.get(name.family, frozenset())
    counters = {key: fields.counter(key) for key in sorted(present)}
    if fields.counter("valid"):
        return _Run(counters, "")
    return _Run(counters, fields.line("label") or "marked invalid, giving no reason")


def _sum_up(label: str, name: BenchmarkName, runs: Sequence[_Run]) -> Row:
    if not runs:
        return Row(label, name, {}, "only aggregates are in the file")
    measured = [run.counters for run in runs if run.counters]
    shared = set.intersection(*map(set, measured)) if measured else set()
    counters = {key: statistics.median(run[key] for run in measured) for key in sorted(shared)}
    problems = [run.problem for run in runs if run.problem]
    if not problems:
        return Row(label, name, counters)
    share = f"{len(problems)} of {len(runs)} repetitions: " if len(runs) > 1 else ""
    return Row(label, name, counters, share + problems[0])


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
