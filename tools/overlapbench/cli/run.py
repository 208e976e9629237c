"""Measure: start the ranks, and run the benchmarks.

    overlapbench run --benchmark_filter=Overlap --benchmark_out=result.json

Runs the suite's script `bench` with the existing program, and neither installs nor builds anything.
overlapbench/installation.py says where it searches for the program.

Exit status: that of the job; 2 if no program is built, or if a flag requests a build.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from overlapbench.cli.command_line import command
from overlapbench.installation import bench_path, binary_path
from overlapbench.output import ResultError, print_text

_HELP = {"-h", "--help"}
_BUILDING = ("--build-only", "--build-dir")
_SCRIPT = re.compile(r"(?<![\w./])\./bench(?![\w/-])")


@command
def main(arguments: Sequence[str] | None, program: str) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    binary = binary_path().absolute()
    for flag in given:
        if flag.startswith(_BUILDING):
            raise ResultError(f"{flag}: this command builds nothing; use ./bench in a checkout")
    if _HELP & {*given}:
        done = _help(binary, program, given)
        print_text(done.stdout)
        return done.returncode
    _require_program(binary)
    start = _start(binary)
    return os.execvpe(start[0], [*start, *given], _environment())


def _start(binary: Path) -> list[str]:
    return ["bash", str(bench_path(binary)), f"--binary={binary}"]


def _environment() -> dict[str, str]:
    return os.environ | {"OVERLAPBENCH_PYTHON": sys.executable}


def _help(binary: Path, program: str, given: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [*_start(binary), *given],
        env=_environment(),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    done.stdout = _SCRIPT.sub(program, done.stdout)
    return done


def _require_program(binary: Path) -> None:
    if binary.is_file() and os.access(binary, os.X_OK):
        return
    lack = "is not an executable file" if binary.exists() else "is missing"
    if os.environ.get("OVERLAPBENCH_BINARY"):
        raise ResultError(f"OVERLAPBENCH_BINARY: {binary} {lack}")
    raise ResultError(
        f"{binary} {lack}: build with ./bench --build-only in a checkout, and run this"
        " there; or name a program with OVERLAPBENCH_BINARY; or install one with this package:"
        " pip install CHECKOUT -C wheel.cmake=true"
    )
