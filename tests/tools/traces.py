"""Small made-up traces, as PyTorch's profiler, nsys and overlapbench write them, and a large one.

    python tests/tools/traces.py FILE MIB

writes a trace of that size, to see how much memory reading it takes.
"""

import json
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from overlapbench.traces.breakdown import Breakdown, break_down
from overlapbench.traces.files import read_traces
from overlapbench.traces.model import BUSY, Class, Span, Trace
from overlapbench.traces.rules import Rules, parse_rule

Json = dict[str, Any]
PROCESS = 1 << 24
GEMM, NCCL = "void gemm<float>(float*)", "ncclDevKernel_AllReduce_Sum_f32(args)"
COPY, PEER = "Memcpy HtoD (Pinned -> Device)", "Memcpy PtoP (Device -> Device)"


def event(category: str, name: str, ts: float, dur: float, **args: object) -> Json:
    """One complete event; times in microseconds."""
    known = {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "pid": 0, "tid": 7}
    return known | {"args": args}


def work(name: str, ts: float, dur: float, stream: int = 7, **args: object) -> Json:
    """A kernel or a copy on device 0."""
    kinds = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
    return event(kinds.get(name[:6], "kernel"), name, ts, dur, device=0, stream=stream, **args)


def call(ts: float, dur: float, correlation: int) -> Json:
    return event("cuda_runtime", "cudaLaunchKernel", ts, dur, correlation=correlation)


def stream_wait(
    at_us: tuple[float, float], correlation: int, stream: int, awaited: int
) -> list[Json]:
    """The record of an event on a stream, and another stream's wait for it."""
    args = {"cuda_sync_kind": "Stream Wait Event", "stream": stream, "wait_on_stream": awaited,
            "wait_on_cuda_event_record_corr_id": correlation, "correlation": correlation + 1,
            "device": 0}  # fmt: skip
    record, wait = (call(ts, 0.01, correlation + later) for later, ts in enumerate(at_us))
    return [record, wait, event("cuda_sync", "Stream Wait Event", at_us[1], 0.01, **args)]


def step(number: int, ts: float, dur: float) -> Json:
    return event("user_annotation", f"ProfilerStep#{number}", ts, dur)


def ours(kind: str, ts: float, dur: float, rank: int = 0, sample: int = 0, **args: object) -> Json:
    """An event of one of our own trace files."""
    tags = {"class": kind, "rank": rank, "row": "Overlap/A+B", "run": "overlap", "sample": sample}
    return event("kernel", "work", ts, dur, **(tags | {"step": "work", "lane": kind} | args))


ROW = "Overlap/A+B/cache:cold"


def recorded(
    *samples: Sequence[Json], rank: int = 0, row: str = ROW, gate_ms: float = 1.0, **about: object
) -> Json:
    """A file as `--trace_out` writes it, on the host backend.

    Each sample is a list of `done` and `waits`, in milliseconds from the opening of its gate, for
    which the lanes waited `gate_ms`. Samples begin 100 ms apart.
    """
    names = list(
        dict.fromkeys(
            e["args"]["lane"] for events in samples for e in events if "lane" in e["args"]
        )
    )
    threads = {name: place for place, name in enumerate(names, 1)}
    device, host = 2 * rank, 2 * rank + 1
    made: list[Json] = [
        {"ph": "M", "name": "thread_name", "pid": device, "tid": tid, "args": {"name": name}}
        for name, tid in threads.items()
    ]
    for number, events in enumerate(samples):
        begin = 1000 * 100 * (number + 1)
        tags = {"row": row, "run": "overlap", "sample": number, "rank": rank}
        end = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X")
        early, whole = 1000 * gate_ms, event("user_annotation", f"ProfilerStep#{number}", 0, 0)
        whole |= {"ts": begin - 2 * early, "dur": end + 3 * early, "pid": host}
        sample = event("gpu_user_annotation", f"sample {number}", begin, end)
        for one in (whole, sample | {"pid": device, "tid": 0}):
            made.append(one | {"args": tags})
        gates = [waits(name, -gate_ms, gate_ms) for name in names]
        gates.append(event("gpu_user_annotation", "gate", -early, early, **{"class": "GATE"}))
        gates.append(event("gpu_user_annotation", "wait", 0, end, **{"class": "WAIT"}))
        for one in [*gates, *events]:
            lane = one["args"].get("lane")
            place = {"ts": begin + one["ts"], "pid": device, "tid": threads.get(lane, 0)}
            args = {"args": one["args"] | tags} if one["ph"] == "X" else {}
            made.append({key: one[key] for key in one if key != "args"} | place | args)
    known = {"row": row, "run": "overlap", "backend": "host", "samples": len(samples), "fault": ""}
    about_rank = {"rank": rank, "world_size": 2}
    return {
        "schemaVersion": 1,
        "distributedInfo": about_rank,
        "overlapbench": known | about,
        "traceEvents": made,
    }


def done(step: str, kind: str, lane: str, ts_ms: float, dur_ms: float, **args: object) -> Json:
    """Work of a recorded sample."""
    known = {"class": kind, "step": step, "lane": lane, "device": 0, "stream": 1}
    counted = {"bytes": 0, "blocks": 1, "External id": 1}
    return event("kernel", step, 1000 * ts_ms, 1000 * dur_ms, **known, **(counted | args))


