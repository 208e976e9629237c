"""Entries of a result file, a column at a time: the fast way through thousands of rows.

Rows with the same keys and the same `state` form a block, and nearly all rows of a file are plainly
good. So each column of a block is checked at once. Only if that check fails does a reader examine
the rows one by one, to interpret them or to refuse one by field and line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from overlapbench.grouping import grouped
from overlapbench.reading.source import SMALLEST

Array = NDArray[np.float64]
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Block:
    """Entries with the same keys and the same state."""

    places: Sequence[int]  # indices in the file
    columns: Mapping[str, Sequence[object]]

    def always(self, key: str) -> object:
        """Return the value that a key has in all rows; None if values differ or one is missing."""
        column = self.columns.get(key, (None,))
        return column[0] if column.count(column[0]) == len(column) else None

    def only(self, kind: type[_Kind], key: str) -> Sequence[_Kind] | None:
        """Return a column if all its values are of exactly this type."""
        column = self.columns.get(key, ())
        return cast(Sequence[_Kind], column) if set(map(type, column)) == {kind} else None

    def floats(self, key: str, low: float, high: float) -> Array | None:
        """Return a column if all its values are floats from `low` to `high`, and none is tiny."""
        column = self.only(float, key)
        if column is None:
            return None
        values = np.array(column, dtype=np.float64)
        size = np.abs(values)
        fine = (values >= low) & (values <= high) & ((size >= SMALLEST) | (size == 0))
        return values if fine.all() else None


def split_blocks(entries: Sequence[object]) -> list[Block]:
    """Group the entries that are objects by keys and state; blocks keep the order of the file."""
    rows: list[Mapping[str, object]] = [e if isinstance(e, dict) else {} for e in entries]

    def layout(place: int) -> tuple[str, tuple[str, ...]]:
        state = rows[place].get("state")
        return state if isinstance(state, str) else "", tuple(rows[place])

    blocks = []
    for (_, keys), places in grouped(range(len(rows)), layout).items():
        columns = zip(*(rows[place].values() for place in places), strict=True)
        blocks.append(Block(places, dict(zip(keys, columns, strict=True))))
    return blocks
