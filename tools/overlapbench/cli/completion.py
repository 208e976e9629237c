"""Print a script that lets a shell complete this command.

    eval "$(overlapbench completion bash)"
    mkdir -p ~/.local/share/bash-completion/completions ~/.zfunc
    overlapbench completion bash \\
        >~/.local/share/bash-completion/completions/overlapbench
    overlapbench completion zsh >~/.zfunc/_overlapbench

The script is static: the shell does not start Python to complete a word. It completes the flags
that overlapbench run --help lists when the script is generated.

Exit status: 0, or 2 for bad usage.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import shtab

from overlapbench.cli.command_line import command, manual_parser
from overlapbench.cli.commands import COMMANDS, PROGRAM, load, summary
from overlapbench.output import print_text


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    print_text(shtab.complete(_everything(), options.shell) + "\n")


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)
    return parser


def _everything() -> argparse.ArgumentParser:
    """Return one parser of all commands."""
    everything = argparse.ArgumentParser(prog=PROGRAM)
    everything.add_argument("--version", action="store_true", help="print the version, and exit")
    commands = everything.add_subparsers(metavar="COMMAND")
    for name in COMMANDS:
        parser = load(name).make_parser(f"{PROGRAM} {name}")
        _mark_files(parser)
        commands.add_parser(name, parents=[parser], add_help=False, help=summary(name))
    return everything


def _mark_files(parser: argparse.ArgumentParser) -> None:
    """Complete files and folders for arguments whose type, or whose name in help, is one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for own in action.choices.values():
                _mark_files(own)
        elif str(action.metavar) in ("DIR", "PATH"):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.type is Path or "FILE" in str(action.metavar) or ".json" in str(action.metavar):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
