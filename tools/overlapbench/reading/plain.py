"""Entries of Google Benchmark files that this suite did not write, from any version of it.

New versions say what an entry is (`run_name`, `run_type`, `aggregate_name`). Old ones write only
`name`, with `_mean` or the like at its end for an aggregate. Entries of one name are repetitions,
as in Google Benchmark's own comparison. A time that is no measurement, such as a manual time of 0,
is a problem of its row and not of the file.

BigO and RMS describe a fit over several benchmarks and belong to none. With
--benchmark_report_aggregates_only, a benchmark's median, else its mean, stands for its repetitions.
"""

import math
import re
from collections.abc import Sequence, Set
from typing import NamedTuple

from overlapbench.grouping import grouped
from overlapbench.reading.counters import TIME
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.rows import Entry, State
from overlapbench.reading.source import LARGEST, SMALLEST, Document, Fields, short

_MEDIAN, _MEAN, _DEVIATION = "median", "mean", "stddev"
# The standard error of a median over that of a mean, in large normal samples: sqrt(pi / 2).
MEDIAN_ERROR = 1.2533
TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
_TIMES = frozenset({_MEDIAN, _MEAN, _DEVIATION})
_OF_A_FIT = frozenset({"BigO", "RMS"})
_OLD_NAME = re.compile(r"(.+)_(mean|median|stddev|BigO|RMS)")


class _Aggregate(NamedTuple):
    """What sums up the repetitions of a benchmark."""

    entry: Entry
    place: float  # in the file
    kind: str  # such as "median"
    time_ms: float  # NaN if it is no time
    repetitions: float  # NaN if unknown


def read_plain(document: Document) -> list[Entry]:
    """Read all entries of a file. ResultError if one is malformed."""
    named = (row.values.get("name") for row in document.rows)
    names = {name for name in named if isinstance(name, str)}
    entries: list[Entry] = []
    aggregates: dict[str, list[_Aggregate]] = {}
    for place, fields in enumerate(document.rows):
        name, kind = _identify(fields, names)
        if kind in _OF_A_FIT:
            entries.append(Entry(None))
            continue
        entry = Entry(BenchmarkName.foreign(name), read_unit(fields))
        entries.append(entry)
        if kind:
            time_ms = _time(fields) * TO_MS[entry.unit] if kind in _TIMES else math.nan
            one = _Aggregate(entry, place, kind, time_ms, _repetitions(fields))
            aggregates.setdefault(name, []).append(one)
        else:
            # A name may be given to several benchmarks, each with its repetitions.
            entry.repetition = float(place)
            _read_repetition(entry, fields)
    measured = {entry.name for entry in entries if entry.repetition is not None}
    for name in aggregates.keys() - measured:
        _stand_in(aggregates[name])
    return entries


def _read_repetition(entry: Entry, fields: Fields) -> None:
    if failure := fields.failure():
        entry.state, entry.reason = State.ERROR, failure
        return
    time = _time(fields)
    if SMALLEST <= time <= LARGEST:
        entry.figures = {TIME: time * TO_MS[entry.unit]}
    else:
        told = f"a time of {time:g} {entry.unit} is no measurement"
        entry.state, entry.reason = State.INVALID, told


def _stand_in(aggregates: Sequence[_Aggregate]) -> None:
    """Let aggregates of a benchmark stand for its repetitions, which are not in the file."""
    of = grouped(aggregates, lambda one: one.kind)
    # If a name is there twice, each has its own deviation.
    deviations = [one.time_ms for one in of.get(_DEVIATION, [])]
    for turn, one in enumerate(of.get(_MEDIAN, of.get(_MEAN, []))):
        if SMALLEST <= one.time_ms <= LARGEST:
            scale = MEDIAN_ERROR if one.kind == _MEDIAN else 1.0
            deviation_ms = deviations[turn] if turn < len(deviations) else math.nan
            one.entry.error = scale * deviation_ms / one.time_ms / math.sqrt(one.repetitions)
            one.entry.repetition, one.entry.figures = one.place, {TIME: one.time_ms}


def read_unit(fields: Fields) -> str:
    """Return the unit of an entry's time, one of TO_MS."""
    unit = fields.text("time_unit", "ns")
    if unit not in TO_MS:
        raise fields.error("time_unit", f"{unit!r} is not one of {', '.join(TO_MS)}")
    return unit


def read_is_aggregate(fields: Fields) -> bool | None:
    """Tell whether an entry sums up others; None if its version of Google Benchmark says nothing.

    ResultError if it is neither that nor a repetition.
    """
    run_type = fields.text("run_type", "")
    if run_type not in ("aggregate", "iteration", ""):
        raise fields.error("run_type", f"{run_type!r} is neither iteration nor aggregate")
    return run_type == "aggregate" if run_type else None


def _identify(fields: Fields, names: Set[str]) -> tuple[str, str]:
    """Return the benchmark of an entry, and the aggregate that it is; "" for a repetition."""
    own = "run_name" in fields.values
    name = fields.printable("run_name" if own else "name")
    is_aggregate = read_is_aggregate(fields)
    if is_aggregate:
        aggregate = fields.printable("aggregate_name") if "aggregate_name" in fields.values else "?"
        return name if own else name.removesuffix(f"_{aggregate}"), aggregate
    old = _OLD_NAME.fullmatch(name) if is_aggregate is None else None
    if old and (old[2] in _OF_A_FIT or {f"{old[1]}_mean", f"{old[1]}_stddev"} <= names):
        return old[1], old[2]
    return name, ""


def _time(fields: Fields) -> float:
    """Return `real_time`, which may be any number: 0, negative, infinite or NaN."""
    time = fields.values.get("real_time")
    if isinstance(time, bool) or not isinstance(time, int | float):
        told = "missing" if time is None else f"{short(time)} is not a number"
        raise fields.error("real_time", told)
    try:
        return float(time)
    except OverflowError:
        return math.inf


def _repetitions(fields: Fields) -> float:
    """Return how many repetitions an aggregate sums up; old versions say so in `iterations`."""
    count = fields.values.get("repetitions", fields.values.get("iterations"))
    return float(count) if isinstance(count, int | float) and 1 <= count < LARGEST else math.nan
