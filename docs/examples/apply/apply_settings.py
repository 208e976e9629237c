"""The settings of docs/apply.md as PyTorch code that runs: each once by default, once set.

A function is a setting of tools/overlapbench/findings/apply.toml, with `_` for `:`. Its docstring
says what is measured, in the table of docs/apply.md. It returns two cases that differ only in the
setting. One is None if it takes another environment, because a library reads its variables once.

Written for PyTorch 2.11 with NCCL 2.28, one node. measure_apply.py measures the cases.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from overlapbench import Work

Run = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A computation and the communication beside it; without one, a step of both."""

    comp: Run | Work
    comm: Work | None = None
    first: str = "comp"  # the side that starts some microseconds earlier
    gated: bool = True  # False: it waits for the device, or its launches count


Pair = tuple[Case | None, Case | None]
SMALL = dist.get_backend() != "nccl"  # for a look at the code without GPUs
DEVICE = torch.device("cpu" if SMALL else f"cuda:{torch.cuda.current_device()}")
DTYPE = torch.float32 if SMALL else torch.bfloat16
SIDE, WIDTH, LAYERS = (64, 64, 4) if SMALL else (8192, 4096, 16)
TOKENS, HIDDEN, FFN = (64, 64, 128) if SMALL else (8192, 4096, 14336)
GATHERED = 1 << (12 if SMALL else 29)  # elements: 1 GiB
FREE_SMS = 24  # as many as NCCL's collectives take
kept: list[Any] = []  # contexts and registered memory, which outlive the functions
pools: list[tuple[Any, Any]] = []  # backends, and the pools that are registered with them


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE, dtype=DTYPE)


def product(times: int = 1, side: int = SIDE) -> Run:
    a, b = random(side, side), random(side, side)
    c = torch.empty_like(a)

    def run() -> None:
        for _ in range(times):
            torch.mm(a, b, out=c)

    return run


def checked(run: Run, part: torch.Tensor, whole: Callable[[], torch.Tensor]) -> Work:
    """Return an all-gather that is verified: each rank contributes its number."""
    part.fill_(dist.get_rank())

    def reset() -> None:
        whole().fill_(-1)
        part.fill_(dist.get_rank())  # it may be a part of the result

    def verify() -> bool:
        pieces = whole().chunk(dist.get_world_size())
        return all(bool((piece == rank).all()) for rank, piece in enumerate(pieces))

    return Work(run, reset=reset, verify=verify, kind="comm")


def gather(options: Any = None, symmetric: bool = False, elements: int = GATHERED) -> Work:
    """Return an all-gather on a stream of its process group, which is made with these options.

    In place: a copy of the rank's own part, within the GPU, would come on top.
    """
    group = dist.new_group(pg_options=options) if options or symmetric else dist.group.WORLD
    allocated: Any = contextlib.nullcontext()
    if symmetric:
        dist.all_reduce(torch.ones(1, device=DEVICE), group=group)  # it needs its communicator
        backend = group._get_backend(DEVICE)
        pools.append((backend, torch.cuda.MemPool(backend.mem_allocator)))
        allocated = torch.cuda.use_mem_pool(pools[-1][1])
    with allocated:
        whole = torch.empty(elements, device=DEVICE, dtype=DTYPE)
    if symmetric:
        backend.register_mem_pool(pools[-1][1], symm=True)
        kept.append(whole)
    part = whole.chunk(dist.get_world_size())[dist.get_rank()]

    def run() -> None:
        dist.all_gather_into_tensor(whole, part, group=group, async_op=True).wait()

    return checked(run, part, lambda: whole)


def close() -> None:
    """Give back what is registered, before the process groups end."""
    for backend, pool in pools:
        backend.deregister_mem_pool(pool)


def on(stream: torch.cuda.Stream, run: Run) -> Run:
    """Return the same on another stream, which the current one waits for."""

    def there() -> None:
        here = torch.cuda.current_stream()
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            run()
        here.wait_stream(stream)

    return there


def training_step(model: nn.Module) -> Run:
    x, gradient = random(WIDTH, WIDTH).requires_grad_(), random(WIDTH, WIDTH)

    def run() -> None:
        x.grad = None
        model.zero_grad()
        model(x).backward(gradient)

    return run


