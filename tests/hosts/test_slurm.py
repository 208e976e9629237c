"""A real Slurm on both hosts: srun, sbatch and salloc, and how Slurm ends jobs."""

import contextlib
import re
import time
from collections.abc import Iterator, Sequence

import pytest
from tests.hosts.rig import BENCH, PROGRAM, SHARED, Job, Rig, await_true, result

from drill.job import RESULT, Ended

ROW = (
    *("--backend=host", "--benchmark_filter=Comm/AllReduce", "--axis=bytes=96K"),
    *("--budget_ms=50", "--no-self-test", "--benchmark_out=result.json"),
)
MANY = (
    *("--backend=host", "--benchmark_filter=Comm/", "--axis=bytes=64K,128K,256K,512K,1M"),
    *("--budget_ms=100", "--timeout_s=8", "--no-self-test", "--benchmark_out=result.json"),
    "--benchmark_repetitions=20",  # longer than Slurm takes to notice a time limit
)
SRUN = ("srun", "--mpi=pmix", "-K", "-N2")
# Slurm ends a step whose start failed by itself, sometimes in more time than a test waits.
SLURM_ITSELF = r"node\d: (slurmstepd |/tmp/spmix_)"
LIMIT_S = 40.0


def script(*commands: Sequence[str]) -> str:
    """Return a batch script that becomes its last command."""
    lines = [" ".join(f"'{word}'" for word in command) for command in commands]
    return "\n".join(["#!/bin/bash", *lines[:-1], f"exec {lines[-1]}", ""])


@contextlib.contextmanager
def batch(slurm: Rig, allocation: Sequence[str], text: str) -> Iterator[tuple[Job, str]]:
    """Submit a batch job, and yield it with its number."""
    submit = ("sbatch", "--parsable", "--output=job.out", *allocation, "script")
    with slurm.start(*submit, script=text) as job:
        assert job.process.wait(LIMIT_S) == 0, job.read("err")
        number = job.read("out").strip()
        try:
            yield job, number
        finally:
            slurm.hosts[0].run("scancel", number, check=False)


def finish(slurm: Rig, job: Job, number: str, limit_s: float = LIMIT_S) -> Ended:
    """Wait for the end of a batch job."""

    def is_over() -> bool:
        time.sleep(0.2)
        return slurm.hosts[0].run("squeue", "--noheader", "--job", number, check=False) == ""

    await_true(is_over, "the batch job ends", limit_s)
    return job.end(limit_s)


# ---- starting


@pytest.mark.parametrize(
    ("tasks", "places"),
    [
        (["--ntasks-per-node=2"], "node1: ranks 0, 1; node2: ranks 2, 3"),
        (["-n4", "--distribution=cyclic"], "node1: ranks 0, 2; node2: ranks 1, 3"),
        (["-n3"], "node1: ranks 0, 1; node2: rank 2"),
    ],
    ids=["blocks", "in turn", "uneven"],
)
def test_srun_starts_ranks_on_both_hosts(slurm: Rig, tasks: list[str], places: str) -> None:
    ended = slurm.run(*SRUN, *tasks, *BENCH, *ROW, limit_s=LIMIT_S)
    assert (ended.status, ended.left) == (0, []), ended.stderr
    measured = result(ended)
    assert measured["context"]["hosts"] == "node1, node2"
    assert measured["context"]["ranks_by_host"] == places
    assert " on node1, node2, " in ended.stdout.splitlines()[0]
    (row,) = measured["benchmarks"]
    assert row["valid"] == 1
    assert row["skew_us"] < 1e6


@pytest.mark.parametrize("mpi", [[], ["--mpi=none"]], ids=["default", "none"])
def test_srun_without_pmix_is_refused_in_one_line(slurm: Rig, mpi: list[str]) -> None:
    """Slurm's default here is no MPI. Starting MPI would end each task with a page of text."""
    ended = slurm.run("srun", *mpi, "-N2", "-n2", *BENCH, *ROW, limit_s=LIMIT_S)
    assert ended.status == 1, ended.stderr
    assert (ended.stdout, ended.left) == ("", [])
    (line,) = (line for line in ended.stderr.splitlines() if not line.startswith("srun: "))
    assert line.startswith("overlapbench: started as rank 0 of 2, but this launcher does not ")
    assert "srun try --mpi=pmix" in line
    assert RESULT not in ended.files


IN_BATCH = {
    "srun": (
        ["-N2", "--ntasks-per-node=2"],
        (*SRUN, "--ntasks-per-node=2", *BENCH, *ROW),
        "node1: ranks 0, 1; node2: ranks 2, 3",
    ),
    "bench": (["-N1", "-n2", "-w", "node2"], (*BENCH, "--ranks=2", *ROW), "node2: ranks 0, 1"),
    "bench on several hosts": (["-N2", "-n2"], (*BENCH, "--ranks=3", *ROW), "node1: ranks 0-2"),
}


@pytest.mark.parametrize(("allocation", "command", "places"), IN_BATCH.values(), ids=IN_BATCH)
def test_a_batch_script_runs_it(
    slurm: Rig, allocation: list[str], command: Sequence[str], places: str
) -> None:
    with batch(slurm, allocation, script(command)) as (job, number):
        ended = finish(slurm, job, number)
    assert ended.left == []
    assert result(ended)["context"]["ranks_by_host"] == places, ended.files["job.out"]


