"""Processes that torchrun starts are the suite's ranks: here by its variables, without PyTorch."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import ROOT

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

RANKS = 2
PROGRAM = """
import json, os, sys, time
import overlapbench as ob
ob.configure(backend="host", self_test=False, precision=0, budget_ms=20)
try:
    row = ob.measure_alone(lambda: time.sleep(0.002), name="nap", cache="warm")
    said = [str(row.name), row.interval("time")]
except ob.MeasureError as error:
    said = str(error)
print(json.dumps([os.environ.get("OMPI_COMM_WORLD_RANK"), said]))
"""


def torchrun(
    launcher: "Launcher", folder: Path, ranks: int = RANKS, **variables: str
) -> list[list[Any]]:
    """Run the program in processes with torchrun's variables; return what each prints."""
    library = launcher.binary.parent / "liboverlapbench.so"
    if not library.exists():
        pytest.skip(f"there is no {library}: a build with a sanitizer has none")
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = str(probe.getsockname()[1])
    shared = launcher.environment() | {
        "OVERLAPBENCH_LIBRARY": str(library),
        "PYTHONPATH": str(ROOT / "tools"),
        "TMPDIR": str(folder),
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": str(ranks),
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    return [json.loads(process.communicate(timeout=60)[0]) for process in started]


@pytest.fixture
def folder() -> Any:
    """A temporary folder with a short name, for MPI's sockets."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def test_its_processes_are_the_ranks(launcher: "Launcher", folder: Path) -> None:
    told = torchrun(launcher, folder)
    assert [rank for rank, _ in told] == ["0", "1"]
    name, interval = told[0][1]
    assert name == "Compute/nap/cache:warm"
    assert interval[0] > 0
    assert told[1][1] == told[0][1], "each measured for itself"
    assert not list(folder.glob("overlapbench-*"))


def test_without_mpirun_every_process_says_so(launcher: "Launcher", folder: Path) -> None:
    told = torchrun(launcher, folder, PATH=str(folder))
    said = "the ranks agree by MPI, which torchrun does not start, and there is no mpirun"
    assert told == [[None, said]] * RANKS


def test_an_mpirun_that_fails_is_told_at_once(launcher: "Launcher", folder: Path) -> None:
    mpirun = folder / "mpirun"
    mpirun.write_text("#!/bin/sh\necho no slots\nexit 1\n")
    mpirun.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    # The other process is not started, so nothing but its own would end the wait.
    (told,) = torchrun(launcher, folder, 1, PATH=path, LOCAL_WORLD_SIZE=str(RANKS))
    assert told == [None, "rank 0 of 2: mpirun has not started MPI: no slots"]
    assert not list(folder.glob("overlapbench-*"))


def test_on_several_hosts_a_process_is_left_alone(launcher: "Launcher", folder: Path) -> None:
    ((rank, (name, _)),) = torchrun(launcher, folder, 1)
    assert (rank, name) == (None, "Compute/nap/cache:warm")
