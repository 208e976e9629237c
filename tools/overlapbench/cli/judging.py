"""What commands that compare share: their flags, the project's defaults, and their outputs."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from overlapbench.cli.command_line import percentage, screen
from overlapbench.judge.judgements import MAX_FLOOR
from overlapbench.judge.session import MIN_GUARDED
from overlapbench.judge.verdicts import ACROSS, Comparison
from overlapbench.output import ResultError, deliver, require_file
from overlapbench.reading.project import read_defaults
from overlapbench.view.comparison import BY_SUFFIX, FORMATS, format_table


def require_outputs(files: Sequence[Path], inputs: Sequence[str | Path]) -> None:
    """Refuse an output of unknown format or with an unusable path, before anything is measured.

    The paths of inputs are unusable.
    """
    for file in files:
        require_file(file, inputs, BY_SUFFIX)


def add_across(parser: argparse.ArgumentParser, text: str, fields: Sequence[str]) -> None:
    """Add the flag that allows a difference; its many choices are in the help."""
    text += f": {', '.join(fields)}; repeatable"
    parser.add_argument(
        "--across", action="append", default=[], choices=fields, metavar="FIELD", help=text
    )


def add_judging(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_across(parser, "compare even if it differs", ACROSS)
    parser.set_defaults(across=None)
    text = f"the limit: a larger change must be ruled out (default {100 * MAX_FLOOR:g} %%)"
    add("--max-floor", type=percentage, metavar="PERCENT", help=text)
    text = "floors by pattern, measured spreads; repeatable"
    add("--floors", action="append", default=[], type=Path, metavar="FILE.toml", help=text)


def complete(options: argparse.Namespace) -> None:
    """Add what the command line does not say: the project's defaults (project.py), then ours."""
    project = read_defaults()
    fields = project.get("across", ())
    if wrong := [field for field in fields if field not in ACROSS]:
        raise ResultError(
            f"pyproject.toml: tool.overlapbench.across: {wrong[0]!r} is not one of"
            f" {', '.join(ACROSS)}"
        )
    defaults = {
        "across": fields,
        "max_floor": _share(project, "max_floor", MAX_FLOOR),
        "min_guarded": _share(project, "min_guarded", MIN_GUARDED),
    }
    for name, value in defaults.items():
        if getattr(options, name, value) is None:
            setattr(options, name, value)


def _share(project: Mapping[str, object], name: str, default: float) -> float:
    try:
        return percentage(str(project[name])) if name in project else default
    except argparse.ArgumentTypeError as error:
        raise ResultError(f"pyproject.toml: tool.overlapbench.{name}: {error}") from None


def add_outputs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--all", action="store_true", help="also list unchanged rows")
    add("--title", default="overlapbench", metavar="TEXT", help="of the Markdown")
    add("--format", choices=FORMATS, default="table", help="what to print (default table)")
    text = "print JSON, as --format json does"
    add("--json", dest="format", action="store_const", const="json", help=text)
    endings = ", ".join(BY_SUFFIX)
    text = f"also write the comparison, in the format of the ending: {endings}; repeatable"
    add("-o", "--output", action="append", default=[], type=Path, metavar="FILE", help=text)


def show(comparison: Comparison, options: argparse.Namespace) -> None:
    """Print the comparison and write the files; ResultError if one cannot be written."""

    comparison = replace(comparison, title=options.title)

    def text(form: str) -> str:
        return FORMATS[form](comparison, every=options.all)

    table = options.format == "table"
    shown = format_table(comparison, screen(), options.all) if table else text(options.format)
    deliver(shown, {file: text(BY_SUFFIX[file.suffix]).encode() for file in options.output})
