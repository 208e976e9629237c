"""The shapes of training steps, the suite's rows of each, and PyTorch's equivalents of them.

A peer's row has the same name as the suite's, except for its family and the label `peer`:

    Tp/ColumnParallel/model:llama8b/tokens:4096/chunks:auto/transport:copy/cache:cold
    Comm/ColumnParallel/peer:fused/model:llama8b/tokens:4096/cache:cold
    Pp/GPipe/CublasGemm/microbatches:4/n:4096/layers:8/bytes:33554432/transport:copy/cache:cold
    Comm/GPipe/peer:pp/microbatches:4/n:4096/layers:8/bytes:33554432/cache:cold/gate:off
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

SEQUENCE, FUSED = "sequence", "fused"  # of layers
OVERLAPPED = "overlapped"  # of layers of experts in micro-batches
COMPUTATION = "computation"  # of steps: the same without communication
DDP, FSDP, PP = "ddp", "fsdp", "pp"
GRAPH, ONE_SHOT, TWO_SHOT = "graph", "one_shot", "two_shot"  # of a decode step's layer
# The suite's rows that correspond to PyTorch's steps, and their axes.
STEPS = {DDP: ("Ddp/Buckets", "bucket_bytes"), FSDP: ("Fsdp/Prefetch", "prefetch")}
LAYERS = ("ColumnParallel", "RowParallel")
ORDERS = ("GPipe", "OneFOneB", "Interleaved")
# As benchmarks/training.cc has them: hidden and ffn.
MODELS = {"llama8b": (4096, 14336), "llama70b": (8192, 28672), "small": (256, 768)}
Labels = dict[str, str | int]


@dataclass(frozen=True)
class Case:
    """One shape: the suite's rows of it, and the labels of its peers' rows."""

    step: str  # "Tp/ColumnParallel", or with the stage's workload, "Pp/GPipe/CublasGemm"
    labels: Labels
    peers: Sequence[str]
    suite: Mapping[str, str]  # names of rows, by transport

    @property
    def family(self) -> str:
        return self.step.partition("/")[0]

    @property
    def gated(self) -> bool:
        """Tell whether its peers may be enqueued behind a closed gate: training steps may not."""
        return self.family in ("Tp", "Decode", "Moe")

    @property
    def workload(self) -> str:
        return self.step.split("/")[1]

    def __str__(self) -> str:
        return "/".join([self.step, *(f"{key}:{value}" for key, value in self.labels.items())])


@dataclass(frozen=True)
class Stages:
    """The pipelines' stages, and the product that the suite's stages compute."""

    layers: int  # of a rank
    width: int  # of each, and tokens of a micro-batch
    virtual: int  # stages of a rank, if it has several
    product: str  # "CublasGemm"
    element_bytes: int

    @property
    def labels(self) -> Labels:
        activation_bytes = self.width * self.width * self.element_bytes
        return {"n": self.width, "layers": self.layers, "bytes": activation_bytes}


def plan_layers(
    models: Sequence[str], tokens: Sequence[int], transports: Sequence[str]
) -> Iterator[Case]:
    """Yield the two products of tensor-parallel layers."""
    for layer, model, count in itertools.product(LAYERS, models, tokens):
        labels: Labels = {"model": model, "tokens": count}
        yield _case(f"Tp/{layer}", labels, (SEQUENCE, FUSED), transports, chunks="auto")


def plan_decode(
    models: Sequence[str],
    tokens: Sequence[int],
    context: int,
    transports: Sequence[str],
    peers: Sequence[str] = (GRAPH, ONE_SHOT, TWO_SHOT),
) -> Iterator[Case]:
    """Yield the layer of a decode step, with a cache of `context` positions."""
    for model, count in itertools.product(models, tokens):
        labels: Labels = {"model": model, "layers": 1, "tokens": count, "context": context}
        yield _case("Decode/Layer", labels, peers, transports, batches="1")


def plan_experts(
    layer: Labels, skews: Sequence[int], microbatches: Sequence[int], transports: Sequence[str]
) -> Iterator[Case]:
    """Yield layers of a mixture of experts, with each skew and number of micro-batches.

    The labels of a `layer` are the number of layers, hidden, and the tokens of one rank, experts
    and topk.
    """
    for skew, count in itertools.product(skews, microbatches):
        labels: Labels = layer | {"skew": skew, "microbatches": count}
        peers = (SEQUENCE, OVERLAPPED) if count > 1 else (SEQUENCE,)
        yield _case("Moe/DispatchCombine", labels, peers, transports)


def plan_steps(
    peer: str, stack: Labels, values: Sequence[int], transports: Sequence[str]
) -> Iterator[Case]:
    """Yield a data-parallel step of equal linear layers, with each value of the axes in STEPS.

    The labels of a `stack` are its layers, their width, and the tokens of one rank.
    """
    step, axis = STEPS[peer]
    for value in values:
        yield _case(step, stack | {axis: value}, (COMPUTATION, peer), transports)


def plan_pipelines(
    stages: Stages, microbatches: Sequence[int], transports: Sequence[str]
) -> Iterator[Case]:
    """Yield the pipeline in each order, with each number of micro-batches."""
    for order, count in itertools.product(ORDERS, microbatches):
        virtual: Labels = {"virtual": stages.virtual} if order == "Interleaved" else {}
        labels: Labels = {"microbatches": count} | virtual | stages.labels
        yield _case(f"Pp/{order}/{stages.product}", labels, (COMPUTATION, PP), transports)


def _case(
    step: str, labels: Labels, peers: Sequence[str], transports: Sequence[str], **more: str
) -> Case:
    axes = [step, *(f"{key}:{value}" for key, value in (labels | more).items())]
    names = {one: "/".join([*axes, f"transport:{one}"]) for one in transports}
    return Case(step, labels, peers, names)
