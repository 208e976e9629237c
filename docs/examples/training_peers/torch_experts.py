"""Layers of a mixture of experts as PyTorch does them.

The shapes, the experts of each token and so the loads are those of benchmarks/moe.cc. Each of R
ranks has 1/R of the experts, and `tokens` tokens of its own, cut into `microbatches`. A layer:

    dense     torch.mm
    dispatch  index_select makes a copy of each token for each of its experts, in the experts'
              order; all_to_all_single sends each rank the rows that it gets, without padding
    experts   index_select orders the rows by expert, torch._grouped_mm multiplies them, or without
              it or a GPU a matmul for each expert, and index_select restores the order of the
              ranks. One expert is one torch.mm
    combine   all_to_all_single, and embedding_bag for the weighted sum of a token's results

`sequence` runs all of this on one stream. `overlapped` runs it in the same order, the suite's, with
asynchronous exchanges: NCCL has its own stream, where they run beside the other micro-batch.

As in a model, but unlike in the suite, a layer reads the output of the previous one. The copies for
a rank's own experts take part in the exchange; the suite's stay in place. The weights of a token's
experts have Euclidean norm 1, so that values keep their magnitude.

Before a peer is timed, a sample of the tokens is compared with all layers in double precision.
"""

import math

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray

from expert_choices import experts_of
from overlapbench import Verdict, Work
from torch_layers import Ranks, rounding, verdict
from training_cases import OVERLAPPED, Case

_DENSE_SEED, _EXPERT_SEED, _INPUT_SEED, _WEIGHTS_SEED = 1, 1000, 20_000, 30_000
_STORED = 3  # results of a layer: of the dense product, of the experts, and their sum


