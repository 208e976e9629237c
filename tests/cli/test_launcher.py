"""./bench and its launcher: mpirun may fail, hang or be killed, and so may ./bench.

Most of these jobs have a fake mpirun on PATH and no ranks. A fake writes what mpirun writes, and
the signs of the ranks (ranks/signs.h).
"""

import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import ROOT

from drill import job

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

FLAGS = ("--backend=host", "--benchmark_filter=^Comm/AllReduce", "--timeout_s=1")
DASHES = "-" * 74
# The job's folder of shared memory, set by tests/cli/job.
BACKING = "OMPI_MCA_btl_vader_backing_directory"
STARTED = r"printf '\036started\n' >&2"
ENDED = r"printf '\036ended\n' >&2"
# As the ranks of an mpirun that passes SIGUSR1 and SIGALRM on: they say so, and end.
OBEDIENT = f"""
trap 'echo "overlapbench: ended by a signal" >&2; printf "\\036signalled\\n" >&2; exit 1' USR1 ALRM
{STARTED}
echo up
while :; do sleep 0.02; done
"""
START = re.compile(r"bench: starting 2 ranks on \S+, backend host")
# The ends that are asked for, and hangs of the launcher's own.
LIMIT_S = 40.0


def bench(launcher: "Launcher", *flags: str) -> list[str]:
    return [*launcher.bench(), "--no-build", *FLAGS, *flags]


def fake(tmp_path: Path, script: str) -> str:
    """Make a fake mpirun, and return the PATH with it."""
    mpirun = tmp_path / "bin" / "mpirun"
    mpirun.parent.mkdir()
    mpirun.write_text(f"#!/bin/bash\n{script}\n")
    mpirun.chmod(0o755)
    return f"{mpirun.parent}:{os.environ['PATH']}"


def run(
    launcher: "Launcher", tmp_path: Path, script: str, flags: Sequence[str] = ()
) -> tuple[job.Ended, list[str]]:
    """Run a job with a fake mpirun; return its end, and its lines after the first."""
    # The launcher would name them as the user's settings.
    settings = [name for name in {*os.environ, BACKING} if name.startswith("OMPI_MCA_")]
    unset = [part for name in settings for part in ("-u", name)]
    command = ["env", *unset, f"PATH={fake(tmp_path, script)}", *bench(launcher, *flags)]
    with job.start(command) as started:
        ended = started.end(LIMIT_S)
    first, *lines = ended.stderr.splitlines()
    assert START.fullmatch(first)
    assert ended.left == []
    return ended, lines


def test_what_mpirun_says_becomes_one_line(launcher: "Launcher", tmp_path: Path) -> None:
    killed = "mpirun noticed that process rank 1 with PID 0 on node a exited on signal 9 (Killed)."
    script = f"printf '%s\\n' {DASHES} '{killed}' {DASHES} >&2; echo a row; exit 137"
    ended, lines = run(launcher, tmp_path, script)
    assert ended.status == 137
    assert ended.stdout == "a row\n"
    assert lines == ["bench: rank 1 on a was killed by SIGKILL (out of memory, or kill -9)"]


def test_the_line_says_where_the_rows_are(launcher: "Launcher", tmp_path: Path) -> None:
    script = f"{STARTED}; echo x >r.json; kill -9 $$"
    ended, lines = run(launcher, tmp_path, script, ["--benchmark_out=r.json"])
    assert ended.status == 137
    assert lines == [
        "bench: mpirun was killed by SIGKILL (out of memory, or kill -9); rows so far are in r.json"
    ]


def test_a_killed_rank_leaves_no_partial_file(launcher: "Launcher", tmp_path: Path) -> None:
    script = f"{STARTED}; echo x >r.json; echo y >r.json.partial; kill -9 $$"
    ended, _ = run(launcher, tmp_path, script, ["--benchmark_out=r.json"])
    assert ended.files == {"r.json": "x\n"}


