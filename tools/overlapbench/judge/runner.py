"""Runs a benchmark program, with a timeout, and reads the result that it writes.

The program receives Google Benchmark's flags `--benchmark_out=`, `--benchmark_repetitions=` and,
for a second measurement, `--benchmark_filter=`. It runs in its own process group, so that a timeout
or an interruption also ends its ranks. A result counts whatever the exit status: it may contain
failed rows, or have failed its self-test. A run with another status than these is doubted. A
result of a program that a signal ended is refused.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from overlapbench.output import ResultError, harmless
from overlapbench.reading.program_run import ProgramRun, parse_program_run
from overlapbench.reading.source import load

_TIME_TO_END_S = 5.0
_LOOK_S = 1.0  # interval at which a run is watched
_MEASURED = frozenset({0, 1})  # all rows, or all but those that the result shows as failed
_LONG_FILTER = re.compile(r"'--benchmark_filter=[^']{100,}'")
_PROGRAM = "overlapbench"


@dataclass
class Runner:
    """Runs the commands of both sides; `files` keeps their results, by file name."""

    commands: Mapping[str, Sequence[str]]
    flags: Sequence[str]  # of every run
    timeout_s: float
    say: Callable[[str], None] = print
    files: dict[str, bytes] = field(default_factory=dict)
    watch: Callable[[str], None] = lambda _: None  # gets what a run has printed, each second

    def run(self, side: str, number: int, names: str) -> ProgramRun:
        """Run one side; ResultError if it fails, exceeds the timeout, or writes no result."""
        filters = [f"--benchmark_filter={names}"] if names else []
        with tempfile.TemporaryDirectory(prefix="perf_gate-") as folder:
            out, log = Path(folder) / "result.json", Path(folder) / "log"
            command = [*self.commands[side], *self.flags, *filters, f"--benchmark_out={out}"]
            started = time.monotonic()
            status = _run(command, log, self.timeout_s, log, self.watch)
            self.say(f"  {time.monotonic() - started:.1f} s")
            if status < 0 or not out.exists():
                lost = "no result" if not out.exists() else "its result does not count"
                raise ResultError(f"{_spelled(command)}: {_complaint(status, lost, log)}")
            source = f"{side}-{number}.json"
            text = load(str(out))
            run = parse_program_run(source, text)
            self.files[source] = text.encode()
            if status in _MEASURED or run.doubt:
                return run
            return replace(run, doubt=_complaint(status, "a result was written", log))

    def ask(self, side: str, flags: Sequence[str]) -> str:
        """Return the output of a command that measures nothing; ResultError if it fails."""
        with tempfile.TemporaryDirectory(prefix="perf_gate-") as folder:
            answer, log = Path(folder) / "answer", Path(folder) / "log"
            command = [*self.commands[side], *self.flags, *flags]
            if status := _run(command, log, self.timeout_s, answer):
                raise ResultError(
                    _own_line(log)
                    or f"{shlex.join(command)}: {_complaint(status, 'no answer', log)}"
                )
            return answer.read_text(encoding="utf-8", errors="replace")


def _own_line(log: Path) -> str:
    """Return the program's own first error message; "" if there is none."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    begin = f"{_PROGRAM}: "
    said = (line.removeprefix(begin) for line in lines if line.startswith(begin))
    return next(map(harmless, said), "")


def parse_command(text: str) -> list[str]:
    """Split a command as a shell would; ResultError if that fails.

    `overlapbench` is this package where PATH has no such command, as in a checkout without .venv.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ResultError(f"{text}: not a command: {error}") from None
    if not words:
        raise ResultError("the command is empty")
    if words[0] == _PROGRAM and not shutil.which(_PROGRAM):
        return [sys.executable, "-m", *words]
    return words


def _run(
    command: Sequence[str],
    log: Path,
    timeout_s: float,
    answer: Path,
    watch: Callable[[str], None] = lambda _: None,
) -> int:
    """Run to the end; standard output goes to `answer`, standard error to `log`."""
    with log.open("ab") as errors, answer.open("ab") as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise ResultError(f"{command[0]}: cannot be started: {error.strerror}") from None
        try:
            ends = time.monotonic() + timeout_s
            while (left_s := ends - time.monotonic()) > 0:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(min(_LOOK_S, left_s))
                watch(log.read_text(encoding="utf-8", errors="replace"))
            raise ResultError(f"{_spelled(command)}: timed out after {timeout_s:g} s (--timeout-s)")
        finally:
            _end(process)


def _spelled(command: Sequence[str]) -> str:
    """Spell a command for a message, without a filter of many names."""
    return _LONG_FILTER.sub("--benchmark_filter=...", shlex.join(command))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the remaining processes of the group, at first with SIGTERM."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TIME_TO_END_S)


def _complaint(status: int, outcome: str, log: Path) -> str:
    """Return how the program ended, the outcome, and its last message."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    ended = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
    return f"{ended}, {outcome}: {harmless(last)}"
