"""Processes that torchrun starts are the suite's ranks: here by its variables, without PyTorch."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import ROOT

from drill.leftovers import MARK, Before

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

RANKS = 2
PROGRAM = """
import json, os, sys, time
import overlapbench as ob
from overlapbench.measurement import ranks
ranks.TIMEOUT_S = float(os.environ.get("TIMEOUT_S", 30))
if os.environ["RANK"] == os.environ.get("LATE"):
    time.sleep(1)
if os.environ["RANK"] == os.environ.get("DEAD"):
    sys.exit(print("[]"))
ob.configure(backend="host", self_test=False, precision=0, budget_ms=20)
def measure():
    try:
        row = ob.measure_alone(lambda: time.sleep(0.002), name="nap", cache="warm")
        return [str(row.name), row.intervals.get("time")]
    except ob.MeasureError as error:
        return str(error)
said = measure()
if isinstance(said, str):
    said = [said, measure()]  # a second attempt fails as the first
print(json.dumps([os.environ.get("OMPI_COMM_WORLD_RANK"), said]))
"""


def torchrun(launcher: "Launcher", folder: Path, **variables: str) -> list[list[Any]]:
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
        "LOCAL_WORLD_SIZE": str(RANKS),
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    try:
        return [json.loads(process.communicate(timeout=180)[0]) for process in started]
    finally:
        for process in started:
            process.kill()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder with a short name, for MPI's sockets. Nothing may be left behind."""
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setenv(MARK, name)
        before = Before.look(name)
        yield Path(name)
        assert before.left() == []
        assert not list(Path(name).glob("overlapbench-*"))


# Also where one of them comes later.
@pytest.mark.parametrize("late", ["", "0", "1"])
def test_its_processes_are_the_ranks(launcher: "Launcher", folder: Path, late: str) -> None:
    told = torchrun(launcher, folder, LATE=late)
    assert [rank for rank, _ in told] == ["0", "1"]
    name, interval = told[0][1]
    assert name == "Compute/nap/cache:warm"
    assert interval[0] > 0
    assert told[1][1] == told[0][1], "each measured for itself"


@pytest.mark.parametrize("dead", [0, 1])
def test_a_rank_that_does_not_come_is_named(launcher: "Launcher", folder: Path, dead: int) -> None:
    told = torchrun(launcher, folder, DEAD=str(dead), TIMEOUT_S="3")
    said = f"rank {1 - dead} of 2: rank {dead} did not arrive within 3 s"
    assert told[1 - dead] == [None, [said, said]]


def test_without_mpirun_every_process_says_so(launcher: "Launcher", folder: Path) -> None:
    told = torchrun(launcher, folder, PATH=str(folder))
    said = "the ranks need MPI, which torchrun does not start, and there is no mpirun"
    assert told == [[None, [said, said]]] * RANKS


def test_an_mpirun_that_fails_is_told_to_all(launcher: "Launcher", folder: Path) -> None:
    mpirun = folder / "mpirun"
    mpirun.write_text("#!/bin/sh\necho -----\necho no slots >&2\nexit 1\n")
    mpirun.chmod(0o755)
    told = torchrun(launcher, folder, PATH=f"{folder}:{os.environ['PATH']}")
    said = "rank 0 of 2: mpirun did not start MPI: no slots"
    assert told == [[None, [said, said]]] * RANKS


def test_ranks_on_several_hosts_are_refused(launcher: "Launcher", folder: Path) -> None:
    told = torchrun(launcher, folder, LOCAL_WORLD_SIZE="1")
    said = "torchrun has started ranks on several hosts: use mpirun or srun"
    assert told == [[None, [said, said]]] * RANKS
