"""The outputs of a comparison: the table of formats, and the printed and written outputs."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from overlapbench.cli.command_line import screen
from overlapbench.judge.findings import MAX_FLOOR
from overlapbench.judge.verdicts import ACROSS, Comparison
from overlapbench.output import deliver, require_file
from overlapbench.reading.source import ResultError
from overlapbench.view.comparison import format_table
from overlapbench.view.comparison_formats import (
    format_github,
    format_json,
    format_junit,
    format_markdown,
)

_Format = Callable[[Comparison], str]
FORMATS: Mapping[str, _Format] = {
    "table": format_table,
    "markdown": format_markdown,
    "json": format_json,
    "junit": format_junit,
    "github": format_github,
}
_BY_SUFFIX = {".txt": "table", ".md": "markdown", ".json": "json", ".xml": "junit"}
_SUFFIXES = ", ".join(_BY_SUFFIX)


def require_outputs(files: Sequence[Path], inputs: Sequence[str | Path]) -> None:
    """Refuse an output of unknown format or with an unusable path, before anything is measured.

    The paths of inputs are unusable.
    """
    for file in files:
        if file.suffix not in _BY_SUFFIX:
            raise ResultError(f"--output {file}: the name must end in one of {_SUFFIXES}")
        require_file(file, inputs)


def percentage(text: str) -> float:
    """Read a percentage from the command line, as a share."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0 to 100")
    return value / 100


def add_across(parser: argparse.ArgumentParser, text: str, fields: Sequence[str]) -> None:
    """Add the flag that allows a difference; its many choices are in the help."""
    text += f": {', '.join(fields)}; repeatable"
    parser.add_argument(
        "--across", action="append", default=[], choices=fields, metavar="FIELD", help=text
    )


def add_judging(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_across(parser, "compare even if it differs", ACROSS)
    text = f"the limit: a larger change must be ruled out (default {100 * MAX_FLOOR:g} %%)"
    add("--max-floor", type=percentage, default=MAX_FLOOR, metavar="PERCENT", help=text)


def add_outputs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--format", choices=FORMATS, default="table", help="what to print (default table)")
    text = f"also write the comparison, in the format of the suffix: {_SUFFIXES}; repeatable"
    add("--output", action="append", default=[], type=Path, metavar="FILE", help=text)


def show(comparison: Comparison, form: str, files: Sequence[Path], every: bool = False) -> None:
    """Print in one format and write the files; ResultError if one cannot be written.

    `every` also lists unchanged rows in the formats for people.
    """
    texts: Mapping[str, _Format] = {
        **FORMATS,
        "table": partial(format_table, every=every),
        "markdown": partial(format_markdown, every=every),
    }
    shown = (
        format_table(comparison, screen(), every) if form == "table" else texts[form](comparison)
    )
    deliver(shown, {file: texts[_BY_SUFFIX[file.suffix]](comparison).encode() for file in files})
