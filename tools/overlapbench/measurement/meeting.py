"""Check that all ranks reach the first measurement, before MPI starts there.

MPI waits forever for a rank that does not start it. So each rank first creates a file in the folder
that mpirun keeps for the job, and looks for the files of the others. The outcome is one file,
written by the first rank that has seen all others or has timed out. All ranks follow it, including
late ones.

This works if mpirun has started all ranks on one host. Otherwise nothing is checked here.
"""

import contextlib
import os
import time
from pathlib import Path

from overlapbench.measurement.interface import MeasureError

_LOOK_S = 0.01  # how often a rank looks for the others
_OUTCOME = "outcome"  # empty, or why nothing can be measured


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
