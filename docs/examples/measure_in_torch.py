"""A PyTorch product beside an all-reduce: mpirun -n 2 python docs/examples/measure_in_torch.py."""

import torch
import torch.distributed as dist

import overlapbench as ob

ob.configure(backend="cuda")
ob.init_torch_distributed()

n = 8192
a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
c = torch.empty_like(a)
gradients = torch.ones(256 << 20, device="cuda", dtype=torch.bfloat16)


def multiply() -> None:
    torch.mm(a, b, out=c)


def reduce() -> None:
    dist.all_reduce(gradients)  # the current stream waits for it: the lane does


def reset() -> None:
    gradients.fill_(1)


def check() -> bool:
    return bool((gradients == dist.get_world_size()).all())


comm = ob.Work(reduce, reset=reset, verify=check, kind="comm")
with ob.results("mine.json"):
    for first in ("comp", "comm"):
        row = ob.measure(comp=multiply, comm=comm, name="reduce", first=first, n=n)
        if dist.get_rank() == 0:
            print(row)
    # It does not enqueue on the current stream, so this row must be invalid.
    other = torch.cuda.Stream()

    def elsewhere() -> None:
        with torch.cuda.stream(other):
            torch.mm(a, b, out=c)

    row = ob.measure(comp=elsewhere, comm=comm, name="elsewhere", n=n)
    if dist.get_rank() == 0:
        print(row)
dist.destroy_process_group()