def waits(lane: str, ts_ms: float, dur_ms: float) -> Json:
    """A wait of a lane in a recorded sample."""
    known = {"class": "WAIT", "step": "a step", "lane": lane}
    return event("gpu_user_annotation", "wait", 1000 * ts_ms, 1000 * dur_ms, **known)


def arrow(number: int, source: str, end_ms: float, target: str, begin_ms: float) -> list[Json]:
    """An arrow of a recorded sample, from the lane of a step to that of one which waits for it."""
    known = {"cat": "dependency", "name": "waits for", "id": number}
    first = {"ph": "s", "ts": 1000 * end_ms - 0.001, "args": {"lane": source}}
    return [known | first, known | {"ph": "f", "ts": 1000 * begin_ms, "args": {"lane": target}}]


def kineto(events: Iterable[Json], rank: int | None = 0, base: int | None = 10**18) -> Json:
    document: Json = {"schemaVersion": 1, "traceEvents": list(events)}
    if rank is not None:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank}
    if base is not None:
        document["baseTimeNanoseconds"] = base
    return document


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def broken_down(
    events: Iterable[Json], path: Path, rules: Sequence[str] = (), step: int | None = None
) -> Breakdown:
    """Write, read and break down the trace of one rank."""
    write(path, kineto(events))
    (one,) = break_down(read_traces([str(path)], Rules([*map(parse_rule, rules)])), step)
    return one


def percent(one: Breakdown) -> dict[str, float]:
    """Return the shares that are not 0, by their names in the JSON."""
    tenths = {"+".join(p) if isinstance(p, tuple) else p.value: n for p, n in one.tenths.items()}
    return {name: n / 10 for name, n in tenths.items() if n}


def trace(spans: Iterable[tuple[Class, int, int]], rank: int = 0, launched: bool = False) -> Trace:
    """A trace of spans with a lane each; as if launched when they began, or not known to be."""
    made = [
        Span(kind, kind, begin, end, str(lane), launched_ns=begin if launched else None)
        for lane, (kind, begin, end) in enumerate(spans)
    ]
    made.sort(key=lambda span: span.interval)
    return Trace("made up", rank, tuple(made), common_clock=True)


def brute(
    spans: Iterable[tuple[Class, int, int]], begin: int, end: int
) -> dict[frozenset[Class], int]:
    """Count the nanoseconds of each mix of classes, one by one."""
    counts: dict[frozenset[Class], int] = {}
    known = list(spans)
    for now in range(begin, end):
        run = {kind for kind, b, e in known if b <= now < e}
        both = {Class.COMP, Class.COMM} if Class.FUSED in run else set()
        mix = frozenset((run | both) & set(BUSY))
        counts[mix] = counts.get(mix, 0) + 1
    return counts


def nsys(path: Path, statements: Sequence[str] = (), clock: int | None = 10**18) -> Path:
    """Write an export of nsys with its tables, then run statements that fill or break it."""
    work = "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER"
    tables = {
        "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
        "CUPTI_ACTIVITY_KIND_KERNEL": f"{work}, globalPid INTEGER, demangledName INTEGER",
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"{work}, globalPid INTEGER, copyKind INTEGER,"
        " srcDeviceId INTEGER, dstDeviceId INTEGER",
        "CUPTI_ACTIVITY_KIND_MEMSET": f"{work}, globalPid INTEGER",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER, end INTEGER, globalTid INTEGER,"
        " correlationId INTEGER, nameId INTEGER",
        "NVTX_EVENTS": "start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER,"
        " text TEXT, textId INTEGER",
        "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER",
    }
    with sqlite3.connect(path) as connection:
        for name, columns in tables.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        names = [(1, GEMM), (2, NCCL), (3, "step 4")]
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
        if clock is not None:
            connection.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?)", (clock,))
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


def kernel(
    name: int, begin: int, end: int, stream: int = 7, call: int = 0, process: int = 1
) -> str:
    values = f"{begin}, {end}, 0, {stream}, {call}, {process * PROCESS}, {name}"
    return f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({values})"


def write_large(path: Path, mebibytes: int) -> None:
    """Write so much text of PyTorch's events: kernels, a call for each, and ten host operators."""
    args = {"Input Dims": [[4096, 4096], [4096, 4096], []], "External id": 7, "Ev Idx": 9}
    host = json.dumps(event("cpu_op", "aten::mm", 1, 1, **args), indent=1)
    with path.open("w") as file:
        file.write(f"[{host}")
        written = kernels = 0
        while written < mebibytes << 20:
            launch, run = call(kernels, 1, kernels), work(GEMM, 5 * kernels + 2, 3)
            run["args"]["correlation"] = kernels
            group = "".join(f",{one}\n" for one in (*[host] * 10, *map(json.dumps, (launch, run))))
            written += file.write(group)
            kernels += 1
        file.write("]")


if __name__ == "__main__":
    write_large(Path(sys.argv[1]), int(sys.argv[2]))
