"""The layer of a decode step as PyTorch does it, replayed as one CUDA graph.

The shapes are those of benchmarks/decode.cc. Each of R ranks has 1/R of the heads, of their cache
of keys and values, and of the feed-forward layer, and all have the same tokens:

    attention      y = x + mask · sum over ranks(attend(norm(x) · W) · V)
    feed-forward   y = x + mask · sum over ranks(gelu(norm(x) · W) · V)

The peers differ in the sum: `graph` takes the collective of torch.distributed, `one_shot` and
`two_shot` the kernels of `torch.ops.symm_mem` on symmetric memory. All else is PyTorch's own:
layer_norm, mm, scaled_dot_product_attention, gelu and addcmul. Without a GPU nothing is a graph.

Before a peer is timed, its result is compared with the same layer in double precision; each
rank computes its share.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812

from overlapbench import Verdict, Work
from torch_layers import Ranks, rounding, symmetric_group, verdict
from training_cases import GRAPH, MODELS, ONE_SHOT, Case

_HEAD = 128  # columns of a head
# Products, norms and sums of both halves, each stored once in the layer's type.
_STORED = 12
_WARM_UPS = 3  # runs before a graph is captured, as PyTorch's documentation advises

Sum = Callable[[torch.Tensor], torch.Tensor]


class _Layer:
    """A rank's share of the layer's weights and cache, and the tokens of all ranks."""

    def __init__(self, ranks: Ranks, hidden: int, ffn: int, tokens: int, context: int) -> None:
        inner, wide = hidden // ranks.ranks, ffn // ranks.ranks
        seed = 1000 * (ranks.rank + 1)
        self.x = ranks.random(tokens, hidden, seed=1)
        self.mask = ranks.random(tokens, hidden, seed=2)
        self.widen = ranks.random(hidden, 3 * inner, seed, hidden**-0.5)
        self.narrow = ranks.random(inner, hidden, seed + 1, hidden**-0.5)
        self.up = ranks.random(hidden, wide, seed + 2, hidden**-0.5)
        self.down = ranks.random(wide, hidden, seed + 3, ffn**-0.5)
        self.heads = (tokens, inner // _HEAD)
        cache = [ranks.random(math.prod(self.heads) * context, _HEAD, seed + 4 + i) for i in (0, 1)]
        self.keys, self.values = (one.view(*self.heads, context, _HEAD) for one in cache)

    def halves(
        self, put: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], add: Sum
    ) -> torch.Tensor:
        """Run both halves; `put` multiplies into memory that `add` sums over the ranks."""
        widened = _norm(self.x) @ self.widen
        query = widened[:, : self.narrow.shape[0]].view(*self.heads, 1, _HEAD)
        attended = F.scaled_dot_product_attention(query, self.keys, self.values)
        partial = put(attended.reshape(len(self.x), -1), self.narrow)
        y = torch.addcmul(self.x, self.mask, add(partial))
        activated = F.gelu(_norm(y) @ self.up, approximate="tanh")
        return torch.addcmul(y, self.mask, add(put(activated, self.down)))

    def in_double(self) -> torch.Tensor:
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr(self, name, value.double())

        def add(partial: torch.Tensor) -> torch.Tensor:
            dist.all_reduce(partial)
            return partial

        return self.halves(torch.mm, add)


def make_decode(case: Case, peer: str, ranks: Ranks) -> Work:
    """Make a peer's tensors and work."""
    hidden, ffn = MODELS[str(case.labels["model"])]
    tokens, context = int(case.labels["tokens"]), int(case.labels["context"])
    layer = _Layer(ranks, hidden, ffn, tokens, context)
    run = _run(layer, ranks, peer)
    replay, result = _captured(run) if ranks.device.type == "cuda" else _repeated(run)
    replay()
    expected = _Layer(ranks, hidden, ffn, tokens, context).in_double()

    def poison() -> None:
        result.fill_(math.nan)

    def verify() -> Verdict:
        return verdict(result, expected, _STORED * rounding(ranks.dtype))

    return Work(replay, verify=verify, reset=poison, kind="comm")


def _norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _run(layer: _Layer, ranks: Ranks, peer: str) -> Callable[[], torch.Tensor]:
    if peer == GRAPH:

        def add(partial: torch.Tensor) -> torch.Tensor:
            dist.all_reduce(partial)
            return partial

        return lambda: layer.halves(torch.mm, add)

    from torch.distributed import _symmetric_memory

    group = symmetric_group()
    buffer = _symmetric_memory.empty(*layer.x.shape, dtype=ranks.dtype, device=ranks.device)
    _symmetric_memory.rendezvous(buffer, group)

    def put(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.mm(a, w, out=buffer)

    def shot(partial: torch.Tensor) -> torch.Tensor:
        if peer == ONE_SHOT:
            summed: torch.Tensor = torch.ops.symm_mem.one_shot_all_reduce(partial, "sum", group)
        else:
            summed = torch.ops.symm_mem.two_shot_all_reduce_(partial, "sum", group)
        return summed

    return lambda: layer.halves(put, shot)


@dataclass(frozen=True)
class _Replay:
    """A captured run, and the run itself: a graph keeps alive no tensor that it only reads."""

    graph: torch.cuda.CUDAGraph
    run: Callable[[], torch.Tensor]

    def __call__(self) -> None:
        self.graph.replay()


def _captured(run: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UPS):
            run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # NCCL's watchdog looks at events in a thread of its own meanwhile.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = run()
    return _Replay(graph, run), result


def _repeated(run: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
    result = run()

    def again() -> None:
        result.copy_(run())

    return again, result
