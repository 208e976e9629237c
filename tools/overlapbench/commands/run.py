"""Measure: start the ranks, and run the benchmarks.

    ./bench --benchmark_filter=Overlap --benchmark_out=result.json

Runs ./bench with the program that is built, and neither installs nor builds anything.
overlapbench/installation.py says where the program is searched for.

Exit status: that of ./bench; 2 if no program is built, or if it is to be built.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from overlapbench.command_line import as_installed, command, is_installed, manual_parser
from overlapbench.installation import bench_path, binary_path
from overlapbench.output import print_text
from overlapbench.source import ResultError

_HELP = {"-h", "--help"}
_BUILDING = ("--build-only", "--build-dir")


@command
def main(arguments: Sequence[str] | None, program: str) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    binary = binary_path().absolute()
    start = ["bash", str(bench_path(binary)), f"--binary={binary}"]
    environment = os.environ | {"OVERLAPBENCH_PYTHON": sys.executable}
    for flag in given:
        if flag.startswith(_BUILDING):
            raise ResultError(f"{flag}: nothing is built here; use ./bench in a checkout")
    if _HELP & {*given}:
        done = subprocess.run(
            [*start, *given],
            env=environment,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        print_text(as_installed(done.stdout) if is_installed(program) else done.stdout)
        return done.returncode
    _require_program(binary)
    return os.execvpe(start[0], [*start, *given], environment)


def _require_program(binary: Path) -> None:
    if binary.is_file() and os.access(binary, os.X_OK):
        return
    lack = "is not an executable file" if binary.exists() else "is missing"
    if os.environ.get("OVERLAPBENCH_BINARY"):
        raise ResultError(f"OVERLAPBENCH_BINARY: {binary} {lack}")
    raise ResultError(
        f"{binary} {lack}: build with ./bench --build-only in a checkout, and start this"
        " there; or name a program with OVERLAPBENCH_BINARY; or install one with this package:"
        " pip install CHECKOUT -C wheel.cmake=true"
    )


def make_parser(program: str) -> argparse.ArgumentParser:
    """Make what completion needs; ./bench and the program know their flags."""
    parser = manual_parser(program, __doc__)
    parser.add_argument("flags", nargs=argparse.REMAINDER, help="see --help")
    return parser
