"""What a run says of other programs that use its cores, before it measures and in its rows."""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

CONTROL = ("--benchmark_filter=Overlap/SecondDelay.Delay/.*streams:1$", "--axis", "cache=warm")
# Short products in many samples. Most of them keep their core, so their interval stays narrow.
ROWS = ("--benchmark_filter=^Compute/Gemm", "--axis", "n=64", "--axis", "grid=1x1,2x2")
MANY = ("--precision=0", "--budget_ms=1000")
DISTURBED = (
    r"(disturbed|known to ±\d+ % only): a thread waited for a core \d+ % of its time, "
    r"while other processes used \d\.\d cores"
)


@contextmanager
def busy(cores: Sequence[int], each: int = 1) -> Iterator[None]:
    """Keep these cores busy with processes that never rest, some on each."""
    loop = "import os, sys\nos.sched_setaffinity(0, [int(sys.argv[1])])\nwhile True: pass"
    spinning = [
        subprocess.Popen([sys.executable, "-c", loop, str(core)]) for core in [*cores] * each
    ]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Let what is started meanwhile use this core only."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@dataclass
class Foreign:
    share: float = 1.0  # of the core's time


@contextmanager
def watching(core: int) -> Iterator[Foreign]:
    """Find how much of a core others than this process's children use meanwhile."""

    def read() -> tuple[float, float, float]:
        lines = Path("/proc/stat").read_text().splitlines()
        ticks = next(
            map(int, line.split()[1:9]) for line in lines if line.startswith(f"cpu{core} ")
        )
        counts = list(ticks)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        per_second = os.sysconf("SC_CLK_TCK")
        idle_s = (counts[3] + counts[4]) / per_second
        return sum(counts) / per_second, idle_s, children.ru_utime + children.ru_stime

    foreign = Foreign()
    before = read()
    yield foreign
    all_s, idle_s, children_s = (b - a for a, b in zip(before, read(), strict=True))
    foreign.share = (all_s - idle_s - children_s) / all_s


def result(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


@pytest.mark.alone
def test_a_busy_machine_is_told_before_the_run(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with busy(sorted(os.sched_getaffinity(0)), each=3):
        run = launcher.run(*CONTROL, f"--benchmark_out={out}")
    told = r"^warning: this machine is busy: (\d\.\d cores are idle, but the run needs \d+)$"
    found = re.findall(told, run.stdout, re.MULTILINE)
    assert len(found) == 1, run.stdout  # of all ranks
    assert result(out)["context"]["busy"] == found[0]


# A narrow interval does not make up for it. A control shows what it must in spite of it.
@pytest.mark.alone
def test_rows_beside_a_busy_loop_are_noisy(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    core = min(os.sched_getaffinity(0))
    with busy([core]), on_core(core):
        run = launcher.run(*ROWS, *MANY, f"--benchmark_out={out}", ranks=1)
    rows = result(out)["benchmarks"]
    assert len(rows) == 2, run.stdout
    for row in rows:
        assert row["state"] == "noisy", row
        assert re.fullmatch(DISTURBED, row["reason"]), row["reason"]
        assert row["core_wait_pct"] > 5
        assert 0.1 < row["foreign_cores"] < 1.1
    assert "2 of 2 rows are noisy: " in run.stdout


@pytest.mark.alone
def test_rows_are_not_called_disturbed_where_no_one_else_runs(
    launcher: "Launcher", tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    core, *others = sorted(os.sched_getaffinity(0))
    with busy(others[:1]), on_core(core), watching(core) as foreign:
        run = launcher.run(*ROWS, "--axis", "cache=cold,warm", f"--benchmark_out={out}")
    rows = result(out)["benchmarks"]
    assert len(rows) == 4, run.stdout
    if foreign.share > 0.02:
        pytest.skip(f"other programs used {100 * foreign.share:.0f} % of core {core}")
    for row in rows:
        assert "disturbed" not in row["reason"], row
        assert row["foreign_cores"] < 0.1
        assert row["core_wait_pct"] > 5, "two ranks on one core wait for each other"


def test_more_ranks_than_cores_are_told(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with on_core(min(os.sched_getaffinity(0))):
        launcher.run(*ROWS, f"--benchmark_out={out}", ranks=2)
    assert re.search(r"but (may use only 1|the run needs 2)", result(out)["context"]["busy"])
