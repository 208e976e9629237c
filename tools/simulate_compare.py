#!/usr/bin/env python3
"""Simulate comparisons on four kinds of machine, and count hits and false alarms.

    tools/simulate_compare.py [--trials N] [--seed N]

Each trial makes a suite of 300 benchmarks with noise of known size, and measures it with 1, 3 and 5
launches per side, in the gate's order A B B A. It first compares two sides without any difference
(an A/A comparison, which fails if its exit status would not be 0), then a side in which four of the
benchmarks are slower, by 3, 5, 10 and 30 %. The functions of benchmark_compare decide. As for a
real machine, the known spread between launches comes from five launches recorded before.

Prints the table of docs/comparing.md. Exit status: 0 if the promises there are kept, 1 if one is
broken, 2 for bad usage.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from overlapbench.command_line import manual_parser, refuse
from overlapbench.script import needed_by

with needed_by("simulate_compare"):
    import numpy as np
    from numpy.random import Generator
    from numpy.typing import NDArray

    from overlapbench.compare import statistics
    from overlapbench.compare.findings import MAX_FLOOR
    from overlapbench.compare.statistics import LEAST_FLOOR, Array, Prior
    from overlapbench.gate.session import BASE, schedule
    from overlapbench.output import print_text
    from overlapbench.source import ResultError

BENCHMARKS = 300
SAMPLES = 40  # per benchmark and launch
# The order statistics that bound the median in 95 %, by the binomial distribution of 40 samples.
INTERVAL = (14, 27)
TAILS = 6  # degrees of freedom of Student's t: heavy tails
LAUNCHES = (1, 3, 5)
RECORDED = 5  # launches, for the known spread of the machine
SLOWDOWNS = (0.03, 0.05, 0.10, 0.30)
MOST_FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class Machine:
    """Ranges of the standard deviations of its benchmarks, and its other defects."""

    name: str
    within: tuple[float, float]  # of samples
    between: tuple[float, float]  # of launches
    drift: float = 0.0  # how much slower all benchmarks are from launch to launch
    bimodal: float = 0.0  # share of the benchmarks whose samples have a second mode
    modes: tuple[float, float] = (0.0, 0.0)  # how much slower that is


QUIET = Machine("quiet", within=(0.003, 0.01), between=(0.001, 0.004))
NOISY = Machine("noisy", within=(0.02, 0.1), between=(0.005, 0.02))
DRIFTING = Machine("drifting", QUIET.within, QUIET.between, drift=0.005)
BIMODAL = Machine("bimodal", QUIET.within, QUIET.between, bimodal=0.1, modes=(0.02, 0.08))
MACHINES = (QUIET, NOISY, DRIFTING, BIMODAL)
# The minimum share of slowdowns found, by launches per side.
PROMISES: Mapping[tuple[str, int, float], float] = {
    ("quiet", 5, 0.05): 0.95,
    ("quiet", 1, 0.30): 0.95,
    ("noisy", 5, 0.30): 0.95,
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of all trials of a machine with so many launches."""

    machine: str
    launches: int
    false_alarms: float  # share of the A/A comparisons
    found: tuple[float, ...]  # of SLOWDOWNS
    floor: float  # the median benchmark's

    def broken(self) -> Iterator[str]:
        """Name the broken promises."""
        what = f"{self.machine} machine, {self.launches} per side"
        if self.false_alarms >= MOST_FALSE_ALARMS:
            failing = f"{self.false_alarms:.1%} of the A/A comparisons fail"
            yield f"{what}: {failing}, promised: below {MOST_FALSE_ALARMS:.0%}"
        for slowdown, share in zip(SLOWDOWNS, self.found, strict=True):
            least = PROMISES.get((self.machine, self.launches, slowdown), 0.0)
            if share < least:
                yield f"{what}: {slowdown:.0%} is found in {share:.1%}, promised: {least:.0%}"