def linear_layers(count: int = LAYERS) -> list[nn.Module]:
    return [nn.Linear(WIDTH, WIDTH, False, DEVICE, DTYPE) for _ in range(count)]


def options_of(**fields: Any) -> Any:
    options = dist.ProcessGroupNCCL.Options()
    for name, value in fields.items():
        setattr(options.config, name, value)
    return options


# ---- products of 8192³ beside an all-gather of 1 GiB


def first_comm() -> Pair:
    """One product, started after the all-gather instead of before it."""
    comp, comm = product(), gather()
    return Case(comp, comm, first="comp"), Case(comp, comm, first="comm")


def transport_nccl_ce() -> Pair:
    """One product; the all-gather in place, by NCCL's copy engines."""
    comp = product()
    options = options_of(cta_policy=dist.ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO)
    return Case(comp, gather()), Case(comp, gather(options, symmetric=True))


def transport_nccl_sym() -> Pair:
    """An all-gather of 4 MiB alone, by NCCL's symmetric kernel."""
    elements = min(GATHERED, 1 << 21)
    return Case(gather(elements=elements)), Case(gather(symmetric=True, elements=elements))


def transport_copy() -> Pair:
    """One product, started after the all-gather, which copies between symmetric buffers."""
    import torch.distributed._symmetric_memory as symm_mem

    whole = symm_mem.empty(GATHERED, dtype=DTYPE, device=DEVICE)
    handle = symm_mem.rendezvous(whole, dist.group.WORLD.group_name)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    parts = whole.chunk(ranks)
    size = parts[rank].numel()

    def run() -> None:
        handle.barrier()
        for peer in (one % ranks for one in range(rank + 1, rank + ranks)):
            parts[peer].copy_(handle.get_buffer(peer, (size,), DTYPE, peer * size))
        handle.barrier()

    run()
    copied = checked(on(torch.cuda.Stream(), run), parts[rank], lambda: whole)
    comp = product()
    return Case(comp, gather(), first="comm"), Case(comp, copied, first="comm")


def comm_priority() -> Pair:
    """One product; the all-gather on a stream of high priority."""
    comp = product()
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    return Case(comp, gather()), Case(comp, gather(options))


def comp_priority() -> Pair:
    """Four products on a stream of high priority, started after the all-gather."""
    comp, comm = product(4), gather()
    high = on(torch.cuda.Stream(priority=-1), comp)
    return Case(comp, comm, first="comm"), Case(high, comm, first="comm")


