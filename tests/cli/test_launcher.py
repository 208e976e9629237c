"""./bench and its launcher: mpirun may fail, hang or be killed, and so may ./bench.

Most of these jobs have a fake mpirun on PATH and no ranks. A fake writes what mpirun writes, and
the signs of the ranks (ranks/signs.h). The launcher without ./bench is tested by
tests/launcher_test.cc, supervisor_test.cc and supervisor_limits_test.cc.
"""

import os
import random
import re
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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


def interrupted(command: Sequence[str], delay: float) -> tuple[float, float, job.Ended]:
    """Send Ctrl-C to a job after the delay; return the delay, the time to its end, and the end."""
    with job.start(command) as started:
        time.sleep(delay)
        sent = time.monotonic()
        os.killpg(started.process.pid, signal.SIGINT)
        ended = started.end(LIMIT_S)
        return delay, time.monotonic() - sent, ended


# With real ranks, eight jobs at a time: they mostly wait. OVERLAPBENCH_INTERRUPTS says how many.
@pytest.mark.alone
def test_an_interrupt_at_any_moment_ends_it(launcher: "Launcher") -> None:
    count = int(os.environ.get("OVERLAPBENCH_INTERRUPTS", "100"))
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    # All rows, so that it lasts for more than five seconds.
    command = bench(launcher, "--timeout_s=60", "--benchmark_filter=.")
    # Most within the start.
    delays = [moments.uniform(0, 5 if number % 5 == 0 else 1) for number in range(count)]
    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(partial(interrupted, command), delays))
    for delay, seconds, ended in ends:
        where = f"seed {seed}, after {delay:.3f} s: {ended.stderr}"
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
        deadline = time.monotonic() + 60
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