def test_a_signal_to_mpirun_gives_its_status(launcher: "Launcher", tmp_path: Path) -> None:
    ended, _ = run(launcher, tmp_path, f"{STARTED}; printf '\\036signalled\\n' >&2; exit 1")
    assert ended.status == 143


def test_a_silent_end_is_not_silent(launcher: "Launcher", tmp_path: Path) -> None:
    ended, lines = run(launcher, tmp_path, "exit 7")
    assert (ended.status, lines) == (7, ["bench: mpirun ended with status 7, and did not say why"])


def test_what_the_ranks_have_told_is_enough(launcher: "Launcher", tmp_path: Path) -> None:
    script = f"{STARTED}; echo 'overlapbench: a reason' >&2; {ENDED}; exit 1"
    ended, lines = run(launcher, tmp_path, script)
    assert (ended.status, lines) == (1, ["overlapbench: a reason"])


def test_the_launch(launcher: "Launcher", tmp_path: Path) -> None:
    """It stays on this machine, and gives mpirun no descriptors of its own."""
    script = """printf '%s\\n' "$@" "$OMPI_MCA_ras" "$OMPI_MCA_orte_default_hostfile"; read line
        pipes=0; for fd in /proc/$$/fd/*; do [[ ! -p $fd ]] || ((++pipes)); done; echo $pipes"""
    ended, lines = run(launcher, tmp_path, script)
    assert (ended.status, lines) == (0, [])
    assert ended.stdout.splitlines() == [
        *("-n", "2", "--oversubscribe", "--bind-to", "none", "-x", "OVERLAPBENCH_SIGNS"),
        *(str(launcher.binary), *FLAGS),
        *("^slurm,tm,lsf,gridengine,alps", "none"),
        "2",  # standard output and error, and nothing else of the launcher
    ]


def test_no_mpirun(launcher: "Launcher", tmp_path: Path) -> None:
    for name in ("bash", "dirname", "env", "realpath"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    command = ["env", f"PATH={tmp_path}", *bench(launcher)]
    with job.start(command) as started:
        ended = started.end(LIMIT_S)
    assert ended.status == 127
    assert ended.stderr.splitlines()[1:] == [
        "bench: cannot start mpirun: No such file or directory"
    ]


# ---- an mpirun that hangs


def test_an_mpirun_that_starts_nothing_is_killed(launcher: "Launcher", tmp_path: Path) -> None:
    ended, (line,) = run(
        launcher, tmp_path, "trap '' TERM USR1 ALRM; sleep 60 & wait; wait; sleep 60"
    )
    assert ended.status == 1
    assert line.startswith("bench: mpirun hangs: it has not started the ranks within 20 s (")
    assert ended.seconds < 28


@pytest.mark.parametrize("stuck", ["trap '' TERM; sleep 60", "kill -STOP $$"])
def test_an_mpirun_that_outlives_its_ranks_is_killed(
    launcher: "Launcher", tmp_path: Path, stuck: str
) -> None:
    ended, lines = run(launcher, tmp_path, f"{STARTED}; {ENDED}; {stuck}")
    assert ended.status == 1
    assert lines == ["bench: mpirun hangs: the ranks ended 15 s ago; it is killed"]
    assert ended.seconds < 25


def test_an_mpirun_whose_ranks_were_killed_is_killed(launcher: "Launcher", tmp_path: Path) -> None:
    script = f"{STARTED}; sleep 2 & wait; trap '' TERM; kill -STOP $$"
    ended, lines = run(launcher, tmp_path, script)
    assert ended.status == 1
    assert lines == ["bench: mpirun hangs: its ranks have been gone for 5 s; it is killed"]
    assert ended.seconds < 14


def test_it_returns_only_after_the_last_rank(launcher: "Launcher", tmp_path: Path) -> None:
    ended, _ = run(launcher, tmp_path, f"{STARTED}; (trap '' TERM; sleep 3) & exit 137")
    assert ended.seconds > 3


# Shells ignore SIGTERM here, as hanging ranks do.
def test_what_does_not_end_is_killed(launcher: "Launcher", tmp_path: Path) -> None:
    ended, _ = run(launcher, tmp_path, f"{STARTED}; (trap '' TERM; sleep 60; :) & exit 137")
    assert 5 < ended.seconds < 12


# ---- signals


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ([signal.SIGINT], 130),
        ([signal.SIGTERM], 143),
        ([signal.SIGTERM] * 3, 143),
        ([signal.SIGHUP], 129),
        ([signal.SIGQUIT], 131),
        ([signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGALRM, signal.SIGINT], 130),
    ],
)
@pytest.mark.parametrize("tell", [os.kill, os.killpg])
def test_a_signal_is_passed_on(
    launcher: "Launcher",
    tmp_path: Path,
    sent: list[signal.Signals],
    status: int,
    tell: Callable[[int, int], None],
) -> None:
    command = ["env", f"PATH={fake(tmp_path, OBEDIENT)}", *bench(launcher)]
    with job.start(command) as started:
        assert started.process.stdout is not None
        started.process.stdout.readline()
        for number in sent:
            tell(started.process.pid, number)
        ended = started.end(LIMIT_S)
    assert ended.status == status
    assert ended.left == []
    assert ended.stderr.splitlines()[1:] == ["overlapbench: ended by a signal"]
    assert ended.seconds < 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_mpirun_that_ignores_all(
    launcher: "Launcher", tmp_path: Path, number: signal.Signals
) -> None:
    script = "trap '' TERM USR1 ALRM; echo up; while :; do sleep 1; done"
    command = ["env", f"PATH={fake(tmp_path, script)}", *bench(launcher)]
    with job.start(command) as started:
        assert started.process.stdout is not None
        started.process.stdout.readline()
        sent = time.monotonic()
        os.kill(started.process.pid, number)
        ended = started.end(LIMIT_S)
        seconds = time.monotonic() - sent
    assert ended.status == 128 + number
    name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    assert ended.stderr.splitlines()[1:] == [
        f"bench: ended by {name}, before the ranks had started"
    ]
    assert ended.left == []
    assert seconds < 5


