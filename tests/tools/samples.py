"""Result files made up for the tests: a builder of rows, and the shape of a whole run.

The figures of `central_experiment` are of the size measured on two H200s; the rest is arithmetic.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import overlapbench

Json = dict[str, Any]

TOOLS = Path(overlapbench.__file__).parents[1]
# Starts `overlapbench` of this checkout, wherever it is called.
PROGRAM = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(TOOLS)!r}); import overlapbench.cli as cli;"
    " sys.exit(cli.main())",
)
STORED = TOOLS / "overlapbench/reading/counters.json"

GRIDS = (1, 8, 16, 32, 40, 64, 128)
SLOWDOWNS = {
    "tile": (1.08, 1.09, 1.41, 1.23, 1.05, 1.03, 1.01),
    "full": (1.01, 1.02, 1.29, 1.34, 1.19, 1.12, 1.11),
}
COLLECTIVES = ("AllToAll", "AllReduce", "AllGather", "ReduceScatter", "HostToDevice")


def context(**changes: str) -> Json:
    """Make a context; a value given here replaces the sample's."""
    return {
        "date": "2025-03-01T12:00:00+00:00",
        "host_name": "node1",
        "executable": "./overlapbench",
        "num_cpus": 64,
        "caches": [],
        "overlapbench_schema": "2",
        "backend": "cuda",
        "device": "NVIDIA H200",
        "ranks": "2",
        "git_revision": "0123456789ab",
    } | changes


def row(name: str, repetition: int = 0, **fields: object) -> Json:
    """Make an iteration row of Google Benchmark; `fields` adds to or replaces its own."""
    return {
        "name": name,
        "run_name": name,
        "run_type": "iteration",
        "repetitions": 1,
        "repetition_index": repetition,
        "threads": 1,
        "iterations": 100,
        "real_time": 1.0,
        "cpu_time": 1.0,
        "time_unit": "ms",
        "valid": 1.0,
    } | fields


def overlap(
    name: str, slowdown: float = 1.1, comp: float = 0.3, comm: float = 0.2, **f: Any
) -> Json:
    """Make an Overlap row whose T is what the slowdown says."""
    times: Json = {"comp_ms": comp, "comm_ms": comm, "overlap_ms": slowdown * max(comp, comm)}
    return row(f"Overlap/{name}", slowdown=slowdown, **times, **f)


def sweep(work: str = "tile", factor: float = 1.0) -> list[Json]:
    """Make the central experiment: a GEMM of growing grid beside one all-to-all."""
    rows = []
    for grid, slowdown in zip(GRIDS, SLOWDOWNS[work], strict=True):
        name = f"AllToAll+Gemm/bytes:67108864/n:4096/grid:{grid}x{grid}/work:{work}/cache:cold"
        comp = 0.33 + 2e-4 * grid**2 if work == "tile" else 30.0 / min(grid**2, 132)
        rows.append(overlap(name, slowdown * factor, comp, 0.156))
    return rows


def pairs() -> list[Json]:
    """Make cuBLASLt GEMMs and stream kernels beside every collective, at two sizes."""
    rows = []
    for place, collective in enumerate(COLLECTIVES):
        for size, comm in ((64 << 20, 0.15), (1 << 30, 2.4)):
            for other, step in (
                ("CublasGemm/{}/n:8192/precision:bf16/repeat:4", 0.05),
                ("CublasGemm/{}/n:8192/precision:tf32/repeat:4", 0.03),
                ("StreamKernel/{}/blocks:132", 0.14),
            ):
                name = f"{collective}+{other.format(f'bytes:{size}')}/cache:cold"
                rows.append(overlap(name, 0.97 + step * (5 - place), 6.2, comm))
    return rows


def bandwidths() -> list[Json]:
    """Make solo communication at sizes from 1 MiB to 1 GiB."""
    peaks = {"AllToAll": 330.0, "AllReduce": 328.0, "AllGather": 274.0, "ReduceScatter": 277.0}
    rows = []
    for collective, peak in peaks.items():
        for size in (1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30):
            busbw = peak * size / (size + 12e6)
            rows.append(row(f"Comm/{collective}/bytes:{size}/cache:cold", busbw_GBps=busbw))
    return rows


