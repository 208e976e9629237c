"""What the estimates need of Student's t and of the gamma function, on arrays.

The tests compare each function with SciPy's, which is too large a dependency for these few.
"""

import statistics

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)  # of -1 to 1
_LENGTH = 6.5  # beyond it, exp(-x²) has no digit left
_STEPS = 10  # of the recurrences; from there, the asymptotic series are exact to 1e-12
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30)  # the even ones, from the second


def t_quantile(freedom: ArrayLike, tail: float) -> Array:
    """Return the value that Student's t exceeds with probability `tail`, below 1/2.

    With r² = freedom / 2 log(1 + t² / freedom), that probability is J(r) / (2 J(0)), where J is the
    integral of `_density` from r on: nearly a Gaussian one, whatever the freedom. log J is concave,
    so Newton's method finds r from the quantile of the normal distribution.
    """
    given = np.asarray(freedom, dtype=np.float64)
    each, places = np.unique(given, return_inverse=True)  # benchmarks have few different ones
    wanted = 2 * tail * _integral(np.zeros_like(each), each)
    r = np.full_like(each, -statistics.NormalDist().inv_cdf(tail) / np.sqrt(2))
    for _ in range(12):
        rest = _integral(r, each)
        r = r + rest / _density(r, each) * np.log(rest / wanted)
    return np.asarray(_t_at(r, each)[places.reshape(given.shape)])


def t_tail(freedom: Array, value: Array) -> Array:
    """Return the probability that Student's t exceeds a value."""
    r = np.sqrt(freedom / 2 * np.log1p(value**2 / freedom))
    half = _integral(r, freedom) / _integral(np.zeros_like(freedom), freedom) / 2
    return np.where(value < 0, 1 - half, half)


def t_values(freedom: Array) -> tuple[Array, Array]:
    """Return values and weights: a function's mean over Student's t is their weighted sum."""
    freedom = freedom[..., np.newaxis]
    x = _LENGTH / 2 * (1 + _NODES)
    values, weights = _t_at(x, freedom), _density(x, freedom) * _WEIGHTS
    weights = weights / weights.sum(axis=-1, keepdims=True) / 2
    return np.concatenate([-values, values], axis=-1), np.concatenate([weights] * 2, axis=-1)


def _t_at(r: Array, freedom: Array) -> Array:
    return np.asarray(np.sqrt(freedom * np.expm1(2 * r**2 / freedom)))


def _density(x: Array, freedom: Array) -> Array:
    """Return exp(-x²) x / sqrt(1 - exp(-2 x² / freedom))."""
    return np.asarray(np.exp(-(x**2)) * x / np.sqrt(-np.expm1(-2 * x**2 / freedom)))


def _integral(begin: Array, freedom: Array) -> Array:
    x = begin[..., np.newaxis] + _LENGTH / 2 * (1 + _NODES)
    return np.asarray(_LENGTH / 2 * _density(x, freedom[..., np.newaxis]) @ _WEIGHTS)


def digamma(x: ArrayLike) -> Array:
    """Return the derivative of the gamma function's logarithm, for positive x."""
    x = np.asarray(x, dtype=np.float64)
    far = x + _STEPS
    series = sum(b / (2 * k * far ** (2 * k)) for k, b in enumerate(_BERNOULLI, 1))
    near = sum(1 / (x + step) for step in range(_STEPS))
    return np.asarray(np.log(far) - 1 / (2 * far) - series - near)


def trigamma(x: ArrayLike) -> Array:
    """Return the derivative of `digamma`."""
    x = np.asarray(x, dtype=np.float64)
    far = x + _STEPS
    series = sum(b / far ** (2 * k + 1) for k, b in enumerate(_BERNOULLI, 1))
    near = sum(1 / (x + step) ** 2 for step in range(_STEPS))
    return np.asarray(1 / far + 1 / (2 * far**2) + series + near)
