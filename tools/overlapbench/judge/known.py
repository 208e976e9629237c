"""The known spread between launches, before two files are compared.

One launch per side shows no spread. So the prior of statistics.py comes from launches of one build
on one machine, recorded in quick succession, by backend:

    dev/known_spread.py docs/results/h200x2/overlap.json docs/results/h200x2/overlap-again.json \\
        docs/results/h200/families.json docs/results/h200/families-again.json

prints the entries of the table below.

A time differs between launches by a share of itself, and by an absolute part that only short rows
show, from the placement of a process's memory and queues. Rows of families that time the host's
launches differ much more, since processes launch at different speeds.

A backend without a recording has no known spread: on a busy host, launches of one build differed by
up to 79 %. One launch per side then decides nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from overlapbench.grouping import grouped
from overlapbench.judge.side import Side, within_of
from overlapbench.reading.counters import TIME
from overlapbench.reading.names import family_of
from overlapbench.statistics import estimates
from overlapbench.statistics.estimates import Array, Prior


@dataclass(frozen=True)
class Spread:
    """The deviation of a row's times between launches, beyond the deviation within a launch."""

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
# For a backend without a recording. The freedom is that of a calibrated spread, if there is one.
UNRECORDED: Mapping[str, Spread] = {"": Spread(math.nan, 0.0, freedom=5.0)}

# Rows of at least this time show the relative part, rows of at most this time the absolute one.
_LONG_MS = 0.1
_SHORT_MS = 0.03
# Fewer rows do not determine the absolute part.
_LEAST_SHORT = 10


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
    """Return each row's time, from the logarithms of all its launches; NaN if it has none."""
    return np.asarray(np.exp(estimates.mean(np.concatenate(badness, axis=1))))


def measure_spreads(backend: str, side: Side) -> Mapping[str, tuple[Spread, int]]:
    """Fit the spreads to the times of one build's launches; also return the number of rows."""
    own = KNOWN.get(backend, UNRECORDED)
    good = [name for name, row in side.benchmarks.items() if not row.problem]
    rows = grouped(good, lambda name: family_of(name) if family_of(name) in own else "")
    spreads = {}
    for family in own:
        if family not in rows:
            continue
        chosen = side.of(rows[family])
        spread = _fit(chosen.badness(TIME), within_of(chosen.errors), not family)
        spreads[family] = spread, len(rows[family])
    return spreads


def _fit(values: Array, within: Array, has_absolute: bool) -> Spread:
    time_ms = typical_ms(values)
    long, short = time_ms >= _LONG_MS, time_ms <= _SHORT_MS
    if not has_absolute or not long.any() or short.sum() < _LEAST_SHORT:
        prior = estimates.recorded_prior(values, within)
        return Spread(float(prior.between), 0.0, float(prior.freedom))
    prior = estimates.recorded_prior(values[long], within[long])
    variance, freedom = estimates.own_variance(values[short])
    told = freedom > 0
    # The median, because a few rows deviate by far more; the factor converts it to the mean.
    shares = variance[told] * time_ms[short][told] ** 2 * freedom[told]
    chi_square_medians = special.chdtri(freedom[told], 0.5)
    absolute_ms = float(np.sqrt(np.median(shares / chi_square_medians)))
    return Spread(float(prior.between), absolute_ms, float(prior.freedom))
