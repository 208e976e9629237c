"""The straight line through measured points: the cost per repetition, and the fixed cost."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """y = slope · x + intercept; `residual` is the root mean square of the deviations."""

    slope: float
    intercept: float
    residual: float

    def at(self, x: float) -> float:
        """Return y on the line."""
        return self.slope * x + self.intercept


def fit_line(points: Sequence[tuple[float, float]]) -> Line:
    """Fit by least squares; ValueError if the points have fewer than two different x."""
    if len({x for x, _ in points}) < 2:
        raise ValueError("a line needs points at two different x values")
    xs, ys = zip(*points, strict=True)
    slope, intercept = statistics.linear_regression(xs, ys)
    squares = [(y - slope * x - intercept) ** 2 for x, y in points]
    return Line(slope, intercept, math.sqrt(statistics.fmean(squares)))
