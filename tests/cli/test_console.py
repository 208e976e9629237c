"""What a terminal shows, on a pseudo-terminal of several widths, and what a pipe gets."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

# Two rows with long names, one of which is a control and says what it shows.
FLAGS = (
    *("--backend=host", "--no-self-test", "--benchmark_filter=SecondDelay"),
    *("--budget_ms=300", "--precision=0"),
    *("--axis", "delay_us=2000", "--axis", "second_delay_us=1000"),
)
TABLE = ("Overlap/SecondDelay+Delay", "streams    T ms  ", "C computation alone, M communication")
LIMIT_S = 120.0
_TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\r|\n|.", re.DOTALL)


@dataclass
class Terminal:
    """A program on a pseudo-terminal, and everything that it has written there."""

    process: "subprocess.Popen[bytes]"
    master: int
    raw: str = field(default="")

    def read_until(self, wanted: str, limit_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        while wanted not in self.raw:
            assert time.monotonic() < deadline, self.raw
            assert self._read(), self.raw

    def end(self) -> int:
        while self._read():
            pass
        return self.process.wait(LIMIT_S)

    def _read(self) -> bool:
        try:
            data = os.read(self.master, 65536)
        except OSError:  # no process has it open any more
            return False
        self.raw += data.decode()
        return bool(data)

    def screen(self) -> list[str]:
        """The visible text, without replaced or cleared lines."""
        lines, column = [""], 0
        for token in _TOKEN.finditer(self.raw):
            text = token[0]
            if text == "\n":
                lines.append("")
                column = 0
            elif text == "\r":
                column = 0
            elif token[2] == "K":
                lines[-1] = lines[-1][:column]
            elif token[2] is None:
                lines[-1] = lines[-1][:column].ljust(column) + text + lines[-1][column + 1 :]
                column += 1
        return lines


@contextlib.contextmanager
def on_a_terminal(command: Sequence[str], columns: int, **environment: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    process = subprocess.Popen(
        command,
        env=inherited | {"TERM": "xterm"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


def bench(launcher: "Launcher") -> list[str]:
    return launcher.bench()


@pytest.mark.parametrize(
    ("columns", "no_color"),
    [(60, "1"), (80, ""), (80, "1"), (120, "1"), (200, "")],
    ids=["60 without colour", "80", "80 without colour", "120 without colour", "200"],
)
def test_the_screen_fits_the_terminal(launcher: "Launcher", columns: int, no_color: str) -> None:
    command = [str(launcher.binary), *FLAGS]
    with on_a_terminal(command, columns, NO_COLOR=no_color) as terminal:
        assert terminal.end() == 0
        screen = terminal.screen()
    for line in screen:
        assert len(line) <= columns
    for begin in TABLE:
        assert any(line.startswith(begin) for line in screen)
    # A line for each row. What names share is whole, whether or not it was broken.
    (titles,) = (i for i, line in enumerate(screen) if line.startswith(TABLE[1]))
    rows = screen[titles + 1 : titles + 3]
    assert re.match(r"      -  +([\d.]+|\?) ", rows[0])
    assert re.match(r"      1  +([\d.]+|\?) ", rows[1])
    assert "comp × comm ×" in re.sub(" +", " ", screen[titles])
    assert "control" in rows[1]
    shared = "Overlap/SecondDelay+Delay second_delay_us:1000 delay_us:2000 cache:cold"
    assert shared in " ".join(" ".join(screen).split())
    reason = "one stream, and nothing overlapped"
    assert reason in " ".join(" ".join(screen).split())
    assert " left" not in " ".join(screen)  # no progress
    # While it ran, it showed what distinguishes the row, the share done, and the remaining time.
    assert re.search(r"\[2/2\] streams:1  50 %  \d+:\d\d left", terminal.raw)
    assert ("\x1b[32m" in terminal.raw) == (not no_color)
    assert ("\x1b[32mcontrol\x1b[0m" in terminal.raw) == (not no_color)


def test_what_cannot_run_is_broken_on_a_terminal_only(launcher: "Launcher") -> None:
    flags = ("--backend=host", "--list_axes", "--benchmark_filter=Softmax/Cudnn")
    line = "not available: Softmax/Cudnn: SoftmaxCudnn exists on the cuda backend only"
    assert launcher.alone(*flags).stderr == f"{line}\n"
    with on_a_terminal([str(launcher.binary), *flags], 60) as terminal:
        assert terminal.end() == 0
        screen = terminal.screen()
    begin = next(i for i, text in enumerate(screen) if text.startswith("not available: Softmax"))
    head, tail = line.split(" cuda ")
    assert screen[begin : begin + 2] == [head, f"    cuda {tail}"]


# mpirun hides the terminal from its ranks; ./bench tells them.
@pytest.mark.alone  # the ranks have little time to print their table before mpirun ends them
def test_bench_on_a_terminal_has_colour_and_reports_ctrl_c(launcher: "Launcher") -> None:
    # Long enough for the signal to come in time.
    flags = [flag.replace("--budget_ms=300", "--budget_ms=1500") for flag in FLAGS]
    command = [*bench(launcher), "--ranks=2", *flags, "--benchmark_repetitions=3"]
    with on_a_terminal(command, 80) as terminal:
        terminal.read_until("\x1b[32mOverlap/SecondDelay+Delay")
        terminal.read_until("  2 of 3  66 %")  # of the second row
        os.killpg(terminal.process.pid, signal.SIGINT)
        assert terminal.end() == 128 + signal.SIGINT
        screen = terminal.screen()
    (line,) = (line for line in screen if line.startswith("overlapbench: "))
    assert line.startswith(
        "overlapbench: ended by Ctrl-C at rank 0 of 2, Overlap/SecondDelay+Delay"
    )
    after = screen[screen.index(line) :]
    assert any(one.startswith("C computation alone") for one in after)
    numbers = [re.match(r"      -  ([123])  +[\d?]", line) for line in screen]
    assert [number[1] for number in numbers if number] == ["1", "2", "3"]


def test_a_pipe_gets_plain_lines_with_whole_reasons(launcher: "Launcher") -> None:
    lines = launcher.alone(*FLAGS).stdout.splitlines()
    assert not any("\x1b" in line or "\r" in line for line in lines)
    (titles,) = (i for i, line in enumerate(lines) if line.startswith(TABLE[1]))
    assert lines[titles].endswith("  efficiency")
    assert lines[titles + 2].endswith("control: one stream, and nothing overlapped")


def test_colour_in_a_pipe_is_on_request(launcher: "Launcher") -> None:
    assert "\x1b[32m" in launcher.alone(*FLAGS, "--benchmark_color=true").stdout


def test_a_closed_pipe_ends_the_run_quietly(launcher: "Launcher") -> None:
    for start in ([str(launcher.binary)], [*bench(launcher), "--ranks=2"]):
        many = ",".join(map(str, range(1000, 1500)))
        rows = ("--benchmark_filter=Compute/Delay", "--budget_ms=1", f"--axis=delay_us={many}")
        command = [*start, "--backend=host", *rows]
        done = subprocess.run(
            ["bash", "-c", '"$@" | head -n 3; exit "${PIPESTATUS[0]}"', "bash", *command],
            env=launcher.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 128 + signal.SIGPIPE
        assert done.stdout.count("\n") == 3
        said = done.stderr.splitlines()
        assert [line for line in said if not line.startswith("bench: starting")] == []
