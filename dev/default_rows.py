#!/usr/bin/env python3
"""Measure every family's default rows on 1, 2, 4, … GPUs of this machine: what CI cannot.

    dev/default_rows.py -o DIR
    dev/default_rows.py -o DIR --ranks 2,4 --families '^Tp$' -- --budget_ms=100
    dev/default_rows.py -o DIR --gpus 2 -- --backend=host    # without GPUs

A job is a family on a number of GPUs; jobs that leave GPUs free run side by side. Each writes
DIR/FAMILY-on-N.json and .txt. When it ends, a line says how long it took, how many rows have each
state, and how many of those with a bound took less than 2 % more. Then come the rows that are
invalid or failed. Arguments after -- go to ./bench.

Exit status: 0 if no row was invalid or failed; 1 if one was; 2 if a job wrote no result, or for bad
usage.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Condition

import checkout  # noqa: F401
from overlapbench.cli.command_line import (
    ending_if_interrupted,
    manual_parser,
    refuse,
    split_at_dashes,
)
from overlapbench.installation import bench_path, binary_path
from overlapbench.output import ResultError, counted, print_text
from overlapbench.reading.result import read_results
from overlapbench.reading.rows import Row

_NEAR_BOUND_PERCENT = 98


class Pool:
    """The GPUs of the machine, which jobs take and give back."""

    def __init__(self, count: int) -> None:
        self._free = list(range(count))
        self._change = Condition()

    def take(self, count: int) -> list[int]:
        with self._change:
            self._change.wait_for(lambda: len(self._free) >= count)
            taken, self._free = self._free[:count], self._free[count:]
            return taken

    def give(self, gpus: list[int]) -> None:
        with self._change:
            self._free = sorted(self._free + gpus)
            self._change.notify_all()


@dataclass(frozen=True)
class Job:
    family: str
    ranks: int

    @property
    def name(self) -> str:
        return f"{self.family}-on-{self.ranks}"

    def run(self, pool: Pool, folder: Path, flags: Sequence[str], timeout_s: float) -> "Outcome":
        gpus = pool.take(self.ranks)
        began = time.monotonic()
        result = folder / f"{self.name}.json"
        result.unlink(missing_ok=True)
        command = [str(bench_path(binary_path())), "--no-build", f"--ranks={self.ranks}"]
        command += [f"--benchmark_filter=^{self.family}/", f"--benchmark_out={result}", *flags]
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
        ended = ""
        try:
            with (folder / f"{self.name}.txt").open("w") as log:
                subprocess.run(
                    command,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=os.environ | visible,
                    timeout=timeout_s,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            ended = f"ended after {timeout_s:g} s"
        finally:
            pool.give(gpus)
        took_s = time.monotonic() - began
        rows = read_results([str(result)])[0].rows if result.exists() else ()
        return Outcome(self, took_s, rows, ended)


@dataclass(frozen=True)
class Outcome:
    job: Job
    took_s: float
    rows: Sequence[Row]
    ended: str

    def line(self) -> str:
        states = Counter(row.state.value for row in self.rows)
        told = [f"{count} {state}" for state, count in states.items()]
        bounded = [
            row.counters["pct_of_bound"] for row in self.rows if "pct_of_bound" in row.counters
        ]
        if bounded:
            near = sum(value >= _NEAR_BOUND_PERCENT for value in bounded)
            told.append(f"{near} of {len(bounded)} within 2 % of their bound")
        told += [self.ended] if self.ended else []
        return f"{self.job.name:<24} {self.took_s:5.0f} s  {', '.join(told) or 'no result'}"

    def faults(self) -> list[str]:
        return [f"{row.name}: {row.reason}" for row in self.rows if not row.state.comparable]


def _ask(task: str, *flags: str) -> str:
    command = [str(bench_path(binary_path())), "--no-build", *flags]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ResultError(f"./bench cannot {task}: {answer.stderr.strip()}")
    return answer.stdout


def gpus_here() -> int:
    """Return the number of GPUs, which is at least 1."""
    count = int(_ask("count the GPUs", "--query=gpus"))
    if count == 0:
        raise ResultError("no GPU is visible: --gpus N -- --backend=host needs none")
    return count


def families_on(ranks: int, flags: Sequence[str]) -> list[str]:
    """Return the families that have rows on so many ranks, in their order."""
    listed = _ask("list its rows", f"--ranks={ranks}", *flags, "--benchmark_list_tests")
    names = (line.split("/")[0] for line in listed.splitlines() if "/" in line)
    return list(dict.fromkeys(name for name in names if re.fullmatch(r"\w+", name)))


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    add("-o", "--output", type=Path, required=True, metavar="DIR")
    add("--gpus", type=int, metavar="N", help="default: all that are visible")
    add("--ranks", type=_numbers, metavar="N,N", help="default: 1, 2, 4, … up to --gpus")
    add("--families", type=re.compile, default=re.compile(""), metavar="REGEX")
    add("--timeout-s", type=float, default=600, metavar="S", help="of a job (default 600)")
    return parser


def main(arguments: Sequence[str] | None = None, program: str = "default_rows") -> int:
    given, flags = split_at_dashes(arguments)
    options = make_parser(program).parse_args(given)
    try:
        gpus = options.gpus or gpus_here()
        counts = options.ranks or [2**i for i in range(gpus.bit_length())]
        if not all(1 <= count <= gpus for count in counts):
            return refuse(program, f"--ranks takes numbers from 1 to {gpus}")
        options.output.mkdir(parents=True, exist_ok=True)
        jobs = [
            Job(family, ranks)
            for ranks in sorted(counts, reverse=True)
            for family in families_on(ranks, flags)
            if options.families.search(family)
        ]
    except ResultError as error:
        return refuse(program, str(error))
    pool = Pool(gpus)
    outcomes = []
    with ThreadPoolExecutor(gpus) as threads:
        for outcome in threads.map(
            lambda job: job.run(pool, options.output, flags, options.timeout_s), jobs
        ):
            print_text(outcome.line() + "\n")
            outcomes.append(outcome)
    faults = [fault for outcome in outcomes for fault in outcome.faults()]
    print_text("".join(f"{fault}\n" for fault in [counted(len(faults), "fault"), *faults]))
    if not all(outcome.rows for outcome in outcomes):
        return 2
    return 1 if faults else 0


if __name__ == "__main__":
    with ending_if_interrupted("default_rows"):
        sys.exit(main())
