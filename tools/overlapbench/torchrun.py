"""MPI for processes that torchrun has started.

The suite's ranks agree by MPI, and MPI starts only in what its own launcher has started: that
hands each process variables which say where its server is and which rank it is. So the first
process of a host has mpirun start a stand-in for each rank. A stand-in leaves its variables in a
folder that all processes of the torchrun know, its process takes them for its own, and MPI starts
as if mpirun had started it. The stand-in ends when its process has ended.

This holds for one host. Processes on several are left alone, and torch_ranks refuses to measure.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from overlapbench.drill.job import MPI_ENVIRONMENT, MPIRUN
from overlapbench.interface import MeasureError

TIMEOUT_S = 60.0
_LOOK_S = 0.02  # how often a process looks for its file
_OF_MPI = ("OMPI_", "PMIX_")
_OF_THIS_START = ("MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")


def has_started_us() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def join() -> None:
    """Let MPI start in this process with the rank that torchrun gave it; MeasureError if not.

    Nothing happens where a launcher of MPI has started this process, or mpi4py has MPI running.
    """
    variables = os.environ
    ranks = int(variables.get("WORLD_SIZE", "1"))
    has_mpi = "OMPI_COMM_WORLD_RANK" in variables or "mpi4py.MPI" in sys.modules
    several_hosts = variables.get("LOCAL_WORLD_SIZE") != str(ranks)
    if not has_started_us() or has_mpi or several_hosts or ranks == 1:
        return
    if shutil.which(MPIRUN[0]) is None:
        raise MeasureError(
            f"the ranks agree by MPI, which torchrun does not start, and there is no {MPIRUN[0]}"
        )
    folder = _meeting_place()
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise MeasureError(f"{folder} belongs to another user")
    try:
        variables |= _variables_for(int(variables["RANK"]), ranks, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    with suppress(OSError):  # whoever is last removes it
        (folder / "log").unlink(missing_ok=True)
        folder.rmdir()


def _variables_for(rank: int, ranks: int, folder: Path) -> dict[str, str]:
    stand_ins = _start_stand_ins(folder, ranks) if rank == 0 else None
    _write(folder / f"pid.{rank}", os.getpid())
    given = folder / f"variables.{rank}"
    deadline = time.monotonic() + TIMEOUT_S
    while not given.exists():
        if time.monotonic() > deadline or (stand_ins is not None and stand_ins.poll() is not None):
            raise MeasureError(f"rank {rank} of {ranks}: {_why_not(folder / 'log')}")
        time.sleep(_LOOK_S)
    variables: dict[str, str] = json.loads(given.read_text())
    given.unlink()
    return variables


def stand_in(folder: Path) -> None:
    """Give one process this one's variables of MPI, and wait until it has ended."""
    rank = os.environ["OMPI_COMM_WORLD_RANK"]
    named = folder / f"pid.{rank}"
    deadline = time.monotonic() + TIMEOUT_S
    while not named.exists():
        if time.monotonic() > deadline:
            sys.exit(f"rank {rank} did not come within {TIMEOUT_S:.0f} s")
        time.sleep(_LOOK_S)
    process = os.pidfd_open(json.loads(named.read_text()))
    named.unlink()
    of_mpi = {name: value for name, value in os.environ.items() if name.startswith(_OF_MPI)}
    _write(folder / f"variables.{rank}", of_mpi)
    select.select([process], [], [])


def _meeting_place() -> Path:
    """Return a folder that the processes of this start of torchrun, their parent, have alone."""
    parent = os.getppid()
    began = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    marks = (parent, began, *(os.environ.get(name, 0) for name in _OF_THIS_START))
    return Path(tempfile.gettempdir()) / "-".join(map(str, ("overlapbench", *marks)))


def _start_stand_ins(folder: Path, ranks: int) -> subprocess.Popen[bytes]:
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    variables = MPI_ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with (folder / "log").open("w") as log:
        return subprocess.Popen(
            [*MPIRUN, "-n", str(ranks), sys.executable, "-m", __name__, str(folder)],
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # the stand-ins end with their processes, not by Ctrl-C
        )


def _why_not(log: Path) -> str:
    said = log.read_text().strip() if log.exists() else ""
    why = f": {said.splitlines()[0]}" if said else ""
    return f"{MPIRUN[0]} has not started MPI{why}"


def _write(file: Path, value: object) -> None:
    """Write a file that is whole as soon as it has its name."""
    unfinished = file.with_suffix(file.suffix + ".new")
    unfinished.write_text(json.dumps(value))
    unfinished.rename(file)


if __name__ == "__main__":
    stand_in(Path(sys.argv[1]))
