"""Pipelines as PyTorch runs them: the schedules of torch.distributed.pipelining.

The stages are those of benchmarks/pipeline.cc with products: `layers` equal linear layers per rank,
of width `n` and without bias, cut into `virtual` stages for the interleaved schedule. A micro-batch
has `n` tokens, so that a layer is one product forward and two backward, as in the suite:

    pp           the row's schedule: ScheduleGPipe, Schedule1F1B or ScheduleInterleaved1F1B
    computation  this rank's layers, one micro-batch after the other, without the other ranks

As in a model, but unlike in the suite, a stage reads the output of the previous one, and each
weight's gradients accumulate over the micro-batches. The first layer also computes the gradient of
its input. There is no loss: the gradient of the last stage's output is given. Nothing is gated,
since the host waits for shapes in the first step, and PyTorch decides the order of its calls.

The gradients of all of this rank's layers are compared with double precision at a sample of
elements before anything is timed.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from overlapbench import Verdict, Work
from torch_layers import Ranks, rounding
from torch_steps import LinearLayers, worst
from training_cases import COMPUTATION, Case


class _AskForGradient(torch.autograd.Function):  # type: ignore[misc]
    """Passes a tensor on, and makes the first layer compute its gradient, which is discarded."""

    @staticmethod
    def forward(_context: Any, x: torch.Tensor, _anchor: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_context: Any, *_gradients: torch.Tensor) -> tuple[None, None]:
        return None, None


class _GivenGradient(torch.autograd.Function):  # type: ignore[misc]
    """Stands in for a loss whose gradient is known: it computes nothing."""

    @staticmethod
    def forward(context: Any, output: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(gradient)
        return output.new_empty(())

    @staticmethod
    def backward(context: Any, *_gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = context.saved_tensors
        return gradient, None


class _Stage(nn.Sequential):  # type: ignore[misc]
    """Linear layers. The first computes the gradient of its input even if it is not needed."""

    def __init__(self, layers: Sequence[nn.Module], device: torch.device) -> None:
        super().__init__(*layers)
        self.anchor = torch.zeros((), device=device, requires_grad=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.requires_grad:
            x = _AskForGradient.apply(x, self.anchor)
        y: torch.Tensor = super().forward(x)
        return y


class Pipeline(LinearLayers):
    """The model, this rank's stages of it, the micro-batches, and the expected gradients.

    A batch is a micro-batch. If `alone`, the model is this rank's part of the whole, in one stage.
    """

    def __init__(self, case: Case, ranks: Ranks, alone: bool) -> None:
        width, self.microbatches, layers = (
            int(case.labels[key]) for key in ("n", "microbatches", "layers")
        )
        super().__init__(ranks, width, tokens=width)
        virtual = int(case.labels.get("virtual", 1))
        if layers % virtual != 0:
            raise ValueError("layers must be a multiple of virtual")
        self.stage_count = 1 if alone else virtual * ranks.ranks
        if alone:
            own = range(ranks.rank * layers, (ranks.rank + 1) * layers)
            self.model, places = own, {0: own}
        else:
            each = layers // virtual
            self.model = range(ranks.ranks * layers)
            mine = range(ranks.rank, self.stage_count, ranks.ranks)
            places = {stage: range(stage * each, (stage + 1) * each) for stage in mine}
        self.stages = {
            stage: _Stage([self._layer(place) for place in of_stage], ranks.device)
            for stage, of_stage in places.items()
        }
        self.own = [place for of_stage in places.values() for place in of_stage]
        self.weights = [weight for stage in self.stages.values() for weight in stage.parameters()]

    def inputs(self) -> torch.Tensor:
        return torch.cat([self._input(one) for one in range(self.microbatches)])

    def output_gradients(self) -> torch.Tensor:
        return torch.cat([self._output_gradient(one) for one in range(self.microbatches)])

    @property
    def tolerance(self) -> float:
        """The error of rounding in layers and in adding micro-batches: squares add up."""
        roundings = 2 * len(self.model) + self.microbatches
        return math.sqrt(roundings) * rounding(self.ranks.dtype)

    def sample(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Choose rows and columns of each weight."""
        return self.ranks.sampled(self.width), self.ranks.sampled(self.width)

    def expected_gradients(self) -> list[torch.Tensor]:
        """Return the sampled elements of the gradient of each own layer."""
        batches = range(self.microbatches)
        found = [self._gradients(one, self.model, *self.sample()) for one in batches]
        return [torch.stack([one[place] for one in found]).sum(dim=0) for place in self.own]


def make_pipeline(case: Case, peer: str, ranks: Ranks) -> Work:
    """Make a peer's stages and its step."""
    alone = peer == COMPUTATION
    pipeline = Pipeline(case, ranks, alone)
    step = _one_by_one(pipeline) if alone else _scheduled(pipeline, case.workload)
    rows, columns = pipeline.sample()
    expected = pipeline.expected_gradients()

    def reset() -> None:
        for stage in pipeline.stages.values():
            stage.zero_grad()

    def run() -> None:
        reset()  # otherwise the gradients of all steps accumulate
        step()

    def verify() -> Verdict:
        got = []
        for weight in pipeline.weights:
            assert weight.grad is not None, "a layer has no gradient"
            got.append(weight.grad[rows][:, columns])
        return worst(got, expected, pipeline.tolerance)

    return Work(run, verify=verify, reset=reset, kind="comp" if alone else "comm")


def _one_by_one(pipeline: Pipeline) -> Callable[[], None]:
    (stage,) = pipeline.stages.values()
    xs = pipeline.inputs().chunk(pipeline.microbatches)
    dys = pipeline.output_gradients().chunk(pipeline.microbatches)

    def step() -> None:
        for x, dy in zip(xs, dys, strict=True):
            stage(x).backward(dy)

    return step


def _scheduled(pipeline: Pipeline, order: str) -> Callable[[], None]:
    from torch.distributed import pipelining

    stages = [
        pipelining.PipelineStage(module, stage, pipeline.stage_count, pipeline.ranks.device)
        for stage, module in pipeline.stages.items()
    ]
    settings: dict[str, Any] = {"loss_fn": _GivenGradient.apply, "scale_grads": False}
    schedule: Any
    if order == "Interleaved":
        schedule = pipelining.ScheduleInterleaved1F1B(stages, pipeline.microbatches, **settings)
    else:
        make = {"GPipe": pipelining.ScheduleGPipe, "OneFOneB": pipelining.Schedule1F1B}[order]
        schedule = make(*stages, pipeline.microbatches, **settings)
    inputs = [pipeline.inputs()] if 0 in pipeline.stages else []
    last = pipeline.stage_count - 1 in pipeline.stages
    target = pipeline.output_gradients() if last else None
    return lambda: schedule.step(*inputs, target=target, return_outputs=False)
