"""Files written whole or not at all."""

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path


def replace_files(directory: Path, files: Mapping[str, bytes], outdated: Collection[str]) -> None:
    """Put `files` into a directory, made if missing, and remove the outdated names from it.

    Everything is written beside its place first, so that a full disk leaves what was there before.
    Other files in the directory are not touched. Raises OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".unfinished-") as unfinished:
        for name, content in files.items():
            (Path(unfinished) / name).write_bytes(content)
        for name in files:
            (Path(unfinished) / name).replace(directory / name)
    for name in outdated:
        (directory / name).unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write one file, whole or not at all. Raises OSError."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".unfinished-") as unfinished:
        part = Path(unfinished) / path.name
        part.write_bytes(content)
        part.replace(path)
