"""ob.do_bench beside triton.testing.do_bench, and beside the suite's own rows. Needs a GPU.

PYTHONPATH=tools python3 docs/examples/do_bench_in_torch.py

Each figure is the median of seven calls; the spread is that of the seven.
"""

import statistics
from collections.abc import Callable
from functools import partial

import torch
import triton.testing

import overlapbench as ob
from overlapbench import torch_kernels as kernels

CALLS = 7
COUNT = 128 << 20  # elements of bf16: 256 MiB


def show(label: str, run: Callable[[], object]) -> float:
    ours = [ob.do_bench(run, name=f"run{i}") for i in range(CALLS)]
    theirs = [triton.testing.do_bench(run, return_mode="median") for _ in range(CALLS)]
    cells = ""
    for times_ms in (ours, theirs):
        median_ms = statistics.median(times_ms)
        spread = (max(times_ms) - min(times_ms)) / median_ms
        cells += f"{median_ms:>12.5f} {spread:>8.2%}"
    print(f"{label:<20}{cells}", flush=True)
    return float(statistics.median(ours))


def show_row(name: str, time_ms: float) -> None:
    row = ob.measure_row(name)
    print(f"  {row.name}: {row.time_ms:.5f} ms, ratio {time_ms / row.time_ms:.4f}", flush=True)


ob.configure(budget_ms=300)
print(f"{'':<20}{'ours ms':>12} {'spread':>8}{'Triton ms':>12} {'spread':>8}")
x = torch.randn(COUNT, device="cuda", dtype=torch.bfloat16)
y = torch.empty_like(x)
show_row(
    f"Gelu/Fused/count:{COUNT}/precision:bf16/form:tanh/cache:cold",
    show("GELU of 256 MiB", lambda: kernels.gelu(x, "tanh", out=y)),
)
rows, results = x.view(-1, 1024), y.view(-1, 1024)
show_row(
    f"Softmax/Fused/columns:1024/matrix_bytes:{2 * COUNT}/precision:bf16/cache:cold",
    show("softmax of 256 MiB", lambda: kernels.softmax(rows, out=results)),
)
for mebi in (1, 4, 16, 64):
    part, out = x[: mebi << 20], y[: mebi << 20]
    show(f"GELU of {2 * mebi} MiB", partial(kernels.gelu, part, "tanh", out=out))
