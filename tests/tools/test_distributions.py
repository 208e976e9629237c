"""Our distributions against SciPy's."""

import numpy as np
import pytest
from scipy import special

from overlapbench.statistics.distributions import digamma, t_quantile, trigamma

FREEDOMS = np.array([0.5, 0.7, 1, 1.5, 2, 5, 16, 300, 1e4, 1e9])
POSITIVE = np.geomspace(0.05, 1e6, 50)


@pytest.mark.parametrize("tail", [0.45, 0.2, 0.025, 1e-3, 1e-6, 1e-9])
def test_quantiles_of_t(tail: float) -> None:
    expected = -special.stdtrit(FREEDOMS, tail)
    assert t_quantile(FREEDOMS, tail) == pytest.approx(expected, rel=1e-12)
    assert t_quantile(5, tail) == pytest.approx(-special.stdtrit(5, tail), rel=1e-12)


def test_a_quantile_keeps_shape_and_order_and_is_unknown_if_the_freedom_is() -> None:
    quantiles = t_quantile([[3.0, np.nan], [1.0, 3.0]], 0.1)
    expected = -special.stdtrit([[3.0, np.nan], [1.0, 3.0]], 0.1)
    np.testing.assert_allclose(quantiles, expected, rtol=1e-12)


def test_derivatives_of_the_gamma_function() -> None:
    np.testing.assert_allclose(digamma(POSITIVE), special.digamma(POSITIVE), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(trigamma(POSITIVE), special.polygamma(1, POSITIVE), rtol=1e-12)
