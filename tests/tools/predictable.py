"""Results with schedules: steps of a machine whose times alone and slowdowns are known.

Measured times are the replay's own, with the machine's factors, so a prediction that finds the
factors must give them again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import samples
import traces
from overlapbench.prediction.factors import even, passing, rules_of
from overlapbench.prediction.links import Asked, weight
from overlapbench.prediction.replay import replay
from overlapbench.prediction.schedules import Row, Run, Step, Time, Work
from overlapbench.reading.names import BenchmarkName

SPREAD = 0.001
LAYER_BYTES = 32 << 20
COMP_MS = {"forward": 0.2, "backward": 0.4}
LAYERS = 8
SHUFFLE = Work("shuffle", "COMM", "AllToAll", wire_bytes=2 * LAYERS * LAYER_BYTES)
MIB = 1 << 20
RECORDED = Path(__file__).parents[2] / "docs/results"


@dataclass(frozen=True)
class Machine:
    """comm_slowdown of a communication beside a computation, and comp_slowdown the other way."""

    comm_slowdown: float = 1.3
    comp_slowdown: float = 1.2
    GBps: float = 300.0
    alpha_ms: float = 0.01
    backend: str = "cuda"

    def collective_ms(self, name: str, bytes_: float, ranks: int) -> float:
        return self.alpha_ms + weight(name, ranks) * bytes_ / (self.GBps * 1e6)

    def whole_ms(self, row: Row) -> list[float]:
        """Return the time alone of each work."""
        whole = []
        for place, work in enumerate(row.works):
            share = next(s.share for s in row.own.steps if s.work == place)
            one = self.collective_ms(work.collective, work.wire_bytes * share, row.ranks)
            whole.append(one / share if work.collective else COMP_MS[work.name] * LAYERS)
        return whole

    def factors(self, row: Row) -> tuple[list[list[float]], list[list[int]]]:
        """Return slowdowns, and what waits for SMs."""
        slowdown, waits = even(row), passing(row)
        for comm, work in enumerate(row.works):
            for comp in range(2):
                if work.collective:
                    slowdown[comm][comp] = self.comm_slowdown
                    slowdown[comp][comm] = self.comp_slowdown
                    waits[comm][comp] = int(row.by_kernel(work))
        return slowdown, waits


def ddp(machine: Machine, ranks: int, layers_of_bucket: int, transport: str = "nccl") -> Row:
    """Sum gradients in buckets of so many layers; the first has one."""
    steps = [Step(0, 0, 1 / LAYERS) for _ in range(LAYERS)]
    steps += [Step(1, 0, 1 / LAYERS) for _ in range(LAYERS)]
    sizes = [1]
    while sum(sizes) < LAYERS:
        sizes.append(min(layers_of_bucket, LAYERS - sum(sizes)))
    made, sums = LAYERS - 1, []
    for size in sizes:
        made += size
        sums.append(len(steps))
        steps.append(Step(2 + sorted(set(sizes)).index(size), 1, 1 / sizes.count(size), (made,)))
    works = [Work(name, "COMP", flops=1e12 * ms) for name, ms in COMP_MS.items()]
    works += [
        Work(f"sum {size}", "COMM", "AllReduce", wire_bytes=size * sizes.count(size) * LAYER_BYTES)
        for size in sorted(set(sizes))
    ]
    name = f"Ddp/Buckets/layers:{LAYERS}/bucket_bytes:{layers_of_bucket * LAYER_BYTES}"
    return _row(machine, name, ranks, transport, works, steps)


def fsdp(machine: Machine, ranks: int, prefetch: int, transport: str = "nccl") -> Row:
    """Gather each layer before its use, forward and backward."""
    steps: list[Step] = []
    gathers: list[int] = []
    used: list[int] = []
    for use in range(2 * LAYERS):
        while len(gathers) <= min(use + prefetch, 2 * LAYERS - 1):
            frees = len(gathers) - prefetch - 1
            after = (used[frees],) if frees >= 0 else ()
            steps.append(Step(2, 1, 1 / (2 * LAYERS), after))
            gathers.append(len(steps) - 1)
        steps.append(Step(use // LAYERS, 0, 1 / LAYERS, (gathers[use],)))
        used.append(len(steps) - 1)
    works = [Work(name, "COMP", flops=1e12 * ms) for name, ms in COMP_MS.items()]
    works.append(Work("gather", "COMM", "AllGather", wire_bytes=2 * LAYERS * LAYER_BYTES))
    name = f"Fsdp/Prefetch/layers:{LAYERS}/prefetch:{prefetch}"
    return _row(machine, name, ranks, transport, works, steps)


def _row(machine: Machine, name: str, ranks: int, transport: str, works: Sequence[Work],
         steps: Sequence[Step]) -> Row:  # fmt: skip
    by = f"/transport:{transport}" if transport != "nccl" else ""
    bare = Row(BenchmarkName.parse(f"{name}{by}/cache:cold"), machine.backend, ranks, 1,
               transport, tuple(works), (Run("pattern", (None, None), tuple(steps)),))  # fmt: skip
    return replace(bare, runs=tuple(_runs(machine, bare)))


def _runs(machine: Machine, row: Row) -> list[Run]:
    whole = machine.whole_ms(row)
    slowdown, waits = machine.factors(row)
    runs = []
    for place, work in enumerate(row.works):
        own = tuple(replace(s, lane=0, after=()) for s in row.own.steps if s.work == place)
        runs.append(_timed(Run(work.name, (None,), own), whole[place]))
    for comm in range(2, len(row.works)):
        for comp in range(2):
            lanes = {comm: 0, comp: 1}
            pair = tuple(replace(s, lane=lanes[s.work], after=())
                         for work in lanes for s in row.own.steps if s.work == work)  # fmt: skip
            run = Run(f"{row.works[comm].name} beside {row.works[comp].name}", (None, None), pair)
            starts = (0.0, 0.01)
            done = replay(run, _alone(run, whole), rules_of(row, slowdown, waits), starts)
            ends = [max(done.end_ms[i] for i, s in enumerate(pair) if s.lane == lane)
                    for lane in range(2)]  # fmt: skip
            spans = tuple(zip(starts, ends, strict=True))
            runs.append(replace(_timed(run, done.total_ms), lanes_ms=spans))
    done = replay(row.own, _alone(row.own, whole), rules_of(row, slowdown, waits))
    return [*runs, _timed(row.own, done.total_ms)]


def profiled(
    machine: Machine, row: Row, path: Path, *, sizes: bool = True, stated: bool = False
) -> str:
    """Write what PyTorch's profiler records of a row: three steps of it, all enqueued early.

    sizes   state what collectives do, and their sizes, as PyTorch 2.3 and newer do
    stated  state who waits for whom, as enable_cuda_sync_events does
    """
    slowdown, waits = machine.factors(row)
    alone_ms = _alone(row.own, machine.whole_ms(row))
    done = replay(row.own, alone_ms, rules_of(row, slowdown, waits))
    events = []
    for number in range(3):
        start_us = 1e6 + 1e3 * done.total_ms * number
        events.append(traces.step(number, start_us - 50, 40))
        for place, step in enumerate(row.own.steps):
            work, correlation = row.works[step.work], 1000 * number + place
            known: dict[str, object] = {"correlation": correlation}
            if work.collective and sizes:
                count = round(work.wire_bytes * step.share / 2)
                known |= {"Collective name": work.collective.lower(), "dtype": "BFloat16",
                          "In msg nelems": count, "Out msg nelems": count,
                          "Group size": row.ranks}  # fmt: skip
            kernel = f"ncclDevKernel_{work.collective}" if work.collective else work.name
            begin, end = done.begin_ms[place], done.end_ms[place]
            events.append(traces.work(kernel, start_us + 1e3 * begin, 1e3 * (end - begin),
                                      7 + 13 * step.lane, **known))  # fmt: skip
            # The host enqueues a sum after what it waits for.
            turn = step.after[0] + 0.5 if work.collective == "AllReduce" else place
            events.append(traces.call(start_us - 45 + 0.1 * turn, 0.02, correlation))
            for awaited in step.after if stated else ():
                at_us = start_us - 45 + 0.1 * awaited + 0.03, start_us - 45 + 0.1 * turn - 0.03
                events += traces.stream_wait(at_us, 10_000 + len(events), 7 + 13 * step.lane,
                                             7 + 13 * row.own.steps[awaited].lane)  # fmt: skip
    traces.write(path, traces.kineto(events))
    return str(path)


def triple(slowdown: Sequence[Sequence[float]], extra: float = 1.0, backend: str = "cuda") -> Row:
    """Run a gather, a copy to the host and a product at once, as Lab/Triple does.

    `slowdown` is of each work beside each; of the product beside both others it is `extra` times
    the product of two factors.
    """
    alone_ms = 1.0, 0.6, 1.5
    works = (
        Work("comm", "COMM", "AllGather", wire_bytes=1 << 28),
        Work("second", "MEM", moved_bytes=1 << 25),
        Work("comp", "COMP", flops=1e12),
    )
    bare = Row(BenchmarkName.parse("Lab/Triple/AllGather+DeviceToHost+CublasGemm/cache:cold"),
               backend, 2, 1, "copy", works, ())  # fmt: skip

    def run(name: str, *sides: int) -> Run:
        steps = tuple(Step(work, lane, 1.0) for lane, work in enumerate(sides))
        made = Run(name, (None,) * len(sides), steps)
        factors = [list(row) for row in slowdown]
        if len(sides) == 3:
            factors[2][0] *= extra
        rules = rules_of(replace(bare, runs=(made,)), factors, passing(bare))
        done = replay(made, [alone_ms[work] for work in sides], rules)
        return replace(_timed(made, done.total_ms), lanes_ms=tuple((0.0, e) for e in done.end_ms))

    pairs = [(one, other) for one in range(3) for other in range(one + 1, 3)]
    return replace(bare, runs=(
        *(run(works[work].name, work) for work in range(3)),
        *(run(f"{works[a].name} beside {works[b].name}", a, b) for a, b in pairs),
        run("overlap", 0, 1, 2),
    ))  # fmt: skip


def _alone(run: Run, whole_ms: Sequence[float]) -> list[float]:
    return [whole_ms[step.work] * step.share for step in run.steps]


def _timed(run: Run, ms: float) -> Run:
    return replace(run, time=Time(ms, SPREAD))


def schedules(row: Row, *, planned: bool = False) -> dict[str, Any]:
    """Return a row's schedules as the program writes them."""
    return {
        "version": 1,
        "ranks": row.ranks,
        "hosts": row.hosts,
        "transport": row.transport,
        "works": [
            {"name": w.name, "class": w.kind, "collective": w.collective, "flops": w.flops,
             "wire_bytes": w.wire_bytes, "transport": w.transport, "sms": w.sms}
            for w in row.works
        ],
        "runs": [_run(run, planned=planned) for run in row.runs],
    }  # fmt: skip


