"""A suite that measures nothing: it notes what it is asked, and answers with made-up rows."""

import json
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import samples
from overlapbench.measurement import callables, measuring
from overlapbench.measurement.interface import Answer, Place, Step, WorkEntry


@dataclass
class FakeSuite:
    """`name` is that of the next row, and `fields` are its own; `calls` are all that came."""

    place: Place = field(default_factory=lambda: Place(0, 1, 0, callables.HOST))
    name: str = "Compute/mine/cache:cold"
    fields: samples.Json = field(default_factory=dict)
    answer: str | None = None  # to a broadcast; None: what this rank says
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    works: Sequence[WorkEntry] = ()
    at_exit: list[Any] = field(default_factory=list)  # what runs when the process ends
    runs: bool = False  # whether each row calls its first work once

    def of(self, call: str) -> list[list[Any]]:
        """Return the arguments of all calls of that name."""
        return [given for name, *given in self.calls if name == call]

    def interrupt_with(self, signal: int) -> None:
        self.calls.append(("interrupt_with", signal))

    def configure(self, flags: Sequence[str]) -> None:
        self.calls.append(("configure", *flags))

    def broadcast(self, text: str) -> str:
        return text if self.answer is None else self.answer

    def measure(
        self,
        kind: int,
        name: str,
        works: Sequence[WorkEntry],
        _nothing: Any,
        steps: Sequence[Step],
        labels: Sequence[str],
        axes: Sequence[str],
    ) -> str:
        of_works = [(work.name.decode(), work.work_class, bool(work.waits)) for work in works]
        self.calls.append(("measure", kind, name, of_works, list(steps), labels, axes))
        self.works = works
        if self.runs:
            works[0].callbacks.enqueue(None, None, Answer())
        return self._row()

    def measure_own(self, name: str) -> str:
        self.calls.append(("measure_own", name))
        return self._row()

    def samples_ms(self) -> list[float]:
        return [0.25, 0.5, 1.0]

    def close(self) -> None:
        self.calls.append(("close",))

    def _row(self) -> str:
        family, _, rest = self.name.partition("/")
        made = samples.overlap(rest) if family == "Overlap" else samples.row(self.name)
        return json.dumps(samples.document([made | self.fields]))


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeSuite]:
    """Let a process that has measured nothing open a fake suite, where no project has defaults."""
    made = FakeSuite()

    def opened(flags: Sequence[str]) -> FakeSuite:
        made.calls.append(("open", *flags))
        return made

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measuring, "_process", measuring._Process())
    monkeypatch.setattr(measuring, "Suite", opened)
    monkeypatch.setattr("atexit.register", lambda function: made.at_exit.append(function))
    handler = signal.getsignal(callables.SIGNAL)
    yield made
    signal.signal(callables.SIGNAL, handler)
