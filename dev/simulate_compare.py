#!/usr/bin/env python3
"""Simulate comparisons on four kinds of machine, and count hits and false alarms.

    dev/simulate_compare.py [--trials N] [--seed N]

Each trial makes a suite of 300 benchmarks with noise of known size, and measures it with 1, 3 and 5
runs per side, in the gate's order A B B A. The functions of benchmark_compare decide.

- Two sides without any difference (an A/A comparison): the share of comparisons that find a
  regression (exit status 1) or are inconclusive (3), the share in which all intervals contain the
  truth, and the share of rows called the same.
- A side in which some benchmarks are slower: by 3, 5, 10 and 30 %; by as much as an earlier
  comparison said would be found in 80 and in 95 % of cases; and by a little more than the limit,
  which must not be called the same.

As for a real machine, the known spread between runs comes from five runs recorded before.

Prints a table. Exit status: 0 if the promises of docs/comparing.md are kept, 1 if one is broken, 2
for bad usage.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

import checkout  # noqa: F401
import promises
from known_spread import recorded_prior
from overlapbench.cli.command_line import manual_parser
from overlapbench.judge.judgements import MAX_FLOOR
from overlapbench.judge.session import BASE, schedule
from overlapbench.statistics import estimates
from overlapbench.statistics.distributions import Array
from overlapbench.statistics.estimates import LEAST_FLOOR, Flags, Prior

BENCHMARKS = 300
TRIALS, SEED = 400, 1
SAMPLES = 40  # per benchmark and run
# The order statistics that bound the median in 95 %, by the binomial distribution of 40 samples.
INTERVAL = (14, 27)
TAILS = 6  # degrees of freedom of Student's t: heavy tails
RUNS = (1, 3, 5)
RECORDED = 5  # runs, for the known spread of the machine
SLOWDOWNS = (0.03, 0.05, 0.10, 0.30)
BEYOND = 1.2 * MAX_FLOOR  # a slowdown that must not be called the same
SAMPLED = 20  # benchmarks that are slower by each, except SLOWDOWNS


@dataclass(frozen=True)
class Machine:
    """Ranges of the standard deviations of its benchmarks, and its other defects."""

    name: str
    within: tuple[float, float]  # of samples
    between: tuple[float, float]  # of runs
    drift: float = 0.0  # how much slower all benchmarks are from run to run
    bimodal: float = 0.0  # share of the benchmarks whose samples have a second mode
    modes: tuple[float, float] = (0.0, 0.0)  # how much slower that is


QUIET = Machine("quiet", within=(0.003, 0.01), between=(0.001, 0.004))
NOISY = Machine("noisy", within=(0.02, 0.1), between=(0.005, 0.02))
DRIFTING = Machine("drifting", QUIET.within, QUIET.between, drift=0.005)
BIMODAL = Machine("bimodal", QUIET.within, QUIET.between, bimodal=0.1, modes=(0.02, 0.08))
MACHINES = (QUIET, NOISY, DRIFTING, BIMODAL)
# The minimum share of slowdowns found, by runs per side.
PROMISES: Mapping[tuple[str, int, float], float] = {
    ("quiet", 5, 0.05): 0.95,
    ("quiet", 1, 0.30): 0.95,
    ("noisy", 5, 0.30): 0.95,
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of all trials of a machine with so many runs; shares of cases."""

    machine: str
    runs: int
    regressions: float  # of the A/A comparisons
    undecided: float
    hold: float  # of the A/A comparisons, those whose intervals all contain the truth
    same: float  # of the rows of A/A comparisons
    found: tuple[float, ...]  # of SLOWDOWNS
    powers: tuple[float, ...]  # found of what is said to be found with statistics.POWERS
    missed: float  # of the slowdowns beyond the limit, those called the same

    def broken(self) -> Iterator[str]:
        """Name the broken promises."""
        what = f"{self.machine} machine, {self.runs} per side"
        for share, claim in (
            (self.regressions, "of the A/A comparisons fail"),
            (self.missed, "of slowdowns beyond the limit are called the same"),
        ):
            if share >= estimates.PROMISED:
                yield f"{what}: {share:.1%} {claim}, promised: below {estimates.PROMISED:.0%}"
        for slowdown, share in zip(SLOWDOWNS, self.found, strict=True):
            least = PROMISES.get((self.machine, self.runs, slowdown), 0.0)
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

    def measure(self, runs: int, random: Generator) -> tuple[Array, Array]:
        """Return log times of consecutive runs, and the rows' own standard errors."""
        shape = (BENCHMARKS, runs, SAMPLES)
        samples = self.within[:, np.newaxis, np.newaxis] * random.standard_normal(shape)
        slow = random.random(shape) < self.often[:, np.newaxis, np.newaxis]
        samples += slow * self.second_mode[:, np.newaxis, np.newaxis]
        samples.sort(axis=2)
        low, high = samples[:, :, INTERVAL[0] - 1], samples[:, :, INTERVAL[1] - 1]
        within = np.sqrt(np.mean(((high - low) / 3.92) ** 2, axis=1))
        tails = random.standard_t(TAILS, shape[:2]) / np.sqrt(TAILS / (TAILS - 2))
        drift = self.machine.drift * np.arange(runs)
        medians = np.median(samples, axis=2)
        return np.asarray(medians + self.between[:, np.newaxis] * tails + drift), within


