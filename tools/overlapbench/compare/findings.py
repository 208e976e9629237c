"""What each metric of each benchmark says: its change, how sure that is, the floor, a verdict.

All benchmarks that can be compared are judged together, one metric after the other, because the
statistics borrow from all of them and correct for all of them (statistics.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from overlapbench.compare import statistics
from overlapbench.compare.floors import Floors
from overlapbench.compare.side import Side, natural
from overlapbench.compare.statistics import Array, Samples
from overlapbench.metrics import JUDGED


class Verdict(Enum):
    """Worst first."""

    REGRESSED = "regressed"
    INVALID = "invalid"
    MISSING = "missing"
    INCOMPARABLE = "incomparable"
    INCONCLUSIVE = "inconclusive"
    IMPROVED = "improved"
    NEW = "new"
    SAME = "same"


@dataclass(frozen=True)
class Finding:
    """One metric of one benchmark. Relative figures are positive for the worse."""

    metric: str
    base: float  # medians over launches
    new: float
    change: float
    low: float  # of the confidence interval; NaN where there are too few launches
    high: float
    error: float
    freedom: float
    p: float  # of "no more than 1 % worse"
    floor: float
    floor_reason: str
    verdict: Verdict

    def natural(self, change: float) -> float:
        """Return a change as it shows in the figures."""
        return natural(self.metric, change)


def find(names: Sequence[str], base: Side, new: Side, floors: Floors) -> list[tuple[Finding, ...]]:
    """Judge the benchmarks `names`, which are on both sides; an entry a name."""
    rows: list[list[Finding]] = [[] for _ in names]
    if names:
        indices = [[side.index[name] for name in names] for side in (base, new)]
        for metric in JUDGED:
            for row, finding in zip(
                rows, _judge(metric, names, base, new, indices, floors), strict=True
            ):
                if finding is not None:
                    row.append(finding)
    return [tuple(row) for row in rows]


def _judge(
    metric: str,
    names: Sequence[str],
    base: Side,
    new: Side,
    indices: Sequence[Sequence[int]],
    floors: Floors,
) -> list[Finding | None]:
    """Judge one metric; None for a benchmark that base has no figure of."""
    before, now = (s.badness[metric][i] for s, i in zip((base, new), indices, strict=True))
    present = np.isfinite(medians(before))
    if not present.any():
        return [None] * len(names)
    spread = [s.spread[metric][i] for s, i in zip((base, new), indices, strict=True)]
    found = statistics.estimate(Samples(before, now, medians(np.concatenate(spread, axis=1))))
    low, high = found.interval()
    worse = statistics.discoveries(found.worse)
    better = statistics.discoveries(found.better)
    deviations = np.array([floors.spread(name, metric) for name in names])
    calibrated = deviations * statistics.error_share(before, now)
    least = statistics.floors(np.fmax(found.error, calibrated))
    values = [medians(s.values[metric][i]) for s, i in zip((base, new), indices, strict=True)]
    findings: list[Finding | None] = []
    for i, name in enumerate(names):
        if not present[i]:
            findings.append(None)
            continue
        change = float(found.change[i])
        floor, reason = float(least[i]), _reason(found.error[i], calibrated[i])
        if fixed := floors.set_for(name, metric):
            floor, reason = fixed.floor, f"set for {fixed.pattern}"
        findings.append(
            Finding(
                metric,
                base=float(values[0][i]),
                new=float(values[1][i]),
                change=change,
                low=float(low[i]),
                high=float(high[i]),
                error=float(found.error[i]),
                freedom=float(found.freedom[i]),
                p=float(found.worse[i]),
                floor=floor,
                floor_reason=reason,
                verdict=_verdict(change, floor, bool(worse[i]), bool(better[i])),
            )
        )
    return findings


def _verdict(change: float, floor: float, worse: bool, better: bool) -> Verdict:
    if math.isnan(change):
        return Verdict.INVALID
    if abs(change) <= math.log1p(floor):
        return Verdict.SAME
    if change > 0:
        return Verdict.REGRESSED if worse else Verdict.INCONCLUSIVE
    return Verdict.IMPROVED if better else Verdict.INCONCLUSIVE


def _reason(error: float, calibrated: float) -> str:
    """Say where a floor that is not set comes from."""
    spread = np.fmax(error, calibrated)
    if not statistics.SPREADS * spread > statistics.LEAST_FLOOR:
        return "the least floor"
    source = "calibrated spread" if spread == calibrated else "spread between these launches"
    return f"{statistics.SPREADS:g} x the {source}"


def medians(rows: Array) -> Array:
    """Return the median of each row, leaving NaN out; NaN of a row that has nothing else."""
    return statistics.median(rows)[:, 0]
