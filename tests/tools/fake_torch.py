"""A PyTorch of a few lines, for machines without it: tensors that hold no data, one CUDA device."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Device:
    """What a tensor is on."""

    type: str = "cuda"
    index: int = 0

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


@dataclass(frozen=True)
class Tensor:
    """What the checks ask a tensor for."""

    shape: tuple[int, ...]
    dtype: str = "torch.float32"
    device: Device = Device()
    contiguous: bool = True
    requires_grad: bool = False
    address: int = 0x1000

    def numel(self) -> int:
        return math.prod(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def is_contiguous(self) -> bool:
        return self.contiguous

    def data_ptr(self) -> int:
        return self.address


def module() -> Any:
    """Make a module that can stand in `sys.modules` for torch."""

    @contextlib.contextmanager
    def on_device(_device: Device) -> Iterator[None]:
        yield

    cuda = SimpleNamespace(
        device=on_device,
        current_stream=lambda _device=None: SimpleNamespace(cuda_stream=77),
        is_current_stream_capturing=lambda: False,
    )
    return SimpleNamespace(
        Tensor=Tensor,
        cuda=cuda,
        uint8="torch.uint8",
        is_grad_enabled=lambda: True,
        empty_like=lambda like: Tensor(like.shape, like.dtype, like.device, address=0x5000),
        zeros_like=lambda like: Tensor(like.shape, like.dtype, like.device, address=0x6000),
        zeros=lambda count, dtype, device: Tensor((count,), dtype, device, address=0x7000),
    )
