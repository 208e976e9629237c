"""The scripts in tools/, in a checkout where no package is installed.

A script that lacks a package starts itself again with the Python of .venv, which ./bench makes. If
that lacks it too, or there is none, one line says so.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from overlapbench import installation
from overlapbench.command_line import refuse
from overlapbench.commands import load


def run_script(file: str) -> int:
    """Run the command of a script in tools/, which has its module's name."""
    name = Path(file).stem
    with packages(name):
        command = load(name)
    return int(command.main())


@contextmanager
def packages(program: str) -> Iterator[None]:
    """Import in this context what may be missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        root = installation.checkout()
        advice = f"pip install {missing.name}"
        if root is not None:
            _start_again(root / ".venv")
            advice = (
                "run with .venv/bin/python, which ./bench makes, or pip install -r"
                " tools/requirements.txt"
            )
        sys.exit(refuse(program, f"Python has no {missing.name}: {advice}"))


def _start_again(venv: Path) -> None:
    """Replace this process by the script in the virtual environment, unless it runs there."""
    python = venv / "bin/python"
    if python.exists() and not venv.samefile(sys.prefix):
        os.execv(python, [str(python), *sys.argv])
