"""Result files made up for the tests: a builder of rows, and the shape of a whole run.

The figures of `central_experiment` are of the size measured on two H200s; the rest is arithmetic.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]

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
        "overlapbench_schema": "1",
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


def document(rows: Sequence[Json], **changes: str) -> Json:
    """Make a whole result; `changes` goes to the context."""
    return {"context": context(**changes), "benchmarks": list(rows)}


def full_run() -> list[Json]:
    """Make a whole default run: sweeps, pairs, communication, one bad row of each kind."""
    return [
        *sweep("tile"),
        *sweep("full"),
        *pairs(),
        *bandwidths(),
        overlap(
            "Broadcast+StreamKernel/bytes:67108864/blocks:132/cache:cold",
            1.5,
            valid=0.0,
            label="not overlapped: coverage 0.03",
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