def copies() -> list[Json]:
    """Make copies by every route, both directions of the bus at once, pinned and pageable."""
    rows = []
    for memory, peak in (("", 55.0), ("/memory:pageable", 14.0)):
        for size in (1 << 16, 1 << 20, 1 << 30):
            rate = peak * size / (size + 4e5)
            for direction in ("host_to_device", "device_to_host"):
                name = f"Copy/Bandwidth/direction:{direction}/bytes:{size}{memory}/cache:cold"
                rows.append(row(name, GBps=rate))
            name = f"Copy/Bandwidth/direction:both/bytes:{size}{memory}/cache:cold"
            ways: Json = {"host_to_device_GBps": 0.94 * rate, "device_to_host_GBps": 0.91 * rate}
            rows.append(row(name, GBps=1.85 * rate, **ways))
    for engine, peak in (("", 4200.0), ("/engine:sm", 3900.0)):
        for size in (1 << 16, 1 << 30):
            name = f"Copy/Bandwidth/direction:device_local/bytes:{size}{engine}/cache:cold"
            rows.append(row(name, GBps=peak * size / (size + 2e7)))
    return rows


def pipelines() -> list[Json]:
    """Make pipelines that lose more of the ideal the more streams they have."""
    rows = []
    for intensity, compute in ((16, 0.02), (2048, 0.33)):
        sequential, slowest = 0.64 + compute, max(0.32, compute)
        for streams in (1, 2, 4, 8):
            ideal = sequential / streams + (streams - 1) / streams * slowest
            pipelined = ideal * (1 + 0.03 * (streams - 1))
            name = f"elements:4194304/intensity:{intensity}/pipeline_streams:{streams}/cache:cold"
            times: Json = {"sequential_ms": sequential, "bound_ms": ideal}
            gain: Json = {"speedup": sequential / pipelined, "identical": 1.0}
            share = 100 * ideal / pipelined
            rows.append(row(f"Copy/Pipelined/{name}", **times, **gain, pct_of_bound=share))
    return rows


def compute_transfers() -> list[Json]:
    """Make transfers beside a computation, tied by events (not written in the name) or a host."""
    return [
        row(
            f"Copy/ComputeTransfer/batches:4/buffers:{buffers}{tie}/cache:cold",
            sequential_ms=0.72,
            speedup=speedup,
            identical=1.0,
            real_time=0.72 / speedup,
        )
        for tie, speedups in (("", (1.0, 1.45, 1.5)), ("/tie:host", (0.98, 1.4, 1.42)))
        for buffers, speedup in zip((1, 2, 3), speedups, strict=True)
    ]


def fragments() -> list[Json]:
    """Make one transfer cut into up to 4096 fragments."""
    return [
        row(
            f"Copy/Fragmented/bytes:67108864/fragments:{fragments}/call:{call}/cache:cold",
            one_transfer_ms=1.25,
            fragmented_slowdown=max(1.0, fragments * each),
            real_time=1.25 * max(1.0, fragments * each),
        )
        for call, each in (("loop", 0.0022), ("batch", 0.0021))
        for fragments in (1, 16, 256, 4096)
    ]


def priorities() -> list[Json]:
    """Make a pair that priority helps and one that it cannot help, each with its control."""
    rows = []
    for pair, helped in (("ShortBlocks+ShortBlocks", 0.67), ("ShortBlocks+ResidentGrid", 1.28)):
        for priority, latency in (("high", helped), ("equal", 1.28)):
            times: Json = {"latency_alone_ms": 0.65, "latency_equal_ms": 1.28}
            name = f"Priority/{pair}/waves:32/cache:cold/priority:{priority}"
            times |= {"latency_ms": latency, "work_slowdown": latency / 0.65}
            rows.append(row(name, gain=1.28 / latency, **times))
    return rows


