"""Compare the suite's training steps with PyTorch's, in the same processes.

    mpirun -n 2 overlapbench peers -o DIR
    mpirun -n 2 overlapbench peers -o DIR --what tp --tokens 256,1024,4096
    mpirun -n 2 overlapbench peers -o DIR --what pp --microbatches 4,16 --stage-layers 8

For each shape, the suite's rows and PyTorch's equivalents are measured one after the other, with
the same gate, flush and statistics. Before a peer is timed, a sample of its result is compared with
double precision. A peer that is wrong or cannot run is named and gets no time, and the others are
measured. The docstrings of overlapbench/peers/torch_layers.py, torch_steps.py and
torch_pipelines.py describe the peers. Steps of DistributedDataParallel and fully_shard, and
pipelines, are not gated (gate:off in names).

The command writes training-peers.json, which the other commands read, and the table as
training-peers.txt into DIR. Needs PyTorch, and liboverlapbench.so, which `overlapbench run
--build-only` builds. srun can start it too, and on one host torchrun: one process per GPU.

Exit status: 0; 1 if a contestant was wrong or not measured; 2 if a requirement is missing, an
argument is bad, or a file is not writable. One line then says what is wrong.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from overlapbench.cli.command_line import manual_parser, refuse
from overlapbench.measurement import measuring as ob
from overlapbench.output import print_text, replace_file, require_folder
from overlapbench.packages import packages
from overlapbench.peers.arguments import list_of, one_of, size
from overlapbench.peers.training import (
    DDP,
    FSDP,
    MODELS,
    Case,
    Labels,
    Outcome,
    Stages,
    measure_cases,
    plan_layers,
    plan_pipelines,
    plan_steps,
)
from overlapbench.peers.training_table import render_training
from overlapbench.reading.source import ResultError

_WHAT = ("tp", "ddp", "fsdp", "pp")
_PATIENCE = timedelta(minutes=2)  # timeout of torch.distributed for a failed rank


def main(arguments: Sequence[str] | None = None, program: str = "peers") -> int:
    options = make_parser(program).parse_args(arguments)
    try:
        with packages(ResultError):
            import torch  # before the suite: PyTorch needs its own NCCL  # noqa: F401
        require_folder(options.output)
        options.output.mkdir(parents=True, exist_ok=True)
        # If multicast is off for NCCL, nothing else may use it.
        os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
        ob.configure(backend=options.backend, budget_ms=options.budget_ms, gate=not options.no_gate)
        ob.init_torch_distributed(timeout=_PATIENCE)
        return _measure(options)
    except (ResultError, OSError, ValueError, ob.MeasureError) as error:
        return refuse(program, str(error))


def _measure(options: argparse.Namespace) -> int:
    import torch.distributed as dist

    from overlapbench.peers.torch_peers import TorchPeers

    first = dist.get_rank() == 0
    outcomes: list[Outcome] = []
    ended = ""
    try:
        with ob.results(options.output / "training-peers.json"):
            cases = list(_cases(options, dist.get_backend() == "nccl"))
            tell = _tell if first else lambda _: None  # rank 0 reports for all
            for outcome in measure_cases(cases, TorchPeers(), tell):
                outcomes.append(outcome)
    except ob.MeasureError as error:
        ended = f"\nthe run is incomplete: {error}\n"
    if first:
        table = render_training(outcomes) + ended
        replace_file(options.output / "training-peers.txt", table.encode())
        print_text(f"{table}wrote training-peers.json, training-peers.txt to {options.output}\n")
    if not ended:
        dist.barrier()  # mpirun kills the others if one exits with a status other than 0
        dist.destroy_process_group()
    return 1 if first and (ended or any(outcome.problem for outcome in outcomes)) else 0


def _tell(outcome: Outcome) -> None:
    what = outcome.problem or f"{outcome.time_ms:.4f} ms"
    print(f"{outcome.case} {outcome.contestant}: {what}", file=sys.stderr, flush=True)


def _cases(options: argparse.Namespace, on_gpus: bool) -> Iterator[Case]:
    transports = options.transports or (["nccl", "copy"] if on_gpus else ["mpi"])
    stack: Labels = {
        "layers": options.layers,
        "width": options.width,
        "tokens": options.step_tokens,
    }
    if "tp" in options.what:
        yield from plan_layers(options.models, options.tokens, transports)
    if DDP in options.what:
        yield from plan_steps(DDP, stack, options.buckets, transports)
    if FSDP in options.what:
        yield from plan_steps(FSDP, stack, options.prefetch, transports)
    if "pp" in options.what:
        product, element_bytes = ("CublasGemm", 2) if on_gpus else ("Gemm", 4)
        shape = options.stage_layers, options.width, options.virtual
        stages = Stages(*shape, product, element_bytes)
        yield from plan_pipelines(stages, options.microbatches, transports)


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    add("-o", "--output", required=True, type=Path, metavar="DIR")
    add("--what", type=list_of(one_of(_WHAT)), default=list(_WHAT), metavar="W,W")
    add("--models", type=list_of(one_of([*MODELS])), default=["llama8b", "llama70b"], metavar="M,M")
    add("--tokens", type=list_of(size), default=[1024, 4096, 16384], metavar="N,N",
        help="tokens of all ranks together, for tp")  # fmt: skip
    add("--step-tokens", type=size, default=4096, metavar="N",
        help="tokens per rank, for ddp and fsdp")  # fmt: skip
    add("--transports", type=list_of(str), metavar="T,T", help="the suite's: nccl,copy")
    add("--buckets", type=list_of(size), default=[25 << 20, 64 << 20, 256 << 20], metavar="B,B")
    add("--prefetch", type=list_of(_depth), default=[0, 1, 2], metavar="N,N")
    add("--layers", type=size, default=24, metavar="N", help="for ddp and fsdp")
    add("--microbatches", type=list_of(size), default=[4, 16], metavar="N,N", help="for pipelines")
    text = "layers per rank, for pipelines"
    add("--stage-layers", type=size, default=8, metavar="N", help=text)
    add("--virtual", type=size, default=2, metavar="N", help="interleaved stages per rank")
    add("--width", type=size, default=4096, metavar="N",
        help="of every layer except tp's, and tokens of a micro-batch")  # fmt: skip
    add("--budget_ms", type=size, default=None, metavar="MS", help="measuring time per row")
    add("--no-gate", action="store_true",
        help="measure without the start gate: times then include the host's part")  # fmt: skip
    add("--backend", choices=("cuda", "host", "auto"), default="auto")
    return parser


def _depth(text: str) -> int:
    return 0 if text == "0" else size(text)
