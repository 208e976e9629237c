"""Scaling: how a cost grows with the number of ranks, and the prediction for more ranks.

Two laws are fitted: logarithmic, as for tree collectives, which cost a step per doubling of the
ranks; and linear, as for work that a rank does for each other rank. The law with the smaller
scatter is used. With few points it is a guess, whose scatter shows how good it is.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

_LAWS = {"log2(ranks)": math.log2, "ranks": float}


@dataclass(frozen=True)
class Fit:
    """cost = base + step x law(ranks), by least squares."""

    law: str
    base: float
    step: float
    scatter: float  # the root mean square of the residuals

    def at(self, ranks: int) -> float:
        return self.base + self.step * _LAWS[self.law](ranks)

    def __str__(self) -> str:
        return f"{self.base:.3g} {self.step:+.3g} x {self.law}"


def fit(costs: Mapping[int, float]) -> Fit:
    """Fit costs by number of ranks; at least three numbers are needed."""
    if len(costs) < 3:
        raise ValueError(f"{len(costs)} numbers of ranks are too few to fit a law: give 3 or more")
    return min((_fit(law, costs) for law in _LAWS), key=lambda found: found.scatter)


def _fit(law: str, costs: Mapping[int, float]) -> Fit:
    xs = [_LAWS[law](ranks) for ranks in costs]
    step, base = statistics.linear_regression(xs, [*costs.values()])
    squares = [(cost - base - step * x) ** 2 for x, cost in zip(xs, costs.values(), strict=True)]
    return Fit(law, base, step, math.sqrt(statistics.fmean(squares)))
