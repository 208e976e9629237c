"""The peers of one case, each a function of the same tensors, and the check of their results.

Ours, eager and Triton write to the same output; torch.compile allocates its own. Before anything is
timed, every whole result is compared with the definition in double precision. The permitted error
of an element is

    absolute + relative·(|expected| + scale)

with `relative` the spacing of the type's numbers at 1, and at least 2e-6, which float32 arithmetic
needs for a sum over a row. `absolute` is 2e-6 for GELU, where peers compute 1 + erf(x) near -1, and
the spacing of the type's smallest numbers for softmax. `scale` is, as in kernels/gelu_oracle.h,
0.1·|grad| for GELU backward, whose derivative is a difference of terms of that size and crosses
zero, and 0 elsewhere.
"""

import math
from collections.abc import Callable, Iterator

import torch

from overlapbench import torch_kernels
from overlapbench.peers import triton_kernels
from overlapbench.peers.cases import OURS, Case

Work = Callable[[], torch.Tensor]
_CHUNK_ELEMENTS = 1 << 25  # compared at once, to limit memory
_APPROXIMATE = {"tanh": "tanh", "erf": "none"}


class Contest:
    """The tensors of one case and the functions that compete on them."""

    def __init__(self, case: Case) -> None:
        self.case = case
        generator = torch.Generator("cuda").manual_seed(case.elements)
        shape, dtype = (case.rows, case.columns), getattr(torch, case.type)
        self.x = torch.empty(shape, dtype=dtype, device="cuda").normal_(generator=generator)
        self.out = torch.empty_like(self.x)
        backward = case.direction == "backward"
        self.grad = torch.empty_like(self.x).normal_(generator=generator) if backward else None
        self.inputs = (self.x,) if self.grad is None else (self.grad, self.x)
        self.definition = self._definition()

    def _definition(self) -> Callable[..., torch.Tensor]:
        """Return the definition, as a function of the inputs."""
        if self.case.what == "softmax":
            return lambda x: torch.softmax(x, dim=-1)
        approximate = _APPROXIMATE[self.case.form]
        if self.grad is None:
            return lambda x: torch.nn.functional.gelu(x, approximate=approximate)
        return lambda grad, x: torch.ops.aten.gelu_backward(grad, x, approximate=approximate)

    def works(self) -> dict[str, Work]:
        """Return the peers by name, ours first."""
        compiled = torch.compile(self.definition, dynamic=False)
        ours, eager, in_triton = self._softmax() if self.case.what == "softmax" else self._gelu()
        return {
            OURS: ours,
            "PyTorch": eager,
            "torch.compile": lambda: compiled(*self.inputs),
            "Triton": in_triton,
        }

    def _softmax(self) -> tuple[Work, Work, Work]:
        x, out = self.x, self.out
        return (
            lambda: torch_kernels.softmax(x, out=out),
            lambda: torch.ops.aten._softmax.out(x, -1, False, out=out),
            lambda: triton_kernels.softmax(x, out),
        )

    def _gelu(self) -> tuple[Work, Work, Work]:
        x, grad, out = self.x, self.grad, self.out
        form, approximate = self.case.form, _APPROXIMATE[self.case.form]
        aten = torch.ops.aten
        if grad is None:
            return (
                lambda: torch_kernels.gelu(x, form, out=out),
                lambda: aten.gelu.out(x, approximate=approximate, out=out),
                lambda: triton_kernels.gelu(x, None, form, out),
            )
        return (
            lambda: torch_kernels.gelu_backward(grad, x, form, out=out),
            lambda: aten.gelu_backward.grad_input(grad, x, approximate=approximate, grad_input=out),
            lambda: triton_kernels.gelu(x, grad, form, out),
        )

    def copy(self) -> Work:
        """Return the copy that moves as many bytes as the case must."""
        if self.grad is None:
            return lambda: self.out.copy_(self.x)
        source = torch.cat([self.x.flatten(), self.x.flatten()[: self.x.numel() // 2]])
        target = torch.empty_like(source)
        return lambda: target.copy_(source)

    def error(self, work: Work) -> float:
        """Run a peer over a poisoned output; return its largest error over the permitted one."""
        self.out.fill_(math.nan)
        result = work()
        finfo = torch.finfo(self.x.dtype)
        relative = max(finfo.eps, 2e-6)
        absolute = 2e-6 if self.case.what == "gelu" else finfo.tiny * finfo.eps
        worst = 0.0
        for part in self._parts():
            expected = self.definition(*(one[part].double() for one in self.inputs))
            off = (result[part].double() - expected).abs()
            scale = 0.0 if self.grad is None else 0.1 * self.grad[part].double().abs()
            allowed = absolute + relative * (expected.abs() + scale)
            worst = max(worst, float((off / allowed).nan_to_num(nan=math.inf).max()))
        return worst

    def _parts(self) -> Iterator[tuple[slice, slice]]:
        """Cut the matrix into whole rows for softmax, and GELU's single row anywhere."""
        rows, columns = self.case.rows, self.case.columns
        rows_at_once = max(1, _CHUNK_ELEMENTS // columns)
        columns_at_once = columns if self.case.what == "softmax" else _CHUNK_ELEMENTS
        for row in range(0, rows, rows_at_once):
            for column in range(0, columns, columns_at_once):
                yield slice(row, row + rows_at_once), slice(column, column + columns_at_once)
