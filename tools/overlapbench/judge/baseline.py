"""A stored baseline: a folder of launches, launch-1.json and so on, each with its context."""

from collections.abc import Sequence
from pathlib import Path

from overlapbench.judge.side import distinct
from overlapbench.output import ResultError, replace_files
from overlapbench.reading.launch import Launch, read_launches

_LAUNCHES = "launch-*.json"


def store(folder: Path, results: Sequence[bytes]) -> None:
    """Replace the launches in a folder; ResultError if it is not writable."""
    files = {f"launch-{i + 1}.json": content for i, content in enumerate(results)}
    before = {path.name for path in folder.glob(_LAUNCHES)}
    replace_files(folder, files, outdated=before - files.keys())


def files_of(folder: Path) -> list[Path]:
    """Return the files of a baseline."""
    return [*folder.glob(_LAUNCHES)]


def read_baseline(folder: Path) -> list[Launch]:
    """Read the launches of a folder, without copies; ResultError if there is none."""
    paths = sorted(folder.glob(_LAUNCHES))
    if not paths:
        raise ResultError(
            f"{folder}: no baseline: there is no {_LAUNCHES};"
            " overlapbench gate baseline records one"
        )
    return distinct(read_launches(map(str, paths)))[0]