def supplies() -> list[Json]:
    """Make a supply that starves the device until it has four workers."""
    rows = []
    for workers, prefetch in ((0, 2), (1, 2), (2, 2), (4, 2), (4, 8)):
        rate = min(500.0 * workers, 1250.0) or 365.0
        name = f"Supply/Batches/workers:{workers}/prefetch:{prefetch}/make_us:2000/cache:cold"
        figures: Json = {"device_idle_share": 1 - 0.98 * rate / 1300, "prediction_error_pct": -2.0}
        rows.append(row(name, batches_per_s=0.98 * rate, predicted_batches_per_s=rate, **figures))
    return rows


def bubbles() -> list[Json]:
    """Make pipelines of two ranks, whose transfers add to the formula's bubbles."""
    rows = []
    for order, chunks in (("GPipe", 1), ("OneFOneB", 1), ("Interleaved", 2)):
        virtual = f"/virtual:{chunks}" if chunks > 1 else ""
        for count in (4, 8, 16):
            formula = 1 / (chunks * count + 1)
            name = f"Pp/{order}/Delay/microbatches:{count}{virtual}/forward_us:1500/cache:cold"
            figures: Json = {"in_flight": 2.0, "speedup": 1.8}
            rows.append(
                row(name, bubble_share=formula + 0.004, formula_bubble_share=formula, **figures)
            )
    return rows


def layers() -> list[Json]:
    """Make tensor-parallel layers: four chunks are the faster ones from 1,024 tokens on."""
    return [
        row(
            f"Tp/{operation}/model:{model}/tokens:{count}/chunks:{chunks}/transport:copy/cache:cold",
            real_time=time_ms,
            sequential_ms=1.1 * time_ms,
            speedup=1.1,
            bound_ms=0.9 * time_ms,
        )
        for operation in ("ColumnParallel", "RowParallel")
        for model, share in (("llama8b", 1.0), ("llama70b", 3.5))
        for count in (256, 1024, 4096)
        for chunks, cost in ((2, 1.02), (4, 1.0 if count > 256 else 1.2))
        for time_ms in (1e-3 * count * share * cost,)
    ]


def buckets() -> list[Json]:
    """Make data-parallel steps whose buckets are too small, right and too large."""
    return [
        row(
            f"Ddp/Buckets/layers:24/width:4096/bucket_bytes:{size << 20}{transport}/cache:cold",
            exposed_comm_ms=exposed_ms * share,
            step_overhead_pct=10 * exposed_ms * share,
            bound_ms=5 + 0.75 * exposed_ms * share,
            real_time=5 + exposed_ms * share,
        )
        for transport, share in (("", 1.0), ("/transport:copy", 0.8))
        for size, exposed_ms in ((1, 2.5), (32, 0.6), (256, 1.5))
    ]


def steps() -> list[Json]:
    """Make training steps, by NCCL and by copy engine. Cutting makes the fourth one faster."""
    figures = (
        ("Fsdp/Prefetch/layers:24/prefetch:0", 4.0, 0.0, 1.0, 16.0),
        ("Fsdp/Prefetch/layers:24/prefetch:1", 2.0, 0.0, 1.5, 16.0),
        ("Fsdp/Prefetch/layers:24/prefetch:1/transport:copy", 0.5, 0.1, 0.25, 15.0),
        ("Tp/Block/Forward/layers:2/microbatches:2", 1.0, -0.2, 0.4, 12.0),
        ("Layers/CrossLayer/independent:0", 7.0, 0.0, 0.1, 17.0),
        ("Layers/CrossLayer/independent:50", 5.0, 0.0, 3.0, 17.0),
        ("Layers/DoubleBuffer/buffers:1", 7.0, 0.0, 0.2, 17.0),
        ("Layers/DoubleBuffer/buffers:1/tie:host", 8.0, 0.0, 1.2, 17.0),
    )
    return [
        row(
            f"{name}/cache:cold",
            real_time=10 + exposed_ms,
            exposed_comm_ms=exposed_ms,
            chunking_cost_ms=cutting_ms,
            interference_ms=interference_ms,
            sequential_ms=sequential_ms,
        )
        for name, exposed_ms, cutting_ms, interference_ms, sequential_ms in figures
    ]


