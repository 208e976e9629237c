"""Result files of overlapbench, validated: the one door through which every tool reads.

A result is Google Benchmark's JSON whose `context` carries `overlapbench_schema`. A file is taken
whole or refused whole, by a ResultError (source.py).

Repetitions of one benchmark become one Row, whose counters are medians over them. A benchmark that
failed, or that the suite marked invalid in any repetition, is kept and carries the reason in
`problem`. Google Benchmark's aggregates are left out: they cannot tell how many repetitions failed.
"""

import math
import os
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from overlapbench.metrics import METRICS, TIME
from overlapbench.names import BenchmarkName
from overlapbench.source import Document, Fields, ResultError, expand, harmless, load, short

__all__ = ["BACKENDS", "SCHEMA", "Result", "ResultError", "Row", "parse_result", "read_results"]

SCHEMA = "1"
BACKENDS = ("cuda", "host")
_COUNTERS = METRICS.keys() - {TIME, "valid"}
TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
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
    time_ms: float = math.nan  # Google Benchmark's; NaN where nothing was measured
    remark: str = ""  # what the suite says of a good row: `serialized: ...`


@dataclass(frozen=True)
class Result:
    """One result file."""

    label: str  # the file's name with backend and device, unique among the files read together
    backend: str
    context: Mapping[str, object]
    rows: tuple[Row, ...]
    incomplete: str = ""  # why the run ended before all rows were measured; empty when it did not


def read_results(arguments: Sequence[str]) -> list[Result]:
    """Read files, globs and `-` (standard input); ResultError unless every one is a result."""
    titles = source_titles(expand(arguments))
    return [parse_result(source, load(source), title) for source, title in titles.items()]


def source_titles(sources: Sequence[str]) -> dict[str, str]:
    """Name files by their stems, and by as many folders before them as tell them apart.

    ResultError when a file is given twice.
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
    """Return the fewest last parts of a name that no other name ends in."""
    mine = names[source]
    others = [name for other, name in names.items() if other != source]
    length = 1
    while any(other[-length:] == mine[-length:] for other in others):
        length += 1
    return mine[-length:]


def _path(source: str) -> Path:
    # Not Path.resolve, which ends at a loop of links: reading it is refused in one line.
    return Path("standard input" if source == "-" else os.path.realpath(source))


def parse_result(source: str, text: str, title: str = "") -> Result:
    """Validate the text of one result file; `source` names it in refusals, `title` in labels."""
    document = Document.parse(source, text)
    context = document.context
    backend = check_context(context)
    label = _label(title or _path(source).stem, backend, context.line("device"))
    rows = _read_rows(document, label)
    return Result(label, backend, context.values, rows, read_incomplete(document))


def read_incomplete(document: Document) -> str:
    """Return why the run ended before all rows were measured; empty when it did not."""
    reason = document.values.get("incomplete", "")
    if not isinstance(reason, str):
        raise document.error(f"incomplete: {short(reason)} is not text", None)
    return harmless(reason)


def _label(title: str, backend: str, device: str) -> str:
    title = harmless(title)
    if backend == "host":
        return f"{title} (backend: host)"
    return f"{title} ({', '.join(filter(None, (backend, device)))})"


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
    runs: dict[BenchmarkName, list[Row]] = {}
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
        repetitions.append(_read_run(fields, label, name))
    return tuple(
        sum_up(repetitions, "repetitions")
        if repetitions
        else Row(label, name, {}, "only aggregates are in the file")
        for name, repetitions in runs.items()
    )


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


def read_time_ms(fields: Fields) -> float:
    """Return the time of a measured entry, Google Benchmark's `real_time`."""
    unit = fields.text("time_unit", "ns")
    if unit not in TO_MS:
        raise fields.error("time_unit", f"{unit!r} is none of {', '.join(TO_MS)}")
    time = fields.number("real_time")
    if fault := METRICS[TIME].fault(time):
        raise fields.error("real_time", fault)
    return time * TO_MS[unit]


def _read_run(fields: Fields, label: str, name: BenchmarkName) -> Row:
    """Read one repetition; a failed one has no counters worth reading."""
    if failure := fields.failure():
        return Row(label, name, {}, failure)
    present = _COUNTERS.intersection(fields.values) | required_counters(name.family)
    counters = {key: read_counter(fields, key) for key in sorted(present)}
    time_ms = read_time_ms(fields)
    remark = fields.line("label")
    if read_counter(fields, "valid"):
        return Row(label, name, counters, "", time_ms, remark)
    return Row(label, name, counters, remark or "marked invalid, giving no reason", time_ms)


def sum_up(runs: Sequence[Row], what: str) -> Row:
    """Return the medians over runs of one benchmark; `what` they are is said of their problems."""
    measured = [run for run in runs if not math.isnan(run.time_ms)]
    shared = set.intersection(*(set(run.counters) for run in measured)) if measured else set()
    return Row(
        runs[0].file,
        runs[0].name,
        {key: statistics.median(run.counters[key] for run in measured) for key in sorted(shared)},
        _common([run.problem for run in runs], what),
        statistics.median(run.time_ms for run in measured) if measured else math.nan,
        _common([run.remark for run in runs], what),
    )


def _common(texts: Sequence[str], what: str) -> str:
    """Return the first text, and how many have one where not all do."""
    given = [text for text in texts if text]
    if not given:
        return ""
    share = f"{len(given)} of {len(texts)} {what}: " if len(given) < len(texts) else ""
    return share + given[0]
