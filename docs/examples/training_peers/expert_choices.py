"""The experts that each token goes to: the choices of kernels/routing.cc, draw by draw.

PyTorch's experts therefore get exactly the loads of the suite's row, whatever its skew.
"""

import functools
import itertools

import numpy as np
from numpy.typing import NDArray

_SEED_OF_CHOICES = 5100
_PERCENT = 100


def _mix(x: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mix the bits of each number, as workload/data.h does."""
    x = (x ^ x >> np.uint32(16)) * np.uint32(0x7FEB352D)
    x = (x ^ x >> np.uint32(15)) * np.uint32(0x846CA68B)
    return x ^ x >> np.uint32(16)


def _draws(seed: int, first: int, count: int) -> list[int]:
    key = _mix(_mix(np.array([seed], np.uint32)))  # the indices have 32 bits
    drawn: list[int] = _mix(np.arange(first, first + count, dtype=np.uint32) ^ key).tolist()
    return drawn


@functools.cache
def experts_of(rank: int, tokens: int, experts: int, topk: int, skew: int) -> NDArray[np.int64]:
    """Return the experts of each token of a rank, [tokens, topk].

    `skew` percent of the tokens have the last expert as their first choice; all other choices are
    uniform. A choice that the token already has is drawn again.
    """
    parts = (_draws(_SEED_OF_CHOICES + rank, i * tokens, tokens) for i in itertools.count())
    draws = itertools.chain.from_iterable(parts)
    chosen = []
    for _ in range(tokens):
        own = [experts - 1] if next(draws) % _PERCENT < skew else []
        while len(own) < topk:
            drawn = next(draws) % experts
            if drawn not in own:
                own.append(drawn)
        chosen.append(own)
    return np.array(chosen, np.int64)