class _Microbatch:
    """Tokens of this rank, the rows in which their copies travel, and the memory for these.

    `chosen` has the experts of all ranks' tokens, [ranks, tokens, topk]; x and weights are of this
    rank.
    """

    def __init__(
        self,
        ranks: Ranks,
        experts: int,
        chosen: NDArray[np.int64],
        x: torch.Tensor,
        weights: torch.Tensor,
    ) -> None:
        def index(values: NDArray[np.int64]) -> torch.Tensor:
            return torch.from_numpy(values).to(ranks.device)

        own = chosen[ranks.rank]
        order = own.argsort(axis=None, kind="stable")
        self.sources = index(order // own.shape[1])  # the token of each copy
        self.copies = index(order.argsort().reshape(own.shape))  # of each token
        # The copies from each rank for each expert of each rank.
        counts = np.stack([np.bincount(one.ravel(), minlength=experts) for one in chosen])
        counts = counts.reshape(ranks.ranks, ranks.ranks, -1)
        arriving = counts[:, ranks.rank]
        self.leave: list[int] = counts[ranks.rank].sum(axis=1).tolist()
        self.arrive: list[int] = arriving.sum(axis=1).tolist()
        self.loads: list[int] = arriving.sum(axis=0).tolist()  # of this rank's experts
        self.ends = index(np.cumsum(self.loads)).int()
        expert = np.repeat(np.tile(np.arange(len(self.loads)), ranks.ranks), arriving.ravel())
        by_expert = expert.argsort(kind="stable")
        self.by_expert, self.by_rank = index(by_expert), index(by_expert.argsort())

        self.x, self.weights = x, weights
        here, there = (order.size, x.shape[1]), (expert.size, x.shape[1])
        self.sent, self.returned = ranks.empty(*here), ranks.empty(*here)
        self.received, self.results = ranks.empty(*there), ranks.empty(*there)
        self.exchange: dist.Work | None = None

    def dispatch(self, x: torch.Tensor, dense: torch.Tensor, overlapped: bool) -> None:
        torch.index_select(x @ dense, 0, self.sources, out=self.sent)
        self.exchange = dist.all_to_all_single(
            self.received, self.sent, self.arrive, self.leave, async_op=overlapped
        )

    def combine(self, experts: torch.Tensor, overlapped: bool) -> None:
        self._wait()
        if len(experts) == 1:
            torch.mm(self.received, experts[0], out=self.results)
        else:
            rows = torch.index_select(self.received, 0, self.by_expert)
            torch.index_select(self._products(rows, experts), 0, self.by_rank, out=self.results)
        self.exchange = dist.all_to_all_single(
            self.returned, self.results, self.leave, self.arrive, async_op=overlapped
        )

    def sums(self) -> torch.Tensor:
        self._wait()
        bags = {"mode": "sum", "per_sample_weights": self.weights}
        return F.embedding_bag(self.copies, self.returned, **bags)

    def poison(self) -> None:
        for rows in (self.sent, self.received, self.results, self.returned):
            rows.fill_(math.nan)

    def _wait(self) -> None:
        if self.exchange is not None:
            self.exchange.wait()

    def _products(self, rows: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        if rows.is_cuda and hasattr(torch, "_grouped_mm"):
            return torch._grouped_mm(rows, experts, offs=self.ends)
        parts = zip(rows.split(self.loads), experts, strict=True)
        return torch.cat([part @ expert for part, expert in parts])


class _Experts:
    """The layers' weights, and the tokens of this rank with their experts."""

    def __init__(self, case: Case, ranks: Ranks) -> None:
        axes = ("layers", "hidden", "tokens", "experts", "topk", "skew")
        self.layers, self.hidden, *routing = (int(case.labels[axis]) for axis in axes)
        tokens, self.experts, topk, _ = routing
        if self.experts % ranks.ranks != 0:
            raise ValueError("experts must be a multiple of the ranks")
        self.ranks = ranks
        self.chosen = np.stack([experts_of(rank, *routing) for rank in range(ranks.ranks)])
        self.x = ranks.random(tokens, self.hidden, _INPUT_SEED + ranks.rank)
        self.weights = F.normalize(ranks.random(tokens, topk, _WEIGHTS_SEED + ranks.rank))

    def dense(self) -> torch.Tensor:
        return self._square(_DENSE_SEED)

    def expert(self, place: int) -> torch.Tensor:
        return self._square(_EXPERT_SEED + place)

    def _square(self, seed: int) -> torch.Tensor:
        return self.ranks.random(self.hidden, self.hidden, seed, self.hidden**-0.5)

    def microbatches(self, count: int) -> list[_Microbatch]:
        chosen = np.split(self.chosen, count, axis=1)
        parts = zip(chosen, self.x.chunk(count), self.weights.chunk(count), strict=True)
        return [_Microbatch(self.ranks, self.experts, *part) for part in parts]

    def in_double(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the result of some of this rank's tokens."""
        x, weights = self.x[tokens].double(), self.weights[tokens].double()
        chosen = torch.from_numpy(self.chosen[self.ranks.rank]).to(x.device)[tokens]
        for _ in range(self.layers):
            x, mixed = torch.zeros_like(x), x @ self.dense().double()
            for place in range(self.experts):
                weight = (weights * (chosen == place)).sum(dim=1, keepdim=True)
                x += weight * (mixed @ self.expert(place).double())
        return x


def make_experts(case: Case, peer: str, ranks: Ranks) -> Work:
    """Make a peer's tensors and work."""
    layer = _Experts(case, ranks)
    each, overlapped = layer.experts // ranks.ranks, peer == OVERLAPPED
    dense = layer.dense()
    experts = torch.stack([layer.expert(ranks.rank * each + i) for i in range(each)])
    parts = layer.microbatches(int(case.labels["microbatches"]))
    sampled = ranks.sampled(len(layer.x))
    expected = layer.in_double(sampled)
    results: list[torch.Tensor] = []

    def run() -> None:
        for place in range(layer.layers):
            for part in parts:
                part.dispatch(part.sums() if place else part.x, dense, overlapped)
            for part in parts:
                part.combine(experts, overlapped)
        results[:] = [part.sums() for part in parts]

    def poison() -> None:
        results.clear()
        for part in parts:
            part.poison()

    def verify() -> Verdict:
        tolerance = math.sqrt(_STORED * layer.layers) * rounding(ranks.dtype)
        return verdict(torch.cat(results)[sampled], expected, tolerance)

    return Work(run, verify=verify, reset=poison, kind="comm")