def launches() -> list[Json]:
    """Make empty kernels, one kernel cut into pieces, and a round trip."""
    rows = [row("Launch/RoundTrip/cache:cold", round_trip_us=9.0)]
    for call, host, device in (("loop", 2.9, 2.5), ("graph", 0.01, 1.9)):
        for count in (1, 16, 512):
            axes = f"launches:{count}/call:{call}"
            costs: Json = {
                "launches_per_s": 1e6 / host,
                "host_us_per_launch": host,
                "device_us_per_launch": device,
            }
            rows.append(row(f"Launch/EmptyKernel/{axes}/cache:cold", **costs))
            pieces: Json = {
                "kernel_us": 682.0 / count,
                "dominated_below_us": max(host, device) + 1 / count,
                "pieces_slowdown": 1 + device * (count - 1) / 682.0,
            }
            name = f"Launch/Pieces/{axes}/total_steps:65536/cache:cold"
            rows.append(row(name, **pieces, **costs))
    return rows


def copy_shares() -> list[Json]:
    """Make kernels near a copy's bandwidth, and an unfused one that its bytes explain."""
    rows = []
    for count in (4194304, 268435456):
        for precision, share in (("bf16", 98.0), ("fp32", 100.5)):
            name = f"Gelu/Fused/count:{count}/precision:{precision}/form:tanh/cache:cold"
            rows.append(row(name, copy_ms=0.5, pct_of_copy=share))
    for columns in (1024, 50257, 262144):
        axes = f"columns:{columns}/matrix_bytes:536870912/precision:bf16/cache:cold"
        rows.append(row(f"Softmax/Fused/{axes}", copy_ms=0.25, pct_of_copy=95.0))
        against: Json = {"fused_ms": 0.26, "fused_speedup": 4.3, "predicted_speedup": 4.0}
        rows.append(row(f"Softmax/Unfused/{axes}", copy_ms=0.25, pct_of_copy=22.0, **against))
    return rows


def trainings() -> list[Json]:
    """Make networks that take 0.1 ms, and 0.02 ms for each layer of each step."""
    rows = []
    for steps, layers in ((2, 4), (3, 4), (4, 4), (5, 4), (2, 2), (2, 3), (2, 5)):
        name = f"dim:256/layers:{layers}/batch:256/steps:{steps}/gelu:kernel/call:loop/cache:cold"
        rows.append(row(f"Mlp/Training/{name}", train_ms=0.1 + 0.02 * steps * layers))
    return rows


def links() -> list[Json]:
    """Make the link's curves over SMs, one way, both ways and by an all-gather, and copies."""
    rows = []
    for way, most in (("Broadcast", 374.0), ("SendRecv", 341.0), ("AllGather", 330.0)):
        transports = ("", "/transport:nccl_sym") if way == "AllGather" else ("",)
        curves = [(transport, "comm_ctas", 16.0) for transport in transports]
        if way != "AllGather":
            sides = (("load", 48.0), ("bulk", 54.0))
            curves += [(f"/transport:sm_{kind}", "comm_sms", rate) for kind, rate in sides]
        for transport, axis, per_sm in curves:
            for sms in (1, 2, 4, 8, 16, 32):
                rate = most * min(1.0, sms * per_sm / most) ** 0.8
                name = f"Lab/Link/{way}/bytes:268435456{transport}/{axis}:{sms}/cache:cold"
                figures: Json = {"GBps_per_sm": rate / sms, "comm_sms": float(sms)}
                rows.append(row(name, GBps=rate, **figures))
        for transport in ("copy", "nccl_ce") if way == "AllGather" else ("copy",):
            name = f"Lab/Link/{way}/bytes:268435456/transport:{transport}/cache:cold"
            rows.append(row(name, GBps=0.98 * most + 3 * (transport == "copy"), comm_sms=0.0))
    return rows


