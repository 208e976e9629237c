"""The fitted line: exact points, known residuals, and what no line goes through."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlapbench.statistics.fit import fit_line

_NUMBERS = st.floats(min_value=-1e3, max_value=1e3)


def test_points_on_a_line_leave_nothing() -> None:
    line = fit_line([(2, 7), (3, 9), (5, 13)])
    assert (line.slope, line.intercept) == pytest.approx((2, 3))
    assert line.residual == pytest.approx(0, abs=1e-12)
    assert line.at(10) == pytest.approx(23)


def test_a_known_fit() -> None:
    line = fit_line([(0, 0), (1, 3), (2, 0), (3, 3)])
    assert (line.slope, line.intercept) == pytest.approx((0.6, 0.6))
    left = (-0.6, 1.8, -1.8, 0.6)
    assert line.residual == pytest.approx(math.sqrt(sum(r * r for r in left) / 4))


@given(_NUMBERS, _NUMBERS, st.lists(_NUMBERS, min_size=2, max_size=8))
def test_no_other_line_leaves_less(slope: float, intercept: float, ys: list[float]) -> None:
    points = [(float(x), y) for x, y in enumerate(ys)]
    line = fit_line(points)
    other = math.sqrt(sum((y - slope * x - intercept) ** 2 for x, y in points) / len(points))
    assert line.residual <= other * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(1.0, 2.0), (1.0, 3.0)]])
def test_one_x_makes_no_line(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="two different x values"):
        fit_line(points)
