"""What machines reached: recorded results, and results of the doctor.

references.json contains the figures of docs/results that the checks use, each under the file that
it came from; dev/update_doctor.py writes it. A result of the doctor contains the same of its
machine, so it is a reference for others of its model, and a node to compare.
"""

import functools
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overlapbench.doctor.rules import CHECKS, FACTS, KINDS
from overlapbench.grouping import grouped
from overlapbench.output import ResultError, harmless
from overlapbench.reading.result import Result
from overlapbench.reading.rows import Row
from overlapbench.reading.source import decode_json, load, measurement_of

SCHEMA = "1"
_FOREIGN = "foreign_gpu_processes"
STORED = Path(__file__).with_name("references.json")
_CONTEXT = ("date", "backend", "device", "ranks", "hosts", "driver_version", "nccl_version")
_NORMAL = 1.959964  # half a 95 % interval, in standard errors

Key = tuple[str, str]  # a row and its counter


@dataclass(frozen=True)
class Logarithm:
    """The logarithm of a figure, with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def error(self, lower_is_better: bool) -> float:
        """Return the standard error to the better side: a worse figure may be as good as that."""
        reach = self.value - self.low if lower_is_better else self.high - self.value
        return reach / _NORMAL


@dataclass(frozen=True)
class Recording:
    """The figures and facts of one machine that the checks use."""

    file: str
    context: Mapping[str, str]
    facts: Mapping[str, str]
    figures: Mapping[str, Mapping[str, tuple[float, float, float]]]  # value, low, high
    doubts: Mapping[str, str] = field(default_factory=dict)  # why rows may not be judged

    @property
    def model(self) -> tuple[str, str]:
        return self.context["backend"], self.context["device"]

    @property
    def ranks(self) -> int:
        return int(self.context["ranks"])

    @property
    def machine(self) -> str:
        count = f"{self.ranks} × " if self.ranks > 1 else ""
        return f"{count}{self.context['device']}"

    @property
    def measurement(self) -> object:
        rows = ((row, *sorted(found.items())) for row, found in self.figures.items())
        return measurement_of(self.context.get("date"), rows)

    def is_noisy(self, row: str) -> bool:
        """Tell whether a row is noisy; on the host backend, where most are, that is no doubt."""
        return self.model[0] != "host" and self._says_noisy(row)

    def _says_noisy(self, row: str) -> bool:
        return self.doubts.get(row, "").startswith("noisy: ")

    def failed(self, row: str) -> bool:
        return row in self.doubts and not self._says_noisy(row)

    def log(self, key: Key, *, noisy: bool = False) -> Logarithm | None:
        """Return the logarithm of a figure; None if there is none, or only a noisy one.

        `noisy`: that is wanted, too.
        """
        row, counter = key
        value, low, high = self.figures.get(row, {}).get(counter, (0.0, 0.0, 0.0))
        if value <= 0 or self.failed(row) or (self.is_noisy(row) and not noisy):
            return None
        ends = (low, high) if 0 < low <= value <= high else (value, value)
        return Logarithm(*map(math.log, (value, *ends)))


# ---- made of results


def recording_of(result: Result, file: str) -> Recording:
    """Keep of a result what the checks use; rows that are not trusted have a doubt."""
    context = {key: harmless(str(result.context.get(key, ""))) for key in _CONTEXT}
    figures = {str(row.name): found for row in result.rows if (found := _figures(row))}
    doubts = {
        str(row.name): f"{row.state.value}: {row.reason}" for row in result.rows if not row.trusted
    }
    return Recording(file, context, facts_of(result), figures, doubts)


def _figures(row: Row) -> dict[str, tuple[float, float, float]]:
    found = {}
    for counter, figure in row.figures.items():
        if is_used(str(row.name), counter) and math.isfinite(figure.value):
            ends = figure.interval or (figure.value, figure.value)
            found[counter] = (_short(figure.value), _short(ends[0]), _short(ends[1]))
    return found


def is_used(row: str, counter: str) -> bool:
    """Tell whether a check or a tolerance uses a figure."""
    checked = any(
        row == check.row(backend) and counter == check.counter_on(backend)
        for check in CHECKS
        for backend in ("cuda", "host")
    )
    named = row and counter == "slowest_rank"
    return checked or named or any(of_kind(kind, (row, counter)) for kind in KINDS)


@functools.cache
def of_kind(kind: str, key: Key, backend: str = "cuda") -> bool:
    """Tell whether a figure's differences are those of a kind; on the host, of its checks'."""
    row, counter = key
    if backend == "host":
        return any(
            (check.kind, check.host, check.counter_on("host")) == (kind, row, counter)
            for check in CHECKS
        )
    return counter in KINDS[kind].counters and re.fullmatch(KINDS[kind].rows, row) is not None


def facts_of(result: Result) -> dict[str, str]:
    """Return the facts that rules judge: of the context, and what rows say."""
    context = result.context
    known = {key: harmless(str(value)) for key, value in context.items()}
    known |= {"peers": _peers(context)}
    measured = [row for row in result.rows if row.counters or row.reason]
    if foreign := [row.counters[_FOREIGN] for row in measured if _FOREIGN in row.counters]:
        known[_FOREIGN] = f"{max(foreign):g}"
    hot = [row for row in measured if "clocks were throttled" in row.reason]
    if hot:
        reason = hot[0].reason.partition("clocks were throttled: ")[2].partition(";")[0]
        lost = any("since clocks" not in row.reason for row in hot)
        known["throttled"] = f"{'in' if lost else 'for parts of'} {len(hot)} rows: {reason}"
    return {
        key: value
        for key, value in sorted(known.items())
        if value and any(re.fullmatch(fact.key, key) for fact in FACTS)
    }


def _peers(context: Mapping[str, object]) -> str:
    """Return whether the first rank's GPU has access to those of the others on its host."""
    if "peer_access" not in context:
        return ""
    hosts = str(context.get("hosts", "")).count(",") + 1
    wanted = math.ceil(int(str(context.get("ranks", 1))) / hosts) - 1
    seen = len(re.findall(r"\d+", str(context["peer_access"])))
    return "all" if seen >= wanted else "some" if seen else "none"


