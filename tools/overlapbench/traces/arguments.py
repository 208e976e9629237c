"""Options that the command lines for traces share: which step, and which classes."""

import argparse
from pathlib import Path

from overlapbench.traces.rules import Rule, Rules, parse_rule, read_rules


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("--step", type=int, metavar="N", help="only this step, or this sample")
    add("--window", metavar="NAME",
        help="only windows (annotations) of this name or, if none, containing it")  # fmt: skip
    add("--class", dest="rule", type=_rule, action="append", default=[], metavar="PATTERN=CLASS",
        help="class of spans by name, such as COMP or COMM; repeatable")  # fmt: skip
    add("--rules", type=Path, action="append", default=[], metavar="FILE",
        help="file of such rules, one per line, applied after --class; repeatable")  # fmt: skip


def rules_of(options: argparse.Namespace) -> Rules:
    """Return the user's rules; ResultError for a bad file."""
    own = [*options.rule, *(rule for path in options.rules for rule in read_rules(path))]
    return Rules(own)


def _rule(text: str) -> Rule:
    try:
        return parse_rule(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
