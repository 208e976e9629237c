"""Scaling: how a cost grows with the number of ranks, and the prediction for more ranks.

Two laws are fitted: logarithmic, as for tree collectives, which cost a step per doubling of the
ranks; and linear, as for work that a rank does for each other rank. The law with the smaller
scatter is used. With few points it is a guess, whose scatter shows how good it is.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from overlapbench.statistics.fit import Line, fit_line

_LAWS = {"log2(ranks)": math.log2, "ranks": float}


@dataclass(frozen=True)
class Fit:
    """cost = base + step x law(ranks), by least squares."""

    law: str
    line: Line

    @property
    def scatter(self) -> float:
        """The root mean square of the residuals."""
        return self.line.residual

    def at(self, ranks: int) -> float:
        return self.line.at(_LAWS[self.law](ranks))

    def __str__(self) -> str:
        return f"{self.line.intercept:.3g} {self.line.slope:+.3g} x {self.law}"


def fit(costs: Mapping[int, float]) -> Fit:
    """Fit costs by number of ranks; at least three numbers are needed."""
    if len(costs) < 3:
        raise ValueError(f"{len(costs)} numbers of ranks are too few to fit a law: give 3 or more")
    fits = (
        Fit(name, fit_line([(law(ranks), cost) for ranks, cost in costs.items()]))
        for name, law in _LAWS.items()
    )
    return min(fits, key=lambda found: found.scatter)
