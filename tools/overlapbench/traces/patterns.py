"""Known causes of lost time: patterns, each with one line of advice.

A pattern measures how much of the window it affects. It is reported from its minimum share on. The
table, patterns.json beside this file, is the program's (fixtures/patterns.h), which finds the same
patterns in the rows that it traces; dev/update_counters.py writes it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from overlapbench.traces.idle import Cause, Part
from overlapbench.traces.intervals import Intervals, intersection, length, union
from overlapbench.traces.model import RUNS, Category, Class, Span


@dataclass(frozen=True)
class Evidence:
    """The input of patterns."""

    spans: Sequence[Span]
    window: Intervals
    when: Mapping[Part, Intervals]


@dataclass(frozen=True)
class Pattern:
    name: str
    limit: float  # of what is measured: milliseconds of a kernel or a gap, or a share of a time
    least_pct: float
    advice: str


@dataclass(frozen=True)
class Shown:
    """A pattern that a window shows."""

    name: str
    ns: int
    pct: float
    advice: str


def _short_kernels(evidence: Evidence, limit_ms: float) -> int:
    short = union(
        span.interval
        for span in evidence.spans
        if span.category is Category.KERNEL and span.end_ns - span.begin_ns < limit_ms * 1e6
    )
    return length(intersection(short, evidence.window))


def _late_launches(evidence: Evidence, limit_ms: float) -> int:
    return length(evidence.when[Cause.HOST]) - _starving(evidence, limit_ms)


def _starving(evidence: Evidence, limit_ms: float) -> int:
    return sum(e - b for b, e in evidence.when[Cause.HOST] if e - b >= limit_ms * 1e6)


def _copies_alone(evidence: Evidence, limit: float) -> int:
    """Return how long copies ran alone, if they have their own streams and overlap with nothing."""
    copies = {s.lane for s in evidence.spans if s.kind is Class.MEM}
    others = {s.lane for s in evidence.spans if s.kind in RUNS and s.kind is not Class.MEM}
    alone = length(evidence.when[Class.MEM,])
    mixes = {part: when for part, when in evidence.when.items() if isinstance(part, tuple)}
    hidden = sum(length(when) for mix, when in mixes.items() if Class.MEM in mix) - alone
    if not copies - others or not others or hidden >= limit * (alone + hidden):
        return 0
    return alone


_MEASURES: Mapping[str, Callable[[Evidence, float], int]] = {  # in nanoseconds of the window
    "many short kernels": _short_kernels,
    "gaps from late launches": _late_launches,
    "copies and kernels in turn, on different streams": _copies_alone,
    "a starving device": _starving,
}
_STORED = Path(__file__).with_name("patterns.json")
PATTERNS = [Pattern(**entry) for entry in json.loads(_STORED.read_text(encoding="utf-8"))]


def find_patterns(evidence: Evidence) -> list[Shown]:
    """Return the patterns that a window shows, in the order of the table."""
    total = length(evidence.window)
    measured = ((one, _MEASURES[one.name](evidence, one.limit)) for one in PATTERNS)
    return [
        Shown(pattern.name, ns, pct, pattern.advice)
        for pattern, ns in measured
        if (pct := 100 * ns / total) >= pattern.least_pct
    ]