def _short(number: float) -> float:
    return float(f"{number:.5g}")


# ---- files


def stored() -> list[Recording]:
    """Return the recorded results that the package contains."""
    document = json.loads(STORED.read_text(encoding="utf-8"))
    return [_parsed(one, one["file"]) for one in document["recordings"]]


def read_recording(source: str) -> Recording:
    """Read a result of the doctor; ResultError if it is none."""
    document = decode_json(source, load(source))
    if not isinstance(document, dict) or "doctor_schema" not in document:
        raise ResultError(
            f"{source}: not a result of the doctor; overlapbench doctor -o writes one"
        )
    if document["doctor_schema"] != SCHEMA:
        schema = harmless(str(document["doctor_schema"]))
        raise ResultError(f"{source}: doctor_schema is {schema}, and this version reads {SCHEMA}")
    try:
        return _parsed(document["recording"], source)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ResultError(f"{source}: the recording is incomplete or damaged") from None


def _parsed(one: Mapping[str, Any], file: str) -> Recording:
    figures = {
        harmless(row): {
            str(counter): (float(value), float(low), float(high))
            for counter, (value, low, high) in found.items()
        }
        for row, found in one["figures"].items()
    }
    context, facts, doubts = (
        {harmless(str(key)): harmless(str(value)) for key, value in dict(one.get(part, {})).items()}
        for part in ("context", "facts", "doubts")
    )
    recording = Recording(file, context, facts, figures, doubts)
    numbers = [x for found in figures.values() for figure in found.values() for x in figure]
    if not all(map(math.isfinite, numbers)) or recording.ranks < 1 or not {*_CONTEXT} <= {*context}:
        raise ValueError
    return recording


def without_copies(recordings: Iterable[Recording]) -> list[Recording]:
    """Return the first of equal measurements: a copy says nothing of how much machines differ."""
    return [same[0] for same in grouped(recordings, lambda one: one.measurement).values()]


# ---- how much healthy machines differ


def spread_of(kind: str, recordings: Iterable[Recording], ranks: int) -> tuple[float, float]:
    """Return the standard deviation of a kind's figures between recordings, and its freedom.

    It is pooled over figures of one row, model and number of ranks: of one rank for one, of several
    for several, unless the number changes nothing. (0, 0) if none was recorded twice.
    """
    any_ranks = KINDS[kind].any_ranks
    seen = [
        ((*one.model, 0 if any_ranks else one.ranks, row, counter), found.value)
        for one in recordings
        if any_ranks or (one.ranks == 1) is (ranks == 1)
        for row in one.figures
        for counter in one.figures[row]
        if of_kind(kind, (row, counter), one.model[0]) and (found := one.log((row, counter)))
    ]
    groups = [[x for _, x in group] for group in grouped(seen, lambda one: one[0]).values()]
    freedom = sum(len(group) - 1 for group in groups)
    squares = sum((x - sum(group) / len(group)) ** 2 for group in groups for x in group)
    return (math.sqrt(squares / freedom), float(freedom)) if freedom else (0.0, 0.0)
