"""Every signal to every process of a job on two hosts.

Whatever it is, the job ends in bounded time, a line says why, no row is lost, and nothing is left
on either host. What must not end a job is sent too, all of it to one job.
"""

import os
import re
import signal
import time
from collections.abc import Sequence

import pytest
from tests.hosts.rig import BENCH, GRACE_S, Job, Rig, last_line, result

FLAGS = (
    *("--backend=host", "--benchmark_filter=Comm/All", "--budget_ms=100", "--no-self-test"),
    "--benchmark_out=result.json",
)
# The numbers of rows of a job that may reach its end, and of one that must not have reached it when
# a busy machine at last strikes it.
ROWS, MANY_ROWS = 9, 60
# Of a job that ends by a timeout; its status is 1. Others must end without one, also where waits
# take seconds because the machine is busy.
TIMEOUT_S = 5
NO_TIMEOUT_S = 30
BY_BENCH = (*BENCH, "--hostfile=hosts", *FLAGS)
BY_SRUN = ("srun", "--mpi=pmix", "-K", "-N2", "-n2", *BENCH, *FLAGS)
HOSTS = "node1 slots=1\nnode2 slots=1\n"
# The name of each process, its host, and its rank.
PROCESSES = {
    "bench": ("bash", 0, None),
    "launcher": ("overlapbench", 0, None),
    "mpirun": ("mpirun", 0, None),
    "ssh": ("ssh", 0, None),
    "orted": ("orted", 1, None),
    "rank 0": ("overlapbench", 0, 0),
    "rank 1": ("overlapbench", 1, 1),
    "srun": ("srun", 0, None),
    "slurmstepd": ("slurmstepd", 1, None),
}
# From the signal to the end. The longest waits are for a stopped process: until the ranks need it,
# a timeout, 15 s, then kills.
LIMIT_S = 90.0
# How long a job may go on, unwatched, after its launcher was killed.
UNWATCHED_S = 25.0
# A stopped launcher stops nothing else. It is continued after this time.
PAUSE_S = 6.0

PLACE = "at rank 0 of 2, (Comm/|between benchmarks)"
CTRL_C = f"ended by Ctrl-C {PLACE}"
TERM = f"ended by SIGTERM {PLACE}"
LOST = "bench: the connection to node2 was lost; rows so far are in result.json"
USR2 = "ended by SIGUSR2"
End = tuple[str, str, Sequence[int], str]  # signals, process, status, and what says why


def dead(rank: int, name: str) -> str:
    return rf"bench: rank {rank} on node{rank + 1} was killed by SIG{name}\b.*; rows so far are in"


def silent(rank: int) -> str:
    return rf"rank {1 - rank}: .*rank {rank} did not arrive within {TIMEOUT_S} s"


BENCH_ENDS: Sequence[End] = (
    ("INT", "bench", [130], CTRL_C),
    ("TERM", "bench", [143], TERM),
    ("HUP", "bench", [129], TERM),
    ("QUIT", "bench", [131], TERM),
    ("KILL", "bench", [-9], "ended by (SIGTERM|the end of its caller)"),
    ("STOP", "bench", [0], ""),
    ("KILL", "launcher", [137], "bench: the launcher was killed"),
    ("STOP", "launcher", [0], ""),
    # Without ./bench, these are all the same to the ranks.
    ("INT", "mpirun", [1, 143], TERM),
    ("TERM", "mpirun", [1, 143], TERM),
    ("HUP", "mpirun", [1, 143], TERM),
    ("QUIT", "mpirun", [131], "bench: mpirun was killed by SIGQUIT; rows so far are in"),
    ("KILL", "mpirun", [137], "bench: mpirun was killed by SIGKILL .*; rows so far are in"),
    ("STOP", "mpirun", [1], "bench: mpirun hangs: SIGSTOP came 15 s ago; it is killed"),
    ("USR1", "mpirun", [130], CTRL_C),
    ("USR2", "mpirun", [1, 141], USR2),
    ("KILL", "ssh", [1, 9], "bench: .*ssh"),
    ("INT", "orted", [205], LOST),
    ("TERM", "orted", [205], LOST),
    ("HUP", "orted", [205], LOST),
    ("QUIT", "orted", [205], LOST),
    ("KILL", "orted", [205], LOST),
    ("STOP", "orted", [1], "bench: mpirun hangs: the ranks ended 15 s ago .*; it is killed"),
    ("USR1", "orted", [130], "ended by"),
    ("USR2", "orted", [1, 141], USR2),
    *(
        end
        for rank in (0, 1)
        for end in (
            ("INT", f"rank {rank}", [130], "ended by (Ctrl-C|SIGTERM) at rank 0"),
            ("TERM", f"rank {rank}", [143], TERM),
            ("HUP", f"rank {rank}", [129], "ended by SIG(HUP|TERM) at rank 0"),
            ("QUIT", f"rank {rank}", [131], dead(rank, "QUIT")),
            ("KILL", f"rank {rank}", [137], dead(rank, "KILL")),
            ("STOP", f"rank {rank}", [1], silent(rank)),
            ("USR1", f"rank {rank}", [130], "ended by (Ctrl-C|SIGTERM) at rank 0"),
            ("USR2", f"rank {rank}", [1, 141], USR2),
        )
    ),
)
# Slurm ends a step in its own way: which task was killed is in its lines, and whether rank 0 still
# comes to a word of its own is a matter of milliseconds. srun waits for a second Ctrl-C.
SRUN_ENDS: Sequence[End] = (
    *((name, "srun", [137, 143], "task [01]: (Killed|Exited)") for name in ("TERM", "HUP", "QUIT")),
    ("USR1", "srun", [130], "ended by Ctrl-C|task [01]: (Killed|Exited)"),
    ("USR2", "srun", [141], f"{USR2}|task [01]: (Killed|Exited)"),
    ("PIPE", "srun", [137, 143], "task [01]: (Killed|Exited)"),
    ("KILL", "srun", [-9], ""),
    ("STOP", "srun", [0], ""),
    ("KILL", "slurmstepd", [1], "rank 0: .*(rank 1|the other ranks) did not arrive within"),
    ("STOP", "slurmstepd", [0], ""),
    *(
        end
        for rank in (0, 1)
        for end in (
            ("INT", f"rank {rank}", [130], f"task {rank}: (Killed|Exited)|ended by"),
            ("TERM", f"rank {rank}", [143], f"task {rank}: (Killed|Exited)|ended by"),
            ("HUP", f"rank {rank}", [129], f"task {rank}: (Killed|Exited)|ended by"),
            ("QUIT", f"rank {rank}", [131, 143], f"node{rank + 1}: task {rank}: Quit"),
            ("KILL", f"rank {rank}", [137, 143], f"node{rank + 1}: task {rank}: Killed"),
            ("STOP", f"rank {rank}", [1], silent(rank)),
            ("USR1", f"rank {rank}", [130], f"task {rank}: (Killed|Exited)|ended by"),
            ("USR2", f"rank {rank}", [141], f"task {rank}: (Killed|Exited)|{USR2}"),
        )
    ),
)
# What the killed daemon of a host cannot remove, and no one else may; and itself, if it is stopped.
REMAINS = {"orted": r"node2: (/tmp/ompi\.|orted )", "slurmstepd": r"node2: /tmp/spmix_"}


