"""The scripts in tools/, in a checkout where no package is installed.

A script that lacks a package restarts with the Python of .venv, which ./bench creates. If that
Python lacks the package too, or does not exist, one line says so.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from overlapbench import installation
from overlapbench.cli.command_line import ending_if_interrupted, refuse
from overlapbench.cli.commands import COMMANDS, load
from overlapbench.packages import PackageError, packages


def run_script(file: str) -> NoReturn:
    """Run the command of a script in tools/, and exit."""
    name = Path(file).stem
    modules = {Path(one.script).stem: one.module for one in COMMANDS}
    with ending_if_interrupted(name):
        with needed_by(name):
            command = load(modules[name])
        sys.exit(command.main())


@contextmanager
def needed_by(program: str) -> Iterator[None]:
    """Import the packages that the program requires in this context."""
    try:
        with packages():
            yield
    except PackageError as missing:
        root = installation.checkout()
        if root is None:
            sys.exit(refuse(program, str(missing)))
        _start_again(root / ".venv")
        advice = "run with .venv/bin/python, which ./bench makes, or pip install -r"
        sys.exit(refuse(program, f"{missing.lack}: {advice} tools/requirements.txt"))


def _start_again(venv: Path) -> None:
    """Replace this process by the script in the virtual environment, unless it runs there."""
    python = venv / "bin/python"
    if python.exists() and not venv.samefile(sys.prefix):
        os.execv(python, [str(python), *sys.argv])
