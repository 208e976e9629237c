"""Write the orders of PyTorch's pipeline schedules, as pipeline_order_test.cc reads them.

    python tests/data/record_torch_pipelines.py > tests/data/torch_pipelines.txt

ScheduleGPipe and Schedule1F1B have no table that they follow, so they are run, each rank with a
stage that notes what is asked of it. ScheduleInterleaved1F1B follows `pipeline_order`; the moments
in which a rank waits are left out. Needs PyTorch, but no GPU.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.distributed.pipelining import schedules

_SINGLE = {"GPipe": schedules.ScheduleGPipe, "OneFOneB": schedules.Schedule1F1B}
_SHAPES = ((2, 4), (2, 8), (3, 3), (4, 4), (4, 8))  # ranks, micro-batches
_INTERLEAVED = ((2, 2, 4), (2, 2, 8), (2, 3, 4), (4, 2, 4), (4, 2, 8), (4, 3, 8))  # chunks second


class _Stage:
    """A stage that notes its passes, and has nothing to send or to receive."""

    has_backward = True
    device = torch.device("cpu")

    def __init__(self, index: int, ranks: int, chunks: int) -> None:
        self.noted: list[str] = []
        self.stage_index, self.num_stages = index, ranks * chunks
        self.group_size, self.group_rank = ranks, index % ranks
        self.is_first, self.is_last = index == 0, index == self.num_stages - 1
        self.stage_index_to_group_rank = {i: i % ranks for i in range(self.num_stages)}

    def forward_one_chunk(self, microbatch: int, *_: Any, **__: Any) -> torch.Tensor:
        self.noted.append(f"{self.stage_index}F{microbatch}")
        return torch.zeros(())

    def backward_one_chunk(self, microbatch: int, *_: Any, **__: Any) -> None:
        self.noted.append(f"{self.stage_index}B{microbatch}")

    def get_fwd_recv_ops(self, _microbatch: int) -> list[Any]:
        return []

    get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = get_fwd_recv_ops

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def _followed(order: str, ranks: int, microbatches: int) -> Iterator[str]:
    for rank in range(ranks):
        stage = _Stage(rank, ranks, 1)
        schedule: Any = _SINGLE[order](stage, microbatches)
        for ready in ("", "_forward", "_backward"):
            setattr(schedule, f"_stage{ready}_initialized", True)
        schedule._initialize_stage = lambda *_, **__: None
        schedule._step_microbatches([()] * microbatches, None, None, None)
        yield " ".join(stage.noted)


def _interleaved(ranks: int, chunks: int, microbatches: int) -> Iterator[str]:
    stages: list[Any] = [_Stage(chunk * ranks, ranks, chunks) for chunk in range(chunks)]
    order = schedules.ScheduleInterleaved1F1B(stages, microbatches).pipeline_order
    for rank in range(ranks):
        yield " ".join(str(action) for action in order[rank] if action is not None)


def main() -> None:
    print(f"# By record_torch_pipelines.py, with PyTorch {torch.__version__.partition('+')[0]}.")
    print("# Order, ranks, stages of each rank, micro-batches; then a line for each rank.")
    for order in _SINGLE:
        for ranks, microbatches in _SHAPES:
            print(order, ranks, 1, microbatches)
            print(*_followed(order, ranks, microbatches), sep="\n")
    for ranks, chunks, microbatches in _INTERLEAVED:
        print("Interleaved", ranks, chunks, microbatches)
        print(*_interleaved(ranks, chunks, microbatches), sep="\n")


if __name__ == "__main__":
    main()