def flags(rows: int, timeout_s: int) -> list[str]:
    """Return the flags for so many rows: three collectives, in sizes of multiples of 32 KiB."""
    sizes = ",".join(f"{32 * size}K" for size in range(1, rows // 3 + 1))
    return [f"--axis=bytes={sizes}", f"--timeout_s={timeout_s}"]


def strike(job: Job, process: str, name: str) -> None:
    comm, host, rank = PROCESSES[process]
    pids = set(job.find(comm, host, rank))
    if process == "launcher":
        pids -= set(job.find(comm, host, 0))
    # srun forks a second process, which ends with the first.
    os.kill(min(pids), signal.Signals[f"SIG{name}"])


def struck(rig: Rig, command: Sequence[str], end: End) -> tuple[str, str]:
    """Strike a job, check what holds for all, and return all that it said and its last line."""
    name, process, statuses, _ = end
    # The ranks go on without any other process.
    rows = ROWS if name == "STOP" and "rank" not in process else MANY_ROWS
    timeout_s = TIMEOUT_S if statuses == [1] else NO_TIMEOUT_S
    with rig.start(*command, *flags(rows, timeout_s), hosts=HOSTS) as job:
        job.await_rows()
        strike(job, process, name)
        if name == "STOP" and statuses == [0]:
            time.sleep(PAUSE_S)
            strike(job, process, "CONT")
            os.kill(job.process.pid, signal.SIGCONT)  # nsenter stops with its child
        limit = time.monotonic() - job.started + LIMIT_S
        ended = job.end(limit, UNWATCHED_S if statuses == [-9] else GRACE_S)
    assert ended.status in statuses, ended.stderr
    remains = REMAINS.get(process, "nothing")
    assert [thing for thing in ended.left if not re.match(remains, thing)] == []
    assert ended.files.keys() == {"result.json", "hosts"}
    kept = result(ended)
    assert 2 <= len(kept["benchmarks"]) <= rows
    assert ("incomplete" in kept) == (len(kept["benchmarks"]) < rows)
    return ended.stderr, last_line(ended)


@pytest.mark.parametrize("end", BENCH_ENDS, ids=lambda end: f"{end[0]} to {end[1]}")
def test_a_signal_to_a_job_of_bench(rig: Rig, end: End) -> None:
    stderr, line = struck(rig, BY_BENCH, end)
    # A stopped rank has a last word of its own, if it is continued before it is killed.
    is_rank = end[0] == "STOP" and end[1].startswith("rank")
    assert re.search(end[-1], stderr if is_rank else line), stderr


@pytest.mark.parametrize("end", SRUN_ENDS, ids=lambda end: f"{end[0]} to {end[1]}")
def test_a_signal_to_a_job_of_srun(slurm: Rig, end: End) -> None:
    stderr, _ = struck(slurm, BY_SRUN, end)
    assert re.search(end[-1], stderr), stderr


def survives(rig: Rig, command: Sequence[str], strikes: dict[str, list[str]]) -> None:
    with rig.start(*command, *flags(ROWS, NO_TIMEOUT_S), hosts=HOSTS) as job:
        job.await_rows()
        for process, names in strikes.items():
            for name in names:
                strike(job, process, name)
        ended = job.end(time.monotonic() - job.started + LIMIT_S)
    assert (ended.status, ended.left) == (0, []), ended.stderr
    assert len(result(ended)["benchmarks"]) == ROWS
    assert "incomplete" not in result(ended)


def test_signals_that_mean_nothing_to_a_job_of_bench(rig: Rig) -> None:
    ours = {process: ["USR1", "USR2", "PIPE"] for process in ("bench", "launcher")}
    others = {process: ["PIPE"] for process in ("mpirun", "ssh", "orted", "rank 0", "rank 1")}
    survives(rig, BY_BENCH, ours | others)


def test_signals_that_mean_nothing_to_a_job_of_srun(slurm: Rig) -> None:
    daemon = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "PIPE"]
    others = {"srun": ["INT"], "rank 0": ["PIPE"], "rank 1": ["PIPE"]}
    survives(slurm, BY_SRUN, {"slurmstepd": daemon} | others)
