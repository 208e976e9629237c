"""GELU and softmax against PyTorch, torch.compile and Triton, on ob.do_bench. Needs a GPU.

    PYTHONPATH=tools python3 docs/examples/gelu_and_softmax.py [gelu|softmax] [TYPE ...]

Each figure is a share of the bandwidth of a device copy of the same bytes, in percent: 100 is the
copy. All contestants read the same tensor. Before one is timed, its whole result is compared with
the definition in double precision; the error of an element may be

    absolute + relative * |expected|

with `relative` the spacing of the type's numbers at 1, and at least 2e-6, which float32 needs for a
sum over a row. A contestant that is wrong or fails is named, and the exit status is then 1.
"""

import math
import sys
from collections.abc import Callable, Iterator

import torch
import triton
import triton.language as tl

import overlapbench as ob
from overlapbench import torch_kernels as kernels

Work = Callable[[], torch.Tensor]
TYPES = ("float32", "float16", "bfloat16")
GELU_SIZES = (1 << 22, 1 << 26, 1 << 28)
SOFTMAX_COLUMNS = (1024, 4096, 12289, 32768, 50257, 100003, 262144)
MATRIX_BYTES = 1 << 29
CHUNK = 1 << 25  # elements compared at once


def gelu_source(x: tl.tensor, y: tl.tensor, count: tl.tensor, block: tl.constexpr) -> None:
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    v = tl.load(x + at, mask=at < count).to(tl.float32)
    result = 0.5 * v * (1 + tl.math.erf(v * 0.7071067811865476))
    tl.store(y + at, result.to(y.dtype.element_ty), mask=at < count)


def softmax_source(x: tl.tensor, y: tl.tensor, columns: tl.tensor, block: tl.constexpr) -> None:
    """Softmax by the online method of Milakov and Gimelshein (2018): one program per row."""
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


triton_gelu = triton.autotune(
    configs=[triton.Config({"block": block}, num_warps=block // 512) for block in (1024, 4096)],
    key=["count"],
    do_bench=ob.do_bench,
)(triton.jit(gelu_source))
triton_softmax = triton.jit(softmax_source)


def gelu(x: torch.Tensor, y: torch.Tensor) -> dict[str, Work]:
    def in_triton() -> torch.Tensor:
        grid = lambda config: (triton.cdiv(x.numel(), config["block"]),)  # noqa: E731
        triton_gelu[grid](x, y, x.numel())
        return y

    compiled = torch.compile(torch.nn.functional.gelu, dynamic=False)
    return {
        "overlapbench": lambda: kernels.gelu(x, "erf", out=y),
        "PyTorch": lambda: torch.ops.aten.gelu.out(x, out=y),
        "torch.compile": lambda: compiled(x),
        "Triton": in_triton,
    }


def softmax(x: torch.Tensor, y: torch.Tensor) -> dict[str, Work]:
    rows, columns = x.shape
    block = min(8192, triton.next_power_of_2(columns))

    def in_triton() -> torch.Tensor:
        triton_softmax[(rows,)](x, y, columns, block=block, num_warps=max(4, block // 512))
        return y

    compiled = torch.compile(lambda x: torch.softmax(x, dim=-1), dynamic=False)
    return {
        "overlapbench": lambda: kernels.softmax(x, out=y),
        "PyTorch": lambda: torch.ops.aten._softmax.out(x, -1, False, out=y),
        "torch.compile": lambda: compiled(x),
        "Triton": in_triton,
    }


CONTESTS = {
    "gelu": (gelu, torch.nn.functional.gelu),
    "softmax": (softmax, lambda x: torch.softmax(x, dim=-1)),
}


def fault_of(what: str, x: torch.Tensor, y: torch.Tensor, work: Work) -> str:
    """Return what is wrong with a contestant; "" if nothing is."""
    y.fill_(math.nan)
    try:
        result = work()
    except Exception as error:  # a failure of one must not stop the others
        return f"failed: {type(error).__name__}: {str(error).splitlines()[0]}"
    finfo = torch.finfo(x.dtype)
    absolute = 2e-6 if what == "gelu" else finfo.tiny * finfo.eps
    definition, rows_at_once = CONTESTS[what][1], max(1, CHUNK // x.shape[1])
    worst = 0.0
    for part, got in zip(x.split(rows_at_once), result.split(rows_at_once), strict=True):
        expected = definition(part.double())
        allowed = absolute + max(finfo.eps, 2e-6) * expected.abs()
        off = ((got.double() - expected).abs() / allowed).nan_to_num(nan=math.inf)
        worst = max(worst, float(off.max()))
    return f"wrong: {worst:.3g} times the allowed error" if worst > 1 else ""


def shapes(what: str, element_bytes: int) -> Iterator[tuple[int, int]]:
    if what == "gelu":
        yield from ((size // 1024, 1024) for size in GELU_SIZES)
    else:
        yield from (
            (MATRIX_BYTES // columns // element_bytes, columns) for columns in SOFTMAX_COLUMNS
        )


def contest(what: str, type_name: str) -> bool:
    """Print a line for each shape; return whether all contestants were right."""
    faults = []
    print(f"{what} {type_name}, % of a copy\n{'rows':>9}{'columns':>9}{'copy ms':>9}", end="")
    print("".join(f"{name:>15}" for name in ("overlapbench", "PyTorch", "torch.compile", "Triton")))
    dtype: torch.dtype = getattr(torch, type_name)
    for rows, columns in shapes(what, dtype.itemsize):
        torch.compiler.reset()  # it compiles a function only for a few shapes
        x = torch.randn((rows, columns), device="cuda", dtype=dtype)
        y = torch.empty_like(x)
        copy_ms = ob.do_bench(lambda: y.copy_(x), rep=200)  # noqa: B023 called at once
        line = f"{rows:>9}{columns:>9}{copy_ms:>9.4f}"
        for name, work in CONTESTS[what][0](x, y).items():
            fault = fault_of(what, x, y, work)
            faults += [f"{name}, {rows}x{columns}: {fault}"] if fault else []
            line += f"{'-' if fault else f'{100 * copy_ms / ob.do_bench(work, rep=200):.1f}':>15}"
        print(line, flush=True)
    print("".join(f"  {fault}\n" for fault in faults))
    return not faults


if __name__ == "__main__":
    whats = [word for word in sys.argv[1:] if word in CONTESTS] or [*CONTESTS]
    types = [word for word in sys.argv[1:] if word in TYPES] or TYPES
    good = [contest(what, type_name) for what in whats for type_name in types]
    sys.exit(not all(good))
