"""The straight line through measured points: what a repetition costs, and what is paid once."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """y = slope · x + intercept; `residual` is the root mean square of what it leaves of y."""

    slope: float
    intercept: float
    residual: float

    def at(self, x: float) -> float:
        """Return y on the line."""
        return self.slope * x + self.intercept


def fit_line(points: Sequence[tuple[float, float]]) -> Line:
    """Fit by least squares; ValueError where the points stand at fewer than two x."""
    if len({x for x, _ in points}) < 2:
        raise ValueError("a line needs points at two different x values")
    xs, ys = zip(*points, strict=True)
    slope, intercept = statistics.linear_regression(xs, ys)
    squares = [(y - slope * x - intercept) ** 2 for x, y in points]
    return Line(slope, intercept, math.sqrt(statistics.fmean(squares)))
