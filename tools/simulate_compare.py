#!/usr/bin/env python3
"""Simulate suites of benchmarks, and count what the comparison finds and what it imagines.

    tools/simulate_compare.py [--trials N] [--seed N]

Each trial makes suites of 300 benchmarks with noise of known size, in equal parts quiet, mid and
noisy. It compares two sides without any difference (an A/A suite, which fails when one benchmark
is called regressed), and then a side in which one benchmark of each kind is slower. The decision
is the very function that benchmark_compare uses.

Printed is the table of docs/comparing.md. Exit status: 0 when the promises that it makes of 5
launches x 3 repetitions are kept, 1 when one is broken, 2 for bad usage.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

try:
    import numpy as np
    from numpy.random import Generator
    from numpy.typing import NDArray

    from overlapbench.compare.statistics import Array, Samples, discoveries, estimate, floors
    from overlapbench.output import print_text
    from overlapbench.source import ResultError
except ModuleNotFoundError as missing:
    print(
        f"simulate_compare: Python has no {missing.name}: run with .venv/bin/python, which ./bench"
        " makes, or pip install -r tools/requirements.txt",
        file=sys.stderr,
    )
    sys.exit(2)

BENCHMARKS = 300
TAILS = 4  # degrees of freedom of Student's t: heavy tails
OUTLIER_SHARE = 0.02
OUTLIER = (0.1, 0.5)  # an outlier is slower by so much


@dataclass(frozen=True)
class Kind:
    """A third of the benchmarks: their noise as ranges of standard deviations, and a slowdown."""

    name: str
    within: tuple[float, float]
    between: tuple[float, float]
    slowdown: float
    least_power: float


KINDS = (
    Kind("quiet", (0.003, 0.007), (0.003, 0.005), 0.05, 0.95),
    Kind("mid", (0.007, 0.015), (0.005, 0.009), 0.05, 0.95),
    Kind("noisy", (0.015, 0.04), (0.009, 0.02), 0.10, 0.75),
)
MOST_FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class Scenario:
    """How a suite is measured."""

    name: str
    launches: int = 5
    repetitions: int = 3
    shared: float = 0.0  # share of the variance between launches that all benchmarks have in common
    launch_outliers: float = 0.0


SCENARIOS = (
    Scenario("5 launches x 3 repetitions"),
    Scenario("no repetitions", repetitions=1),
    Scenario("3 launches", launches=3),
    Scenario("10 launches", launches=10),
    Scenario("half of the noise between launches is common to all", shared=0.5),
    Scenario("besides, 2 % of a benchmark's launches are outliers", launch_outliers=0.02),
)


@dataclass(frozen=True)
class Outcome:
    """What was found in all trials of a scenario, as shares."""

    false_alarms: float
    power: tuple[float, ...]  # of KINDS

    def broken(self) -> list[str]:
        """Name the promises that are not kept."""
        broken = []
        if self.false_alarms >= MOST_FALSE_ALARMS:
            broken.append(f"{self.false_alarms:.1%} of the A/A suites fail, promised is below 1 %")
        for kind, power in zip(KINDS, self.power, strict=True):
            if power < kind.least_power:
                broken.append(
                    f"{kind.slowdown:.0%} on a {kind.name} benchmark is found in {power:.1%},"
                    f" promised is {kind.least_power:.0%}"
                )
        return broken


def main(arguments: Sequence[str] | None = None) -> int:
    assert __doc__
    parser = argparse.ArgumentParser(
        prog="simulate_compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trials", type=int, default=1000, help="suites (default 1000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.trials < 1:
        parser.error("--trials takes a number from 1 on")
    if options.seed < 0:
        parser.error("--seed takes a number from 0 on")
    outcomes = {}
    for scenario in SCENARIOS:
        outcomes[scenario.name] = simulate(scenario, options.trials, options.seed)
        print(f"simulated: {scenario.name}", file=sys.stderr)
    try:
        print_text(table(outcomes) + "\n")
    except ResultError as error:
        print(f"simulate_compare: {error}", file=sys.stderr)
        return 2
    broken = outcomes[SCENARIOS[0].name].broken()
    for promise in broken:
        print(f"simulate_compare: {promise}", file=sys.stderr)
    return 1 if broken else 0


def simulate(scenario: Scenario, trials: int, seed: int) -> Outcome:
    """Run the trials of a scenario."""
    random = np.random.default_rng(seed)
    false_alarms, found = 0, np.zeros(len(KINDS))
    for _ in range(trials):
        deviations = [_deviations(random, noise) for noise in ("within", "between")]
        base, new = (_measure(scenario, deviations, random) for _ in range(2))
        false_alarms += bool(regressed(base, new).any())
        slow = new.copy()
        places = [_place(kind, random) for kind in range(len(KINDS))]
        for place, kind in zip(places, KINDS, strict=True):
            slow[place] += np.log1p(kind.slowdown)
        found += regressed(base, slow)[places]
    return Outcome(false_alarms / trials, tuple(float(share) for share in found / trials))


def regressed(base: Array, new: Array) -> NDArray[np.bool_]:
    """Decide as benchmark_compare does; sides are benchmarks x launches x repetitions."""
    if base.shape[2] > 1:
        deviations = np.concatenate([side.std(axis=2, ddof=1) for side in (base, new)], axis=1)
        within = np.median(deviations, axis=1)
    else:
        within = np.full(len(base), np.nan)
    found = estimate(Samples(np.median(base, axis=2), np.median(new, axis=2), within))
    beyond = found.change > np.log1p(floors(found.error))
    return np.asarray(discoveries(found.worse) & beyond)


def table(outcomes: dict[str, Outcome]) -> str:
    """Return the outcomes as Markdown."""
    titles = [f"{kind.slowdown:.0%} {kind.name}".replace("%", " %") for kind in KINDS]
    lines = [f"| Measured | A/A suites that fail | {' | '.join(titles)} |", "|---|---|---|---|---|"]
    for name, outcome in outcomes.items():
        shares = (outcome.false_alarms, *outcome.power)
        lines.append(f"| {name} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |")
    return "\n".join(lines)


def _deviations(random: Generator, noise: str) -> Array:
    """Draw each benchmark's standard deviation, evenly on a logarithmic scale."""
    ends = np.log([getattr(KINDS[i % len(KINDS)], noise) for i in range(BENCHMARKS)])
    return np.asarray(np.exp(random.uniform(ends[:, 0], ends[:, 1])))


