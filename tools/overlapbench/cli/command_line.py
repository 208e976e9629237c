"""The commands of `overlapbench`, and what they share: a parser, numbers, and one-line errors.

A command is a module with `main` and `make_parser(program)`, imported only when it runs: the chart
libraries take most of a second to import. Its docstring is its manual: a line, indented commands,
prose, and list items after dashes. `@command` prints the errors that `main` raises,
and which package is missing.
"""

import argparse
import contextlib
import functools
import importlib
import os
import pkgutil
import re
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlapbench.view.console import Screen

PROGRAM = "overlapbench"
COMMANDS = (
    *("run", "compare", "gate", "tune", "chart", "report", "history", "export"),
    *("predict", "findings", "doctor", "trace", "timeline"),
)
USAGE = 2
INTERRUPTED = 128 + signal.SIGINT
_WIDEST = 100  # wider text is hard to read
_TERMINATED = 128 + signal.SIGTERM


def summary(name: str) -> str:
    """Return the first line of a command's manual, without importing the module."""
    source = pkgutil.get_data(__package__, f"{name}.py")
    assert source is not None
    return source.decode().splitlines()[0].strip('"')


def load(name: str) -> Any:
    """Import a command's module."""
    return importlib.import_module(f"{__package__}.{name}")


def command(run: Callable[[Sequence[str] | None, str], int | None]) -> Callable[..., int]:
    """Make a command's `main`: a refusal is one line of output; otherwise the exit status is 0."""
    from overlapbench.output import ResultError  # imports more than the help of all commands needs
    from overlapbench.packages import packages

    own = f"{PROGRAM} {run.__module__.rpartition('.')[2]}"

    @functools.wraps(run)
    def main(arguments: Sequence[str] | None = None, program: str = own) -> int:
        try:
            with packages(ResultError):
                return run(arguments, program) or 0
        except ResultError as error:
            return refuse(program, str(error))
        except OSError as error:
            return refuse(program, f"{error.filename}: cannot be written: {error.strerror}")

    return main


class Parser(argparse.ArgumentParser):
    """A parser whose flags have dashes; underscores, as in the suite's own flags, mean the same."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        given = sys.argv[1:] if args is None else args
        return super().parse_known_args([*map(self._spelled, given)], namespace)

    def _spelled(self, word: str) -> str:
        flag, equals, value = word.partition("=")
        dashed = flag.replace("_", "-")
        return dashed + equals + value if dashed in self._option_string_actions else word


def manual_parser(program: str, manual: str | None) -> Parser:
    """Make a parser whose help is the manual's first paragraph, the arguments, and the rest."""
    assert manual
    summary, _, epilog = fitted(manual, shutil.get_terminal_size().columns).partition("\n\n")
    return Parser(
        prog=program,
        description=summary,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def fitted(manual: str, columns: int) -> str:
    """Break the lines of prose and list items anew; indented lines, such as commands, are kept."""
    paragraphs = []
    for paragraph in manual.strip("\n").split("\n\n"):
        items = [paragraph] if paragraph.startswith(" ") else re.split(r"\n(?=- )", paragraph)
        paragraphs.append("\n".join(_filled(item, min(columns, _WIDEST)) for item in items))
    return "\n\n".join(paragraphs)


def _filled(text: str, columns: int) -> str:
    if text.startswith(" "):
        return text
    indent = "  " * text.startswith("- ")
    wrapper = textwrap.TextWrapper(columns, subsequent_indent=indent, break_on_hyphens=False)
    wrapper.break_long_words = False
    return wrapper.fill(" ".join(text.split()))


def number_from(least: int) -> Callable[[str], int]:
    """Return a function that parses an argument as a whole number, for argparse."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return read


def percentage(text: str) -> float:
    """Read a percentage, as a share."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0 to 100")
    return value / 100


def split_at_dashes(arguments: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the arguments before and after `--`; None is the process's command line."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    return given[:end], given[end + 1 :]


def exit_if_terminated() -> None:
    """Raise on SIGTERM, so that started processes are ended and their files removed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))


def has_colours() -> bool:
    """Tell whether standard output is a terminal that allows colours (no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def screen() -> "Screen":
    """Return what standard output is: a terminal, or a file or a pipe."""
    from overlapbench.view.console import Screen  # imports more than the help needs

    if not sys.stdout.isatty():
        return Screen()
    return Screen(shutil.get_terminal_size().columns, has_colours())


@contextlib.contextmanager
def ending_if_interrupted(program: str) -> Iterator[None]:
    """Run a whole program in this context; Ctrl-C prints one line and exits as shells do."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def say(line: str) -> None:
    """Report progress."""
    print(line, file=sys.stderr, flush=True)


def refuse(program: str, line: str) -> int:
    """Say why nothing was done; return the exit status."""
    print(f"{program}: {line}", file=sys.stderr)
    return USAGE
