#!/usr/bin/env python3
"""Run benchmarks for a long time, and check that the ranks' resources do not grow.

    dev/soak.py --minutes 60
    dev/soak.py --iterations 10000 -- ./bench --backend=host \\
        --benchmark_filter=Overlap/AllReduce
    dev/soak.py --read resources.csv

Starts the command (default ./bench) repeatedly, each time with --resources_out and
--benchmark_repetitions, until the time is over or every benchmark has done the given number of
iterations. An iteration is a group of samples. A repetition has up to 100 of them, depending on
--budget_ms. Resources are compared only within one process, by the rule in growth.py: the median of
the last quarter against that of the second.

--read judges files that --resources_out wrote earlier.

Exit status: 0 if nothing grows; 1 if something does; 2 for bad usage, an unusable file, or a failed
command; 3 if there are too few lines to decide; 130 if interrupted.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import checkout  # noqa: F401
from growth import SHORTEST, Growth, Reading, groups_of, growths, read, worst
from overlapbench.cli.command_line import (
    ending_if_interrupted,
    manual_parser,
    refuse,
    split_at_dashes,
)
from overlapbench.installation import bench_path, binary_path
from overlapbench.output import ResultError, counted, harmless, print_text
from overlapbench.reading.source import read_bytes
from overlapbench.view.console import broken

_WIDTH = 80
_GROUPS = 100  # the most per repetition
_GREW, _UNKNOWN = 1, 3


def main(arguments: Sequence[str] | None = None, program: str = "soak") -> int:
    given, command = split_at_dashes(arguments)
    options = _parse(given, program)
    command = command or [str(bench_path(binary_path()))]
    pieces = _read(options.read) if options.read else _run(options, command)
    found: list[Growth] = []
    try:
        for readings in pieces:
            found += growths(readings)
        if not found:
            _say(f"inconclusive: no benchmark has {SHORTEST} lines; raise --repetitions")
            return _UNKNOWN
        print_text(_table(list(worst(found).values())) + "\n")
    except ResultError as error:
        return refuse(program, str(error))
    except OSError as error:
        return refuse(program, f"{error.filename}: {error.strerror}")
    return _GREW if any(growth.found for growth in found) else 0


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument(
        "--minutes", type=_positive, metavar="N", help="start new runs for this many minutes"
    )
    length.add_argument("--iterations", type=_positive, metavar="N", help="minimum per benchmark")
    length.add_argument("--read", type=Path, nargs="+", metavar="FILE")
    parser.add_argument(
        "--repetitions",
        type=int,
        help="per benchmark and run (default 16; with --iterations as many as needed)",
    )
    return parser


def _parse(arguments: Sequence[str], program: str) -> argparse.Namespace:
    parser = make_parser(program)
    options = parser.parse_args(arguments)
    if options.repetitions is None:
        options.repetitions = max(SHORTEST, -(-int(options.iterations or 0) // _GROUPS))
    if options.repetitions < 1:
        parser.error("--repetitions: must be 1 or more")
    return options


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be above 0, not {text}")
    return number


def _read(paths: Sequence[Path]) -> Iterator[list[Reading]]:
    for path in paths:
        yield read(str(path), read_bytes(path).decode("utf-8", "replace"))


def _run(options: argparse.Namespace, command: Sequence[str]) -> Iterator[list[Reading]]:
    """Yield the readings of each run until there are enough."""
    started = time.monotonic()
    groups: Counter[str] = Counter()
    pieces = 0
    with tempfile.TemporaryDirectory(prefix="overlapbench-soak-") as folder:
        while True:
            readings = _piece(command, options.repetitions, Path(folder) / "resources.csv")
            groups.update(groups_of(readings))
            pieces += 1
            minutes = (time.monotonic() - started) / 60
            fewest = min(groups.values(), default=0)
            done, least = counted(pieces, "piece"), counted(fewest, "iteration")
            _say(f"{done}, {minutes:.1f} min, at least {least} per benchmark")
            yield readings
            if minutes >= options.minutes if options.minutes else fewest >= options.iterations:
                return
            if not groups:
                raise ResultError(f"{command[0]}: no benchmark was measured")


def _piece(command: Sequence[str], repetitions: int, path: Path) -> list[Reading]:
    flags = [f"--benchmark_repetitions={repetitions}", f"--resources_out={path}"]
    with path.with_suffix(".log").open("wb") as log:
        status = subprocess.run(
            [*command, *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        ).returncode
    if status != 0:
        lines = path.with_suffix(".log").read_text(errors="replace").strip().splitlines()
        said = [line for line in lines if line.startswith("overlapbench: ")] or lines or ["nothing"]
        raise ResultError(f"{command[0]}: failed with status {status}, saying: {said[0]}")
    return read(str(path), path.read_text(encoding="utf-8"))


def _table(rows: Sequence[Growth]) -> str:
    """Show the worst series of each resource, with its verdict and its name below."""
    lines = [f"{'resource':<17} {'before':>15} {'after':>15} {'per hour':>16} {'allowed':>13}"]
    for row in rows:
        figures = f"{row.before:>15,.0f} {row.after:>15,.0f} {row.per_hour:>+16,.0f}"
        verdict = "GROWS" if row.found else "holds"
        where = f"{harmless(row.benchmark) or 'nothing set up'}, {row.lines} lines"
        lines.append(f"{harmless(row.resource):<17} {figures} {row.allowance:>13,.0f}")
        lines += (f"  {line}" for line in broken(f"{verdict}: {where}", _WIDTH - 2))
    return "\n".join(lines)


def _say(line: str) -> None:
    print(f"soak: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    with ending_if_interrupted("soak"):
        sys.exit(main(None, "soak"))