def _place(kind: int, random: Generator) -> int:
    return kind + len(KINDS) * int(random.integers(BENCHMARKS // len(KINDS)))


def _measure(scenario: Scenario, deviations: Sequence[Array], random: Generator) -> Array:
    """Return a side as log times: benchmarks x launches x repetitions."""
    within, between = (deviation[:, np.newaxis] for deviation in deviations)
    shape = (BENCHMARKS, scenario.launches)
    own, common = _noise(shape, random), _noise((1, scenario.launches), random)
    launches = between * (np.sqrt(1 - scenario.shared) * own + np.sqrt(scenario.shared) * common)
    launches += _outliers(shape, scenario.launch_outliers, random)
    whole = (*shape, scenario.repetitions)
    repetitions = within[:, :, np.newaxis] * _noise(whole, random)
    repetitions += _outliers(whole, OUTLIER_SHARE, random)
    return np.asarray(launches[:, :, np.newaxis] + repetitions)


def _noise(shape: tuple[int, ...], random: Generator) -> Array:
    """Draw from Student's t, scaled to a standard deviation of 1."""
    return np.asarray(random.standard_t(TAILS, shape) / np.sqrt(TAILS / (TAILS - 2)))


def _outliers(shape: tuple[int, ...], share: float, random: Generator) -> Array:
    return np.asarray((random.random(shape) < share) * random.uniform(*OUTLIER, shape))


if __name__ == "__main__":
    sys.exit(main())
