"""The winner against the default: launches of both in turn, and the statistics of comparisons.

A search picks the fastest of many measurements, and the fastest is also the luckiest. So the gain
is measured again, in fresh processes, A B B A, and judged in the same way as two builds
(statistics/estimates.py). The two rows have different names; here both use the default's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from overlapbench.judge.findings import find
from overlapbench.judge.floors import Floors
from overlapbench.judge.side import Side, natural
from overlapbench.output import ResultError
from overlapbench.reading.counters import TIME
from overlapbench.reading.launch import Launch
from overlapbench.statistics import estimates

_ERRORS = 0.05  # of the interval, which contains the gain in 95 of 100 cases


@dataclass(frozen=True)
class Gain:
    """The time that the winner saves, as shares of the default's time; negative if slower."""

    default_ms: float
    best_ms: float
    share: float
    low: float
    high: float
    launches: int  # per side

    @property
    def certain(self) -> bool:
        """Tell whether the winner is faster: the interval does not contain zero."""
        return self.low > 0


def compare_rows(default: Sequence[Launch], best: Sequence[Launch], name: str) -> Gain:
    """Compare launches of one row each; ResultError if a row has a problem."""
    base, new = _side("default", default, name), _side("best", best, name)
    for side in (base, new):
        if problem := side.problem(name):
            raise ResultError(f"not confirmed: {problem}")
    found = next(one for one in find([name], base, new, Floors())[0] if one.metric == TIME)
    half = float(
        estimates.reach(np.array(found.error), np.array(found.freedom), 1, false_alarms=_ERRORS)
    )
    low, high = (-natural(found.counter, found.change + sign * half) for sign in (1, -1))
    return Gain(found.base, found.new, -found.relative, low, high, len(default))


def _side(side: str, launches: Sequence[Launch], name: str) -> Side:
    for launch in launches:
        if len(launch.names) != 1:
            raise ResultError(f"not confirmed: a launch has {len(launch.names)} rows instead of 1")
    return Side.collect(side, [replace(launch, names=(name,)) for launch in launches])