@pytest.mark.parametrize("victim", ["bench", "launcher"])
def test_a_killed_bench_ends_the_job(launcher: "Launcher", tmp_path: Path, victim: str) -> None:
    """./bench cannot say so; what is left must be gone soon."""
    script = f"trap 'exit 1' TERM; echo $PPID; {OBEDIENT}"
    command = ["env", f"PATH={fake(tmp_path, script)}", *bench(launcher)]
    with job.start(command) as started:
        assert started.process.stdout is not None
        parent = int(started.process.stdout.readline())
        os.kill(started.process.pid if victim == "bench" else parent, signal.SIGKILL)
        ended = started.end(LIMIT_S)
    assert ended.left == []
    assert ended.seconds < 8
    if victim == "launcher":
        assert ended.status == 137
        assert ended.stderr.splitlines()[-1] == (
            "bench: the launcher was killed, or crashed: status 137"
        )


def test_a_reader_that_has_gone_ends_it_quietly(launcher: "Launcher", tmp_path: Path) -> None:
    script = f"trap 'printf \"\\036signalled\\n\" >&2; exit 1' USR2; {STARTED}; yes row; :"
    path = fake(tmp_path, script)
    text = '"$@" | head -n 1; exit "${PIPESTATUS[0]}"'
    command = ["env", f"PATH={path}", "bash", "-c", text, "bash", *bench(launcher)]
    with job.start(command) as started:
        ended = started.end(LIMIT_S)
    assert (ended.status, ended.stdout) == (141, "row\n")
    assert len(ended.stderr.splitlines()) == 1
    assert ended.left == []


