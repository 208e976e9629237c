"""The tuner on the real program, on the host backend: whatever wins, its output is complete."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import ROOT

from overlapbench.installation import MPIRUN

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

QUICK = ("--host_cores=2", "--budget_ms=10")


def tune(launcher: "Launcher", *arguments: str) -> "subprocess.CompletedProcess[str]":
    words = [launcher.mpirun, *MPIRUN[1:], "-n", "2", str(launcher.binary)]
    command = shlex.join([*words, "--backend=host"])
    return subprocess.run(
        [sys.executable, "-m", "overlapbench", "tune", "--command", command, *arguments],
        env=launcher.environment() | {"PYTHONPATH": str(ROOT / "tools")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.alone
def test_a_pair_is_tuned(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "tuned.json"
    pair = "Overlap/AllGather+Delay/bytes:64K/delay_us:500/cache:warm"
    quick = ("--unit-ms", "5", "--runs", "3", "--output", str(out))
    done = tune(launcher, pair, *quick, "--", *QUICK)
    (found,) = json.loads(out.read_text(encoding="utf-8"))["pairs"]
    # On a busy machine the sides may not meet; then the row is invalid, and that is the answer.
    unanswered = found["verdict"].startswith("not confirmed: ")
    assert done.returncode == (1 if unanswered else 0), done.stderr
    row = "Overlap/AllGather+Delay/bytes:65536/delay_us:500/cache:warm"
    assert found["name"] == found["default"]["name"] == row
    # Three orders, with and without a limit of one core; no priorities, and one transport.
    assert found["default"]["settings"] == {"first": "none", "comp_sms": "0"}
    assert found["grid"] == found["tried"] == 6
    assert {one["name"].removeprefix(row) for one in found["measured"]} <= {
        order + limit
        for order in ("", "/first:comp", "/first:comm")
        for limit in ("", "/comp_sms:1")
    }
    assert found["verdict"]
    assert done.stdout.startswith(f"{row}\n  default ")
    assert "tune: AllGather+Delay: transports and orders: 6 rows\n" in done.stderr


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("AllGather+Gem", "--pair: there is no workload 'Gem'; did you mean Gemm?"),
        ("AllGather+Gemm/columns:4K", "there is no axis 'columns'; the axes are "),
        ("AllGather+Mlp", "no benchmark can run here; not available: Overlap/AllGather+Mlp: "),
        (
            "AllGather+Delay/bytes:64K/first:comp/comp_sms:0",
            "AllGather+Delay: nothing to vary here: ",
        ),
    ],
)
def test_a_refused_pair_ends_with_the_programs_message(
    launcher: "Launcher", pair: str, says: str
) -> None:
    done = tune(launcher, pair, "--", "--budget_ms=1")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"overlapbench tune: {says}")
    assert done.stderr.count("\n") == 1


def test_the_choices_of_an_axis_are_listed(launcher: "Launcher") -> None:
    axes = launcher.alone("--backend=host", "--list_axes").stdout
    assert (
        "\n  transport = mpi  (what moves the data: NCCL, copy engines, our own kernel, or MPI)  "
        "of mpi," in axes
    )
    assert "  of comp,comm,none\n" in axes
