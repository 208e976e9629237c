"""The shares of a window: each class alone, together with others, and idle by cause.

All shares are parts of T, the length of the window, and none overlap. So they add up to T exactly,
and to 100.0 as printed: rounding differences go to the largest remainders.

`overlap_pct` is the share of communication during which something was computed, |COMP and COMM| /
|COMM|. `named_overlap_pct` is the same figure in tools that classify kernels by name.

The margin of a share of several windows is half the width of its 95 % interval. The share is a
ratio of sums, Σx / Σt, with the standard error of a ratio estimator (W. G. Cochran, Sampling
Techniques, 3rd edition 1977, section 2.11):

    √(n / (n - 1) · Σ(x - share·t)²) / Σt

Student's t for n - 1 degrees of freedom turns it into half an interval. This assumes that the
windows are independent samples of one distribution, as are samples of one experiment, or the steps
of a training in its steady state.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from overlapbench.statistics.distributions import t_quantile
from overlapbench.traces.collectives import Waiting, doubts, split
from overlapbench.traces.idle import Cause, Part, explain_idle
from overlapbench.traces.intervals import (
    Interval,
    Intervals,
    difference,
    intersection,
    length,
    union,
)
from overlapbench.traces.model import BUSY, RUNS, Class, Span, Trace, Window, hull
from overlapbench.traces.patterns import Evidence, Shown, find_patterns
from overlapbench.traces.rules import by_name
from overlapbench.traces.windows import choose

MIXES: tuple[tuple[Class, ...], ...] = tuple(
    mix for count in range(1, len(BUSY) + 1) for mix in combinations(BUSY, count)
)
_NO_CALLS = "the trace has no launch calls, so most causes of idle time are unknown"
_NOT_STATED = (
    "the file is from before 27 November 2026 and does not state why the device was idle:"
    " see the row's counters"
)
_NO_CLOCK = "the files share no clock, so waiting for other ranks is not reported"
_NO_MOMENT = (
    "the ranks' recordings have no moment in common, so waiting for other ranks is not reported"
)
PARTS: tuple[Part, ...] = (*MIXES, *Cause)
_TAIL = 0.025  # on each side of an interval
_LEAST = 6  # windows: as many as the interval of a median needs in the suite


@dataclass(frozen=True)
class Difference:
    """Spans of one name that other tools put into another class."""

    name: str
    kind: Class
    named: Class | None
    count: int
    total_ns: int


@dataclass(frozen=True)
class Breakdown:
    """Where one rank's time went."""

    rank: int
    source: str
    window: str
    windows: int
    parts_ns: Mapping[Part, int]
    each_ns: Sequence[Mapping[Part, int]]  # of each window; empty if windows overlap
    overlap_pct: float | None  # None without communication
    named_overlap_pct: float | None
    differences: Sequence[Difference]
    patterns: Sequence[Shown]
    notes: Sequence[str]
    work_ns: Mapping[tuple[Class, str], int]  # of all spans of a class and name
    waiting: Waiting | None = None  # if collectives of several ranks are known

    @property
    def total_ns(self) -> int:
        return sum(self.parts_ns.values())

    @property
    def tenths(self) -> Mapping[Part, int]:
        """The parts in tenths of a percent, which add up to 1000."""
        return dict(zip(PARTS, apportion([self.parts_ns[p] for p in PARTS], 1000), strict=True))

    def margin_pct(self, parts: Collection[Part], of: Collection[Part] = PARTS) -> float | None:
        """Return half the 95 % interval of the share of these parts in others.

        None if there are too few windows, or if the others are empty.
        """
        sums = [[sum(one[p] for p in chosen) for one in self.each_ns] for chosen in (parts, of)]
        share = half_width(*sums)
        return None if share is None else 100 * share

    @property
    def not_computing(self) -> float:
        """The share of T without computation."""
        comp = sum(ns for part, ns in self.parts_ns.items() if Class.COMP in part)
        return 1 - comp / self.total_ns


def half_width(parts: Sequence[int], wholes: Sequence[int]) -> float | None:
    """Return half the interval of Σparts / Σwholes; None for too few windows, or an empty whole."""
    count, total = len(wholes), sum(wholes)
    if count < _LEAST or total == 0:
        return None
    share = sum(parts) / total
    squares = sum((part - share * whole) ** 2 for part, whole in zip(parts, wholes, strict=True))
    error = math.sqrt(count / (count - 1) * squares) / total
    return float(t_quantile(count - 1, _TAIL)) * error


