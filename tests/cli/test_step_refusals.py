"""A training step that ranks cannot share, or that memory cannot hold, is refused in one line."""

from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

FAILED, USAGE = 1, 2
# Starting MPI takes most of it. Too large buffers cannot be filled, or even allocated, in time.
A_FEW_SECONDS = 50.0


class Refusal(NamedTuple):
    """Rows that do not exist at any value of their `axes`, and the reason for the first one."""

    ranks: int
    rows: str
    axes: str
    why: str


REFUSALS = {
    "chunks by ranks": Refusal(
        2, "Tp/ColumnParallel", "chunks=3", "chunks must be 1 or a multiple of the 2 ranks"
    ),
    "tokens by chunks": Refusal(
        2, "Tp/RowParallel", "tokens=130 chunks=4", "tokens must be a multiple of chunks and ranks"
    ),
    "ffn by ranks": Refusal(
        2, "Tp/ColumnParallel", "ffn=1009", "ffn:1009 must be a multiple of the 2 ranks"
    ),
    "ffn by what kernels read": Refusal(
        2, "Tp/RowParallel", "ffn=1000", "ffn must give every rank a multiple of 8 columns"
    ),
    "hidden": Refusal(2, "Tp/Block", "hidden=100", "hidden must be a multiple of 16"),
    "heads by ranks": Refusal(
        2, "Tp/Block", "heads=3", "heads:3 must be a multiple of the 2 ranks"
    ),
    "sharded layers by ranks": Refusal(
        3, "Fsdp", "width=128", "width:128 must be a multiple of the 3 ranks"
    ),
    "width": Refusal(2, "Fsdp", "width=100", "width must be a multiple of 16"),
    "experts by ranks": Refusal(
        2, "Moe", "experts=5", "experts:5 must be a multiple of the 2 ranks"
    ),
    "copies of tokens": Refusal(
        2,
        "Moe",
        "tokens=4M topk=8 experts=8",
        "tokens x topk x ranks must be at most 16777216",
    ),
    "more stages than ranks": Refusal(
        2, "Pp/OneFOneB", "stages=4", "stages must be 2 (one on each of 2 ranks), not 4"
    ),
    "more stages than ranks hold": Refusal(
        2,
        "Pp/Interleaved",
        "virtual=2 stages=8",
        "stages must be 4 (virtual:2 on each of 2 ranks), not 8",
    ),
    "micro-batches by ranks": Refusal(
        3, "Pp/Interleaved", "microbatches=4", "microbatches must be a multiple of the 3 ranks"
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_ranks_cannot_share_is_refused(launcher: "Launcher", name: str) -> None:
    ranks, rows, axes, why = REFUSALS[name]
    flags = [f"--axis={axis}" for axis in axes.split()]
    done = launcher.run(
        f"--benchmark_filter=^{rows}/", *flags, ranks=ranks, timeout_s=A_FEW_SECONDS
    )
    assert done.returncode == USAGE
    assert done.stderr.startswith(
        f"overlapbench: no benchmark matches --benchmark_filter=^{rows}/; not available: {rows}/"
    )
    (line,) = done.stderr.splitlines()
    assert line.endswith(f": {why}")
    assert done.stdout == ""


# The memory that each of two ranks needs, in float32. Tp: 2^24 tokens of 28672 / 2 inputs and of
# 8192 products, and half as many sums. Fsdp: of 256 layers of 2^16 x 2^16, half of the weights and
# of the gradients; five whole layers, since two are gathered and three are summed; and 16 GiB of
# activations.
TOO_LARGE = {
    "Tp/RowParallel": ("model=llama70b tokens=16M chunks=1", "1.625 TiB"),
    "Fsdp/Prefetch": ("layers=256 width=64K tokens=128 prefetch=1", "4.094 TiB"),
}


@pytest.mark.parametrize("rows", TOO_LARGE)
def test_what_does_not_fit_is_refused_before_it_is_allocated(
    launcher: "Launcher", rows: str
) -> None:
    axes, needs = TOO_LARGE[rows]
    flags = [f"--axis={axis}" for axis in axes.split()]
    done = launcher.run(f"--benchmark_filter=^{rows}/", *flags, timeout_s=A_FEW_SECONDS)
    assert done.returncode == FAILED
    (line,) = [line for line in done.stdout.splitlines() if "ERROR" in line]
    assert line.strip().startswith(f"ERROR: {rows}/")
    assert f" needs {needs} but " in line
    assert line.endswith(" are free: choose a smaller size")
    assert done.stderr == "overlapbench: 1 benchmark runs failed\n"
