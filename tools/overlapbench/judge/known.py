"""The known spread between runs, before two files are compared.

One run per side shows no spread. So the prior of statistics.py comes from runs of one build
on one machine, recorded in quick succession, by backend:

    dev/known_spread.py docs/results/h200x2/overlap.json docs/results/h200x2/overlap-again.json \\
        docs/results/h200/families.json docs/results/h200/families-again.json

prints the entries of the table below.

A time differs between runs by a share of itself, and by an absolute part that only short rows
show, from the placement of a process's memory and queues. Rows of families that time the host's
launches differ much more, since processes launch kernels at different speeds.

A backend without a recording has no known spread: on a busy host, runs of one build differed by
up to 79 %. One run per side then decides nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from overlapbench.reading.names import family_of
from overlapbench.statistics import estimates
from overlapbench.statistics.distributions import Array
from overlapbench.statistics.estimates import Prior


@dataclass(frozen=True)
class Spread:
    """The deviation of a row's times between runs, beyond the deviation within a run."""

    relative: float
    absolute_ms: float
    freedom: float  # its degrees of freedom: few if rows differ much


# By backend and family; "" means every other family.
KNOWN: Mapping[str, Mapping[str, Spread]] = {
    "cuda": {
        "": Spread(relative=0.0018, absolute_ms=0.00017, freedom=5.0),
        "Launch": Spread(relative=0.0275, absolute_ms=0.0, freedom=0.7),
        "Mlp": Spread(relative=0.0219, absolute_ms=0.0, freedom=0.9),
    },
}
# For a backend without a recording.
UNRECORDED: Mapping[str, Spread] = {"": Spread(math.nan, 0.0, freedom=5.0)}


def known_prior(backends: frozenset[str], names: Sequence[str], time_ms: Array) -> Prior:
    """Return the prior for rows of these names and times; for several backends, it is unknown."""
    (backend,) = backends if len(backends) == 1 else ("",)
    known = KNOWN.get(backend, UNRECORDED)
    spreads = [known.get(family_of(name), known[""]) for name in names]
    absolute = np.array([spread.absolute_ms for spread in spreads]) / time_ms
    relative = np.array([spread.relative for spread in spreads])
    freedom = np.array([spread.freedom for spread in spreads])
    return Prior(np.hypot(relative, np.nan_to_num(absolute)), freedom)


def typical_ms(*badness: Array) -> Array:
    """Return each row's time, from the logarithms of all its runs; NaN if it has none."""
    return np.asarray(np.exp(estimates.mean(np.concatenate(badness, axis=1))))