def apportion(parts: Sequence[int], units: int) -> list[int]:
    """Distribute units by size: each part's share is rounded down, the largest remainders up.

    The sum is `units`, no part is off by a whole unit, and an empty part gets nothing.
    """
    total = sum(parts)
    shares = [part * units // total for part in parts]
    remainders = sorted(range(len(parts)), key=lambda i: (-(parts[i] * units % total), i))
    for place in remainders[: units - sum(shares)]:
        shares[place] += 1
    return shares


def break_down(
    traces: Sequence[Trace], step: int | None = None, pattern: str | None = None
) -> list[Breakdown]:
    """Break down the chosen window of every rank; ResultError if a rank has none."""
    chosen = [choose(trace, step, pattern) for trace in traces]
    problem = _clock_problem(traces)
    aligned = not problem
    busy = [trace.of(*BUSY) for trace in traces] if aligned else []
    waiting = split(traces, [moments for _, moments, _ in chosen]) if aligned else None
    remarks = [problem] if problem else doubts(traces) if waiting else []
    found = []
    for place, trace in enumerate(traces):
        others = union(*busy[:place], *busy[place + 1 :])
        one = _of_rank(trace, chosen[place], others)
        notes = (*one.notes, *remarks)
        found.append(replace(one, notes=notes, waiting=waiting[place] if waiting else None))
    return found


def _clock_problem(traces: Sequence[Trace]) -> str:
    """Return why the times of the ranks cannot be compared; "" if they can."""
    if len(traces) == 1:
        return ""
    if not all(trace.common_clock for trace in traces):
        return _NO_CLOCK
    begins, ends = zip(*(hull(trace.spans) for trace in traces), strict=True)
    return "" if max(begins) < min(ends) else _NO_MOMENT


def worst_of(breakdowns: Iterable[Breakdown]) -> Breakdown:
    """Return the rank that computed the smallest share of its time; if tied, the first."""
    return max(breakdowns, key=lambda one: (one.not_computing, -one.rank))


def _of_rank(
    trace: Trace,
    choice: tuple[str, Intervals, Sequence[Window]],
    others: Intervals,
) -> Breakdown:
    label, window, chosen = choice
    sets = {kind: trace.of(kind) for kind in BUSY}
    when: dict[Part, Intervals] = {mix: _only(mix, sets, window) for mix in MIXES}
    idle = _only((), sets, window)
    when.update(explain_idle(trace, idle, others))
    named_sets = {
        kind: union(s.interval for s in trace.spans if by_name(s.category, s.name) is kind)
        for kind in BUSY
    }
    within = [(span, length(intersection((span.interval,), window))) for span in trace.spans]
    has_no_calls = all(span.launched_ns is None for span in trace.spans)
    notes = [_NO_CALLS] if when[Cause.UNKNOWN] and has_no_calls else []
    notes += [_NOT_STATED] if trace.row and idle and not trace.idle else []
    windows_overlap = length(window) < sum(one.end_ns - one.begin_ns for one in chosen)
    assert trace.rank is not None
    return Breakdown(
        trace.rank,
        trace.source,
        label,
        len(chosen),
        {part: length(when[part]) for part in PARTS},
        [] if windows_overlap else [_within(one.interval, when) for one in chosen],
        _overlap_pct(sets, window),
        _overlap_pct(named_sets, window),
        _differences(within),
        find_patterns(Evidence(trace.spans, window, when)),
        (*trace.notes, *notes),
        _by_name(within),
    )


def _within(window: Interval, when: Mapping[Part, Intervals]) -> dict[Part, int]:
    return {part: length(intersection((window,), when[part])) for part in PARTS}


def _only(mix: Sequence[Class], sets: Mapping[Class, Intervals], window: Intervals) -> Intervals:
    """Return when all these classes ran, and no other."""
    for kind, when in sets.items():
        window = (intersection if kind in mix else difference)(window, when)
    return window


def _overlap_pct(sets: Mapping[Class, Intervals], window: Intervals) -> float | None:
    comm = intersection(sets[Class.COMM], window)
    if not comm:
        return None
    return 100 * length(intersection(comm, sets[Class.COMP])) / length(comm)


def _differences(within: Iterable[tuple[Span, int]]) -> list[Difference]:
    """Return the spans that tools classify differently by name, the longest first."""
    found: dict[tuple[str, Class, Class | None], list[int]] = defaultdict(list)
    for span, ns in within:
        said = by_name(span.category, span.name)
        if ns and said is not span.kind and (said is not None or span.kind in RUNS):
            found[span.name, span.kind, said].append(ns)
    differences = [Difference(*key, len(each), sum(each)) for key, each in found.items()]
    return sorted(differences, key=lambda one: (-one.total_ns, one.name))


def _by_name(within: Iterable[tuple[Span, int]]) -> Mapping[tuple[Class, str], int]:
    found: dict[tuple[Class, str], int] = defaultdict(int)
    for span, ns in within:
        if span.kind in RUNS:
            found[span.kind, span.name] += ns
    return found
