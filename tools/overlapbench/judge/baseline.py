"""A stored baseline: a folder of runs, run-1.json and so on, each with its context."""

from collections.abc import Sequence
from pathlib import Path

from overlapbench.judge.side import distinct
from overlapbench.output import ResultError, replace_files
from overlapbench.reading.program_run import ProgramRun, read_program_runs

_RUNS = "run-*.json"


def store(folder: Path, results: Sequence[bytes]) -> None:
    """Replace the runs in a folder; ResultError if it is not writable."""
    files = {f"run-{i + 1}.json": content for i, content in enumerate(results)}
    before = {path.name for path in files_of(folder)}
    replace_files(folder, files, outdated=before - files.keys())


def files_of(folder: Path) -> list[Path]:
    """Return the files of a baseline."""
    return [*folder.glob(_RUNS)]


def read_baseline(folder: Path) -> list[ProgramRun]:
    """Read the runs of a folder, without copies; ResultError if there is none."""
    paths = sorted(files_of(folder))
    if not paths:
        raise ResultError(
            f"{folder}: no baseline: there is no {_RUNS}; overlapbench gate baseline records one"
        )
    return distinct(read_program_runs(map(str, paths)))[0]
