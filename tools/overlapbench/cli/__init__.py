"""The command `overlapbench`: its first word chooses a command, and the others are that command's.

overlapbench compare base.json new.json
overlapbench COMMAND --help
python -m overlapbench --version
"""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence

from overlapbench import installation
from overlapbench.cli.command_line import (
    COMMANDS,
    PROGRAM,
    ending_if_interrupted,
    has_colours,
    load,
    refuse,
    summary,
)
from overlapbench.packages import PackageError, packages


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in COMMANDS:
        make_parser().parse_args(given)  # ends here: with help, the version, or a refusal
    program = f"{PROGRAM} {given[0]}"
    with ending_if_interrupted(program):
        try:
            with packages():
                return int(load(given[0]).main(given[1:], program))
        except PackageError as missing:
            return refuse(program, str(missing))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Measures how much computation and communication slow each other down.",
        usage=f"{PROGRAM} COMMAND ...",
        epilog=_commands(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version, and exit")
    parser.add_argument(
        "command",
        choices=COMMANDS,
        metavar="COMMAND",
        help=f"one of these; {PROGRAM} COMMAND --help is its manual",
    )
    return parser


class _Version(argparse.Action):
    """Looks up the version only on request: the lookup takes longer than everything else."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(PROGRAM, installation.version())
        parser.exit()


def _commands() -> str:
    begin, end = ("\x1b[1m", "\x1b[0m") if has_colours() else ("", "")
    width = max(map(len, COMMANDS))
    screen = shutil.get_terminal_size().columns
    lines = ["commands:"]
    for name in COMMANDS:
        indent = " " * (width + 4)
        text = textwrap.fill(summary(name), screen, initial_indent=indent, subsequent_indent=indent)
        lines.append(f"  {begin}{name:{width}}{end}{text[width + 2 :]}")
    return "\n".join(lines)
