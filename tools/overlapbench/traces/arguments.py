"""Options that the command lines for traces share: which step, and which classes."""

import argparse

from overlapbench.traces.rules import Rule, parse_rule


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("--step", type=int, metavar="N", help="only this step, or this sample")
    add("--window", metavar="NAME",
        help="only windows (annotations) of this name or, if none, containing it")  # fmt: skip
    add("--class", dest="rules", type=_rule, action="append", default=[], metavar="PATTERN=CLASS",
        help="class of spans by name, such as COMP or COMM; repeatable")  # fmt: skip


def _rule(text: str) -> Rule:
    try:
        return parse_rule(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
