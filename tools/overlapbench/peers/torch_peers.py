"""PyTorch's side of training steps on this process's device: the `Peers` of training.py."""

import torch
import torch.distributed as dist

from overlapbench.measurement.callables import Work
from overlapbench.peers.torch_layers import Ranks, make_layer
from overlapbench.peers.torch_pipelines import make_pipeline
from overlapbench.peers.torch_steps import make_step
from overlapbench.peers.training import Case


class TorchPeers:
    """Makes peers for the ranks of torch.distributed, which must be initialized."""

    def __init__(self) -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        if dist.get_backend() == "nccl":
            device = torch.device("cuda", torch.cuda.current_device())
            self.ranks = Ranks(device, torch.bfloat16, rank, ranks)
        else:  # as in the host backend's layers
            self.ranks = Ranks(torch.device("cpu"), torch.float32, rank, ranks)

    def make(self, case: Case, peer: str) -> Work:
        """Make the peer's tensors and its work."""
        make = {"Tp": make_layer, "Pp": make_pipeline}.get(case.family, make_step)
        made = make(case, peer, self.ranks)
        self._finish()
        return made

    def agree(self, problem: str) -> str:
        """Return the first problem of any rank."""
        problems: list[str | None] = [None] * self.ranks.ranks
        dist.all_gather_object(problems, problem)
        return next(filter(None, problems), "")

    def forget(self) -> None:
        """Free the memory that the allocator caches, since the suite's rows need it, too."""
        if self.ranks.device.type == "cuda":
            self._finish()
            torch.cuda.empty_cache()

    def _finish(self) -> None:
        """Wait for work on streams other than the rows'."""
        if self.ranks.device.type == "cuda":
            torch.cuda.synchronize()
