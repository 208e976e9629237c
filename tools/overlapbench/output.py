"""Files that the user names: outputs written completely or not at all, globs, and refusals.

Text is printed to its end. If something cannot be written, a one-line ResultError names the
requested path. Tools that measure for a long time call require_file or require_folder before, and
deliver after.
"""

import glob
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

_STDIN = "/dev/stdin"


class ResultError(ValueError):
    """One line saying which file, and which field of it, cannot be used, and why."""

    def __init__(self, line: str) -> None:
        super().__init__(harmless(line))


def harmless(text: str) -> str:
    """Return text on one line without control characters: files may contain anything."""
    words = " ".join(text.split())
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)


class Wrapper(textwrap.TextWrapper):
    """Breaks text at spaces, but not before a %, and names after a slash."""

    wordsep_re = re.compile(r"(\s+(?!%)|(?<=/))")


def expand(arguments: Sequence[str]) -> list[str]:
    """Expand the globs that the shell did not expand, unless a file has that exact name."""
    return [source for argument in arguments for source in _expand(argument)]


def _expand(argument: str) -> list[str]:
    if argument == "-" or not glob.has_magic(argument) or Path(argument).exists():
        return [argument]
    matches = sorted(glob.glob(argument), key=numerically)  # noqa: PTH207 (absolute patterns)
    if not matches:
        raise ResultError(f"{argument}: no file matches")
    return matches


def listed(names: Sequence[str], most: int) -> str:
    """List names for an error message: the first ones, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def numerically(path: str) -> tuple[str, ...]:
    """Return a key that sorts `rank.10` after `rank.2`."""
    most_digits = 20
    parts = re.split(r"(\d+)", path)
    return *(part.zfill(most_digits) if part.isdecimal() else part for part in parts), path


def require_file(
    path: Path, inputs: Iterable[str | Path] = (), endings: Collection[str] = ()
) -> None:
    """Refuse an unwritable file, or one that is an input, before anything is measured.

    Endings tell the known formats, if the name must.
    """
    if endings and path.suffix not in endings:
        raise ResultError(f"-o {path}: the name must end in {', '.join(endings)}")
    require_no_input([path], inputs)
    with _unfinished(path, path.parent):
        _require_replaceable(path)


def require_no_input(outputs: Iterable[Path], inputs: Iterable[str | Path]) -> None:
    """Refuse outputs that would replace inputs: paths, or text that may be globs or `-`."""
    sources = [Path(_STDIN if source == "-" else source) for source in _expanded(inputs)]
    for output in outputs:
        if any(_are_same(output, source) for source in sources):
            raise ResultError(f"{output}: cannot be written: it is an input; name another file")


def _expanded(inputs: Iterable[str | Path]) -> Iterator[str | Path]:
    for one in inputs:
        yield from expand([one]) if isinstance(one, str) else [one]


def _are_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False  # one is missing, or its reader will refuse it


def require_folder(path: Path) -> None:
    """Refuse an unwritable folder, or a missing one that could not be created."""
    nearest = next((place for place in (path, *path.parents) if os.path.lexists(place)), path)
    with _unfinished(path, nearest):
        pass


def deliver(text: str, files: Mapping[Path, bytes]) -> None:
    """Print a text and write files; if one fails, still write the others."""
    with ExitStack() as rest:
        for path, content in files.items():
            rest.callback(replace_file, path, content)
        print_text(text)


def counted(count: int, noun: str) -> str:
    """Return a number of things: 1 benchmark, 2 benchmarks."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def print_text(text: str) -> None:
    """Print to standard output; ResultError if not all of it can be written."""
    try:
        print(text, end="", flush=True)
    except OSError as error:
        # Keeps Python from trying again, and complaining, at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        closed = isinstance(error, BrokenPipeError)
        what = "closed before all was written" if closed else f"cannot be written: {error.strerror}"
        raise ResultError(f"standard output: {what}") from None
    except UnicodeEncodeError as error:
        raise ResultError(
            f"standard output: {error.encoding} cannot encode all of it: set PYTHONIOENCODING=utf-8"
        ) from None


def replace_files(directory: Path, files: Mapping[str, bytes], outdated: Collection[str]) -> None:
    """Put `files` into a directory, made if missing, and remove the outdated names from it.

    Everything is first written to a temporary folder, so a full disk leaves the old files intact.
    Other files in the directory are not touched.
    """
    with _naming(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with _unfinished(directory, directory) as unfinished:
        for name, content in files.items():
            (unfinished / name).write_bytes(content)
        for name in files:
            (unfinished / name).replace(directory / name)
        for name in outdated:
            (directory / name).unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write one file, completely or not at all."""
    with _unfinished(path, path.parent) as unfinished:
        _require_replaceable(path)
        part = unfinished / path.name
        part.write_bytes(content)
        part.replace(path)


def _require_replaceable(path: Path) -> None:
    """Refuse a folder or a device; given permission, a file would replace the device."""
    if path.exists() and not path.is_file():
        raise ResultError(f"{path}: cannot be written: it exists and is not a regular file")


@contextmanager
def _unfinished(path: Path, directory: Path) -> Iterator[Path]:
    """Make a temporary folder for the unfinished output `path`, and remove it at the end."""
    with _naming(path), tempfile.TemporaryDirectory(dir=directory, prefix=".unfinished-") as folder:
        yield Path(folder)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Report errors with the path that the user gave, not a temporary one."""
    try:
        yield
    except OSError as error:
        raise ResultError(f"{path}: cannot be written: {error.strerror}") from None
