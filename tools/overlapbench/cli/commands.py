"""The commands of `overlapbench`: a module each, with `main` and `make_parser(program)`.

A module is imported only when its command runs: the chart libraries take most of a second to
import. `@command` (command_line.py) prints the errors that `main` raises.
"""

import importlib
import pkgutil
from typing import Any

PROGRAM = "overlapbench"
COMMANDS = (
    *("run", "compare", "gate", "tune", "chart", "report", "history", "export"),
    *("predict", "findings", "doctor", "trace", "timeline"),
)


def summary(name: str) -> str:
    """Return the first line of a command's manual, without importing the module."""
    source = pkgutil.get_data(__package__, f"{name}.py")
    assert source is not None
    return source.decode().splitlines()[0].strip('"')


def load(name: str) -> Any:
    """Import a command's module."""
    return importlib.import_module(f"{__package__}.{name}")
