"""What all charts have, which rows they take, and what of a row their marks show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from overlapbench.reading.rows import Row
from overlapbench.view.vega import Record, Spec

# From trusted rows to what they show, with its interval; "" if they show nothing for certain.
Finding = Callable[[Sequence[Row]], str]


@dataclass(frozen=True, kw_only=True)
class ChartKind:
    """One entry of the table of charts."""

    name: str = ""
    title: str = ""  # if its rows carry no finding
    reading: str = ""
    finding: Finding = lambda _: ""

    def select(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that the chart shows; if there are none, it is not drawn."""
        raise NotImplementedError

    def draw(self, rows: Sequence[Row]) -> Spec:
        """Draw those rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class Rows:
    """Rows that a chart takes, and what distinguishes their records from others."""

    of: str = "*"  # a pattern for `Family/Workload`: `Comm/*`
    above_zero: Sequence[str] = ()  # required counters
    known: Sequence[str] = ()  # required too, and may be zero or less
    when: Callable[[Row], bool] = lambda _: True  # any other condition

    def taken(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that the chart takes."""
        return [
            row
            for row in rows
            if fnmatchcase(kind_of(row), self.of)
            and all(row.counters.get(key, 0.0) > 0 for key in self.above_zero)
            and row.counters.keys() >= {*self.known}
            and self.when(row)
        ]


def kind_of(row: Row) -> str:
    """Return `Family/Workload` of a row."""
    return f"{row.name.family}/{'+'.join(row.name.workloads)}"


def whole(row: Row, axis: str) -> int | None:
    """Return the value of an axis, or None if it is missing or not a whole number."""
    text = row.name.axis(axis) or ""
    return int(text) if text.isascii() and text.isdecimal() else None


def record_of(row: Row, **fields: Any) -> Record:
    """Return a record with its origin, whether it is trusted, its problem, and the fields."""
    origin = {"name": str(row.name), "file": row.file}
    return {**origin, "trusted": row.trusted, "problem": row.problem, **fields}


def bounds(row: Row, counter: str, field: str = "") -> Record:
    """Return the interval of a counter as fields of the one that shows it; none without one."""
    if counter not in row.intervals:
        return {}
    low, high = row.intervals[counter]
    return {f"{field or counter}_low": low, f"{field or counter}_high": high}


def state_text(row: Row) -> str:
    """Write why a cell or a bar has no figure."""
    return "passed" if row.passed_control else row.state.value


def ratio_text(row: Row, counter: str) -> str:
    """Write a ratio for a cell."""
    return f"{row.counters[counter]:.2f}" if counter in row.counters else "?"
