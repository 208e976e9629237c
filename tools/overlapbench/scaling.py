"""Scaling: how a cost grows with the number of ranks, and what that predicts for more of them.

Two laws are tried: collective operations in trees cost a step for each doubling of the ranks, and
whatever one rank does for each of the others costs as much again for each of them. The one that
leaves less unexplained is taken. With few points it is a guess that says so: its scatter.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from overlapbench.fit import Line, fit_line

_LAWS = {"log2(ranks)": math.log2, "ranks": float}


@dataclass(frozen=True)
class Fit:
    """cost = base + step x law(ranks), by least squares."""

    law: str
    line: Line

    @property
    def scatter(self) -> float:
        """The root of the mean square of what the law leaves unexplained."""
        return self.line.residual

    def at(self, ranks: int) -> float:
        return self.line.at(_LAWS[self.law](ranks))

    def __str__(self) -> str:
        return f"{self.line.intercept:.3g} {self.line.slope:+.3g} x {self.law}"


def fit(costs: Mapping[int, float]) -> Fit:
    """Fit costs by number of ranks, of which there must be three at least."""
    if len(costs) < 3:
        raise ValueError(f"{len(costs)} numbers of ranks are too few to fit a law: give 3 or more")
    fits = (
        Fit(name, fit_line([(law(ranks), cost) for ranks, cost in costs.items()]))
        for name, law in _LAWS.items()
    )
    return min(fits, key=lambda found: found.scatter)
