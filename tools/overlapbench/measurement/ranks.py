"""The ranks of a job: those of MPI, which must all arrive, and those of PyTorch, which must agree.

*Arriving.* MPI waits forever for a rank that does not start it. So each rank first creates a file
in the folder that mpirun keeps for the job, and looks for the files of the others. The outcome is
one file, written by the first rank that has seen all others or has timed out. All ranks follow it,
including late ones. This works if mpirun has started all ranks on one host. Otherwise nothing is
checked here.

*torchrun.* MPI starts only in processes of its own launcher, which gives each process environment
variables with its server and its rank. torchrun does not. So rank 0 has mpirun start a placeholder
for each rank. A placeholder writes its variables to a folder that all processes of this torchrun
know. The rank's process sets them for itself, and MPI starts as if mpirun had started that process.
The placeholder exits after its process has ended. This needs all ranks on one host.
"""

import atexit
import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overlapbench.installation import MPI_ENVIRONMENT, MPIRUN
from overlapbench.measurement.interface import MeasureError, Place, Suite

TIMEOUT_S = 60.0
_LOOK_S = 0.01  # interval at which a process looks for a file
_OUTCOME = "outcome"  # the file with it: empty, or why nothing can be measured
_LOOK_FOR_END_S = 0.5  # interval at which a placeholder checks its process
_STARTED_BY_US = "TORCHELASTIC_RUN_ID"
_OF_THIS_START = ("MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
_OF_MPI = ("OMPI_", "PMIX_")
_FAILED = "failed"  # the file with the reason, for all ranks and later attempts


def require_all(timeout_s: float) -> None:
    """Wait for the other ranks; after the timeout, MeasureError names the missing ones."""
    rank, ranks, local = (
        int(os.environ.get(f"OMPI_COMM_WORLD_{name}", 0)) for name in ("RANK", "SIZE", "LOCAL_SIZE")
    )
    job = Path(os.environ.get("PMIX_SERVER_TMPDIR", ""))
    if ranks < 2 or local != ranks or not job.is_absolute() or not job.is_dir():
        return
    folder = job / "overlapbench"
    folder.mkdir(exist_ok=True)
    (folder / str(rank)).touch()
    if reason := _outcome(folder, ranks, timeout_s):
        raise MeasureError(reason)


def _outcome(folder: Path, ranks: int, timeout_s: float) -> str:
    """Return why the ranks have not met; "" if they have."""
    deadline = time.monotonic() + timeout_s
    while not (folder / _OUTCOME).exists():
        missing = [rank for rank in range(ranks) if not (folder / str(rank)).exists()]
        if not missing:
            _decide(folder, "")
        elif time.monotonic() > deadline:
            names = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
            came = f"{names} of {ranks} did not reach the first measurement"
            _decide(folder, f"{came} within {timeout_s:g} s")
        else:
            time.sleep(_LOOK_S)
    return (folder / _OUTCOME).read_text(encoding="utf-8")


def _decide(folder: Path, reason: str) -> None:
    """Write the outcome atomically unless another rank has written one."""
    mine = folder / f"{_OUTCOME}.{os.getpid()}"
    mine.write_text(reason, encoding="utf-8")
    with contextlib.suppress(FileExistsError):
        (folder / _OUTCOME).hardlink_to(mine)
    mine.unlink()


def has_started_us() -> bool:
    return _STARTED_BY_US in os.environ


def require_same(place: Place) -> None:
    """Raise MeasureError if torch.distributed is initialized with other ranks."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    if (rank, ranks) != (place.rank, place.ranks):
        raise MeasureError(
            f"torch.distributed has rank {rank} of {ranks}, but MPI has rank {place.rank} of"
            f" {place.ranks}: start with `mpirun -n {ranks} python ...`, or with torchrun on one"
            " host, and call overlapbench.init_torch_distributed() in place of init_process_group()"
        )


def init(suite: Suite, backend: str | None, **options: Any) -> None:
    """Initialize torch.distributed with MPI's ranks."""
    import torch

    place = suite.place
    if not has_started_us():  # torchrun sets these, and its store listens there
        address = suite.broadcast(f"{socket.gethostname()}:{_free_port()}")
        host, _, port = address.rpartition(":")
        os.environ |= {
            "RANK": str(place.rank),
            "WORLD_SIZE": str(place.ranks),
            "LOCAL_RANK": str(place.local_rank),
            "MASTER_ADDR": host,
            "MASTER_PORT": port,
        }
    on_gpu = place.device >= 0
    if on_gpu:
        torch.cuda.set_device(place.device)
        options.setdefault("device_id", torch.device("cuda", place.device))
    torch.distributed.init_process_group(backend or ("nccl" if on_gpu else "gloo"), **options)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """Let MPI start in this context with torchrun's ranks; MeasureError if it cannot.

    Does nothing if a launcher of MPI has started this process, or mpi4py has initialized MPI.
    """
    has_mpi = "OMPI_COMM_WORLD_RANK" in os.environ or "mpi4py.MPI" in sys.modules
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if not has_started_us() or has_mpi or ranks == 1:
        yield
        return
    if os.environ.get("LOCAL_WORLD_SIZE") != str(ranks):
        raise MeasureError("torchrun has started ranks on several hosts: use mpirun or srun")
    if shutil.which(MPIRUN[0]) is None:
        raise MeasureError(
            f"the ranks need MPI, which torchrun does not start, and there is no {MPIRUN[0]}"
        )
    rank = int(os.environ["RANK"])
    folder = _meeting_place()
    try:
        os.environ |= _variables_for(rank, ranks, folder)
    except (OSError, MeasureError) as error:
        with contextlib.suppress(OSError):
            _write(folder / _FAILED, str(error))
        atexit.register(_leave, rank, folder)
        raise MeasureError(str(error)) from None
    try:
        yield
    finally:
        if rank == 0:  # MPI has started on all ranks, so all have read their variables
            shutil.rmtree(folder, ignore_errors=True)


def hold_place(folder: Path) -> None:
    """Give one rank's process the MPI variables of this process, and wait until it has ended."""
    rank = os.environ["OMPI_COMM_WORLD_RANK"]
    process: int = json.loads((folder / f"pid.{rank}").read_text())
    began = _began(process)
    of_mpi = {name: value for name, value in os.environ.items() if name.startswith(_OF_MPI)}
    _write(folder / f"variables.{rank}", of_mpi)
    while began and _began(process) == began:
        time.sleep(_LOOK_FOR_END_S)


def _variables_for(rank: int, ranks: int, folder: Path) -> dict[str, str]:
    me = f"rank {rank} of {ranks}"
    _write(folder / f"pid.{rank}", os.getpid())
    mine = folder / f"variables.{rank}"
    awaited = {0: mine}
    if rank == 0:
        awaited = {other: folder / f"pid.{other}" for other in range(ranks)}
    for other, file in awaited.items():
        if not _await(file, folder):
            raise MeasureError(f"{me}: rank {other} did not arrive within {TIMEOUT_S:.0f} s")
    if rank == 0:
        placeholders = _start_placeholders(folder, ranks)
        if not _await(mine, folder, placeholders):
            placeholders.terminate()
            raise MeasureError(f"{me}: mpirun did not start MPI{_reason(folder / 'log')}")
    variables: dict[str, str] = json.loads(mine.read_text())
    return variables


def _await(file: Path, folder: Path, placeholders: "subprocess.Popen[bytes] | None" = None) -> bool:
    """Tell whether the file appears in time; MeasureError if another rank reports a failure."""
    deadline = time.monotonic() + TIMEOUT_S
    failed = folder / _FAILED
    while True:
        if failed.exists():
            raise MeasureError(json.loads(failed.read_text()))
        if file.exists():
            return True
        if time.monotonic() > deadline or (
            placeholders is not None and placeholders.poll() is not None
        ):
            return False
        time.sleep(_LOOK_S)


def _leave(rank: int, folder: Path) -> None:
    """Remove the folder of a failure after the last rank has left."""
    (folder / f"pid.{rank}").unlink(missing_ok=True)
    if not any(folder.glob("pid.*")):
        shutil.rmtree(folder, ignore_errors=True)


def _meeting_place() -> Path:
    """Return the folder that only the processes of this torchrun use."""
    launcher = os.getppid()
    # Shells and profilers may run between torchrun and its processes.
    while _STARTED_BY_US.encode() in _read(Path(f"/proc/{launcher}/environ")):
        launcher = int(_status(launcher)[1])
    marks = (launcher, _began(launcher), *(os.environ.get(name, 0) for name in _OF_THIS_START))
    folder = Path(tempfile.gettempdir()) / "-".join(map(str, ("overlapbench", *marks)))
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise MeasureError(f"{folder} is not private to this user: remove it")
    return folder


def _start_placeholders(folder: Path, ranks: int) -> "subprocess.Popen[bytes]":
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    here = ("--host", f"localhost:{ranks}")
    with (folder / "log").open("w") as log:
        return subprocess.Popen(
            [*MPIRUN, *here, "-n", str(ranks), sys.executable, "-m", __name__, str(folder)],
            env=MPI_ENVIRONMENT | os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C must not end placeholders
        )


def _reason(log: Path) -> str:
    """Return the first line that contains a letter: mpirun draws rules around its messages."""
    lines = (line.strip() for line in log.read_text().splitlines())
    return next((f": {line}" for line in lines if any(map(str.isalpha, line))), "")


def _began(process: int) -> str:
    """Return when the process began, in the kernel's ticks; "" if it has ended."""
    status = _status(process)
    return status[19] if status and status[0] not in "ZX" else ""


def _status(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat, starting with the state."""
    return _read(Path(f"/proc/{process}/stat")).decode().rpartition(")")[2].split()


def _read(file: Path) -> bytes:
    with contextlib.suppress(OSError):
        return file.read_bytes()
    return b""


def _write(file: Path, value: object) -> None:
    """Write a file atomically."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(value))
    unfinished.rename(file)


if __name__ == "__main__":
    try:
        hold_place(Path(sys.argv[1]))
    except OSError as failure:
        sys.exit(f"a rank's placeholder: {failure}")
