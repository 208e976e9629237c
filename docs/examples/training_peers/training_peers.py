"""The suite's training steps against PyTorch's, in the same processes.

    PYTHONPATH=tools mpirun -n 2 python3 docs/examples/training_peers/training_peers.py -o DIR
    ... training_peers.py -o DIR --what tp --tokens 256,1024,4096
    ... training_peers.py -o DIR --what pp --microbatches 4,16 --stage-layers 8
    ... training_peers.py -o DIR --what decode --batch 1,16,256 --models llama8b
    ... training_peers.py -o DIR --what moe --skew 0,50 --transports nccl,copy,sm_store

For each shape, the suite's rows over each transport (ob.measure_row) and PyTorch's equivalents
(ob.measure_alone) are measured one after the other, with the same gate, flush and statistics.
torch_layers.py, torch_decode.py, torch_experts.py, torch_steps.py and torch_pipelines.py describe
the peers. Before one is timed, a sample of its result is compared with double precision. A peer
that is wrong or cannot run gets no time, and the others are measured. Steps of
DistributedDataParallel and fully_shard, and pipelines, are not gated (gate:off in names).

The rows go to training-peers.json in DIR, for the commands of overlapbench. srun can start this
script too, and on one host torchrun: one process per GPU.

Exit status: 0; 1 if a contestant was wrong or not measured, or if the measuring ended early.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch  # before the suite: PyTorch needs its own NCCL
import torch.distributed as dist

import overlapbench as ob
from torch_decode import make_decode
from torch_experts import make_experts
from torch_layers import Ranks, make_layer
from torch_pipelines import make_pipeline
from torch_steps import make_step
from training_cases import (
    DDP,
    FSDP,
    GRAPH,
    MODELS,
    ONE_SHOT,
    TWO_SHOT,
    Case,
    Labels,
    Stages,
    plan_decode,
    plan_experts,
    plan_layers,
    plan_pipelines,
    plan_steps,
)
from training_table import SUITE, lines_of

WHAT = ("tp", "decode", "moe", "ddp", "fsdp", "pp")
MAKERS = {
    "Tp": make_layer,
    "Decode": make_decode,
    "Moe": make_experts,
    "Ddp": make_step,
    "Fsdp": make_step,
    "Pp": make_pipeline,
}
PATIENCE = timedelta(minutes=2)  # timeout of torch.distributed for a failed rank


def this_rank() -> Ranks:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if dist.get_backend() == "nccl":
        device = torch.device("cuda", torch.cuda.current_device())
        return Ranks(device, torch.bfloat16, rank, ranks)
    return Ranks(torch.device("cpu"), torch.float32, rank, ranks)  # as the host backend's layers


def measure_case(case: Case, ranks: Ranks) -> Iterator[tuple[str, ob.Row | str]]:
    """Yield each contestant's row, or why it has none; all ranks together."""
    for transport, name in case.suite.items():
        try:
            yield f"{SUITE} {transport}", ob.measure_row(name)
        except ValueError as refusal:  # the same on all ranks
            yield f"{SUITE} {transport}", str(refusal)
    for peer in case.peers:
        yield peer, measure_peer(case, peer, ranks)
        if ranks.device.type == "cuda":  # the suite's rows need the memory, too
            torch.cuda.synchronize()
            torch.cuda.empty_cache()


def measure_peer(case: Case, peer: str, ranks: Ranks) -> ob.Row | str:
    work, problem = None, ""
    try:
        work = MAKERS[case.family](case, peer, ranks)
        if ranks.device.type == "cuda":
            torch.cuda.synchronize()
    except Exception as error:  # a failure of one peer must not stop the others
        problem = f"cannot run: {type(error).__name__}: {' '.join(str(error).split())}"
    problems: list[str] = [""] * ranks.ranks
    dist.all_gather_object(problems, problem)  # all would wait for a rank that measures nothing
    if work is None or any(problems):
        return next(filter(None, problems))
    labels: dict[str, Any] = {"peer": peer, **case.labels}
    return ob.measure_alone(work, name=case.workload, gated=case.gated, **labels)