def partitions() -> list[Json]:
    """Make one pair with and without a limit to its SMs, beside every transport, in both orders."""
    rows = []
    taken = [("", 24), ("/comm_ctas:8", 8), ("/comm_ctas:16", 16)]
    taken += [(f"/transport:sm_bulk/comm_sms:{sms}", sms) for sms in (4, 8, 16)]
    taken += [("/transport:copy", 0)]
    for first in ("comp", "comm"):
        for axes, sms in taken:
            for limit in (0, 112, 120, 128):
                comp = 1.43 * 132 / (limit or 132)
                comm = 1.39 if "copy" in axes else 1.7 + max(0.0, 2.0 - sms / 4)
                short = max(0, sms - (132 - (limit or 132)))
                losses = 1 + short * 0.004, 1 + short * (0.04 if first == "comp" else 0.005)
                both = max(comp * losses[0], comm * losses[1]) + 0.05
                name = f"AllGather+CublasGemm/bytes:1073741824{axes}/n:8192/precision:bf16"
                name += f"/comp_sms:{limit}" * bool(limit) + f"/cache:cold/first:{first}"
                rows.append(lab_pair(f"Partition/{name}", (comp, comm, both), losses))
    return rows


def matrix() -> list[Json]:
    """Make computations bound by different things beside transports and copies."""
    rows = []
    kinds = ("nccl_ce", "nccl_sym", "copy", "sm_load", "sm_store", "sm_bulk")
    gathers = ["AllGather", *(f"AllGather/transport:{kind}" for kind in kinds)]
    computations = ["CublasGemm", "FmaKernel", "StreamKernel", "L2Kernel", "SharedKernel"]
    computations += ["ChainKernel", "SoftmaxFused", "Attention"]
    for first in ("comp", "comm"):
        for place, communication in enumerate((*gathers, "PeerCopy", "HostToDevice")):
            head, _, axes = communication.partition("/")
            size = 1 << 29 if head == "AllGather" else 1 << 25
            for step, computation in enumerate(computations):
                losses = 1 + 0.01 * place * step, 1 + 0.25 * (step == 2) + 0.02 * place
                name = f"{head}+{computation}/bytes:{size}{'/' * bool(axes)}{axes}"
                name += f"/cache:cold/first:{first}"
                rows.append(lab_pair(f"Matrix/{name}", (0.7, 0.72, 0.72 * max(losses)), losses))
    return rows


def triples() -> list[Json]:
    """Make two communications beside a computation, by several transports."""
    rows = []
    for pair, size in (("AllGather+ReduceScatter", 0), ("AllGather+DeviceToHost", 1 << 25)):
        for place, kind in enumerate(("nccl", "copy", "sm_bulk")):
            for step, computation in enumerate(("CublasGemm", "StreamKernel")):
                name = f"Triple/{pair}+{computation}/bytes:268435456"
                name += f"/transport:{kind}" * bool(place) + "/cache:cold/first:comm"
                name += f"/second_bytes:{size}" * bool(size)
                losses = 1.2 + 0.1 * step, 1.9 - 0.2 * place
                made = lab_pair(name, (0.6, 0.5, 1.2 + 0.1 * place), losses)
                product = made["slowdown"] * (1.03 - 0.02 * step)
                told: Json = {"second_ms": 0.55, "second_slowdown": 1.7 + 0.1 * step}
                told |= {"product_slowdown": product, "product_error": 0.03 - 0.02 * step}
                rows.append(made | told)
    return rows


def attributions() -> list[Json]:
    """Make slowdowns with their shares, one negative, and a pair without a slowdown."""
    rows = []
    shares: tuple[tuple[str, str, float, tuple[float, ...]], ...] = (
        ("CublasGemm", "", 1.73, (0.82, 0.06, 0.02, 0.04, 0.06)),
        ("CublasGemm", "/transport:sm_bulk", 1.25, (0.7, 0.1, 0.05, 0.05, 0.1)),
        ("StreamKernel", "", 1.42, (0.1, 0.8, 0.12, 0.05, -0.07)),
        ("StreamKernel", "/transport:copy", 1.31, (0.0, 0.95, 0.03, -0.02, 0.04)),
        ("ChainKernel", "/transport:copy", 1.02, (0.5, -0.9, 0.4, 0.3, 0.7)),
    )
    for computation, axes, slowdown, parts in shares:
        names = ("by_sm", "by_hbm", "by_l2", "by_clock", "residual")
        name = f"Attribution/AllGather+{computation}/bytes:536870912{axes}/cache:cold"
        times = 0.7, 0.72, 0.72 * slowdown
        made = lab_pair(name, times, (slowdown, 1.05))
        rows.append(made | dict(zip(names, parts, strict=True)))
    return rows


