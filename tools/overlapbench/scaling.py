"""Scaling: how a cost grows with the number of ranks, and what that predicts for more of them.

Two laws are tried: collective operations in trees cost a step for each doubling of the ranks, and
whatever one rank does for each of the others costs as much again for each of them. The one that
leaves less unexplained is taken. With few points it is a guess that says so: its scatter.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

_LAWS = {"log2(ranks)": math.log2, "ranks": float}


@dataclass(frozen=True)
class Fit:
    """cost = base + step x law(ranks), by least squares."""

    law: str
    base: float
    step: float
    scatter: float  # root of the mean square of what the law leaves unexplained

    def at(self, ranks: int) -> float:
        return self.base + self.step * _LAWS[self.law](ranks)

    def __str__(self) -> str:
        return f"{self.base:.3g} {self.step:+.3g} x {self.law}"


def fit(costs: Mapping[int, float]) -> Fit:
    """Fit costs by number of ranks, of which there must be three at least."""
    if len(costs) < 3:
        raise ValueError(f"{len(costs)} numbers of ranks are too few to fit a law: give 3 or more")
    return min((_fit(law, costs) for law in _LAWS), key=lambda found: found.scatter)


def _fit(law: str, costs: Mapping[int, float]) -> Fit:
    points = [(_LAWS[law](ranks), cost) for ranks, cost in costs.items()]
    middle = sum(x for x, _ in points) / len(points)
    mean = sum(cost for _, cost in points) / len(points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    step = sum((x - middle) * (cost - mean) for x, cost in points) / spread
    base = mean - step * middle
    squares = sum((cost - base - step * x) ** 2 for x, cost in points)
    return Fit(law, base, step, math.sqrt(squares / len(points)))