def _run(run: Run, *, planned: bool) -> dict[str, Any]:
    steps = [[s.work, s.lane, 0, round(1 / s.share), list(s.after)] for s in run.steps]
    made: dict[str, Any] = {"name": run.name, "lanes": [{"name": "lane"} for _ in run.owners]}
    if run.time and not planned:
        made |= {"ms": run.time.ms}
        made |= {"ms_low": run.time.ms * 0.998, "ms_high": run.time.ms * 1.002}
        if run.lanes_ms:
            made["lanes_ms"] = [list(span) for span in run.lanes_ms]
    return made | {"steps": steps}


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """Return a result with these rows, all of one number of ranks."""
    made: Mapping[str, Any] = samples.document([_entry(row) for row in rows])
    told = {"backend": rows[0].backend, "device_multiprocessors": str(rows[0].sms)}
    return {**made, "context": {**made["context"], **told}}


def _entry(row: Row) -> dict[str, Any]:
    assert row.own.time is not None
    entry = samples.row(str(row.name), state="ok", reason="")
    return {**entry, "real_time": row.own.time.ms, "schedules": schedules(row)}


def write(path: Path, rows: Sequence[Row]) -> str:
    samples.write(path, document(rows))
    return str(path)


def row(backend: str = "cuda", transport: str = "nccl", *runs: Run) -> Row:
    """Return a row of a computation, a sum and a copy, with these runs."""
    works = (
        Work("a", "COMP", flops=8.0, moved_bytes=2.0),
        Work("b", "COMM", "AllReduce", wire_bytes=64 * MIB),
        Work("c", "MEM", moved_bytes=4.0, wire_bytes=1.0),
    )
    return Row(BenchmarkName.parse("Lab/X/A+B/n:1"), backend, 2, 1, transport, works, runs)


def alone(work: int, ms: float, *shares: float, lanes: int = 1) -> Run:
    """Return a measured run of one of its works."""
    steps = tuple(Step(work, place % lanes, share) for place, share in enumerate(shares))
    return Run(f"work {work}", (None,) * lanes, steps, Time(ms, 0.01))


def size(mib: float) -> Asked:
    """Return the question how long its sum takes at this size."""
    return Asked("AllReduce", "nccl", mib * MIB)


def wanted(row: Row) -> float:
    """Return a row's measured time in ms."""
    assert row.own.time
    return row.own.time.ms
