"""The judgement of each metric of each benchmark: two figures, the change, interval, verdict.

All comparable benchmarks are judged together, one metric after the other, because the statistics
pool information from all of them and correct for all of them (statistics.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from overlapbench.judge.floors import Floors, SetFloor
from overlapbench.judge.known import known_prior, typical_ms
from overlapbench.judge.side import Side, figure_of, natural, within_of
from overlapbench.reading.counters import EFFICIENCY, TIME, Counter, Range
from overlapbench.statistics import estimates
from overlapbench.statistics.estimates import Estimate, Prior

VAST = 10.0  # + 1000 %: a larger change, as an interval's end or a floor, has no meaning
MAX_FLOOR = 0.10  # the limit: a larger change must not go unseen
SPEEDUP = "speedup"


class Verdict(Enum):
    """From worst to best; docs/comparing.md says what each means."""

    SLOWER = "slower"
    INVALID = "invalid"
    MISSING = "missing"
    INCOMPARABLE = "incomparable"
    INCONCLUSIVE = "inconclusive"
    FASTER = "faster"
    NEW = "new"
    SAME = "same"

    @property
    def decided(self) -> bool:
        """Tell whether a change was found, or one beyond the limit is ruled out."""
        return self in (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME)


@dataclass(frozen=True)
class Judgement:
    """One metric of one benchmark. Changes are of badness: logarithms, positive if worse."""

    metric: str  # as floors files name it
    counter: Counter  # of the figures: the metric, but the speedup instead of efficiency
    base: float  # geometric means over runs
    new: float
    change: float
    reach: float  # half of the interval; infinite if unknown
    error: float  # standard error of the change
    freedom: float
    floor: float  # relative: the smallest change that counts
    floor_reason: str
    detectable: tuple[float, ...]  # relative: the change found with each of statistics.POWERS
    limit: float  # relative: a larger change must not go unseen
    suspicious: float = 0.0  # noise that may pass hardly makes any figure worse by more than this

    @property
    def verdict(self) -> Verdict:
        if math.isnan(self.change):
            return Verdict.INVALID
        if estimates.is_change(self.change, self.reach, math.log1p(self.floor)):
            return Verdict.SLOWER if self.change > 0 else Verdict.FASTER
        same = estimates.is_same(self.change, self.reach, math.log1p(self.limit))
        return Verdict.SAME if same else Verdict.INCONCLUSIVE

    @property
    def beyond_limit(self) -> bool:
        """Tell whether the change is worse than the limit, even if it may be noise.

        Where noise may pass, it must not explain the change.
        """
        return self.change > max(math.log1p(self.limit), self.suspicious)

    @property
    def relative(self) -> float:
        """The change of the figures: new / base - 1."""
        return natural(self.counter, self.change)

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval of `relative`, the low one first; NaN if they are unknown."""
        if math.isinf(self.reach):
            return math.nan, math.nan
        ends = (natural(self.counter, self.change + sign * self.reach) for sign in (-1, 1))
        low, high = sorted(ends)
        return low, high


def find(
    names: Sequence[str],
    base: Side,
    new: Side,
    floors: Floors,
    max_floor: float = MAX_FLOOR,
    allow_noise: bool = False,
) -> list[tuple[Judgement, ...]]:
    """Judge the benchmarks `names`, which are on both sides; return one entry per name.

    Both sides share one table. With one run per side, only the time is judged: a row states the
    precision of its time, but not of a rate that it derived from another measurement.
    """
    if not names:
        return []
    base, new = base.of(names), new.of(names)
    backends = base.context["backend"] | new.context["backend"]
    known = known_prior(backends, names, typical_ms(base.badness(TIME), new.badness(TIME)))
    metrics = {metric: _estimate(metric, base, new, known) for metric in base.table.judged}
    figures = max(1, sum(int(found.measured.sum()) for found in metrics.values()))
    rows: list[list[Judgement]] = [[] for _ in names]
    for metric, found in metrics.items():
        counter = _counter_of(base.table.counters[metric])
        error = found.error
        reach = estimates.reach(error, found.freedom, figures)
        suspicious = estimates.suspicious(error, found.freedom, figures)
        set_floors = [floors.set_for(name, metric) for name in names]
        least = np.array([one.floor if one else estimates.LEAST_FLOOR for one in set_floors])
        with np.errstate(over="ignore"):
            floor = np.fmax(least, np.expm1(reach))
            detectable = [
                np.expm1(
                    estimates.detectable(error, found.freedom, figures, np.log1p(least), power)
                )
                for power in estimates.POWERS
            ]
        for i in np.flatnonzero(found.measured | found.gone).tolist():
            rows[i].append(
                Judgement(
                    metric,
                    counter,
                    base=figure_of(counter, float(found.base[i])),
                    new=figure_of(counter, float(found.new[i])),
                    change=float(found.change[i]),
                    reach=float(reach[i]),
                    error=float(error[i]),
                    freedom=float(found.freedom[i]),
                    floor=float(floor[i]),
                    floor_reason=_reason(bool(floor[i] > least[i]), set_floors[i]),
                    detectable=tuple(float(changes[i]) for changes in detectable),
                    limit=max(max_floor, float(least[i])),
                    suspicious=float(suspicious[i]) if allow_noise else 0.0,
                )
            )
    return [tuple(row) for row in rows]


def _estimate(metric: str, base: Side, new: Side, known: Prior) -> Estimate:
    before, now = base.badness(metric), new.badness(metric)
    if metric != TIME:
        lone = np.isfinite(before).sum(axis=1) + np.isfinite(now).sum(axis=1) == 2
        both = np.isfinite(before).any(axis=1) & np.isfinite(now).any(axis=1)
        before[lone & both] = now[lone & both] = np.nan
    within = within_of(np.concatenate([base.errors, new.errors], axis=1))
    return estimates.estimate(before, now, within, known)


def _counter_of(judged: Counter) -> Counter:
    """Return the counter whose figures a judged counter shows."""
    if judged.name != EFFICIENCY:
        return judged
    return replace(judged, name=SPEEDUP, range=Range.POSITIVE, definition="(C + M) / T")


def _reason(above_least: bool, set_floor: SetFloor | None) -> str:
    """Name the origin of a floor."""
    if above_least:
        return "the spread of runs"
    return f"set for {set_floor.pattern}" if set_floor else "the least floor"
