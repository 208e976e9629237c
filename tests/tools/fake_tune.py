"""A study of four settings of one pair, and a runner that starts nothing."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import samples
from overlapbench.output import ResultError
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.program_run import ProgramRun, parse_program_run
from overlapbench.tune.machine import Machine
from overlapbench.tune.search import Estimate
from overlapbench.tune.space import Grid, Wish
from overlapbench.tune.study import Gain, Study

ROW = "Overlap/A+B/cache:cold"
CONTEXT = {"date": "today", "device": "GPU", "ranks": "2", "hosts": "not shown"}


@dataclass
class FakeRunner:
    """Answers with `answers`, and with a row of `ms` for each name of a filter."""

    flags: Sequence[str] = ("--ranks", "2")
    commands: dict[str, list[str]] = field(default_factory=lambda: {"tune": ["run", "--no-build"]})
    answers: dict[str, str] = field(default_factory=dict)  # by the last flag
    ms: dict[str, float] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)  # fields of every row
    without: Sequence[str] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    refusal: str = ""
    context: dict[str, str] = field(default_factory=dict)

    def ask(self, side: str, flags: Sequence[str]) -> str:
        assert side == "tune"
        self.asked.append(tuple(flags))
        return self.answers[flags[-1]]

    def run(self, side: str, number: int, names: str) -> ProgramRun:
        self.asked.append((side, str(number), names, *self.flags))
        if self.refusal:
            raise ResultError(self.refusal)
        rows = [
            samples.overlap(
                name.removeprefix("Overlap/"), overlap_ms_low=0.9 * ms, overlap_ms_high=1.1 * ms
            )
            | {"real_time": ms, "overlap_ms": ms}
            | self.rows
            for name, ms in self.ms.items()
            if re.search(names, name)
        ]
        rows = [{k: v for k, v in row.items() if k not in self.without} for row in rows]
        text = json.dumps(samples.document(rows, device="GPU", hosts="not shown", **self.context))
        source = f"{side}-{number}.json"
        self.files[source] = text.encode()
        return parse_program_run(source, text)


NAMES = {
    ("", "comp"): ROW,
    ("copy", "comp"): f"{ROW}/transport:copy",
    ("", "comm"): f"{ROW}/first:comm",
    ("copy", "comm"): f"{ROW}/transport:copy/first:comm",
}
LADDER = {"transport": ["nccl", "copy"], "first": ["comp", "comm"]}
GRID = Grid.of(LADDER, [*NAMES.values()], 132)
DEFAULT, BEST = GRID.default, ("copy", "comm")
WISH = Wish("A+B", {"bytes": "1M", "connections": "8"})


def made(runner: FakeRunner | None = None, **about: Any) -> Study:
    machine = Machine(runner or FakeRunner(), 100)  # type: ignore[arg-type]
    known: dict[str, Any] = {"runs": 3, "say": lambda _line: None} | about
    return Study(machine, WISH, BenchmarkName.parse(ROW), CONTEXT, GRID, **known)


def raced(**about: Any) -> Study:
    """A study after its search."""
    study = made()
    study.race.known |= {
        DEFAULT: Estimate(2.0, 1.9, 2.1),
        BEST: Estimate(1.5, 1.4, math.inf),
        ("nccl", "comm"): Estimate(1.75, 1.7, 1.8),
    }
    study.race.tried |= {*study.race.known, ("copy", "comp")}
    study.race.spent = 6
    for name, value in about.items():
        setattr(study, name, value)
    return study


GAIN = Gain(2.0, 1.6, 0.2, 0.15, 0.25, 3)
FOUND = raced(choice=BEST, gain=GAIN)