def main(arguments: Sequence[str] | None = None) -> int:
    parser = manual_parser("simulate_compare", __doc__)
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"suites (default {TRIALS})")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    if options.trials < 1:
        parser.error("--trials must be at least 1")
    if options.seed < 0:
        parser.error("--seed must be at least 0")
    outcomes = simulate_all(options.trials, options.seed)
    return promises.report(
        "simulate_compare", table(outcomes, options.trials, options.seed), outcomes
    )


def simulate_all(trials: int, seed: int) -> list[Outcome]:
    outcomes = []
    for machine in MACHINES:
        for runs in RUNS:
            outcomes.append(simulate(machine, runs, trials, seed))
            print(f"simulated: {machine.name}, {runs} per side", file=sys.stderr)
    return outcomes


def simulate(machine: Machine, runs: int, trials: int, seed: int) -> Outcome:
    """Run the trials of a machine with so many runs per side."""
    random = np.random.default_rng(seed)
    counts: list[Array] = []
    sides = np.array([side == BASE for side in schedule(runs)])
    for _ in range(trials):
        suite = Suite.draw(machine, random)
        known = recorded_prior(*suite.measure(RECORDED, random))
        before, within = suite.measure(2 * runs, random)
        claimed = decide(before[:, sides], before[:, ~sides], within, known).detectable
        times, within = suite.measure(2 * runs, random)
        base, new = times[:, sides], times[:, ~sides]
        calm = decide(base, new, within, known)
        places = random.permutation(BENCHMARKS)
        one = [places[i : i + 1] for i in range(len(SLOWDOWNS))]
        rest = np.split(places[len(SLOWDOWNS) :][: 3 * SAMPLED], 3)
        slower = np.zeros(BENCHMARKS)
        for chosen, slowdown in zip(one, SLOWDOWNS, strict=True):
            slower[chosen] = np.log1p(slowdown)
        for chosen, change in zip(rest, claimed, strict=False):
            slower[chosen] = change[chosen]
        slower[rest[-1]] = np.log1p(BEYOND)
        found = decide(base, new + slower[:, np.newaxis], within, known)
        counts.append(
            np.array(
                [
                    calm.slower.any(),
                    calm.beyond.any() and not calm.slower.any(),
                    calm.hold.all(),
                    calm.same.mean(),
                    *(found.slower[chosen].mean() for chosen in (*one, *rest[:-1])),
                    found.same[rest[-1]].mean(),
                ],
                dtype=np.float64,
            )
        )
    shares = [float(share) for share in np.mean(counts, axis=0)]
    regressions, undecided, hold, same, *found_of, missed = shares
    powers = tuple(found_of[len(SLOWDOWNS) :])
    return Outcome(
        machine.name,
        runs,
        regressions,
        undecided,
        hold,
        same,
        tuple(found_of[: len(SLOWDOWNS)]),
        powers,
        missed,
    )


@dataclass(frozen=True)
class Decision:
    """The verdicts of all benchmarks, and what they are based on."""

    slower: Flags
    same: Flags
    beyond: Flags  # inconclusive, and worse than the limit: status 3
    hold: Flags  # the interval contains no change
    detectable: tuple[Array, ...]  # logarithms, one entry for each of statistics.POWERS


def decide(base: Array, new: Array, within: Array, known: Prior) -> Decision:
    """Decide as benchmark_compare does."""
    found = estimates.estimate(base, new, within, known)
    change, error, freedom = found.change, found.error, found.freedom
    reach = estimates.reach(error, freedom, len(change))
    least, limit = np.full(len(change), np.log1p(LEAST_FLOOR)), math.log1p(MAX_FLOOR)
    changed = np.asarray(estimates.is_change(change, reach, least))
    same = np.asarray(estimates.is_same(change, reach, limit)) & ~changed
    return Decision(
        changed & (change > 0),
        same,
        ~changed & ~same & (change > limit),
        np.abs(change) <= reach,
        tuple(
            estimates.detectable(error, freedom, len(change), least, power)
            for power in estimates.POWERS
        ),
    )


def table(outcomes: Sequence[Outcome], trials: int, seed: int) -> str:
    """Return the outcomes as Markdown."""
    titles = [
        *("Machine", "Runs a side", "A/A: status 1", "A/A: status 3", "All intervals hold"),
        *("A/A rows `same`", *(f"+{100 * slowdown:.0f} %" for slowdown in SLOWDOWNS)),
        *(f'Found of "{100 * power:.0f} %"' for power in estimates.POWERS),
        f"+{100 * BEYOND:.0f} % called `same`",
    ]
    lines = [f"| {' | '.join(titles)} |", "|---" + "|--:" * (len(titles) - 1) + "|"]
    lines += [row(outcome) for outcome in outcomes]
    caption = f"{trials} trials of {BENCHMARKS} benchmarks for each row; seed {seed}."
    return "\n".join([*lines, "", caption]) + "\n"


def row(outcome: Outcome) -> str:
    """Return an outcome as a line of the table."""
    first = (outcome.regressions, outcome.undecided, outcome.hold, outcome.same)
    shares = (*first, *outcome.found, *outcome.powers, outcome.missed)
    cells = [outcome.machine, str(outcome.runs), *(f"{100 * s:.1f} %" for s in shares)]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
