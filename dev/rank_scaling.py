#!/usr/bin/env python3
"""Measure what more ranks cost the suite itself, and predict the cost of many.

    dev/rank_scaling.py
    dev/rank_scaling.py --ranks 2,4,8,16 --binary build/host/overlapbench \\
        --json scaling.json

Starts ranks of the host backend on this machine. The only benchmark is an all-reduce of a few
kilobytes. There are four runs: startup only (the list of benchmarks), a few rows, many rows, and
rows of many samples. Their differences give:

- start: starting and ending: MPI, clocks, flags, devices
- sample: one sample: meeting, agreeing on its times, and the all-reduce itself
- row: one row without its samples: agreeing on the next benchmark and on validity
- resident: the largest rank's memory at the last row

With more ranks than cores, wall-clock times mostly show ranks that wait for a core. Costs are
therefore also given as CPU time per rank. That is an upper bound for a rank with a core of its own,
because it includes the polling of a waiting rank.

Exit status: 0, or 2 for bad usage or a failed run.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import checkout  # noqa: F401
from growth import Reading, read
from overlapbench.cli.command_line import manual_parser, refuse
from overlapbench.installation import MPI_ENVIRONMENT, MPIRUN
from overlapbench.output import ResultError, deliver, require_file
from scaling import fit

_ROOT = Path(__file__).resolve().parents[1]
_FEW, _MANY = 5, 85  # rows
_PREDICTED = 1024


class RunError(RuntimeError):
    """In one line, which run failed and its message."""


@dataclass(frozen=True)
class Costs:
    """The costs of a number of ranks; CPU time is per rank."""

    ranks: int
    start_s: float
    start_cpu_ms: float
    sample_ms: float
    sample_cpu_us: float
    row_ms: float
    row_cpu_us: float
    resident_mib: float


# The costs shown, by heading.
_COLUMNS = {
    "start s": "start_s",
    "start CPU ms": "start_cpu_ms",
    "sample ms": "sample_ms",
    "sample CPU us": "sample_cpu_us",
    "row ms": "row_ms",
    "row CPU us": "row_cpu_us",
    "resident MiB": "resident_mib",
}
_FITTED = ("start CPU ms", "sample CPU us", "row CPU us", "resident MiB")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    costs: list[Costs] = []
    try:
        if options.json:
            require_file(options.json)
        for ranks in options.ranks:
            costs.append(measure(options.binary, ranks))
            print(f"rank_scaling: {ranks} ranks measured", file=sys.stderr, flush=True)
        document = json.dumps([asdict(one) for one in costs], indent=1).encode()
        deliver(table(costs) + "\n", {options.json: document} if options.json else {})
    except (RunError, ResultError) as error:
        return refuse("rank_scaling", str(error))
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = manual_parser("rank_scaling", __doc__)
    parser.add_argument("--ranks", type=_counts, default="2,4,8,16,32,64,128", metavar="N,N,...")
    parser.add_argument(
        "--binary", type=Path, default=_ROOT / "build/release/overlapbench", metavar="FILE"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the costs to FILE")
    return parser.parse_args(arguments)


def _counts(text: str) -> list[int]:
    counts = sorted({int(word) for word in text.split(",")})
    if counts[0] < 2 or len(counts) < 3:
        raise argparse.ArgumentTypeError("give three or more numbers of ranks, each at least 2")
    return counts


@dataclass(frozen=True)
class _Run:
    wall_s: float
    cpu_s: float  # of all ranks
    readings: Sequence[Reading]

    @property
    def measuring_s(self) -> float:
        """From before setting up to the end of the last row."""
        return self.readings[-1].seconds - self.readings[0].seconds

    @property
    def samples(self) -> int:
        return sum(reading.groups for reading in self.readings)


def measure(binary: Path, ranks: int) -> Costs:
    """Start the program four times; RunError if a run fails."""

    def rows(count: int, budget_ms: int) -> _Run:
        lengths = f"--benchmark_repetitions={count}", f"--budget_ms={budget_ms}"
        return _launch(binary, ranks, "--no-self-test", "--precision=0", *lengths)

    start = _launch(binary, ranks, "--benchmark_list_tests")
    # The shortest rows have 3 or 10 groups, the longest 100.
    return reduce(ranks, start, rows(_FEW, 1), rows(_MANY, 1), rows(_FEW, 3_600_000))


def reduce(ranks: int, start: _Run, few: _Run, many: _Run, long: _Run) -> Costs:
    """Derive the costs from runs: `many` has more rows than `few`, `long` more samples per row."""
    samples, extra = long.samples - few.samples, many.samples - few.samples
    rows = _MANY - _FEW
    if samples <= 0:
        raise RunError(f"{ranks} ranks: the long rows have no more samples than the short ones")
    sample_s = (long.measuring_s - few.measuring_s) / samples
    sample_cpu_s = (long.cpu_s - few.cpu_s) / samples
    row_s = (many.measuring_s - few.measuring_s - extra * sample_s) / rows
    row_cpu_s = (many.cpu_s - few.cpu_s - extra * sample_cpu_s) / rows
    return Costs(
        ranks,
        start_s=start.wall_s,
        start_cpu_ms=1e3 * start.cpu_s / ranks,
        sample_ms=1e3 * sample_s,
        sample_cpu_us=1e6 * sample_cpu_s / ranks,
        row_ms=1e3 * row_s,
        row_cpu_us=1e6 * row_cpu_s / ranks,
        resident_mib=many.readings[-1].held["resident_bytes"] / (1 << 20),
    )


def _launch(binary: Path, ranks: int, *flags: str) -> _Run:
    with tempfile.TemporaryDirectory(prefix="overlapbench-scaling-") as folder:
        path = Path(folder) / "resources.csv"
        command = [
            *(*MPIRUN, "-n", str(ranks)),
            *(str(binary), "--backend=host", "--host_cores=1", "--timeout_s=600"),
            *("--benchmark_filter=^Comm/AllReduce/", "--axis", f"bytes={64 * ranks}"),
            *("--axis", "cache=warm", f"--resources_out={path}", *flags),
        ]
        before, started = _cpu_s(), time.monotonic()
        try:
            done = subprocess.run(
                command,
                env=os.environ | MPI_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise RunError(f"{command[0]}: cannot be started: {error.strerror}") from None
        wall_s, cpu_s = time.monotonic() - started, _cpu_s() - before
        if done.returncode != 0:
            said = (done.stderr.strip() or "nothing").splitlines()[0]
            raise RunError(f"{ranks} ranks: status {done.returncode}, saying: {said}")
        readings = read(str(path), path.read_text()) if path.exists() else []
        return _Run(wall_s, cpu_s, readings)


def _cpu_s() -> float:
    """CPU time of all processes that were started here and have ended: mpirun and its ranks."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(costs: Sequence[Costs]) -> str:
    """Show the costs, the laws that fit them, and their predictions."""
    lines = ["ranks " + " ".join(f"{heading:>13}" for heading in _COLUMNS)]
    for one in costs:
        cells = (_short(getattr(one, column)) for column in _COLUMNS.values())
        lines.append(f"{one.ranks:>5} " + " ".join(f"{cell:>13}" for cell in cells))
    for heading in _FITTED:
        law = fit({one.ranks: getattr(one, _COLUMNS[heading]) for one in costs})
        lines.append(
            f"{heading}: {law} (scatter {_short(law.scatter)});"
            f" {_PREDICTED} ranks: {_short(law.at(_PREDICTED))}"
        )
    return "\n".join(lines)


def _short(value: float) -> str:
    digits = 3 - max(1, math.ceil(math.log10(abs(value) + 1e-9)))
    return f"{value:.{max(digits, 0)}f}"


if __name__ == "__main__":
    sys.exit(main())
