"""Known causes of lost time: a table of patterns, each with one line of advice.

A pattern measures how much of the window it affects. It is reported from its minimum share on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from overlapbench.traces.idle import Cause, Part
from overlapbench.traces.intervals import Intervals, intersection, length, union
from overlapbench.traces.model import RUNS, Category, Class, Span

SHORT_NS = 10_000  # about the host's time for a launch: shorter kernels cannot hide it
LATE_NS = 500_000  # beyond this the launch was not late: the host had nothing to launch
HIDDEN_SHARE = 0.1  # of copies; below it, they run in sequence with the rest


@dataclass(frozen=True)
class Evidence:
    """The input of patterns."""

    spans: Sequence[Span]
    window: Intervals
    when: Mapping[Part, Intervals]


@dataclass(frozen=True)
class Pattern:
    name: str
    measure: Callable[[Evidence], int]  # in nanoseconds of the window
    least_pct: float
    advice: str


@dataclass(frozen=True)
class Finding:
    name: str
    ns: int
    pct: float
    advice: str


def _short_kernels(evidence: Evidence) -> int:
    short = union(
        span.interval
        for span in evidence.spans
        if span.category is Category.KERNEL and span.end_ns - span.begin_ns < SHORT_NS
    )
    return length(intersection(short, evidence.window))


def _late_launches(evidence: Evidence) -> int:
    return length(evidence.when[Cause.HOST]) - _starving(evidence)


def _starving(evidence: Evidence) -> int:
    return sum(e - b for b, e in evidence.when[Cause.HOST] if e - b >= LATE_NS)


def _copies_alone(evidence: Evidence) -> int:
    """Return how long copies ran alone, if they have their own streams and overlap with nothing."""
    copies = {s.lane for s in evidence.spans if s.kind is Class.MEM}
    others = {s.lane for s in evidence.spans if s.kind in RUNS and s.kind is not Class.MEM}
    alone = length(evidence.when[Class.MEM,])
    mixes = {part: when for part, when in evidence.when.items() if isinstance(part, tuple)}
    hidden = sum(length(when) for mix, when in mixes.items() if Class.MEM in mix) - alone
    if not copies - others or not others or hidden >= HIDDEN_SHARE * (alone + hidden):
        return 0
    return alone


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "many short kernels",
        _short_kernels,
        10,
        "Fuse them (torch.compile), or launch the step as one CUDA graph.",
    ),
    Pattern(
        "gaps from late launches",
        _late_launches,
        5,
        "Remove synchronizations and Python between launches, or use a CUDA graph.",
    ),
    Pattern(
        "copies and kernels in turn, on different streams",
        _copies_alone,
        5,
        "Pin the host's memory, copy asynchronously, and wait later for the copy.",
    ),
    Pattern(
        "a starving device",
        _starving,
        5,
        "Prepare input ahead: more workers, prefetching, a copy of the next batch.",
    ),
)


def find_patterns(evidence: Evidence) -> list[Finding]:
    """Return the patterns that a window shows, in the order of the table."""
    total = length(evidence.window)
    measured = ((pattern, pattern.measure(evidence)) for pattern in PATTERNS)
    return [
        Finding(pattern.name, ns, pct, pattern.advice)
        for pattern, ns in measured
        if (pct := 100 * ns / total) >= pattern.least_pct
    ]
