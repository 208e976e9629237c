"""Data-parallel steps as PyTorch does them: DistributedDataParallel and fully_shard.

The layers are those of benchmarks/ddp.cc and benchmarks/fsdp.cc: equal linear layers of width²
without bias. Every rank has its own tokens. As in a model, but unlike in the suite, a layer reads
the output of the previous one; the products are the same. A step goes forward and backward:

    ddp    the gradients are averaged over the ranks in buckets of `bucket_bytes`, and all weights
           updated as by stochastic gradient descent, into other memory: a step can be repeated
    fsdp   each layer is gathered before its use, forward and backward, and `prefetch` layers
           ahead. With 0 no layer requests others; fully_shard then gathers the next one early by
           itself

`computation` is the same step without communication: that of ddp under no_sync(), that of fsdp on
whole layers. None is gated, since DistributedDataParallel may wait for the device.

The new weights of every layer, or its gradients, are compared with double precision at a sample of
elements before anything is timed. A layer's rounding errors propagate through all later ones, and
the squares of such errors add up.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from overlapbench import Verdict, Work
from torch_layers import Ranks, rounding, verdict
from training_cases import COMPUTATION, Case

_MIB = 1 << 20
_WEIGHTS_SEED, _INPUT_SEED, _GRADIENT_SEED = 10_000, 20_000, 30_000


class LinearLayers:
    """Square linear layers, batches of `tokens` and gradients of outputs, all random from seeds."""

    def __init__(self, ranks: Ranks, width: int, tokens: int) -> None:
        self.ranks, self.width, self.tokens = ranks, width, tokens

    def _layer(self, place: int) -> nn.Linear:
        layer = nn.Linear(self.width, self.width, bias=False, device="meta")
        layer.weight = nn.Parameter(self._weight(place))
        return layer

    def _weight(self, place: int) -> torch.Tensor:
        scale = self.width**-0.5  # so that values keep their magnitude
        return self.ranks.random(self.width, self.width, _WEIGHTS_SEED + place, scale)

    def _input(self, batch: int) -> torch.Tensor:
        return self.ranks.random(self.tokens, self.width, _INPUT_SEED + batch)

    def _output_gradient(self, batch: int) -> torch.Tensor:
        return self.ranks.random(self.tokens, self.width, _GRADIENT_SEED + batch)

    def _gradients(
        self, batch: int, places: Sequence[int], rows: torch.Tensor, columns: torch.Tensor
    ) -> Mapping[int, torch.Tensor]:
        """Return these elements of each layer's gradient, in double precision.

        The model consists of the layers at `places`.
        """
        x, dy = self._input(batch).double(), self._output_gradient(batch).double()
        inputs, gradients = {}, {}
        for place in places:
            inputs[place] = x[:, columns]
            x = x @ self._weight(place).double().T
        for place in reversed(places):
            gradients[place] = dy[:, rows].T @ inputs[place]
            dy = dy @ self._weight(place).double()
        return gradients


class Model(LinearLayers):
    """Layers, this rank's tokens, and the expected gradients. A batch is the tokens of one rank."""

    def __init__(self, case: Case, ranks: Ranks) -> None:
        self.layers, width, tokens = (
            int(case.labels[key]) for key in ("layers", "width", "tokens")
        )
        super().__init__(ranks, width, tokens)
        self.module = nn.Sequential(*(self._layer(place) for place in range(self.layers)))
        self.x = self._input(ranks.rank).requires_grad_()  # for the first layer's gradient
        self.dy = self._output_gradient(ranks.rank)

    def step(self, module: nn.Module) -> None:
        """Go forward and backward, and leave new gradients."""
        self.x.grad = None
        module.zero_grad()
        module(self.x).backward(self.dy)

    @property
    def tolerance(self) -> float:
        return math.sqrt(2 * self.layers) * rounding(self.ranks.dtype)

    def sample(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Choose rows of each weight, all of this rank's share, and columns."""
        share = self.width // self.ranks.ranks
        return self.ranks.sampled(share) + self.ranks.rank * share, self.ranks.sampled(self.width)

    def expected_gradients(self, of: Sequence[int]) -> list[torch.Tensor]:
        """Return the sampled elements of each layer's gradient, averaged over ranks."""
        places = range(self.layers)
        found = [self._gradients(rank, places, *self.sample()) for rank in of]
        return [torch.stack([one[place] for one in found]).mean(dim=0) for place in places]


def make_step(case: Case, peer: str, ranks: Ranks) -> Work:
    """Make a peer's model and its step."""
    make = {"Buckets": _ddp, "Prefetch": _fsdp}[case.workload]
    model = Model(case, ranks)
    return make(model, case, peer == COMPUTATION)


def _ddp(model: Model, case: Case, alone: bool) -> Work:
    device = model.ranks.device
    module = DistributedDataParallel(
        model.module,
        device_ids=[device.index] if device.type == "cuda" else None,
        bucket_cap_mb=int(case.labels["bucket_bytes"]) / _MIB,
        gradient_as_bucket_view=True,
    )
    weights = list(module.parameters())
    updated: list[torch.Tensor] = []

    def run() -> None:
        updated.clear()
        with module.no_sync() if alone else contextlib.nullcontext():
            model.step(module)
        with torch.no_grad():
            updated[:] = torch._foreach_sub([*weights], [one.grad for one in weights])

    rows, columns = model.sample()
    gradients = model.expected_gradients(_ranks_of(model, alone))
    expected = [
        weight.detach()[rows][:, columns].double() - gradient
        for weight, gradient in zip(weights, gradients, strict=True)
    ]

    def verify() -> Verdict:
        got = [weight[rows][:, columns] for weight in updated]
        return worst(got, expected, model.tolerance)

    return Work(run, verify=verify, reset=updated.clear, kind="comp" if alone else "comm")


def _fsdp(model: Model, case: Case, alone: bool) -> Work:
    if not alone:
        _shard(model, int(case.labels["prefetch"]))
    weights = list(model.module.parameters())
    rows, columns = model.sample()
    expected = model.expected_gradients(_ranks_of(model, alone))

    mine = rows if alone else rows - rows.min()  # in this rank's share of the rows

    def verify() -> Verdict:
        got = []
        for weight in weights:
            assert weight.grad is not None, "a layer has no gradient"
            gradient = weight.grad if alone else weight.grad.to_local()
            got.append(gradient[mine][:, columns])
        return worst(got, expected, model.tolerance)

    module, kind = model.module, "comp" if alone else "comm"
    return Work(lambda: model.step(module), verify=verify, reset=module.zero_grad, kind=kind)


def _shard(model: Model, depth: int) -> None:
    """Shard every layer, and let each prefetch the next `depth` ones, in the order of their use."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(model.ranks.device.type, (model.ranks.ranks,))
    layers = list(model.module)
    for layer in layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)
    fully_shard(model.module, mesh=mesh)
    if depth == 0:
        return
    for place, layer in enumerate(layers):
        layer.set_modules_to_forward_prefetch(layers[place + 1 : place + 1 + depth])
        layer.set_modules_to_backward_prefetch(layers[max(0, place - depth) : place][::-1])


def _ranks_of(model: Model, alone: bool) -> Sequence[int]:
    return [model.ranks.rank] if alone else range(model.ranks.ranks)


def worst(
    got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], tolerance: float
) -> Verdict:
    """Compare several tensors with double precision; the largest error decides."""
    verdicts = [verdict(one, wanted, tolerance) for one, wanted in zip(got, expected, strict=True)]
    return max(verdicts, key=lambda one: one.max_rel_err)
