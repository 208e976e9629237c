"""From rows to records: which rows a chart takes, and what of a row its marks show."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from overlapbench.reading.result import Row
from overlapbench.view.vega import Record


@dataclass(frozen=True)
class Rows:
    """Rows that a chart takes, and what distinguishes their records from others."""

    of: str = "*"  # a pattern for `Family/Workload`: `Comm/*`
    above_zero: Sequence[str] = ()  # required counters
    known: Sequence[str] = ()  # required too, and may be zero or less
    axes: Sequence[str] = ()  # required in the name
    where: Mapping[str, str] = field(default_factory=dict)  # values of axes
    when: Callable[[Row], bool] = lambda _: True  # any other condition
    measured: str = ""  # the counter with the measured figure, if it has another name
    told: Mapping[str, str] = field(default_factory=dict)  # further fields of their records
    x: str = ""  # the axis of the name on the x axis, if it is not the chart's
    beside: bool = False  # shown only in panels that other rows make

    def taken(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that the chart takes, by family first: there may be very many."""
        family = self.of.partition("/")[0].partition("*")[0]  # or its first letters
        near = [row for row in rows if row.name.family.startswith(family)]
        kinds = {(row.name.family, row.name.workloads): row for row in near}
        fitting = {kind for kind, row in kinds.items() if fnmatchcase(kind_of(row), self.of)}
        of_kind = (row for row in near if (row.name.family, row.name.workloads) in fitting)
        return [row for row in of_kind if self._has(row)]

    def _has(self, row: Row) -> bool:
        return (
            all(row.counters.get(key, 0.0) > 0 for key in self.above_zero)
            and row.counters.keys() >= {*self.known}
            and all(row.name.axis(axis) is not None for axis in self.axes)
            and all(row.name.axis(axis) == value for axis, value in self.where.items())
            and self.when(row)
        )


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


def counters_of(row: Row, counters: Sequence[str]) -> Record:
    """Return the given counters that the row has."""
    return {key: row.counters[key] for key in counters if key in row.counters}


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