@dataclass(frozen=True)
class Suite:
    """The noise of the benchmarks of one trial, one entry per benchmark."""

    machine: Machine
    within: Array
    between: Array
    second_mode: Array  # how much slower it is; 0 for a benchmark without one
    often: Array  # the share of samples in it

    @classmethod
    def draw(cls, machine: Machine, random: Generator) -> "Suite":
        """Draw deviations evenly on a logarithmic scale."""
        within, between = (
            np.exp(random.uniform(math.log(low), math.log(high), BENCHMARKS))
            for low, high in (machine.within, machine.between)
        )
        has_modes = random.random(BENCHMARKS) < machine.bimodal
        modes = has_modes * random.uniform(*machine.modes, BENCHMARKS)
        return cls(machine, within, between, modes, random.uniform(0.1, 0.9, BENCHMARKS))

    def measure(self, launches: int, random: Generator) -> tuple[Array, Array]:
        """Return log times of consecutive launches, and the rows' own standard errors."""
        shape = (BENCHMARKS, launches, SAMPLES)
        samples = self.within[:, np.newaxis, np.newaxis] * random.standard_normal(shape)
        slow = random.random(shape) < self.often[:, np.newaxis, np.newaxis]
        samples += slow * self.second_mode[:, np.newaxis, np.newaxis]
        samples.sort(axis=2)
        low, high = samples[:, :, INTERVAL[0] - 1], samples[:, :, INTERVAL[1] - 1]
        within = np.sqrt(np.mean(((high - low) / 3.92) ** 2, axis=1))
        tails = random.standard_t(TAILS, shape[:2]) / np.sqrt(TAILS / (TAILS - 2))
        drift = self.machine.drift * np.arange(launches)
        medians = np.median(samples, axis=2)
        return np.asarray(medians + self.between[:, np.newaxis] * tails + drift), within


def main(arguments: Sequence[str] | None = None) -> int:
    parser = manual_parser("simulate_compare", __doc__)
    parser.add_argument("--trials", type=int, default=1000, help="suites (default 1000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.trials < 1:
        parser.error("--trials must be at least 1")
    if options.seed < 0:
        parser.error("--seed must be at least 0")
    outcomes = []
    for machine in MACHINES:
        for launches in LAUNCHES:
            outcomes.append(simulate(machine, launches, options.trials, options.seed))
            print(f"simulated: {machine.name}, {launches} per side", file=sys.stderr)
    try:
        print_text(table(outcomes, options.trials, options.seed))
    except ResultError as error:
        return refuse("simulate_compare", str(error))
    broken = [promise for outcome in outcomes for promise in outcome.broken()]
    for promise in broken:
        print(f"simulate_compare: {promise}", file=sys.stderr)
    return 1 if broken else 0


def simulate(machine: Machine, launches: int, trials: int, seed: int) -> Outcome:
    """Run the trials of a machine with so many launches per side."""
    random = np.random.default_rng(seed)
    false_alarms, found, floors = 0, np.zeros(len(SLOWDOWNS)), []
    sides = np.array([side == BASE for side in schedule(launches)])
    for _ in range(trials):
        suite = Suite.draw(machine, random)
        known = statistics.recorded_prior(*suite.measure(RECORDED, random))
        times, within = suite.measure(2 * launches, random)
        base, new = times[:, sides], times[:, ~sides]
        slower, undecided, floor = decide(base, new, within, known)
        false_alarms += bool((slower | undecided).any())
        floors.append(float(np.median(floor)))
        places = random.choice(BENCHMARKS, len(SLOWDOWNS), replace=False)
        new[places] += np.log1p(SLOWDOWNS)[:, np.newaxis]
        found += decide(base, new, within, known)[0][places]
    shares = tuple(float(share) for share in found / trials)
    floor_of_all = float(np.median(floors))
    return Outcome(machine.name, launches, false_alarms / trials, shares, floor_of_all)


def decide(
    base: Array, new: Array, within: Array, known: Prior
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Array]:
    """Decide as benchmark_compare does: return slower benchmarks, other failures, and floors."""
    found = statistics.estimate(base, new, within, known)
    reach = statistics.reach(found.error, found.freedom, len(found.change))
    floor = np.maximum(LEAST_FLOOR, np.expm1(reach))
    slower = found.change > np.log1p(floor)
    undecided = ~slower & (floor > MAX_FLOOR) & (found.change > np.log1p(MAX_FLOOR))
    return slower, undecided & (base.shape[1] > 1), floor


def table(outcomes: Sequence[Outcome], trials: int, seed: int) -> str:
    """Return the outcomes as Markdown."""
    titles = [f"+{100 * slowdown:.0f} %" for slowdown in SLOWDOWNS]
    lines = [
        f"| Machine | Launches a side | A/A that fail | {' | '.join(titles)} | Median floor |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for outcome in outcomes:
        shares = (outcome.false_alarms, *outcome.found, outcome.floor)
        cells = [outcome.machine, str(outcome.launches), *(f"{100 * s:.1f} %" for s in shares)]
        lines.append(f"| {' | '.join(cells)} |")
    caption = f"{trials} trials of {BENCHMARKS} benchmarks for each row; seed {seed}."
    return "\n".join([*lines, "", caption]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
