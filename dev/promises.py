"""The end of a simulation: its table, and an error for each promise that it shows broken."""

import sys
from collections.abc import Iterable
from typing import Protocol

import checkout  # noqa: F401
from overlapbench.cli.command_line import refuse
from overlapbench.output import ResultError, print_text


class Outcome(Protocol):
    def broken(self) -> Iterable[str]:
        """Yield a line for each promise that the outcome breaks."""


def report(program: str, table: str, outcomes: Iterable[Outcome]) -> int:
    """Print the table and the broken promises, and return the exit status."""
    try:
        print_text(table)
    except ResultError as error:
        return refuse(program, str(error))
    broken = [promise for outcome in outcomes for promise in outcome.broken()]
    for promise in broken:
        print(f"{program}: {promise}", file=sys.stderr)
    return 1 if broken else 0
