"""How a rank reads Slurm's variables, as far as this can be tested without Slurm."""

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from overlapbench.drill.drills import ROWS

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

# The number of the step that is the allocation's own shell.
SHELL = "4294967290"


def start(launcher: "Launcher", rank: int, step: str) -> "subprocess.CompletedProcess[str]":
    """One rank of two, as srun starts it without --mpi=pmix: MPI gets no information."""
    slurm = {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_STEP_ID": step}
    return subprocess.run(
        [str(launcher.binary), "--backend=host", *ROWS],
        env={key: v for key, v in os.environ.items() if not key.startswith("OMPI_")} | slurm,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


# Alone, rank 1 would measure for itself and show nothing.
@pytest.mark.parametrize("rank", [0, 1])
def test_a_task_that_mpi_does_not_know_of_is_refused(launcher: "Launcher", rank: int) -> None:
    done = start(launcher, rank, step="0")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(
        f"overlapbench: started as rank {rank} of 2, but MPI reports one rank only: "
    )
    assert "--mpi=pmix" in done.stderr


def test_the_shell_of_an_allocation_is_no_task(launcher: "Launcher") -> None:
    done = start(launcher, 0, step=SHELL)
    assert done.returncode == 0, done.stderr
    assert ", 1 rank on " in done.stdout


# mpirun inside an allocation: its own variables count.
def test_mpirun_inside_an_allocation_counts_its_own_ranks(
    launcher: "Launcher", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "7")
    monkeypatch.setenv("SLURM_STEP_ID", SHELL)
    done = launcher.run(*ROWS, ranks=2)
    assert done.returncode == 0, done.stderr
    assert ", 2 ranks on " in done.stdout
