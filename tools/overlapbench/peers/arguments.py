"""Values on the command lines of tools/peers.py and tools/torch_training.py.

Each returns what argparse calls for `type`. It raises ArgumentTypeError, which names the value and
what is allowed instead.
"""

import argparse
from collections.abc import Callable, Collection
from typing import TypeVar

from overlapbench.peers.cases import parse_size

_T = TypeVar("_T")


def list_of(item: Callable[[str], _T]) -> Callable[[str], list[_T]]:
    """Read several values that commas separate; one that comes twice counts once."""

    def parse(text: str) -> list[_T]:
        return list(dict.fromkeys(item(part) for part in text.split(",")))

    return parse


def one_of(choices: Collection[str]) -> Callable[[str], str]:
    """Read one of the choices."""

    def parse(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def size(text: str) -> int:
    """Read a size from 1 to 2^31, as `parse_size` does."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
