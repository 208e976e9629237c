#!/usr/bin/env python3
"""Count how often the gate is right on this machine: gates whose outcome is known.

    dev/gate_trials.py --command './bench' -- --benchmark_filter=Compute
    dev/gate_trials.py --command './bench' \\
        --slower 'Compute/Gemm/.*grid:16x16/work:tile=3,5'

A build against itself must pass. A build in which --inject_delay slows one benchmark must fail and
name only that benchmark. How often the gate is right shows how far it can be trusted on this
machine, with these benchmarks and this number of runs. Arguments after -- go to every run.

Exit status: 0 if every gate was right; 1 if one was not; 2 for bad usage or a command that ended
without a result.
"""

import argparse
import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import checkout  # noqa: F401
from overlapbench.cli import gate
from overlapbench.cli.command_line import (
    exit_if_terminated,
    manual_parser,
    number_from,
    refuse,
    say,
    split_at_dashes,
)
from overlapbench.grouping import grouped
from overlapbench.judge.runner import parse_command
from overlapbench.judge.session import BASE, CANDIDATE, Session, filter_of
from overlapbench.judge.verdicts import OK, REGRESSION, Comparison
from overlapbench.output import ResultError, deliver, require_file
from overlapbench.reading.names import spell_sizes
from overlapbench.reading.program_run import ProgramRun


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


def delays(wanted: Sequence[tuple[str, Sequence[float]]], measured: ProgramRun) -> list[Trial]:
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


def _slower(text: str) -> tuple[str, list[float]]:
    pattern, _, percents = text.rpartition("=")
    try:
        re.compile(pattern)
        numbers = [float(percent) for percent in percents.split(",")]
    except (re.error, ValueError):
        numbers = []
    if not pattern or not numbers or not all(0 < number <= 1000 for number in numbers):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not REGEX=PERCENT,... with percentages up to 1000"
        )
    return pattern, numbers


def main(arguments: Sequence[str] | None = None) -> int:
    exit_if_terminated()
    given, flags = split_at_dashes(arguments)
    options = make_parser().parse_args(given)
    options.flags = [f"--benchmark_repetitions={options.repetitions}", *flags]
    try:
        return run(options)
    except ResultError as error:
        return refuse("gate_trials", str(error))


def make_parser() -> argparse.ArgumentParser:
    parser = manual_parser("gate_trials", __doc__)
    add = parser.add_argument
    add("--command", required=True, metavar="COMMAND")
    text = "gates of the command against itself (default 20)"
    add("--gates", type=number_from(1), default=20, metavar="N", help=text)
    text = "also gate with the matching benchmark slowed by each percentage; repeatable"
    percents = "REGEX=PERCENT,..."
    add("--slower", action="append", default=[], type=_slower, metavar=percents, help=text)
    text = "minutes after which no new gate starts (default 1440)"
    add("--minutes", type=number_from(1), default=24 * 60, metavar="N", help=text)
    add("-o", "--output", type=Path, metavar="FILE.md", help="write the table, in Markdown")
    gate.add_running(parser, gate.LEAST_RUNS)
    return parser


def run(options: argparse.Namespace) -> int:
    if options.output:
        require_file(options.output)
    started = time.monotonic()
    first = gate.make_runner(options, {BASE: options.command}).run(BASE, 1, "")
    planned = [*[Trial()] * options.gates, *delays(options.slower, first)]

    ended: list[Ended] = []
    for number, trial in enumerate(planned, 1):
        if time.monotonic() - started > 60 * options.minutes:
            say(f"{len(planned) - len(ended)} gates skipped: --minutes are over")
            break
        say(f"gate {number} of {len(planned)}: {trial}")
        ended.append(Ended.of(trial, _gate_on(trial, options)))
        say(f"  {ended[-1]}")
    text = table(ended)
    deliver(text, {options.output: text.encode()} if options.output else {})
    return OK if all(one.right for one in ended) else REGRESSION


def _gate_on(trial: Trial, options: argparse.Namespace) -> Comparison:
    slowed = shlex.join([*parse_command(options.command), *trial.flags])
    runner = gate.make_runner(options, {BASE: options.command, CANDIDATE: slowed})

    def measure(side: str, number: int, names: str) -> ProgramRun:
        # A second measurement may have only other benchmarks: the program would refuse the delay.
        return runner.run(side if trial.concerns(names) else BASE, number, names)

    return Session(measure, options.runs, say=say).run()


if __name__ == "__main__":
    sys.exit(main())
