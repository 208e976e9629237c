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
from collections.abc import Iterator, Sequence, Set
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


class _Plain(NamedTuple):
    """What an entry says; NaN for a time that it does not have."""

    name: str  # of the benchmark; "" if it describes a fit
    unit: str
    time_ms: float = math.nan
    state: State = State.OK
    reason: str = ""  # of the state
    aggregate: str = ""  # "" for a repetition
    repetitions: float = math.nan  # that an aggregate sums up


def read_plain(document: Document) -> list[Entry]:
    """Read all entries of a file. ResultError if one is malformed."""
    named = (row.values.get("name") for row in document.rows)
    names = {name for name in named if isinstance(name, str)}
    read = [_read(fields, names) for fields in document.rows]
    entries = []
    for place, one in enumerate(read):
        name = BenchmarkName.foreign(one.name) if one.name else None
        entry = Entry(name, one.unit, one.state, one.reason)
        if not one.aggregate:
            # A name may be given to several benchmarks, each with its repetitions.
            entry.repetition = float(place)
            entry.figures = {} if math.isnan(one.time_ms) else {TIME: one.time_ms}
        entries.append(entry)
    for place, error in _standing_in(read):
        entry, time_ms = entries[place], read[place].time_ms
        entry.repetition, entry.figures, entry.error = float(place), {TIME: time_ms}, error
    return entries


def _read(fields: Fields, names: Set[str]) -> _Plain:
    name, aggregate = _identify(fields, names)
    if aggregate in _OF_A_FIT:
        return _Plain("", "", aggregate=aggregate)
    unit = read_unit(fields)
    if aggregate:
        time_ms = _time(fields) * TO_MS[unit] if aggregate in _TIMES else math.nan
        return _Plain(name, unit, time_ms, aggregate=aggregate, repetitions=_repetitions(fields))
    if failure := fields.failure():
        return _Plain(name, unit, state=State.ERROR, reason=failure)
    time = _time(fields)
    if not SMALLEST <= time <= LARGEST:
        told = f"a time of {time:g} {unit} is no measurement"
        return _Plain(name, unit, state=State.INVALID, reason=told)
    return _Plain(name, unit, time * TO_MS[unit])


def _standing_in(rows: Sequence[_Plain]) -> Iterator[tuple[int, float]]:
    """Yield the places of aggregates that stand for repetitions which are not there.

    With the relative standard error of their time.
    """
    measured = {row.name for row in rows if not row.aggregate}
    lonely = [place for place, row in enumerate(rows) if row.name and row.name not in measured]
    for places in grouped(lonely, lambda place: rows[place].name).values():
        of = grouped(places, lambda place: rows[place].aggregate)
        # If a name is there twice, each has its own deviation.
        deviations = of.get(_DEVIATION, [])
        for turn, place in enumerate(of.get(_MEDIAN, of.get(_MEAN, []))):
            row = rows[place]
            if SMALLEST <= row.time_ms <= LARGEST:
                scale = MEDIAN_ERROR if row.aggregate == _MEDIAN else 1.0
                known = turn < len(deviations)
                deviation_ms = rows[deviations[turn]].time_ms if known else math.nan
                yield place, scale * deviation_ms / row.time_ms / math.sqrt(row.repetitions)


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
