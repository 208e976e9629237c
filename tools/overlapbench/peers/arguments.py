"""Values on the command line of `overlapbench peers`.

Each function returns a callable for argparse's `type`. It raises ArgumentTypeError, which names the
value and the permitted ones.
"""

import argparse
import re
from collections.abc import Callable, Collection
from typing import TypeVar

_T = TypeVar("_T")
_LARGEST_SIZE = 1 << 31
_SUFFIXES = {"": 0, "K": 10, "M": 20, "G": 30}


def list_of(item: Callable[[str], _T]) -> Callable[[str], list[_T]]:
    """Read several values separated by commas; duplicates count once."""

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
    """Read a size from 1 to 2^31: 4096, 4K, 64M, 1G or 2^26."""
    power = re.fullmatch(r"2\^([0-9]{1,2})", text)
    plain = re.fullmatch(r"([0-9]{1,12})([KMG]?)", text)
    number = 0
    if power:
        number = 1 << int(power[1])
    elif plain:
        number = int(plain[1]) << _SUFFIXES[plain[2]]
    if not 1 <= number <= _LARGEST_SIZE:
        allowed = "no size from 1 to 2^31, such as 4096, 64M or 2^26"
        raise argparse.ArgumentTypeError(f"{text!r} is {allowed}")
    return number
