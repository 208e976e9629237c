"""Measure: start the ranks, and run the benchmarks.

    ./bench --benchmark_filter=Overlap --benchmark_out=result.json

Runs ./bench with the program that is built, and neither installs nor builds anything.
overlapbench/installation.py says where the program is searched for.

Exit status: that of ./bench; 2 if no program is built.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from overlapbench.command_line import as_installed, is_installed, manual_parser, refuse
from overlapbench.installation import bench_path, binary_path
from overlapbench.output import print_text

_HELP = {"-h", "--help"}


def main(arguments: Sequence[str] | None = None, program: str = "run") -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    binary = binary_path()
    command = ["bash", str(bench_path(binary)), "--no-build", f"--build-dir={binary.parent}"]
    environment = os.environ | {"OVERLAPBENCH_PYTHON": sys.executable}
    if _HELP & {*given}:
        done = subprocess.run(
            [*command, *given], env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        print_text(as_installed(done.stdout) if is_installed(program) else done.stdout)
        return done.returncode
    if not os.access(binary, os.X_OK):
        return refuse(
            program,
            f"{binary} is missing: build with ./bench --build-only in a checkout, and start this"
            " there; or name a program with OVERLAPBENCH_BINARY; or install one with this package:"
            " pip install CHECKOUT -C wheel.cmake=true",
        )
    return os.execvpe(command[0], [*command, *given], environment)


def make_parser(program: str) -> argparse.ArgumentParser:
    """Make what completion needs; ./bench and the program know their flags."""
    parser = manual_parser(program, __doc__)
    parser.add_argument("flags", nargs=argparse.REMAINDER, help="see --help")
    return parser
