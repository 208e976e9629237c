"""Ranks that diverge or die end the job soon; finished rows stay readable."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

SMALL = ("--axis", "bytes=64K", "--axis", "cache=warm", "--budget_ms=20")
# Below the timeout of waits: none of these ends waits for it.
LIMIT_S = 50.0
# Rows may take minutes on a busy machine.
ROWS_S = 180.0

# The different flags of two ranks, and what the message says about each.
DIFFERENCES = {
    "another filter": (
        ["--benchmark_filter=Comm/AllReduce"],
        ["--benchmark_filter=Comm/AllGather"],
        ("Comm/AllReduce", "Comm/AllGather"),
    ),
    "more benchmarks": (
        ["--benchmark_filter=Comm/All"],
        ["--benchmark_filter=Comm/AllReduce"],
        ("Comm/All", "Comm/AllReduce"),
    ),
    "a filter without match": (
        ["--benchmark_filter=Comm/AllReduce"],
        ["--benchmark_filter=Comm/Nothing"],
        ("Comm/AllReduce", "Comm/Nothing"),
    ),
    "a flag that is refused": (
        ["--benchmark_filter=Comm/AllReduce"],
        ["--benchmark_filter=Comm/AllReduce", "--bogus"],
        ("Comm/AllReduce", "unknown flag '--bogus'"),
    ),
    "another budget": (
        ["--benchmark_filter=Comm/AllReduce"],
        ["--benchmark_filter=Comm/AllReduce", "--budget_ms=200"],
        ("--budget_ms=20", "--budget_ms=200"),
    ),
    "a variable of Google Benchmark that is read here": (
        ["--benchmark_filter=Comm/AllReduce", "BENCHMARK_MIN_TIME=0.05"],
        ["--benchmark_filter=Comm/AllReduce"],
        ("--benchmark_min_time=0.05", "Comm/AllReduce"),
    ),
    "repetitions by a variable": (
        ["--benchmark_filter=Comm/AllReduce", "BENCHMARK_REPETITIONS=2"],
        ["--benchmark_filter=Comm/AllReduce"],
        ("--benchmark_repetitions=2", "Comm/AllReduce"),
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
def test_ranks_that_differ_end_the_job(launcher: "Launcher", name: str, swapped: bool) -> None:
    first, second, both = DIFFERENCES[name]
    ranks = [[*SMALL, *first], [*SMALL, *second]]
    done = launcher.run_each(ranks[::-1] if swapped else ranks, timeout_s=LIMIT_S)
    assert done.returncode != 0
    ours = [line for line in done.stderr.splitlines() if line.startswith("overlapbench: ")]
    assert len(ours) == 1
    for side in both:
        assert side in ours[0]


def test_ranks_compare_their_flags_to_the_end(launcher: "Launcher") -> None:
    long = f"--benchmark_context=note={'x' * 600}"
    done = launcher.run_each(
        [[*SMALL, long, "--host_cores=1"], [*SMALL, long, "--host_cores=2"]], timeout_s=LIMIT_S
    )
    assert done.returncode != 0
    assert "the ranks were not given the same flags" in done.stderr
    assert "which differ further on" in done.stderr


def test_ranks_of_different_builds_do_not_start(launcher: "Launcher", tmp_path: Path) -> None:
    other = tmp_path / "overlapbench"
    program = launcher.binary.read_bytes()
    # The note's header: sizes of name and id, type 3, and the name.
    head = rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"
    (begin,) = [match.end() for match in re.finditer(head, program)]
    other.write_bytes(program[:begin] + b"\xab\xcd\xef\x01" + program[begin + 4 :])
    other.chmod(0o755)
    command = launcher.command([[*SMALL, "--benchmark_filter=Comm/AllReduce"]] * 3)
    places = [at for at, word in enumerate(command) if word == str(launcher.binary)]
    command[places[2]] = str(other)
    done = subprocess.run(
        command,
        env=launcher.environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("overlapbench: ")]
    build = r"version \S+, revision \S+, build"
    assert re.fullmatch(
        rf"overlapbench: the ranks run different builds: ranks 0, 1: {build} [0-9a-f]{{8}} "
        rf"\(on \S+\); rank 2: {build} abcdef01 \(on \S+\); install the same build on all hosts",
        line,
    )


def test_kernels_use_the_allowed_cores(launcher: "Launcher", tmp_path: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("this machine has one core")
    out = tmp_path / "out.json"
    flags = [*SMALL, "--benchmark_filter=Compute/Gemm/n:256/grid:1x1", f"--benchmark_out={out}"]
    for cores in (allowed, allowed[:1]):
        command = ["taskset", "--cpu-list", ",".join(map(str, cores)), *launcher.command([flags])]
        subprocess.run(command, env=launcher.environment(), timeout=60, check=True)
        context = read(out)["context"]
        assert context["allowed_cores"] == str(len(cores))
        quota = float(context.get("core_quota", "inf"))
        assert context["host_cores"] == str(max(1, int(min(len(cores), quota))))


def test_a_file_that_only_rank_0_is_told_of_is_no_difference(
    launcher: "Launcher", tmp_path: Path
) -> None:
    flags = [*SMALL, "--benchmark_filter=Comm/AllReduce"]
    done = launcher.run_each([[*flags, f"--benchmark_out={tmp_path}/out.json"], flags])
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "out.json")["benchmarks"]


# However Google Benchmark repeats a benchmark, all ranks repeat it equally.
@pytest.mark.parametrize(
    ("flags", "rows"),
    [
        (["--benchmark_min_time=0.005"], 1),
        (["--benchmark_repetitions=2"], 2),
        (["--benchmark_min_time=0.005", "--benchmark_repetitions=2"], 2),
        (["--benchmark_min_time=0.005", "--benchmark_min_warmup_time=0.005"], 1),
    ],
    ids=["min_time", "repetitions", "both", "warm-up"],
)
def test_ranks_agree_on_iterations(
    launcher: "Launcher", tmp_path: Path, flags: list[str], rows: int
) -> None:
    out = tmp_path / "out.json"
    done = launcher.run(
        *SMALL, *flags, "--benchmark_filter=Comm/(AllReduce|Broadcast)", f"--benchmark_out={out}"
    )
    assert done.returncode == 0, done.stderr
    assert [row["name"] for row in measured(read(out))] == [
        f"Comm/{name}/bytes:65536/cache:warm"
        for name in ("AllReduce", "Broadcast")
        for _ in range(rows)
    ]


def test_finished_rows_survive_the_death_of_a_rank(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    names: list[str] = []
    job = launcher.start(
        "--benchmark_filter=Comm/", f"--benchmark_out={out}", "--timeout_s=10", "--budget_ms=500"
    )
    try:
        await_rows(out, 2)
        names = [row["name"] for row in measured(read(out))]
        os.kill(rank_process(job.pid, 1), signal.SIGKILL)
        job.communicate(timeout=LIMIT_S)
    finally:
        job.kill()
    assert job.returncode != 0
    kept = read(out)
    # It was killed as soon as the second row was there: before the third began, or after.
    said = r"ended by SIGTERM at rank 0 of 2, (Comm/|between benchmarks).*; rank 1 did not answer"
    assert re.match(said, kept["incomplete"]), kept["incomplete"]
    assert [row["name"] for row in measured(kept)][: len(names)] == names


# Rank 0 writes what only rank 1 knew; one line says it, and no line blames any other rank. The two
# lines come from two ranks, in any order.
def test_the_file_says_why_another_rank_has_ended(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    fault = "--inject_fault=fail@report,rank=1,visit=2"
    divisible = ("--axis", "bytes=96K", "--axis", "cache=warm", "--budget_ms=20")
    flags = (*divisible, "--benchmark_filter=Comm/All", f"--benchmark_out={out}")
    done = launcher.with_faults().run(*flags, fault, ranks=3, timeout_s=LIMIT_S)
    assert done.returncode == 1
    kept = read(out)
    assert len(kept["benchmarks"]) == 1
    assert kept["incomplete"].startswith("a call failed (injected) [rank 1 of 3, Comm/All")
    lines = [line for line in done.stderr.splitlines() if line.startswith("overlapbench: ")]
    assert sorted(lines) == [
        f"overlapbench: {kept['incomplete']}",
        f"overlapbench: kept 1 finished rows, marked incomplete: {out}",
    ]


def test_a_killed_rank_0_leaves_a_whole_file(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    job = launcher.start(
        "--benchmark_filter=Comm/", f"--benchmark_out={out}", "--timeout_s=10", "--budget_ms=500"
    )
    try:
        await_rows(out, 2)
        os.kill(rank_process(job.pid, 0), signal.SIGKILL)
        job.communicate(timeout=LIMIT_S)
    finally:
        job.kill()
    assert job.returncode != 0
    kept = read(out)
    assert kept["incomplete"] == "the run is still going, or was killed"
    assert len(measured(kept)) >= 2


def await_rows(path: Path, count: int) -> None:
    """Waits until the file has that many rows; it may be read while it is written."""
    deadline = time.monotonic() + ROWS_S
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().count('"real_time"') >= count:
            return
        time.sleep(0.05)
    pytest.fail(f"{path.name} had no {count} rows after {ROWS_S} s")


def rank_process(mpirun: int, rank: int) -> int:
    """The process of a rank, which is a child of mpirun."""
    children = Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split()
    for child in children:
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
            return int(child)
    pytest.fail(f"mpirun has no rank {rank} among {children}")


def read(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def measured(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in result["benchmarks"] if row["run_type"] == "iteration"]