def test_a_full_disk_is_an_error(launcher: "Launcher", tmp_path: Path) -> None:
    path = fake(tmp_path, f"{STARTED}; echo row; {ENDED}")
    command = ["env", f"PATH={path}", "sh", "-c", '"$@" >/dev/full', "sh", *bench(launcher)]
    with job.start(command) as started:
        ended = started.end(LIMIT_S)
    assert ended.status == 1
    assert ended.stderr.splitlines()[1:] == [
        "bench: cannot write to standard output: No space left on device"
    ]


# With real ranks. OVERLAPBENCH_INTERRUPTS says how many.
@pytest.mark.alone
def test_an_interrupt_at_any_moment_ends_it(launcher: "Launcher") -> None:
    count = int(os.environ.get("OVERLAPBENCH_INTERRUPTS", "100"))
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    # All rows, so that it lasts for more than five seconds.
    command = bench(launcher, "--timeout_s=60", "--benchmark_filter=.")
    # Most within the start.
    for number in range(count):
        delay = moments.uniform(0, 5 if number % 5 == 0 else 1)
        with job.start(command) as started:
            time.sleep(delay)
            sent = time.monotonic()
            os.killpg(started.process.pid, signal.SIGINT)
            ended = started.end(LIMIT_S)
            seconds = time.monotonic() - sent
        where = f"seed {seed}, number {number}, after {delay:.3f} s: {ended.stderr}"
        # In its first milliseconds, bash has no trap yet.
        assert ended.status == 130 or (delay < 0.1 and ended.status == -signal.SIGINT), where
        assert seconds < 5, where
        assert ended.left == [], where
        said = [line for line in ended.stderr.splitlines() if "ended by Ctrl-C" in line]
        assert len(said) == (ended.status == 130), where


# ---- while ./bench sets up


# A command that a script starts in the background ignores Ctrl-C.
@pytest.mark.parametrize("ignores", ["trap '' INT", ""], ids=["cmake", "its child"])
def test_ctrl_c_ends_a_build_that_ignores_it(tmp_path: Path, ignores: str) -> None:
    """A copy of the script, whose cmake takes its time."""
    for name in ("bench", "tools/setup.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "bench").chmod(0o755)
    (tmp_path / "tools/requirements.txt").touch()
    cmake = tmp_path / "bin" / "cmake"
    cmake.parent.mkdir()
    cmake.write_text(f"#!/bin/bash\n{ignores}\nsleep 60 &\necho up >&2\nwait\n")
    cmake.chmod(0o755)
    path = f"PATH={cmake.parent}:{os.environ['PATH']}"
    command = ["env", path, "OVERLAPBENCH_NO_INSTALL=1", str(tmp_path / "bench"), "--build-only"]
    with job.start(command) as started:
        deadline = time.monotonic() + 20
        log = tmp_path / "build/release/configure.log"
        while not (log.exists() and "up" in log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        sent = time.monotonic()
        os.kill(started.process.pid, signal.SIGINT)
        ended = started.end(LIMIT_S)
        seconds = time.monotonic() - sent
    assert ended.status == 130, ended.stderr
    assert ended.stderr.splitlines()[-1] == "bench: ended by Ctrl-C, before the ranks had started"
    assert ended.left == []
    assert seconds < 5


def test_the_width_is_that_of_the_terminal(launcher: "Launcher", tmp_path: Path) -> None:
    path = fake(tmp_path, f"printf '%s\\n' \"$@\" >{tmp_path}/words; {STARTED}; {ENDED}")
    program = "import os, pty, sys, fcntl, termios, struct\n"
    program += "pid, end = pty.fork()\n"
    program += "if pid == 0:\n"
    program += "    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('4H', 50, 133, 0, 0))\n"
    program += "    os.execvp(sys.argv[1], sys.argv[1:])\n"
    program += "try:\n"
    program += "    while os.read(end, 1000): pass\n"
    program += "except OSError: pass\n"
    program += "os.waitpid(pid, 0)\n"
    command = ["env", f"PATH={path}", sys.executable, "-c", program, *bench(launcher)]
    with job.start(command) as started:
        started.end(LIMIT_S)
    assert "--columns=133" in (tmp_path / "words").read_text().splitlines()
