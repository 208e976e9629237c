"""Training steps against PyTorch's: the shapes, the suite's rows, and the peers.

A case is one shape. Its contestants are measured one after the other in one process, with the same
gate, flush and statistics: the suite's rows over each transport (`ob.measure_row`), then PyTorch's
equivalents (`ob.measure_alone`) from torch_layers.py, torch_steps.py and torch_pipelines.py.

A peer's row has the same name as the suite's, except for its family and the label `peer`:

    Tp/ColumnParallel/model:llama8b/tokens:4096/chunks:auto/transport:copy/cache:cold
    Comm/ColumnParallel/peer:fused/model:llama8b/tokens:4096/cache:cold
    Pp/GPipe/CublasGemm/microbatches:4/n:4096/layers:8/bytes:33554432/transport:copy/cache:cold
    Comm/GPipe/peer:pp/microbatches:4/n:4096/layers:8/bytes:33554432/cache:cold/gate:off

If a contestant fails or is wrong, only it is affected, and the next one is measured.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from overlapbench.measurement.callables import Work, describe
from overlapbench.measurement.measuring import measure_alone, measure_row
from overlapbench.reading.rows import Row

SUITE = "suite"
SEQUENCE, FUSED = "sequence", "fused"  # of layers
COMPUTATION = "computation"  # of steps: the same without communication
DDP, FSDP, PP = "ddp", "fsdp", "pp"
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
        """Tell whether its peers may be enqueued behind a closed gate: steps may not."""
        return self.family == "Tp"

    @property
    def workload(self) -> str:
        return self.step.split("/")[1]

    def __str__(self) -> str:
        return "/".join([self.step, *(f"{key}:{value}" for key, value in self.labels.items())])


@dataclass(frozen=True)
class Outcome:
    """The outcome of one contestant; without a row, `failure` says why."""

    case: Case
    contestant: str  # a peer, or "suite" with its transport
    row: Row | None = None
    failure: str = ""

    @property
    def time_ms(self) -> float:
        return math.nan if self.row is None else self.row.time_ms

    @property
    def problem(self) -> str:
        """Why there is no time; "" if there is one."""
        if self.row is None:
            return self.failure
        return "" if self.row.state.comparable else f"{self.row.state.value}: {self.row.reason}"


class Peers(Protocol):
    """Makes PyTorch's side of cases."""

    def make(self, case: Case, peer: str) -> Work:
        """Make the peer's tensors and its work; raises any failure."""
        ...

    def agree(self, problem: str) -> str:
        """Return the first problem of any rank, on every rank."""
        ...

    def forget(self) -> None:
        """Free the memory of the last peer."""
        ...


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


def measure_cases(
    cases: Sequence[Case], peers: Peers, tell: Callable[[Outcome], None]
) -> Iterator[Outcome]:
    """Measure every contestant of every case; all ranks together.

    Raises MeasureError if no more rows can be measured.
    """
    for case in cases:
        for transport, name in case.suite.items():
            outcome = _measure_suite(case, transport, name)
            tell(outcome)
            yield outcome
        for peer in case.peers:
            outcome = _measure_peer(case, peer, peers)
            peers.forget()
            tell(outcome)
            yield outcome


def _measure_suite(case: Case, transport: str, name: str) -> Outcome:
    contestant = f"{SUITE} {transport}"
    try:
        return Outcome(case, contestant, measure_row(name))
    except ValueError as refusal:  # the same on all ranks
        return Outcome(case, contestant, failure=str(refusal))


def _measure_peer(case: Case, name: str, peers: Peers) -> Outcome:
    work, problem = None, ""
    try:
        work = peers.make(case, name)
    except Exception as error:  # a failure of one peer must not stop the others
        problem = f"cannot run: {describe(error)}"
    # The other ranks would wait for one that measures nothing.
    problem = peers.agree(problem)
    if work is None or problem:
        return Outcome(case, name, failure=problem)
    labels: dict[str, Any] = {"peer": name, **case.labels}
    return Outcome(case, name, measure_alone(work, name=case.workload, gated=case.gated, **labels))
