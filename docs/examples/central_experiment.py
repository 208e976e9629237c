"""The central experiment in PyTorch, and the suite's own rows beside it in the same processes.

    PYTHONPATH=tools mpirun -n 2 python3 docs/examples/central_experiment.py [FILE.json]
    PYTHONPATH=tools torchrun --nproc-per-node 2 docs/examples/central_experiment.py [FILE.json]

The same matrix product, of a grid of thread blocks, runs beside an all-to-all of the same size:
once as callables that `overlapbench.measure` is given, with torch.distributed's all-to-all, and
once as a row of ./bench. It prints C, M and T of both. FILE.json gets all rows.
"""

import contextlib
import sys

import torch
import torch.distributed as dist

import overlapbench as ob
from overlapbench import torch_kernels

N = 4096
GRIDS = (1, 4, 8, 16, 32, 40, 64, 128, 256)

ob.configure(backend="cuda")
ob.init_torch_distributed()
rank, ranks = dist.get_rank(), dist.get_world_size()


def random(seed: int) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.rand((N, N), generator=generator, device="cuda") - 0.5


a, b, sent = random(1000), random(1001), random(rank)
product, received = torch.empty_like(a), torch.empty_like(sent)
own = slice(rank * N // ranks, (rank + 1) * N // ranks)
expected = torch.cat([random(one)[own] for one in range(ranks)])


def exchange() -> None:
    dist.all_to_all_single(received, sent)


def multiply(side: int) -> ob.Work:
    def run() -> None:
        torch_kernels.grid_gemm(a, b, (side, side), "tile", out=product)

    def right() -> ob.Verdict:
        rows = 16 * side
        exact = a[:rows].double() @ b[:, :rows].double()
        off = (product[:rows, :rows].double() - exact).abs()
        size = a[:rows].double().abs() @ b[:, :rows].double().abs()
        # Float32 rounding errors of 4096 terms are a random walk of about 2^-24 * sqrt(4096)/4096
        # of the terms' sum; the largest of 16 million elements is several times that.
        return ob.Verdict(float((off / size).max()), 2e-6)

    return ob.Work(run, reset=lambda: product.fill_(float("nan")), verify=right)


comm = ob.Work(
    exchange,
    reset=lambda: received.fill_(float("nan")),
    verify=lambda: torch.equal(received, expected),
    kind="comm",
)
file = ob.results(sys.argv[1]) if len(sys.argv) > 1 else contextlib.nullcontext()
with file:
    if rank == 0:
        print(f"{'grid':<7}{'':9}{'C ms':>9}{'M ms':>9}{'T ms':>9}{'slowdown':>10}")
    for side in GRIDS:
        grid = f"{side}x{side}"
        mine = ob.measure(comp=multiply(side), comm=comm, name="torch", n=N, grid=grid)
        same = f"bytes:{4 * N * N}/n:{N}/grid:{grid}/work:tile/cache:cold"
        suite = ob.measure_row(f"Overlap/AllToAll+Gemm/{same}")
        for row, who in ((mine, "PyTorch"), (suite, "suite")):
            if rank == 0:
                times = "".join(f"{time:9.4f}" for time in (row.C, row.M, row.T))
                print(f"{grid:<7}{who:<9}{times}{row.slowdown:10.3f}  {row.reason}")
dist.destroy_process_group()
