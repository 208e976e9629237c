"""What is known of the spread between launches before two files are compared.

Of one launch a side there is nothing to take a spread from. So the prior of statistics.py comes
from launches of one build on one machine, recorded one soon after the other, by backend:

    tools/known_spread.py docs/results/h200x2/overlap.json docs/results/h200x2/overlap-again.json

prints the entry of the table below.
"""

from collections.abc import Mapping

from overlapbench.compare import statistics
from overlapbench.compare.side import Side, within_of
from overlapbench.compare.statistics import Prior
from overlapbench.counters import TIME

KNOWN: Mapping[str, Prior] = {
    "cuda": Prior(between=0.0014, freedom=5.0),
}
# Of a backend without a recording. An assumption: no launches stand behind it.
ASSUMED = Prior(between=0.005, freedom=5.0)


def known_prior(base: Side, new: Side) -> Prior:
    """Return what is known of the sides' backends: of several, the widest."""
    backends = base.context["backend"] | new.context["backend"]
    priors = [KNOWN.get(backend, ASSUMED) for backend in backends]
    return max(priors, key=lambda prior: prior.between)


def measure_spread(side: Side) -> tuple[Prior, int]:
    """Fit the prior to the times of one build's launches; also return of how many benchmarks."""
    good = [i for i, problem in enumerate(side.problems) if not problem]
    values, within = side.badness(TIME)[good], within_of(side.errors[good])
    return statistics.recorded_prior(values, within), len(good)
