"""The gate on the real program: a build against itself passes, with a delay injected it fails.

On the host backend and rows of known length, because only they are quiet on a busy machine.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import ROOT

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

UNDECIDED = 3
SLOW = "Compute/Delay/delay_us:3000/cache:warm"
FLAGS = (
    "--benchmark_filter=Compute/Delay",
    "--budget_ms=40",
    *("--axis", "delay_us=1500,3000,4500"),
    *("--axis", "cache=warm"),
)


def gate(
    launcher: "Launcher", folder: Path, *candidate_flags: str
) -> "subprocess.CompletedProcess[str]":
    """Run the gate on the binary and on itself with more flags, one rank each.

    On a machine that is too busy to decide (status 3), up to three times.
    """
    base = launcher.command([[]])
    sides = ["--base", shlex.join(base), "--candidate", shlex.join([*base, *candidate_flags])]
    sizes = ["--runs", "4", "--repetitions", "3", "--timeout-s", "60"]
    # Three rows are too few to share variances, and a busy machine disturbs them. The delay is
    # 30 %.
    sizes += ["--max-floor", "25"]
    command = [sys.executable, str(ROOT / "tools/perf_gate.py"), "run", *sides, *sizes]
    for _ in range(3):
        done = subprocess.run(
            [*command, "--output", str(folder / "gate.json"), "--", *FLAGS],
            env=launcher.environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode != UNDECIDED:
            break
    return done


def failing(folder: Path) -> dict[str, str]:
    document = json.loads((folder / "gate.json").read_text(encoding="utf-8"))
    assert len(document["rows"]) == 3
    return {row["name"]: row["verdict"] for row in document["rows"] if row["fails"]}


@pytest.mark.alone
def test_a_build_against_itself_passes(launcher: "Launcher", tmp_path: Path) -> None:
    done = gate(launcher, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert failing(tmp_path) == {}


@pytest.mark.alone
def test_an_injected_delay_fails_and_is_named(launcher: "Launcher", tmp_path: Path) -> None:
    done = gate(launcher, tmp_path, "--inject_delay=delay_us:3000:900")
    assert done.returncode == 1, done.stdout + done.stderr
    assert failing(tmp_path) == {SLOW: "slower"}
    assert SLOW in done.stdout
    # A busy machine may give another row a second look as well.
    again = [line for line in done.stderr.splitlines() if "measured again: " in line]
    assert any(SLOW in line for line in again), done.stderr


@pytest.mark.alone
def test_an_injected_delay_is_in_time_and_context(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    flags = ("--inject_delay=delay_us:1500/:3500", *FLAGS, f"--benchmark_out={out}")
    done = launcher.run(*flags, ranks=1)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["context"]["injected_delay"] == "delay_us:1500/:3500"
    slow, *others = result["benchmarks"]
    # Of the quickest samples: a busy machine makes the others longer.
    assert slow["p05_ms"] == pytest.approx(5.0, rel=0.1)
    for row, delay_ms in zip(others, (3.0, 4.5), strict=True):
        assert row["p05_ms"] == pytest.approx(delay_ms, rel=0.1)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("Gemm:100", "--inject_delay=Gemm:100 matches none of the benchmarks that were chosen"),
        ("Delay", "--inject_delay takes REGEX:MICROSECONDS, got 'Delay'"),
        ("Delay:-1", "--inject_delay: microseconds: '-1' is not a whole number from 1 to 60000000"),
    ],
)
def test_a_delay_that_matches_nothing_is_refused(
    value: str, complaint: str, launcher: "Launcher"
) -> None:
    done = launcher.run(f"--inject_delay={value}", *FLAGS, ranks=2)
    assert done.returncode == 2
    assert f"overlapbench: {complaint}\n" in done.stderr