@pytest.mark.parametrize("allocation", [["-N2", "-n2"], ["-N2", "--ntasks-per-node=2"], ["-N1"]])
def test_plain_bench_stays_on_one_host_of_an_allocation(slurm: Rig, allocation: list[str]) -> None:
    ended = slurm.run("salloc", "-Q", *allocation, *BENCH, "--ranks=8", *ROW, limit_s=LIMIT_S)
    assert (ended.status, ended.left) == (0, []), ended.stderr
    context = result(ended)["context"]
    assert context["ranks_by_host"] == "node1: ranks 0-7"
    first = ended.stderr.splitlines()[0]
    assert first.startswith("bench: starting 8 ranks on node1")
    assert ("srun" in first) == (allocation[0] == "-N2"), first
    assert ", 8 ranks on node1, " in ended.stdout.splitlines()[0]


def test_mpirun_uses_the_allocation(slurm: Rig) -> None:
    """As its user has asked for it."""
    words = ("mpirun", "--bind-to", "none", *BENCH, *ROW)
    ended = slurm.run("salloc", "-Q", "-N2", "-n2", *words, limit_s=LIMIT_S)
    assert (ended.status, ended.left) == (0, []), ended.stderr
    assert result(ended)["context"]["ranks_by_host"] == "node1: rank 0; node2: rank 1"


def test_srun_ends_at_once_where_a_host_lacks_the_program(slurm: Rig) -> None:
    """Slurm may kill the step before it passes on that node2 found no such program."""
    folder = f"{SHARED}/build"
    slurm.hosts[1].run("mount", "-t", "tmpfs", "tmpfs", folder)
    try:
        ended = slurm.run(*SRUN, "-n2", PROGRAM, *ROW, limit_s=LIMIT_S)
    finally:
        slurm.hosts[1].run("umount", folder)
    assert ended.status not in (0, None), ended.stderr
    assert "error: node2: task 1: Exited with exit code 2" in ended.stderr
    assert [thing for thing in ended.left if not re.match(SLURM_ITSELF, thing)] == []


@pytest.mark.parametrize(("cores", "tasks"), [(1, 1), (2, 1), (1, 2)])
def test_ranks_use_the_cores_that_slurm_gives(slurm: Rig, cores: int, tasks: int) -> None:
    command = ("srun", "--mpi=pmix", "-N1", f"-n{tasks}", f"-c{cores}", "--cpu-bind=cores")
    flags = ("--benchmark_filter=Compute/Gemm", "--axis=n=64", "--axis=grid=1x1")
    ended = slurm.run(*command, *BENCH, *ROW[:1], *flags, *ROW[3:], limit_s=LIMIT_S)
    assert ended.status == 0, ended.stderr
    context = result(ended)["context"]
    assert context["allowed_cores"] == str(cores)
    assert context["host_cores"] == str(cores)


# ---- ending


BY_SRUN = (["-N2", "-n2"], (*SRUN, "-n2", *BENCH, *MANY))
BY_BENCH = (["-N1", "-n2", "-w", "node1"], (*BENCH, "--ranks=2", *MANY))
TIME_LIMIT = ("scontrol", "update", "EndTime=now+1", "JobId=")
# How the job is started and ended, and what its result and its output say then.
ENDS = {
    "scancel of srun": (BY_SRUN, ["scancel"], "SIGTERM"),
    "scancel of ./bench": (BY_BENCH, ["scancel", "--full"], "SIGTERM"),
    "scancel --signal of srun": (BY_SRUN, ["scancel", "--signal=INT"], "Ctrl-C"),
    "scancel --signal=USR1 of srun": (BY_SRUN, ["scancel", "--signal=USR1"], "Ctrl-C"),
    "scancel --signal of ./bench": (BY_BENCH, ["scancel", "--full", "--signal=INT"], "Ctrl-C"),
    "scancel --batch of ./bench": (BY_BENCH, ["scancel", "--batch", "--signal=TERM"], "SIGTERM"),
    "time limit of srun": (BY_SRUN, TIME_LIMIT, "SIGTERM"),
    "time limit of ./bench": (BY_BENCH, TIME_LIMIT, "SIGTERM"),
}


@pytest.mark.parametrize(("start", "strike", "says"), ENDS.values(), ids=ENDS)
def test_slurm_ends_a_job(
    slurm: Rig, start: tuple[list[str], Sequence[str]], strike: Sequence[str], says: str
) -> None:
    allocation, command = start
    with batch(slurm, allocation, script(command)) as (job, number):
        job.await_rows()
        last = [strike[-1] + number] if strike == TIME_LIMIT else [strike[-1], number]
        slurm.hosts[0].run(*strike[:-1], *last)
        ended = finish(slurm, job, number, 75)  # Slurm looks at time limits every 30 s
    told = ended.files["job.out"]
    assert ended.left == []
    kept = result(ended)
    assert len(kept["benchmarks"]) >= 2
    assert f"ended by {says}" in told
    # On a busy machine, the second that mpirun or Slurm gives may be too short for a last word.
    assert re.search(f"ended by {says}|was killed", kept["incomplete"])


def test_a_job_that_slurm_queues_again_keeps_its_rows(slurm: Rig) -> None:
    allocation, command = BY_SRUN
    with batch(slurm, ["--requeue", *allocation], script(command)) as (job, number):
        job.await_rows()
        slurm.hosts[0].run("scontrol", "requeue", number)
        await_true(lambda: "SIGTERM" in job.read(RESULT), "the first run ends")
        state = ("squeue", "--noheader", "--format=%T", "--job", number)
        await_true(lambda: slurm.hosts[0].run(*state) == "PENDING\n", "the job is queued again")
        ended = job.end(LIMIT_S)
    assert ended.left == []
    assert len(result(ended)["benchmarks"]) >= 2
