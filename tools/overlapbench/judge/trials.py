"""Trials of the gate itself, on a machine: gates of a build against itself, and against delays.

A build against itself must pass. A build in which --inject_delay slows one benchmark must fail and
name only that benchmark. How often the gate is right shows how far it can be trusted on this
machine, with these benchmarks and this number of launches.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from overlapbench.grouping import grouped
from overlapbench.judge.session import filter_of
from overlapbench.judge.verdicts import OK, REGRESSION, Comparison
from overlapbench.reading.launch import Launch
from overlapbench.reading.names import spell_sizes
from overlapbench.reading.source import ResultError


@dataclass(frozen=True)
class Trial:
    """One kind of gate: the candidate's further flags, and what must fail."""

    slower: str = ""  # the benchmark; empty: the build against itself
    percent: float = 0.0
    delay_us: int = 0

    @property
    def flags(self) -> list[str]:
        if not self.slower:
            return []
        return [f"--inject_delay={filter_of([self.slower])}:{self.delay_us}"]

    def concerns(self, names: str) -> bool:
        """Tell whether a filter names the slower benchmark; "" names all."""
        return bool(self.slower and re.search(names, self.slower))

    def __str__(self) -> str:
        if not self.slower:
            return "against itself"
        return f"{self.slower} slower by {self.percent:g} % ({self.delay_us} us)"


@dataclass(frozen=True)
class Ended:
    """How one gate ended."""

    trial: Trial
    failed: tuple[str, ...]  # the benchmarks that failed
    status: int

    @classmethod
    def of(cls, trial: Trial, comparison: Comparison) -> "Ended":
        failed = tuple(row.name for row in comparison.rows if row.fails)
        return cls(trial, failed, comparison.status)

    @property
    def right(self) -> bool:
        """Tell whether the gate failed exactly for the slower benchmark."""
        wanted = (self.trial.slower,) if self.trial.slower else ()
        return self.failed == wanted and self.status == (REGRESSION if wanted else OK)

    def __str__(self) -> str:
        failed = ", ".join(self.failed) or "nothing"
        return f"{'right' if self.right else 'WRONG'}: status {self.status}, {failed} failed"


def delays(wanted: Sequence[tuple[str, Sequence[float]]], measured: Launch) -> list[Trial]:
    """Make trials of delays: REGEX, which one benchmark must match, and percents of its time.

    Raises ResultError if none or several match, or the delay would be below a microsecond.
    """
    trials = []
    for pattern, percents in wanted:
        sized = re.compile(spell_sizes(pattern))
        names = [name for name in measured.names if sized.search(spell_sizes(name))]
        if len(names) != 1:
            found = len(names) or "none"
            raise ResultError(f"--slower: {pattern} must match one benchmark, but matches {found}")
        time_ms = measured.time_ms(names[0])
        for percent in percents:
            delay_us = round(time_ms * percent * 10)  # 1 % of a millisecond is 10 us
            if delay_us < 1:
                raise ResultError(f"--slower: {percent:g} % of {names[0]} is less than 1 us")
            trials.append(Trial(names[0], percent, delay_us))
    return trials


def table(ended: Sequence[Ended]) -> str:
    """Return a Markdown table: the gates of each kind, and how many were right."""
    lines = ["| Gates | how many | right | failed without cause |", "|---|---:|---:|---|"]
    for trial, those in grouped(ended, lambda one: one.trial).items():
        wrong = [name for one in those for name in one.failed if name != trial.slower]
        right = sum(one.right for one in those)
        cells = (str(trial), str(len(those)), str(right), ", ".join(wrong) or "none")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
