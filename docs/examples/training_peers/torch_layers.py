"""The products of tensor-parallel layers as PyTorch does them.

The shapes are those of benchmarks/tp.cc. Each of R ranks owns tokens / R rows of the tokens:

    ColumnParallel   gather(X [tokens / R, hidden]) · W [hidden, 2·ffn / R]
    RowParallel      scatter-sum(A [tokens, ffn / R] · W [ffn / R, hidden])

`sequence` is a collective of torch.distributed and torch.mm, into existing buffers. `fused` is the
operator that torch.compile uses for tensor parallelism (`torch.ops.symm_mem`). It cuts the tokens
into one block per rank, and copies blocks between symmetric buffers, on two streams. It allocates
its result, for which PyTorch's allocator returns the same memory every time.

Weights are row-major, as in the suite. Every rank knows the data of all ranks, since all of it is
made from seeds. Before a peer is timed, a sample of its result is compared with the product in
double precision, relative to the root mean square of the expected values.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from overlapbench import Verdict, Work
from training_cases import FUSED, MODELS, SEQUENCE, Case

_SAMPLED = 64  # rows, and columns, of a result
# The largest of some thousand values is about four times their mean, and storing it costs half a
# unit in its last place.
_LARGEST = 4
_FLOAT32_SUM = 1e-5  # the error of adding some ten thousand products in float32


def rounding(dtype: torch.dtype) -> float:
    """Return the permitted error of a sum of products, relative to the mean result."""
    return _LARGEST * max(float(torch.finfo(dtype).eps) / 2, _FLOAT32_SUM)


def verdict(got: torch.Tensor, expected: torch.Tensor, tolerance: float) -> Verdict:
    """Compare with the result in double precision; elements that were not written are NaN."""
    off = (got.double() - expected).abs().max() / expected.square().mean().sqrt()
    return Verdict(float(off.nan_to_num(nan=math.inf)), tolerance)


@dataclass(frozen=True)
class Ranks:
    """The ranks, and the device and type of this one."""

    device: torch.device
    dtype: torch.dtype
    rank: int
    ranks: int

    def random(self, rows: int, columns: int, seed: int, scale: float = 1.0) -> torch.Tensor:
        """Make the same matrix on every rank."""
        generator = torch.Generator(self.device).manual_seed(seed)
        matrix = torch.empty((rows, columns), dtype=self.dtype, device=self.device)
        return matrix.normal_(std=scale, generator=generator)

    def empty(self, rows: int, columns: int) -> torch.Tensor:
        return torch.empty((rows, columns), dtype=self.dtype, device=self.device)

    def sampled(self, count: int) -> torch.Tensor:
        """Choose some of `count` indices, including the first and the last."""
        generator = torch.Generator().manual_seed(count)
        some = torch.randint(count, (_SAMPLED - 2,), generator=generator)
        return torch.cat([torch.tensor([0, count - 1]), some]).to(self.device)


def make_layer(case: Case, peer: str, ranks: Ranks) -> Work:
    """Make a peer's tensors and work."""
    hidden, ffn = MODELS[str(case.labels["model"])]
    tokens = int(case.labels["tokens"])
    make = {"ColumnParallel": _column_parallel, "RowParallel": _row_parallel}[case.workload]
    return make(ranks, tokens, hidden, ffn // ranks.ranks, peer)


def _column_parallel(ranks: Ranks, tokens: int, hidden: int, ffn: int, peer: str) -> Work:
    columns = 2 * ffn
    x = ranks.random(tokens, hidden, seed=1)  # of all ranks
    shard = x.chunk(ranks.ranks)[ranks.rank].clone()
    w = ranks.random(hidden, columns, seed=2 + ranks.rank, scale=hidden**-0.5)
    places, rows = ranks.sampled(columns), ranks.sampled(tokens)
    expected = x[rows].double() @ w[:, places].double()
    del x

    def fused(group: str) -> torch.Tensor:
        operator = torch.ops.symm_mem.fused_all_gather_matmul
        _, (product,) = operator(shard, [w], gather_dim=0, group_name=group, return_A=False)
        return product

    def sequence() -> Callable[[], torch.Tensor]:
        gathered, product = ranks.empty(tokens, hidden), ranks.empty(tokens, columns)

        def run() -> torch.Tensor:
            dist.all_gather_into_tensor(gathered, shard)
            return torch.mm(gathered, w, out=product)

        return run

    # Stored once, and again where the library adds partial sums in the result's type.
    return _work(_of(peer, sequence, fused), rows, places, expected, 2 * rounding(ranks.dtype))


def _row_parallel(ranks: Ranks, tokens: int, hidden: int, ffn: int, peer: str) -> Work:
    # Of all ranks, concatenated: the sums are the whole product.
    factors = [
        (
            ranks.random(tokens, ffn, seed=100 + rank),
            ranks.random(ffn, hidden, 200 + rank, ffn**-0.5),
        )
        for rank in range(ranks.ranks)
    ]
    a, w = factors[ranks.rank]
    block = tokens // ranks.ranks
    places, rows = ranks.sampled(hidden), ranks.sampled(block)
    mine = rows + ranks.rank * block
    expected = sum(a[mine].double() @ w[:, places].double() for a, w in factors)
    assert isinstance(expected, torch.Tensor)
    del factors

    def fused(group: str) -> torch.Tensor:
        operator = torch.ops.symm_mem.fused_matmul_reduce_scatter
        sums: torch.Tensor = operator(a, w, "sum", scatter_dim=0, group_name=group)
        return sums

    def sequence() -> Callable[[], torch.Tensor]:
        product, sums = ranks.empty(tokens, hidden), ranks.empty(block, hidden)

        def run() -> torch.Tensor:
            torch.mm(a, w, out=product)
            dist.reduce_scatter_tensor(sums, product)
            return sums

        return run

    # Each rank's product is stored, and the sum.
    tolerance = (ranks.ranks + 2) * rounding(ranks.dtype)
    return _work(_of(peer, sequence, fused), rows, places, expected, tolerance)


def _of(
    peer: str,
    sequence: Callable[[], Callable[[], torch.Tensor]],
    fused: Callable[[str], torch.Tensor],
) -> Callable[[], torch.Tensor]:
    if peer == SEQUENCE:
        return sequence()
    assert peer == FUSED
    group = symmetric_group()
    return lambda: fused(group)


def symmetric_group() -> str:
    """Let all ranks access each other's buffers; return the name of their group."""
    from torch.distributed import _symmetric_memory

    group: str = dist.group.WORLD.group_name
    with warnings.catch_warnings():  # PyTorch 2.11 no longer needs this call, and warns
        warnings.simplefilter("ignore", FutureWarning)
        _symmetric_memory.enable_symm_mem_for_group(group)
    return group


def _work(
    run: Callable[[], torch.Tensor],
    rows: torch.Tensor,
    columns: torch.Tensor,
    expected: torch.Tensor,
    tolerance: float,
) -> Work:
    results: list[torch.Tensor] = []

    def keep() -> None:
        results.clear()  # the next one reuses its memory
        results.append(run())

    def poison() -> None:
        for result in results:
            result.fill_(math.nan)
        results.clear()

    def verify() -> Verdict:
        return verdict(results[0][rows][:, columns], expected, tolerance)

    return Work(keep, verify=verify, reset=poison, kind="comm")
