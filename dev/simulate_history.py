#!/usr/bin/env python3
"""Simulate histories, and count changes of level that are found and false ones.

    dev/simulate_history.py [--series N] [--seed N]

The series have 12 to 100 runs. Noise alone must hardly ever show a change: of independent runs
(heavy tails, and 2 % of the runs 10 to 50 % too slow); of runs that are correlated, each with the
one before; and of runs on four machines that nobody recorded. A step in the middle of
independent runs must be found to within one run.

Prints a table. Exit status: 0 if the promises of docs/history.md are kept, 1 if one is broken, 2
for bad usage.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

import checkout  # noqa: F401
import promises
from overlapbench.cli.command_line import manual_parser, number_from
from overlapbench.statistics.distributions import Array
from overlapbench.statistics.levels import FALSE_CHANGES, find_levels

SERIES, SEED = 1000, 1
RUNS = (12, 20, 40, 100)
LEAST = 0.02
DEVIATION = 0.01  # of independent runs
STEPS = (0.03, 0.05, 0.10)
PROMISES: Mapping[tuple[float, int], float] = {(0.05, 20): 0.85, (0.05, 40): 0.95, (0.10, 20): 0.95}

Noise = Callable[[int, Generator], Array]  # logarithms of the times of so many runs


def independent(runs: int, random: Generator) -> Array:
    """Return Student's t with 4 degrees of freedom; 2 % of the runs are 10 to 50 % too slow."""
    tails = DEVIATION * random.standard_t(4, runs) / np.sqrt(2)
    return np.asarray(tails + (random.random(runs) < 0.02) * random.uniform(0.1, 0.5, runs))


def correlated(correlation: float, deviation: float) -> Noise:
    """Make a first-order autoregression of so large a deviation."""

    def draw(runs: int, random: Generator) -> Array:
        values = np.empty(runs)
        value = random.standard_normal()
        for run in range(runs):
            values[run] = value
            step = np.sqrt(1 - correlation**2) * random.standard_normal()
            value = correlation * value + step
        return deviation * values

    return draw


def machines(deviation: float, in_turn: bool) -> Noise:
    """Make runs on one of four machines, which differ by so much; each run varies by 0.3 %."""

    def draw(runs: int, random: Generator) -> Array:
        of = np.arange(runs) % 4 if in_turn else random.integers(0, 4, runs)
        return deviation * random.standard_normal(4)[of] + 0.003 * random.standard_normal(runs)

    return draw


NOISES: Mapping[str, Noise] = {
    "independent": independent,
    "correlation 0.3, deviation 2 %": correlated(0.3, 0.02),
    "correlation 0.5, deviation 1 %": correlated(0.5, 0.01),
    "correlation 0.5, deviation 2 %": correlated(0.5, 0.02),
    "correlation 0.5, deviation 5 %": correlated(0.5, 0.05),
    "four machines in turn, 2 % apart": machines(0.02, in_turn=True),
    "four machines at random, 2 % apart": machines(0.02, in_turn=False),
    "four machines at random, 5 % apart": machines(0.05, in_turn=False),
}


@dataclass(frozen=True)
class Outcome:
    """The shares of series with a false change, or in which a step was found, by RUNS."""

    title: str
    step: float  # 0: noise alone
    shares: tuple[float, ...]

    def broken(self) -> Iterator[str]:
        """Name the broken promises."""
        for runs, share in zip(RUNS, self.shares, strict=True):
            least = PROMISES.get((self.step, runs), 0.0)
            if self.step and share < least:
                yield f"{self.title}, {runs} runs: found in {share:.1%}, promised: {least:.0%}"
            if not self.step and share > FALSE_CHANGES:
                yield f"{self.title}, {runs} runs: {share:.1%}, promised: {FALSE_CHANGES:.0%}"

    def __str__(self) -> str:
        cells = (f"{100 * share:.1f} %" for share in self.shares)
        return f"| {' | '.join((self.title, *cells))} |"


def false_changes(title: str, series: int, seed: int) -> Outcome:
    """Count the series of noise that show a change."""
    random = np.random.default_rng(seed)
    shares = (
        sum(bool(_starts(NOISES[title](runs, random))) for _ in range(series)) / series
        for runs in RUNS
    )
    return Outcome(title, 0.0, tuple(shares))


def found_steps(step: float, series: int, seed: int) -> Outcome:
    """Count the series with a step in the middle in which it alone is found."""
    random = np.random.default_rng(seed)

    def found(runs: int) -> bool:
        values = independent(runs, random)
        values[runs // 2 :] += np.log1p(step)
        starts = _starts(values)
        return len(starts) == 1 and abs(starts[0] - runs // 2) <= 1

    shares = (sum(found(runs) for _ in range(series)) / series for runs in RUNS)
    return Outcome(f"a step of {100 * step:g} % is found", step, tuple(shares))


def _starts(values: Array) -> list[int]:
    """Return the first run of each new level."""
    return [new.start for _, new, _ in find_levels(values, LEAST)]


def simulate(series: int, seed: int) -> list[Outcome]:
    return [
        *(false_changes(title, series, seed) for title in NOISES),
        *(found_steps(step, series, seed) for step in STEPS),
    ]


def table(outcomes: Sequence[Outcome], series: int, seed: int) -> str:
    """Return the outcomes as Markdown."""
    head = f"| Series | {' | '.join(f'{runs} runs' for runs in RUNS)} |"
    lines = [head, "|---" + "|--:" * len(RUNS) + "|", *map(str, outcomes)]
    return "\n".join([*lines, "", f"{series} series for each figure; seed {seed}."]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = manual_parser("simulate_history", __doc__)
    text = f"series of each kind (default {SERIES})"
    parser.add_argument("--series", type=number_from(1), default=SERIES, metavar="N", help=text)
    parser.add_argument("--seed", type=number_from(0), default=SEED, metavar="N")
    options = parser.parse_args(arguments)
    outcomes = simulate(options.series, options.seed)
    return promises.report(
        "simulate_history", table(outcomes, options.series, options.seed), outcomes
    )


if __name__ == "__main__":
    sys.exit(main())
