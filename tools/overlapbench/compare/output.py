"""The outputs of a comparison: the table of formats, and files that are written whole."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from overlapbench.compare.data import format_json
from overlapbench.compare.github import format_github
from overlapbench.compare.junit import format_junit
from overlapbench.compare.markdown import format_markdown
from overlapbench.compare.table import format_table
from overlapbench.compare.verdicts import Comparison
from overlapbench.output import replace_file
from overlapbench.source import ResultError

FORMATS: Mapping[str, Callable[[Comparison], str]] = {
    "table": format_table,
    "markdown": format_markdown,
    "json": format_json,
    "junit": format_junit,
    "github": format_github,
}
_BY_SUFFIX = {".txt": "table", ".md": "markdown", ".json": "json", ".xml": "junit"}
SUFFIXES = ", ".join(_BY_SUFFIX)


def require_known_suffixes(files: Sequence[Path]) -> None:
    """Refuse an output whose format the name does not tell, before anything is measured."""
    for file in files:
        if file.suffix not in _BY_SUFFIX:
            raise ResultError(f"--output {file}: the name must end in one of {SUFFIXES}")


def show(comparison: Comparison, form: str, files: Sequence[Path]) -> None:
    """Print in one format and write the files; ResultError where one cannot be written."""
    for file in files:
        try:
            replace_file(file, FORMATS[_BY_SUFFIX[file.suffix]](comparison).encode())
        except OSError as error:
            raise ResultError(f"{file}: cannot be written: {error.strerror}") from None
    colour = form == "table" and sys.stdout.isatty()
    print_text(format_table(comparison, terminal=True) if colour else FORMATS[form](comparison))


def print_text(text: str) -> None:
    """Print to standard output; ResultError when it cannot be written to the end."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        # So that Python does not try again, and complain, when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ResultError("standard output: closed before all was written") from None
    except UnicodeEncodeError as error:
        raise ResultError(
            f"standard output: {error.encoding} cannot write all of it: set PYTHONIOENCODING=utf-8"
        ) from None
