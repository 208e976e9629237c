#!/usr/bin/env python3
"""Measure in PyTorch how an all-to-all and a grid-controlled matrix product slow each other down.

    torchrun --nproc-per-node 2 tools/torch_overlap.py -o FILE.json
             [--grids 1x1,16x16] [--first comp|comm] [--rounds N]
             [--compare RESULT.json] [--profile DIR] [--profile-samples N]

This repeats the central experiment on PyTorch's streams and its NCCL: C = A·B of 4096×4096 float
matrices on a grid of thread blocks (one 16×16 tile per block), beside an all-to-all of a matrix of
that size. Each is timed alone (C and M) and both together (T); slowdown is T / max(C, M). The
results of both are verified, alone and together. `--compare` takes a result of `./bench` and shows
the slowdowns of `Overlap/AllToAll+Gemm/bytes:67108864/n:4096/work:tile/cache:cold` beside these.
`--profile` then profiles more samples of both together (`--profile-samples`) with PyTorch's
profiler, and writes a trace of each grid and rank, in which they are the ranges `overlapped`
(docs/timelines.md). Dropped samples are the ranges `late`.

As in `./bench`, samples of C, M and T alternate. L2 is flushed by reading before each. The
computation is enqueued first and starts about 10 µs earlier (`--first comm`: the communication). A
time is the maximum over the ranks, and a figure is the median of the times.

Unlike `./bench`, PyTorch has no start gate (a word in memory that the host sets once everything is
enqueued on all ranks). Instead, each GPU first spins for a millisecond while everything is enqueued
behind that (if the host was too slow, the sample is dropped). Just before the start, an all-reduce
of one number synchronizes the GPUs, so ranks start as far apart as that all-reduce ends. One thread
on the other side's stream also spins for the lead, which is therefore counted in clock cycles.
NCCL's settings come from the environment, and its version from PyTorch.

Exit status: 0; 1 if a result was wrong; 2 if a requirement is missing, an argument is bad, or a
file is not readable or writable. One line then says what is wrong.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from overlapbench import torch_kernels
from overlapbench.cli.command_line import manual_parser, number_from
from overlapbench.installation import kernels_path
from overlapbench.output import deliver, require_file
from overlapbench.packages import packages
from overlapbench.reading.result import ResultError, read_results

Grid = tuple[int, int]

N = 4096
GRIDS: list[Grid] = [(side, side) for side in (1, 4, 8, 16, 32, 40)]
SIDES = ("comp", "comm")
_SPIN_CYCLES = 2_000_000  # about a millisecond
_LEAD_CYCLES = 20_000  # about 10 µs
_WARMUP_ROUNDS = 3
_PROFILED_SPIN_CYCLES = 10 * _SPIN_CYCLES  # a profiler makes enqueueing slower
OVERLAPPED = "overlapped"  # the range around the work of both sides in a profiled sample
LATE = "late"  # the range of a sample whose work the host enqueued too late
# Relative to the products' magnitudes. Float32 rounding errors of 4096 terms are a random walk of
# about 2^-24·√4096/4096 of these; the largest of 16 million elements is several times that.
_TOLERANCE = 2e-6
# A round, in which slow changes cancel.
_ROUND = (("comp",), ("comm",), SIDES, SIDES, ("comm",), ("comp",))


class OverlapError(RuntimeError):
    """In one line, why nothing was measured."""


class WrongResultError(RuntimeError):
    """In one line, what was computed or received wrongly."""


@dataclass(frozen=True)
class Row:
    """The figures of one grid."""

    grid: str
    comp_ms: float
    comm_ms: float
    overlap_ms: float
    samples: int  # of overlap_ms

    @property
    def slowdown(self) -> float:
        """Return T / max(C, M)."""
        return self.overlap_ms / max(self.comp_ms, self.comm_ms)

    @property
    def efficiency(self) -> float:
        """Return (C + M - T) / min(C, M)."""
        hidden_ms = self.comp_ms + self.comm_ms - self.overlap_ms
        return hidden_ms / min(self.comp_ms, self.comm_ms)


def _good(times_ms: Sequence[float]) -> list[float]:
    return [time for time in times_ms if time != float("inf")]


def rename_late(events: Sequence[dict[str, Any]], late: Sequence[bool]) -> None:
    """Rename the ranges of late samples in a trace's events, so that they do not count.

    `late` has one entry for each sample, in the order in which the samples were taken.
    """
    ranges = [event for event in events if event.get("cat") == "user_annotation"]
    samples = sorted((r for r in ranges if r["name"] == OVERLAPPED), key=lambda r: r["ts"])
    for event, was_late in zip(samples, late, strict=True):
        if was_late:
            event["name"] = LATE


class Experiment:
    """The matrices, streams and events of one rank."""

    def __init__(self, rank: int, ranks: int, first: str) -> None:
        import torch

        self.torch, self.rank, self.ranks = torch, rank, ranks
        self.order = SIDES if first == "comp" else SIDES[::-1]
        self.grid = GRIDS[0]
        self.a, self.b = self._random(1000), self._random(1001)
        self.sent = self._random(rank)
        self.product, self.received = (torch.empty_like(self.a) for _ in range(2))
        self.aligned = torch.zeros(1, device="cuda")
        cache_bytes = torch.cuda.get_device_properties(self.a.device).L2_cache_size
        self.flushed = torch.ones(2 * cache_bytes // 4, device="cuda")
        self.fork = torch.cuda.Stream()
        self.streams = {side: torch.cuda.Stream() for side in SIDES}

    def _random(self, seed: int) -> Any:
        generator = self.torch.Generator("cuda").manual_seed(seed)
        return self.torch.rand((N, N), generator=generator, device="cuda") - 0.5

    def sample_ms(
        self, sides: Sequence[str], spin_cycles: int = _SPIN_CYCLES, range_name: str = "enqueue"
    ) -> float:
        """Run the sides once; return the time from start to stop, or infinity if the host was late.

        Every rank must call this with the same sides. `range_name` is the profiler range around the
        work of the sides.
        """
        torch = self.torch
        start, stop, *ends = (torch.cuda.Event(enable_timing=True) for _ in range(2 + len(sides)))
        with torch.cuda.stream(self.fork):
            torch.cuda._sleep(spin_cycles)
            self.flushed.sum()
            torch.distributed.all_reduce(self.aligned)
            start.record()
        ordered = [side for side in self.order if side in sides]
        with torch.profiler.record_function(range_name):
            for place, (side, end) in enumerate(zip(ordered, ends, strict=True)):
                with torch.cuda.stream(self.streams[side]):
                    self.streams[side].wait_event(start)
                    if place == 1:  # the follower
                        torch.cuda._sleep(_LEAD_CYCLES)
                    self._enqueue(side)
                    end.record()
                self.fork.wait_event(end)
        stop.record(self.fork)
        late = start.query()
        torch.cuda.synchronize()
        return float("inf") if late else float(start.elapsed_time(stop))

    def _enqueue(self, side: str) -> None:
        if side == "comp":
            torch_kernels.grid_gemm(self.a, self.b, self.grid, "tile", out=self.product)
        else:
            self.torch.distributed.all_to_all_single(self.received, self.sent)

    def measure(self, grid: Grid, rounds: int) -> Row:
        """Verify, time and verify again."""
        self.grid = grid
        for sides in (("comp",), ("comm",), SIDES):
            self._verify(sides)
        times: dict[Sequence[str], list[float]] = {sides: [] for sides in _ROUND}
        for number in range(_WARMUP_ROUNDS + rounds):
            for sides in _ROUND:
                time_ms = self.sample_ms(sides)
                if number >= _WARMUP_ROUNDS:
                    times[sides].append(time_ms)
        self._verify(SIDES)
        good = {sides: _good(self._of_slowest_rank(taken)) for sides, taken in times.items()}
        comp, comm, both = (statistics.median(good[s]) for s in (("comp",), ("comm",), SIDES))
        return Row(f"{grid[0]}x{grid[1]}", comp, comm, both, len(good[SIDES]))

    def profile(self, file: Path, samples: int) -> None:
        """Write a trace of samples of both sides, after an unmarked one for warmup."""
        with self.torch.profiler.profile() as profile:
            self.sample_ms(SIDES, _PROFILED_SPIN_CYCLES)
            times_ms = [
                self.sample_ms(SIDES, _PROFILED_SPIN_CYCLES, OVERLAPPED) for _ in range(samples)
            ]
        times_ms = self._of_slowest_rank(times_ms)
        profile.export_chrome_trace(str(file))
        trace = json.loads(file.read_text())
        rename_late(trace["traceEvents"], [time == float("inf") for time in times_ms])
        file.write_text(json.dumps(trace))

    def _of_slowest_rank(self, times_ms: Sequence[float]) -> list[float]:
        """Return the times of all samples: infinity if the host of any rank was late."""
        times = self.torch.tensor(times_ms, dtype=self.torch.float64, device="cuda")
        self.torch.distributed.all_reduce(times, op=self.torch.distributed.ReduceOp.MAX)
        slowest: list[float] = times.tolist()
        if len(_good(slowest)) < len(slowest) / 2:
            raise OverlapError("the host is too slow or too busy to keep the GPUs supplied")
        return slowest

    def _verify(self, sides: Sequence[str]) -> None:
        """Run the sides over poisoned results; every rank raises if any finds a wrong result."""
        self.product.fill_(float("nan"))
        self.received.fill_(float("nan"))
        self.torch.cuda.synchronize()
        self.sample_ms(sides)
        checks = {"comp": self._product_is_right, "comm": self._received_is_right}
        wrong = [float(side in sides and not checks[side]()) for side in SIDES]
        found = self.torch.tensor(wrong, device="cuda")
        self.torch.distributed.all_reduce(found)
        for side, count in zip(SIDES, found.tolist(), strict=True):
            if count:
                what = "matrix product" if side == "comp" else "all-to-all"
                together = " while overlapped" if len(sides) > 1 else ""
                raise WrongResultError(f"wrong result of the {what}{together} on {count:.0f} ranks")

    def _product_is_right(self) -> bool:
        columns, rows = 16 * self.grid[0], 16 * self.grid[1]
        a, b = self.a[:rows].double(), self.b[:, :columns].double()
        off = (self.product[:rows, :columns].double() - a @ b).abs()
        untouched = self.product.isnan().sum().item() == N * N - rows * columns
        return bool((off <= _TOLERANCE * (a.abs() @ b.abs())).all()) and untouched

    def _received_is_right(self) -> bool:
        of_rank = N // self.ranks
        mine = slice(self.rank * of_rank, (self.rank + 1) * of_rank)
        expected = self.torch.cat([self._random(rank)[mine] for rank in range(self.ranks)])
        return bool(self.torch.equal(self.received, expected))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    speaks = os.environ.get("RANK", "0") == "0"
    try:
        suite = suite_slowdowns(options.compare, options.first) if options.compare else {}
        if speaks:
            require_file(options.output)
        if options.profile is not None:
            options.profile.mkdir(parents=True, exist_ok=True)
        _require_machine()
        rows, context = _run(options, speaks)
        if speaks:
            document = _document(rows, context | {"first": options.first})
            deliver(render_table(rows, suite), {options.output: document})
    except (OverlapError, ResultError, torch_kernels.KernelsError) as error:
        line, status = str(error), 2
    except OSError as error:
        line, status = f"{error.filename or options.output}: {error.strerror}", 2
    except WrongResultError as error:
        line, status = str(error), 1
    else:
        return 0
    if speaks:
        print(f"torch_overlap: {line}", file=sys.stderr)
    return status


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = manual_parser("torch_overlap", __doc__)
    add = parser.add_argument
    add("-o", "--output", required=True, type=Path, metavar="FILE.json")
    add("--grids", type=parse_grids, default=GRIDS, metavar="XxY,XxY")
    add("--first", choices=SIDES, default="comp", help="the side that starts first")
    add("--rounds", type=number_from(1), default=11, metavar="N", help="two samples of T per round")
    add("--compare", type=Path, metavar="RESULT.json", help="a result of ./bench")
    add("--profile", type=Path, metavar="DIR", help="write traces of PyTorch's profiler here")
    text = "samples in each of these traces"
    add("--profile-samples", type=number_from(1), default=5, metavar="N", help=text)
    return parser.parse_args(arguments)


def parse_grids(text: str) -> list[Grid]:
    """Read 1x1,16x16; argparse's error names the invalid one."""
    grids = []
    for part in text.split(","):
        x, _, y = part.partition("x")
        if not (x.isdecimal() and y.isdecimal() and all(1 <= int(s) <= N // 16 for s in (x, y))):
            raise argparse.ArgumentTypeError(
                f"{part!r} is not a grid from 1x1 to {N // 16}x{N // 16}"
            )
        grids.append((int(x), int(y)))
    return grids


def suite_slowdowns(path: Path, first: str) -> dict[str, float]:
    """Return the slowdown of each grid in the suite's rows of the same experiment."""
    slowdowns = {}
    wanted = {"bytes": str(4 * N * N), "n": str(N), "work": "tile", "cache": "cold"}
    for row in read_results([str(path)])[0].rows:
        axes = dict(row.name.axes)
        same = axes.get("first", "comp") == first and wanted.items() <= axes.items()
        if row.name.workloads == ("AllToAll", "Gemm") and same and row.trusted:
            slowdowns[axes["grid"]] = row.counters["slowdown"]
    if not slowdowns:
        raise OverlapError(f"{path}: contains no row of the same experiment")
    return slowdowns


def render_table(rows: Sequence[Row], suite: Mapping[str, float]) -> str:
    """Write the rows in overlapbench's format, with the suite's slowdowns beside them."""
    lines = [f"{'grid':<9}{'C ms':>10}{'M ms':>10}{'T ms':>10}{'slowdown':>10}{'efficiency':>11}"]
    lines[0] += f"{'Overlap':>9}{'ratio':>7}" if suite else ""
    for row in rows:
        line = f"{row.grid:<9}{row.comp_ms:10.3f}{row.comm_ms:10.3f}{row.overlap_ms:10.3f}"
        line += f"{row.slowdown:10.2f}{row.efficiency:11.2f}"
        if row.grid in suite:
            line += f"{suite[row.grid]:9.2f}{row.slowdown / suite[row.grid]:7.2f}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _require_machine() -> None:
    with packages(OverlapError):
        import torch
    if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise OverlapError("start it with: torchrun --nproc-per-node 2 tools/torch_overlap.py ...")
    needed = int(os.environ["LOCAL_WORLD_SIZE"])
    if torch.cuda.device_count() < needed:
        raise OverlapError(
            f"needs one GPU per rank: {needed} ranks, {torch.cuda.device_count()} visible"
        )
    if N % int(os.environ["WORLD_SIZE"]):
        raise OverlapError(f"the number of ranks must divide {N}")
    torch_kernels.load_library(kernels_path())


def _run(options: argparse.Namespace, speaks: bool) -> tuple[list[Row], dict[str, str]]:
    import torch

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl", device_id=device)
    try:
        ranks = torch.distributed.get_world_size()
        experiment = Experiment(torch.distributed.get_rank(), ranks, options.first)
        rows = []
        for number, grid in enumerate(options.grids, 1):
            row = experiment.measure(grid, options.rounds)
            rows.append(row)
            if options.profile is not None:
                file = options.profile / f"torch.{row.grid}.rank{experiment.rank}.json"
                experiment.profile(file, options.profile_samples)
            if speaks:
                line = f"[{number}/{len(options.grids)}] {row.grid}: slowdown {row.slowdown:.2f}"
                print(line, file=sys.stderr, flush=True)
    finally:
        torch.distributed.destroy_process_group()
    return rows, {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": str(torch.cuda.get_device_name()),
        "ranks": str(ranks),
        "torch": str(torch.__version__),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
    }


def _document(rows: Sequence[Row], context: Mapping[str, str]) -> bytes:
    figures = [
        asdict(row) | {"slowdown": row.slowdown, "efficiency": row.efficiency} for row in rows
    ]
    document = {"overlapbench_torch_overlap": "1", "context": dict(context), "rows": figures}
    return (json.dumps(document, indent=1) + "\n").encode()


if __name__ == "__main__":
    sys.exit(main())
