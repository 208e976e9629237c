"""Runs benchmark_compare for its tests, and makes the small sides of runs that it compares."""

import json
from pathlib import Path

import pytest

import samples
from made_runs import NAMES, write_side
from overlapbench.cli import compare
from samples import Json

Capture = pytest.CaptureFixture[str]
SLOW = NAMES[4]
A, B = (samples.row(f"Compute/Gemm/n:{n}") for n in (1, 2))


def run(*arguments: str | Path) -> int:
    return compare.main([str(argument) for argument in arguments])


def one(*rows: Json, **context: str) -> list[Json]:
    return [samples.document(rows, **context)]


def sides(folder: Path, base: list[Json], new: list[Json]) -> list[str]:
    """Write two sides and return the arguments that name them."""
    return ["--base", *write_side(folder, "b", base), "--new", *write_side(folder, "n", new)]


def compared(capsys: Capture, *arguments: str | Path) -> tuple[int, Json]:
    """Run with JSON output; return the status and the document."""
    capsys.readouterr()
    status = run(*arguments, "--format", "json")
    document: Json = json.loads(capsys.readouterr().out)
    assert document["status"] == status
    return status, document
