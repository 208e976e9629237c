"""Grouping items by a key."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

_T = TypeVar("_T")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(items: Iterable[_T], key: Callable[[_T], _Key]) -> dict[_Key, list[_T]]:
    """Group items by a key, in the order in which its values appear."""
    parts: dict[_Key, list[_T]] = {}
    for item in items:
        parts.setdefault(key(item), []).append(item)
    return parts