def cases_of(options: argparse.Namespace, on_gpus: bool) -> Iterator[Case]:
    transports = options.transports or (["nccl", "copy"] if on_gpus else ["mpi"])
    stack: Labels = {"layers": options.layers, "width": options.width}
    stack["tokens"] = options.step_tokens
    if "tp" in options.what:
        yield from plan_layers(options.models, options.tokens, transports)
    if "decode" in options.what:
        carriers = options.transports or (["nccl", "copy", "sm_store"] if on_gpus else ["mpi"])
        peers = (GRAPH, ONE_SHOT, TWO_SHOT) if on_gpus else (GRAPH,)
        shape = options.models, options.batch, options.context
        yield from plan_decode(*shape, carriers, peers)
    if "moe" in options.what:
        layer: Labels = {"layers": options.expert_layers, "hidden": options.width}
        layer |= {"tokens": options.expert_tokens, "experts": options.experts, "topk": 2}
        yield from plan_experts(layer, options.skew, options.expert_microbatches, transports)
    for peer, values in ((DDP, options.buckets), (FSDP, options.prefetch)):
        if peer in options.what:
            yield from plan_steps(peer, stack, values, transports)
    if "pp" in options.what:
        product, element_bytes = ("CublasGemm", 2) if on_gpus else ("Gemm", 4)
        shape = options.stage_layers, options.width, options.virtual
        stages = Stages(*shape, product, element_bytes)
        yield from plan_pipelines(stages, options.microbatches, transports)


def one_of(choices: Mapping[str, object] | tuple[str, ...]) -> Callable[[str], list[str]]:
    def words(text: str) -> list[str]:
        if wrong := [word for word in text.split(",") if word not in choices]:
            told = f"{wrong[0]!r} is not one of {', '.join(choices)}"
            raise argparse.ArgumentTypeError(told)
        return text.split(",")

    return words


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parse() -> argparse.Namespace:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("-o", "--output", required=True, type=Path, metavar="DIR")
    add("--what", type=one_of(WHAT), default=WHAT, metavar="W,W", help=", ".join(WHAT))
    add("--models", type=one_of(MODELS), default=["llama8b", "llama70b"], metavar="M,M")
    text = "tokens of all ranks together, for tp"
    add("--tokens", type=numbers, default=[1024, 4096, 16384], metavar="N,N", help=text)
    text = "sequences in a decode step's batch"
    add("--batch", type=numbers, default=[1, 16, 64, 256], metavar="N,N", help=text)
    text = "earlier tokens of each, in its cache"
    add("--context", type=int, default=1024, metavar="N", help=text)
    text = "percent of the tokens whose first expert is the popular one, for moe"
    add("--skew", type=numbers, default=[0, 50], metavar="N,N", help=text)
    text = "of all ranks together"
    add("--experts", type=int, default=8, metavar="N", help=text)
    text = "tokens per rank, for moe"
    add("--expert-tokens", type=int, default=16384, metavar="N", help=text)
    add("--expert-layers", type=int, default=4, metavar="N", help="for moe")
    text = "into which a rank's tokens are cut, for moe"
    add("--expert-microbatches", type=numbers, default=[1, 2], metavar="N,N", help=text)
    text = "tokens per rank, for ddp and fsdp"
    add("--step-tokens", type=int, default=4096, metavar="N", help=text)
    text = "the suite's: nccl,copy"
    add("--transports", type=lambda text: text.split(","), metavar="T,T", help=text)
    mib = 1 << 20
    add("--buckets", type=numbers, default=[25 * mib, 64 * mib, 256 * mib], metavar="BYTES,BYTES")
    add("--prefetch", type=numbers, default=[0, 1, 2], metavar="N,N")
    add("--layers", type=int, default=24, metavar="N", help="for ddp and fsdp")
    add("--microbatches", type=numbers, default=[4, 16], metavar="N,N", help="for pipelines")
    text = "layers per rank, for pipelines"
    add("--stage-layers", type=int, default=8, metavar="N", help=text)
    add("--virtual", type=int, default=2, metavar="N", help="interleaved stages per rank")
    text = "of every layer except tp's, and tokens of a micro-batch"
    add("--width", type=int, default=4096, metavar="N", help=text)
    add("--budget-ms", "--budget_ms", type=int, metavar="MS", help="measuring time per row")
    text = "measure without the start gate: times then include the host's part"
    add("--no-gate", action="store_true", help=text)
    add("--backend", choices=("cuda", "host", "auto"), default="auto")
    return parser.parse_args()


def main() -> int:
    options = parse()
    options.output.mkdir(parents=True, exist_ok=True)
    # If multicast is off for NCCL, nothing else may use it.
    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    ob.configure(backend=options.backend, budget_ms=options.budget_ms, gate=not options.no_gate)
    ob.init_torch_distributed(timeout=PATIENCE)
    ranks = this_rank()
    good = True
    with ob.results(options.output / "training-peers.json"):
        for case in cases_of(options, dist.get_backend() == "nccl"):
            outcomes = dict(measure_case(case, ranks))
            good &= all(
                not isinstance(one, str) and one.state.comparable for one in outcomes.values()
            )
            if ranks.rank == 0:  # it reports for all
                print("\n".join(lines_of(case, outcomes)), flush=True)
    dist.barrier()  # mpirun kills the others if one exits with a status other than 0
    dist.destroy_process_group()
    return 0 if good or ranks.rank else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ob.MeasureError as error:
        sys.exit(f"training_peers: the run is incomplete: {error}")
