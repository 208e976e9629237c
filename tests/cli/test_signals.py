"""Ctrl-C, SIGTERM and a closed terminal end every rank, keep the rows, and leave nothing behind."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from drill import job

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

# Some seconds of quick rows.
FLAGS = (
    *("--backend=host", "--benchmark_filter=Comm/", "--budget_ms=100", "--timeout_s=120"),
    *("--axis", "bytes=64K,128K,256K,512K"),
)
# Far below the timeout: no rank waits for another. Other tests may run beside these.
LIMIT_S = 90.0


def bench(launcher: "Launcher") -> list[str]:
    return launcher.bench()


def mpirun(launcher: "Launcher") -> list[str]:
    return job.mpirun(launcher.binary, 2, [])


# The signal goes to the process that was started or, as from a terminal, to its whole group.
@pytest.mark.parametrize("command", [bench, mpirun], ids=["bench", "mpirun"])
@pytest.mark.parametrize(
    ("number", "tell"),
    [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill), (signal.SIGHUP, os.killpg)],
    ids=["Ctrl-C", "SIGTERM", "closed terminal"],
)
def test_a_signal_ends_all_and_keeps_the_rows(
    launcher: "Launcher",
    command: "Callable[[Launcher], list[str]]",
    number: signal.Signals,
    tell: Callable[[int, int], None],
) -> None:
    arguments = [*command(launcher), *FLAGS, f"--benchmark_out={job.RESULT}"]
    with job.start(arguments) as started:
        started.await_rows(2)
        tell(started.process.pid, number)
        ended = started.end(LIMIT_S)
    # mpirun itself turns every signal into SIGTERM.
    ctrl_c = number is signal.SIGINT and command is bench
    assert ended.status == 130 if ctrl_c else ended.status not in (0, None), ended.stderr
    assert ended.left == []
    assert list(ended.files) == [job.RESULT]
    kept = json.loads(ended.files[job.RESULT])
    what = "Ctrl-C" if ctrl_c else "SIGTERM"
    place = "(Comm/|between benchmarks)"
    assert re.match(f"ended by {what} at rank 0 of 2, {place}", kept["incomplete"])
    assert len(kept["benchmarks"]) >= 2
    line, count = ended.ours
    assert line == f"overlapbench: {kept['incomplete']}"
    assert count.startswith(f"overlapbench: kept {len(kept['benchmarks'])} finished rows")


# No process is left to remove the shared memory: here it is in the job's own folder.
def test_ranks_end_when_mpirun_is_killed(launcher: "Launcher") -> None:
    start, *words = mpirun(launcher)
    shared_memory = ("--mca", "btl_vader_backing_directory", "tmp")
    command = [start, *shared_memory, *words, *FLAGS, f"--benchmark_out={job.RESULT}"]
    with job.start(command) as started:
        started.await_rows(2)
        started.process.kill()
        ended = started.end(LIMIT_S)
    assert [thing for thing in ended.left if thing.startswith("process")] == []
    (text,) = ended.files.values()
    assert len(json.loads(text)["benchmarks"]) >= 2


# mpirun ends then, some seconds later, as any program whose reader has gone.
@pytest.mark.alone
def test_a_reader_that_goes_away_costs_no_row(launcher: "Launcher") -> None:
    with job.start([*mpirun(launcher), *FLAGS, f"--benchmark_out={job.RESULT}"]) as started:
        started.await_rows(2)
        assert started.process.stdout is not None
        started.process.stdout.close()
        started.process.stdout = None
        ended = started.end(LIMIT_S)
    assert ended.status not in (0, None), ended.stderr
    assert ended.left == []
    kept = json.loads(ended.files[job.RESULT])
    assert kept["incomplete"]
    assert len(kept["benchmarks"]) >= 2


# As a pager that waits for its user: rank 0 is stuck while it shows a row.
def test_a_reader_that_stops_reading_costs_no_row(launcher: "Launcher") -> None:
    sizes = ",".join(str(16 * size) for size in range(1, 20))
    flags = ["--backend=host", "--benchmark_filter=Compute/Gemm", "--axis", f"n={sizes}"]
    quick = ["--axis=grid=1x1", "--budget_ms=1", "--no-self-test", f"--benchmark_out={job.RESULT}"]
    # Another process holds the end of the pipe, which takes a few rows.
    stuck = 'exec 3<> <(:); head -c 64500 /dev/zero >&3; exec "$@" >&3'
    command = ["bash", "-c", stuck, "bash", str(launcher.binary), *flags, *quick]
    with job.start(command) as started:
        started.await_rows(2)
        rows, before = 2, 0
        while rows > before:
            time.sleep(3)
            text = (started.folder / job.RESULT).read_text()
            rows, before = text.count('"real_time"'), rows
        started.process.send_signal(signal.SIGINT)
        asked = time.monotonic()
        ended = started.end(30)
    assert ended.status == 130, ended.stderr
    assert time.monotonic() - asked < 3
    kept = json.loads(ended.files[job.RESULT])
    assert re.match("ended by Ctrl-C at (Compute/Gemm/|between benchmarks)", kept["incomplete"])
    assert 2 <= len(kept["benchmarks"]) < 19


# Nothing was measured yet, so neither a result nor a part of one may be left.
def test_a_full_pipe_does_not_keep_a_partial_file_after_ctrl_c(launcher: "Launcher") -> None:
    flags = ["--backend=host", "--benchmark_filter=Compute/Gemm", f"--benchmark_out={job.RESULT}"]
    full = 'exec 3<> <(:); head -c 65536 /dev/zero >&3; exec "$@" >&3'
    with job.start(["bash", "-c", full, "bash", str(launcher.binary), *flags]) as started:
        partial = started.folder / f"{job.RESULT}.partial"
        deadline = time.monotonic() + LIMIT_S
        while not partial.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert partial.exists()
        time.sleep(1)
        started.process.send_signal(signal.SIGINT)
        ended = started.end(30)
    assert ended.status == 130, ended.stderr
    assert [name for name in ended.files if name.startswith(job.RESULT)] == []


# Without mpirun in between, rank 0 itself writes to the closed pipe.
def test_a_single_rank_goes_on_without_a_reader(launcher: "Launcher") -> None:
    flags = ["--backend=host", "--benchmark_filter=Compute/Gemm", "--axis", "n=64", "--budget_ms=1"]
    command = [str(launcher.binary), *flags, f"--benchmark_out={job.RESULT}"]
    with job.start(["sh", "-c", '"$@" | true', "sh", *command]) as started:
        ended = started.end(30)
    assert ended.left == []
    assert "incomplete" not in json.loads(ended.files[job.RESULT])


def test_a_result_that_standard_output_cannot_take_is_an_error(launcher: "Launcher") -> None:
    flags = ["--backend=host", "--benchmark_filter=Compute/Gemm", "--axis", "n=64", "--budget_ms=1"]
    command = [str(launcher.binary), *flags, "--benchmark_format=json"]
    with job.start(["sh", "-c", '"$@" >/dev/full', "sh", *command]) as started:
        ended = started.end(30)
    assert ended.status == 1
    (line,) = ended.ours
    assert line.startswith("overlapbench: cannot write the result to standard output")
