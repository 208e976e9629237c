"""The outputs of a comparison: the table of formats, what is printed, and what is written."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from overlapbench.compare.data import format_json
from overlapbench.compare.github import format_github
from overlapbench.compare.junit import format_junit
from overlapbench.compare.markdown import format_markdown
from overlapbench.compare.table import format_table
from overlapbench.compare.verdicts import Comparison
from overlapbench.output import deliver, require_file
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


def require_outputs(files: Sequence[Path]) -> None:
    """Refuse an output of no known format, or in no usable place, before anything is measured."""
    for file in files:
        if file.suffix not in _BY_SUFFIX:
            raise ResultError(f"--output {file}: the name must end in one of {SUFFIXES}")
        require_file(file)


def show(comparison: Comparison, form: str, files: Sequence[Path]) -> None:
    """Print in one format and write the files; ResultError where one cannot be written."""
    colour = form == "table" and sys.stdout.isatty()
    text = format_table(comparison, terminal=True) if colour else FORMATS[form](comparison)
    deliver(text, {file: FORMATS[_BY_SUFFIX[file.suffix]](comparison).encode() for file in files})
