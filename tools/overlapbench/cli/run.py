"""Measure: start the ranks, and run the benchmarks.

    overlapbench run --benchmark_filter=Overlap --benchmark_out=result.json

Runs the suite's script `bench` with the existing program, and neither installs nor builds anything.
overlapbench/installation.py says where it searches for the program.

Exit status: that of the job; 2 if no program is built, or if a flag requests a build.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from overlapbench.cli.command_line import command, manual_parser
from overlapbench.installation import bench_path, binary_path
from overlapbench.output import ResultError, print_text

_HELP = {"-h", "--help"}
_BUILDING = ("--build-only", "--build-dir")
# In the help of ./bench and of the program: a list of flags, or one with its value and text.
_FLAGS = re.compile(r"^Flags.*:\n((?: .*\n)+)", re.MULTILINE)
_FLAG = re.compile(r"^  (--[\w-]+)(?:[= ](\S+))?(?: +(.*(?:\n   .*)*))?$", re.MULTILINE)
_SCRIPT = re.compile(r"(?<![\w./])\./bench(?![\w/-])")
# A value that is one of these words.
_CHOICES = re.compile(r"[a-z]+(\|[a-z]+)*")


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


def make_parser(program: str) -> argparse.ArgumentParser:
    """Make a parser of the flags that the help lists, for completion."""
    parser = manual_parser(program, __doc__)
    for flag, (value, text) in _flags(program).items():
        if value is None:
            parser.add_argument(flag, action="store_true", help=text)
        else:
            choices = value.split("|") if _CHOICES.fullmatch(value) else None
            # Some may be repeated, such as --axis. In zsh, a colon would end the name.
            name = value.replace(":", r"\:")
            parser.add_argument(flag, action="append", metavar=name, choices=choices, help=text)
    return parser


def _flags(program: str) -> dict[str, tuple[str | None, str]]:
    """Return the possible values of each flag, and its help.

    The program, which comes last, says more about the flags that ./bench passes on.
    """
    done = _help(binary_path().absolute(), program, ["--help"])
    if done.returncode != 0:
        raise ResultError(f"{program} --help ended with status {done.returncode}: see above")
    rows = (row for rows in _FLAGS.findall(done.stdout) for row in _FLAG.finditer(rows))
    found = {row[1]: (row[2], " ".join((row[3] or "").split())) for row in rows}
    found.pop("--help", None)  # each parser has it
    return {flag: (value, text.replace("%", "%%")) for flag, (value, text) in found.items()}