def lab_pair(name: str, times: tuple[float, float, float], losses: tuple[float, float]) -> Json:
    """Make a row of a pair as Overlap has it; `losses` are the slowdowns of both sides."""
    comp, comm, both = times
    sides: Json = {"comp_slowdown": losses[0], "comm_slowdown": losses[1]}
    figures: Json = {"comp_ms": comp, "comm_ms": comm, "overlap_ms": both}
    return row(f"Lab/{name}", slowdown=both / max(comp, comm), **figures, **sides)


def document(rows: Sequence[Json], **changes: str) -> Json:
    """Make a whole result; `changes` goes to the context.

    A row without a state has the one that its `valid`, its `label` and its failure tell.
    """
    table: Json = json.loads(STORED.read_text(encoding="utf-8"))
    return {"context": context(**changes)} | table | {"benchmarks": [*map(_stated, rows)]}


def _stated(row: Json) -> Json:
    said = dict(row)
    label = said.pop("label", "")
    failed = said.get("error_occurred") or said.get("skipped")
    state = "error" if failed else "ok" if said.get("valid", True) else "invalid"
    if isinstance(label, str) and label.startswith("serialized: "):
        state = "serialized"
    reason = said.get("error_message", label)
    if isinstance(reason, str):
        reason = reason.removeprefix(f"{state}: ")
    return {"state": state, "reason": reason} | said


def with_intervals(old: Json, share: float = 0.02) -> Json:
    """Return a document whose times and counters have intervals, so wide a share."""
    names = {counter["name"] for counter in old["counters"]} - {"valid"}
    rows = []
    for row in old["benchmarks"]:
        figures = {key: row[key] for key in row.keys() & names}
        ends: Json = {}
        for end, sign in (("low", -1), ("high", 1)):
            ends |= {f"{key}_{end}": x + sign * share * abs(x) for key, x in figures.items()}
            ends[f"time_{end}_ms"] = row["real_time"] * (1 + sign * share)
        rows.append(row if row["state"] == "error" else row | ends)
    return old | {"benchmarks": rows}


def noisy(row: Json, reason: str) -> Json:
    """Return a row whose figures are too noisy."""
    return row | {"state": "noisy", "reason": reason}


def control(state: str = "control", reason: str = "one stream, and nothing overlapped") -> Json:
    """Make a negative control, two delays on one stream."""
    made = overlap("SecondDelay+Delay/second_delay_us:2000/delay_us:4000/streams:1", 1.5)
    return made | {"state": state, "reason": reason, "valid": float(state != "invalid")}


def full_run() -> list[Json]:
    """Make a whole default run: sweeps, pairs, communication, one bad row of each kind."""
    return [
        *sweep("tile"),
        *sweep("full"),
        *pairs(),
        *bandwidths(),
        *copies(),
        *pipelines(),
        *compute_transfers(),
        *fragments(),
        *priorities(),
        *supplies(),
        *launches(),
        *copy_shares(),
        *trainings(),
        *bubbles(),
        *layers(),
        *buckets(),
        *steps(),
        *links(),
        *partitions(),
        *matrix(),
        *triples(),
        *attributions(),
        overlap(
            "Broadcast+StreamKernel/bytes:67108864/blocks:132/cache:cold",
            1.5,
            valid=0.0,
            label="invalid: not overlapped: coverage 0.03",
        ),
        row(
            "Overlap/SendRecv+StreamKernel/bytes:67108864/blocks:132/cache:cold",
            error_occurred=True,
            error_message="needs 4 GPUs, 2 are visible",
        ),
    ]


def write(path: Path, content: Json) -> Path:
    """Write a result file and return its path."""
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
