"""Result files of overlapbench, validated: the one door through which every tool reads.

A result is Google Benchmark's JSON whose `context` carries `overlapbench_schema`. A file is taken
whole or refused whole, by a ResultError (source.py).

Repetitions of one benchmark become one Row, whose counters are medians over them. A benchmark that
failed, or that the suite marked invalid in any repetition, is kept and carries the reason in
`problem`. Google Benchmark's aggregates are left out: they cannot tell how many repetitions failed.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from overlapbench.metrics import METRICS
from overlapbench.names import BenchmarkName
from overlapbench.source import Document, Fields, ResultError, expand, harmless, load

__all__ = ["BACKENDS", "SCHEMA", "Result", "ResultError", "Row", "parse_result", "read_results"]

SCHEMA = "1"
BACKENDS = ("cuda", "host")
_COUNTERS = METRICS.keys() - {"time", "valid"}
_REQUIRED: Mapping[str, frozenset[str]] = {
    "Overlap": frozenset({"comp_ms", "comm_ms", "overlap_ms", "slowdown"})
}


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
class _Run:
    """One repetition: an entry of `benchmarks` that was measured, or failed."""

    counters: Mapping[str, float]
    problem: str


def read_results(arguments: Sequence[str]) -> list[Result]:
    """Read files, globs and `-` (standard input); ResultError unless every one is a result."""
    sources = expand(arguments)
    for name, count in Counter(_stem(source) for source in sources).items():
        if count > 1:
            raise ResultError(f"{name}: {count} files have this name: rename, or give it once")
    return [parse_result(source, load(source)) for source in sources]


def parse_result(source: str, text: str) -> Result:
    """Validate the text of one result file; `source` names it in refusals and labels."""
    document = Document.parse(source, text)
    context = document.context
    backend = check_context(context)
    label = _label(_stem(source), backend, context.line("device"))
    return Result(label, backend, context.values, _read_rows(document, label))


def _stem(source: str) -> str:
    return "standard input" if source == "-" else Path(source).stem


def _label(stem: str, backend: str, device: str) -> str:
    stem = harmless(stem)
    if backend == "host":
        return f"{stem} (backend: host)"
    return f"{stem} ({', '.join(filter(None, (backend, device)))})"


def check_context(context: Fields) -> str:
    """Return the backend of a result of this suite; ResultError for any other."""
    if "overlapbench_schema" not in context.values:
        raise context.error("overlapbench_schema", "missing: not a result of overlapbench")
    schema = context.text("overlapbench_schema")
    if schema != SCHEMA:
        raise context.error("overlapbench_schema", f"{schema!r} is not {SCHEMA!r}, known here")
    backend = context.text("backend")
    if backend not in BACKENDS:
        raise context.error("backend", f"{backend!r} is none of {', '.join(BACKENDS)}")
    return backend


def _read_rows(document: Document, label: str) -> tuple[Row, ...]:
    """Make one Row of each configuration, in the order of the file."""
    runs: dict[BenchmarkName, list[_Run]] = {}
    seen: dict[tuple[BenchmarkName, float], str] = {}
    for index in range(len(document.entries)):
        fields = document.fields(index)
        name = read_name(fields)
        repetitions = runs.setdefault(name, [])
        run_type = fields.text("run_type")
        if run_type == "aggregate":
            continue
        if run_type != "iteration":
            raise fields.error("run_type", f"{run_type!r} is neither iteration nor aggregate")
        first = seen.setdefault((name, fields.number("repetition_index")), fields.path)
        if first != fields.path:
            raise fields.error("run_name", f"{name} stands at {first} already")
        repetitions.append(_read_run(fields, name))
    return tuple(_sum_up(label, name, repetitions) for name, repetitions in runs.items())


def read_name(fields: Fields) -> BenchmarkName:
    """Return the name of an entry; ResultError where it does not follow the grammar."""
    text = fields.name()
    try:
        return BenchmarkName.parse(text)
    except ValueError as error:
        raise fields.error("run_name", str(error)) from None


def read_counter(fields: Fields, key: str) -> float:
    """Return a counter that lies in its range."""
    value = fields.number(key)
    if fault := METRICS[key].fault(value):
        raise fields.error(key, fault)
    return value


def required_counters(family: str) -> frozenset[str]:
    """Return what every measured row of a family has."""
    return _REQUIRED.get(family, frozenset())


def _read_run(fields: Fields, name: BenchmarkName) -> _Run:
    """Read the counters and the problem; a failed run has no counters worth reading."""
    if failure := fields.failure():
        return _Run({}, failure)
    present = _COUNTERS.intersection(fields.values) | required_counters(name.family)
    counters = {key: read_counter(fields, key) for key in sorted(present)}
    if read_counter(fields, "valid"):
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
