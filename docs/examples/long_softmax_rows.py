"""How close do few long softmax rows come to a copy of the same bytes? Needs a GPU and PyTorch.

PYTHONPATH=tools python3 docs/examples/long_softmax_rows.py
"""

import torch

import overlapbench as ob
from overlapbench import torch_kernels as kernels

SHAPES = (
    *((264, 65536), (133, 200001), (128, 1048576), (64, 1048576), (40, 1000003), (7, 1000003)),
    *((512, 600001), (64, 2097152), (43, 3000001), (32, 4194304), (22, 6000001), (16, 8388608)),
    *((13, 10000001), (8, 16777216), (4, 33554432), (2, 100000000), (1, 134217728)),
)

ob.configure(budget_ms=100)
print("     rows × columns     MiB   ours ms  of a copy   PyTorch, of a copy")
for rows, columns in SHAPES:
    x = torch.randn((rows, columns), device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)

    def ours() -> None:
        kernels.softmax(x, out=y)  # noqa: B023 called before the next shape

    def pytorch() -> None:
        torch.ops.aten._softmax.out(x, -1, False, out=y)  # noqa: B023

    ours_ms, pytorch_ms = ob.do_bench(ours), ob.do_bench(pytorch)
    copy_ms = ob.do_bench(lambda: y.copy_(x))  # noqa: B023
    print(
        f"{rows:>9} × {columns:<9} {2 * rows * columns / 2**20:>5.0f} {ours_ms:>9.4f}"
        f" {copy_ms / ours_ms:>10.0%} {copy_ms / pytorch_ms:>20.0%}",
        flush=True,
    )
