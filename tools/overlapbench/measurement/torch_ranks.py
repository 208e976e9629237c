"""The ranks of torch.distributed and of MPI, which must agree.

The suite's ranks are those of MPI: mpirun, srun or torchrun starts the program, one process per
GPU. torchrun does not start MPI itself (torchrun.py).
"""

import os
import socket
import sys
from typing import Any

from overlapbench.measurement import torchrun
from overlapbench.measurement.interface import MeasureError, Place, Suite


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
    if not torchrun.has_started_us():  # torchrun sets these, and its store listens there
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
