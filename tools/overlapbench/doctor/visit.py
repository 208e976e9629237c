"""Runs the program for the rows of the checks, and says how long it still takes."""

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from overlapbench.doctor.recordings import Recording, recording_of
from overlapbench.judge.runner import Runner
from overlapbench.judge.session import filter_of
from overlapbench.reading.result import parse_result

SIDE = "doctor"  # the one side of the runner
# A row ends sooner if its time is known well.
_FLAGS = ("--no-self-test", "--budget_ms=300")
_EACH_S = 5.0  # between lines of progress
_DONE = re.compile(r"^\[(\d+)/(\d+)\]", re.MULTILINE)


@dataclass
class Visit:
    """The program on this machine, until a deadline."""

    runner: Runner
    deadline: float  # by time.monotonic
    say: Callable[[str], None]
    runs: int = 0
    doubts: list[str] = field(default_factory=list)  # about whole runs
    _told: float = 0.0
    _first: float = 0.0

    def measure(self, rows: Sequence[str]) -> Recording:
        """Measure rows in one run; those that do not exist here are left out."""
        self.runs += 1
        self._first, self._told = 0.0, time.monotonic()
        with tempfile.TemporaryDirectory(prefix="doctor-") as folder:
            ranks = f"--rank_times_out={Path(folder) / 'ranks.csv'}"
            runner = replace(
                self.runner,
                flags=[*_FLAGS, ranks, *self.runner.flags],
                timeout_s=max(1.0, self.deadline - time.monotonic()),
                watch=self._watch,
            )
            run = runner.run(SIDE, self.runs, filter_of(rows))
        if run.doubt:
            self.doubts.append(run.doubt)
        text = runner.files.pop(run.source).decode()
        return recording_of(parse_result(run.source, text), "")

    def _watch(self, printed: str) -> None:
        """Tell how long the rows still take, from the time of those before."""
        now, done = time.monotonic(), _DONE.findall(printed)
        if not done:
            return
        self._first = self._first or now
        if now < self._told + _EACH_S:
            return
        self._told = now
        rows, of = map(int, done[-1])
        left = ""
        if rows > 1:
            left = f", about {(now - self._first) / (rows - 1) * (of - rows):.0f} s left"
        self.say(f"doctor: {rows} of {of} rows{left}")