def few_ctas(options: Any = None) -> Case:
    return Case(product(), gather(options, elements=GATHERED // 4), first="comm")


def comm_ctas() -> Pair:
    """One product, started after an all-gather of 256 MiB with 8 CTAs."""
    return few_ctas(), few_ctas(options_of(min_ctas=8, max_ctas=8))


def comm_ctas_variables() -> Pair:
    """The same by NCCL_MIN_CTAS=8 NCCL_MAX_CTAS=8."""
    case = few_ctas()
    return (None, case) if os.environ.get("NCCL_MAX_CTAS") == "8" else (case, None)


def sm_target() -> Pair:
    """One product by cuBLASLt that leaves 24 SMs free."""
    torch.backends.cuda.preferred_blas_library("cublaslt")
    comp, comm = product(), gather()

    def limited() -> None:
        torch._C._set_sm_carveout_experimental(FREE_SMS)
        comp()
        torch._C._set_sm_carveout_experimental(None)

    return Case(comp, comm), Case(limited, comm)


def comp_sms() -> Pair:
    """One product in a green context of 104 SMs."""
    comp, comm = product(), gather()
    sms = torch.cuda.get_device_properties(DEVICE).multi_processor_count - FREE_SMS
    green = torch.cuda.green_contexts.GreenContext.create(
        num_sms=sms // 8 * 8, device_id=DEVICE.index
    )
    kept.append(green)
    return Case(comp, comm), Case(on(green.Stream(), comp), comm)


# ---- training steps


def bucket_bytes() -> Pair:
    """DistributedDataParallel of 16 layers of 4096²: bucket_cap_mb=100 instead of 25."""

    def case(mebibytes: int) -> Case:
        model = nn.parallel.DistributedDataParallel(
            nn.Sequential(*linear_layers()), bucket_cap_mb=mebibytes, gradient_as_bucket_view=True
        )
        return Case(training_step(model), gated=False)

    return case(25), case(100)


def sharded(depth: int) -> Case:
    """Return a step of FSDP2, in which each layer prefetches so many others; 0 is the default."""
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh(DEVICE.type, (dist.get_world_size(),))
    layers = linear_layers()
    model = nn.Sequential(*layers)
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if depth:
        for place, layer in enumerate(layers):
            layer.set_modules_to_forward_prefetch(layers[place + 1 : place + 1 + depth])
            layer.set_modules_to_backward_prefetch(layers[max(0, place - depth) : place][::-1])
    return Case(training_step(model), gated=False)


def prefetch() -> Pair:
    """FSDP2 of 16 layers of 4096², two layers ahead."""
    return sharded(0), sharded(2)


def connections() -> Pair:
    """The same at the default prefetch: 8 connections instead of CUDA_DEVICE_MAX_CONNECTIONS=1."""
    case = sharded(0)
    return (case, None) if os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1" else (None, case)


def chunks() -> Pair:
    """A column-parallel layer of Llama 8B, 8,192 tokens: gathered and multiplied by the block."""
    import torch.distributed._symmetric_memory  # it defines the operator

    ranks = dist.get_world_size()
    shard, weight = random(TOKENS // ranks, HIDDEN), random(HIDDEN, 2 * FFN // ranks)
    gathered, result = random(TOKENS, HIDDEN), random(TOKENS, 2 * FFN // ranks)

    def sequence() -> None:
        dist.all_gather_into_tensor(gathered, shard)
        torch.mm(gathered, weight, out=result)

    def fused() -> object:
        operator = torch.ops.symm_mem.fused_all_gather_matmul
        group = dist.group.WORLD.group_name
        return operator(shard, [weight], gather_dim=0, group_name=group, return_A=False)

    return Case(sequence), Case(fused)


# ---- small operations, whose launches count


def batch() -> Pair:
    """32 all-reduces of 128 KiB, coalesced."""
    tensors = [random(65536) for _ in range(32)]

    def each() -> None:
        for tensor in tensors:
            dist.all_reduce(tensor)

    def coalesced() -> None:
        with dist._coalescing_manager():
            each()

    return Case(each), Case(coalesced)


def tie() -> Pair:
    """16 products of 2048³, each followed by a copy on another stream that waits for an event."""
    multiply, copied, side = product(side=2048), random(1024, 1024), torch.cuda.Stream()
    copy = torch.empty_like(copied)

    def run(synchronized: bool) -> None:
        for _ in range(16):
            multiply()
            if synchronized:
                torch.cuda.synchronize()
            else:
                event = torch.cuda.Event()
                event.record()
                side.wait_event(event)
            with torch.cuda.stream(side):
                copy.copy_(copied)
        torch.cuda.current_stream().wait_stream(side)

    return Case(lambda: run(True), gated=False), Case(lambda: run(False), gated=False)


def memory() -> Pair:
    """Four products, and on another stream a copy of 256 MiB, from pinned memory."""
    multiply, side = product(4), torch.cuda.Stream()
    target = torch.empty(1 << 27, device=DEVICE, dtype=DTYPE)

    def case(source: torch.Tensor) -> Case:
        def run() -> None:
            here = torch.cuda.current_stream()
            side.wait_stream(here)
            with torch.cuda.stream(side):
                target.copy_(source, non_blocking=True)
            multiply()
            here.wait_stream(side)

        return Case(run, gated=False)

    pageable = torch.zeros(target.shape, dtype=DTYPE)
    return case(pageable), case(pageable.pin_memory())


def call() -> Pair:
    """64 products of 256³ as one CUDA graph."""
    multiply = product(64, side=256)
    multiply()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        multiply()
    return Case(multiply, gated=False), Case(graph.replay, gated=False)


def fusion() -> Pair:
    """A bias, a GELU and a product of 256 MiB each, by torch.compile."""
    x, bias, gate = random(32768, 4096), random(4096), random(32768, 4096)

    def chain() -> torch.Tensor:
        return nn.functional.gelu(x + bias, approximate="tanh") * gate

    compiled = torch.compile(chain)
    compiled()
    return Case(chain), Case(compiled)
