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
from collections.abc import Set

from overlapbench.reading.counters import TIME
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.rows import Entry, State
from overlapbench.reading.source import LARGEST, SMALLEST, Document, Fields, short

# The standard error of a median over that of a mean, in large normal samples: sqrt(pi / 2).
MEDIAN_ERROR = 1.2533
TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
_STANDING_IN = ("median", "mean")  # the first that a benchmark has stands for its repetitions
_OF_A_FIT = frozenset({"BigO", "RMS"})
_OLD_NAME = re.compile(r"(.+)_(mean|median|stddev|BigO|RMS)")


def read_plain(document: Document) -> list[Entry]:
    """Read all entries of a file. ResultError if one is malformed."""
    named = (row.values.get("name") for row in document.rows)
    names = {name for name in named if isinstance(name, str)}
    entries: list[Entry] = []
    aggregates: dict[str, dict[str, list[int]]] = {}  # by benchmark and kind: their places
    for place, fields in enumerate(document.rows):
        name, kind = _identify(fields, names)
        if kind in _OF_A_FIT:
            entries.append(Entry(None))
            continue
        entries.append(Entry(BenchmarkName.foreign(name), read_unit(fields)))
        if kind:
            aggregates.setdefault(name, {}).setdefault(kind, []).append(place)
        else:
            _measured(entries[place], fields)
    repeated = {entry.name for entry in entries if entry.repetition is not None}
    for name in aggregates.keys() - repeated:
        kind = next((one for one in _STANDING_IN if one in aggregates[name]), "")
        for place in aggregates[name].get(kind, ()):
            _measured(entries[place], document.rows[place])
    return entries


def _measured(entry: Entry, fields: Fields) -> None:
    """Make an entry a repetition. Several benchmarks may have one name: a place is its number."""
    entry.repetition = fields.index
    if failure := fields.failure():
        entry.state, entry.reason = State.ERROR, failure
        return
    time = _time(fields)
    if SMALLEST <= time <= LARGEST:
        entry.figures = {TIME: time * TO_MS[entry.unit]}
    else:
        told = f"a time of {time:g} {entry.unit} is no measurement"
        entry.state, entry.reason = State.INVALID, told


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
