"""GELU and softmax in Triton, in the style of its tutorials.

GELU: one program per block of elements, with the faster of two block sizes. Softmax: one program
per row. A row of up to 32,768 elements is kept in registers and read once. A longer one is read
twice; its maximum and sum are computed by the online method of Milakov and Gimelshein (2018).
"""

import torch
import triton
import triton.language as tl

_MOST_COLUMNS_HELD = 32768
_ONLINE_BLOCK = 8192


def _gelu_source(
    x: tl.tensor,
    grad: tl.tensor,
    y: tl.tensor,
    count: tl.tensor,
    erf_form: tl.constexpr,
    backward: tl.constexpr,
    block: tl.constexpr,
) -> None:
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    v = tl.load(x + at, mask=inside).to(tl.float32)
    if erf_form:
        share = 0.5 * (1 + tl.math.erf(v * 0.7071067811865476))
        result = v * share
        if backward:
            result = share + v * tl.exp(-0.5 * v * v) * 0.3989422804014327
    else:
        share = tl.sigmoid(1.5957691216057308 * (v + 0.044715 * v * v * v))
        result = v * share
        if backward:
            slope = 1.5957691216057308 * (1 + 0.134145 * v * v)
            result = share + v * share * (1 - share) * slope
    if backward:
        result = result * tl.load(grad + at, mask=inside).to(tl.float32)
    tl.store(y + at, result.to(y.dtype.element_ty), mask=inside)


def _held_source(x: tl.tensor, y: tl.tensor, columns: tl.tensor, block: tl.constexpr) -> None:
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, block)
    inside = at < columns
    v = tl.load(x + row + at, mask=inside, other=-float("inf")).to(tl.float32)
    exponentials = tl.exp(v - tl.max(v, axis=0))
    result = exponentials / tl.sum(exponentials, axis=0)
    tl.store(y + row + at, result.to(y.dtype.element_ty), mask=inside)


def _online_source(x: tl.tensor, y: tl.tensor, columns: tl.tensor, block: tl.constexpr) -> None:
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, block)
    maximum = tl.full([block], -3.0e38, tl.float32)
    total = tl.zeros([block], tl.float32)
    for first in range(0, columns, block):
        inside = first + at < columns
        v = tl.load(x + row + first + at, mask=inside, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, v)
        total = total * tl.exp(maximum - larger) + tl.exp(v - larger)
        maximum = larger
    of_row = tl.max(maximum, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp(maximum - of_row), axis=0)
    for first in range(0, columns, block):
        inside = first + at < columns
        v = tl.load(x + row + first + at, mask=inside, other=-float("inf")).to(tl.float32)
        result = tl.exp(v - of_row) * scale
        tl.store(y + row + first + at, result.to(y.dtype.element_ty), mask=inside)


_gelu = triton.autotune(
    configs=[
        triton.Config({"block": 1024}, num_warps=4),
        triton.Config({"block": 4096}, num_warps=8),
    ],
    key=["count", "erf_form", "backward"],
)(triton.jit(_gelu_source))
_held = triton.jit(_held_source)
_online = triton.jit(_online_source)


def gelu(x: torch.Tensor, grad: torch.Tensor | None, form: str, out: torch.Tensor) -> torch.Tensor:
    """Write gelu(x), or with `grad` the gradient of its input, to `out`."""
    count = x.numel()
    _gelu[lambda config: (triton.cdiv(count, config["block"]),)](
        x, x if grad is None else grad, out, count, form == "erf", grad is not None
    )
    return out


def softmax(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Write the softmax of the rows of a matrix to `out`."""
    rows, columns = x.shape
    if columns > _MOST_COLUMNS_HELD:
        _online[(rows,)](x, out, columns, block=_ONLINE_BLOCK, num_warps=16)
    else:
        block = triton.next_power_of_2(columns)
        _held[(rows,)](x, out, columns, block=block, num_warps=min(32, max(4, block // 1024)))
    return out
