"""Rows of a chart: the axes that distinguish them, their labels, and the knee of a curve."""

from collections.abc import Callable, Collection, Mapping, Sequence

from overlapbench.grouping import grouped
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.result import Row

SEPARATOR = " · "
KNEE_RISE = 1.10
KNEE_MEANING = (
    "the first grid with a slowdown above 1.0 and at least"
    f" {KNEE_RISE - 1:.0%} above the lowest of the smaller grids"
)

# Axes whose value alone is clear: `bf16`, `streaming`.
_BARE = frozenset({"cadence", "call", "direction", "form", "memory", "precision", "type"})
# Axes whose own name is longer than a label needs.
_SHORT = {"pipeline_streams": "streams", "supply_batches": "batches"}


def describe(axis: str, value: str) -> str:
    """Write one axis for a reader: `64 MiB`, `array 256 MiB`, `4 Mi elements`, `grid 16×16`."""
    if axis.endswith("bytes") and value.isdecimal():
        return f"{_spaced(axis.removesuffix('bytes'))} {binary_size(int(value))}".strip()
    if axis.endswith("elements") and value.isdecimal():
        count = binary_count(int(value))
        return f"{_spaced(axis.removesuffix('elements'))} {count} elements".strip()
    if axis.endswith("delay_us"):
        return f"{value} µs"
    if axis.endswith("_us"):
        return f"{_spaced(axis.removesuffix('_us'))} {value} µs"
    if axis == "grid":
        return f"grid {value.replace('x', '×')}"
    return value if axis in _BARE else f"{_spaced(_SHORT.get(axis, axis))} {value}"


def _spaced(axis: str) -> str:
    return axis.replace("_", " ").strip()


def binary_size(size_bytes: int) -> str:
    """Write a size in its largest whole binary unit: 67108864 is `64 MiB`."""
    count = binary_count(size_bytes)
    return f"{count}B" if " " in count else f"{count} B"


def binary_count(count: int) -> str:
    """Write a number with its largest whole binary prefix: 4194304 is `4 Mi`."""
    for exponent, prefix in ((3, "Gi"), (2, "Mi"), (1, "Ki")):
        if count and count % 1024**exponent == 0:
            return f"{count // 1024**exponent} {prefix}"
    return str(count)


def joined(*parts: str) -> str:
    """Join the texts that are not empty."""
    return SEPARATOR.join(filter(None, parts))


def label(
    head: str, axes: Mapping[str, str], leave_out: Collection[str] = (), file: str = ""
) -> str:
    """Join a head, the axes that are not left out, and a file: `AllToAll · 64 MiB`."""
    parts = (describe(axis, value) for axis, value in axes.items() if axis not in leave_out)
    return joined(head, *parts, file)


def file_names(rows: Sequence[Row]) -> Callable[[Row], str]:
    """Return a function that names a row's file; "" if all rows are from one."""
    several = len({row.file for row in rows}) > 1
    return lambda row: row.file if several else ""


def shared_axes(rows: Sequence[Row]) -> dict[str, str]:
    """Return the axes with one value in all rows: stated once, they need not be in labels."""
    everywhere = set.intersection(*(set(row.name.axes) for row in rows))
    return {axis: value for axis, value in rows[0].name.axes if (axis, value) in everywhere}


def curves_along(rows: Sequence[Row], axis: str) -> list[list[Row]]:
    """Group rows of one file and kind that differ only in this axis."""

    def curve(row: Row) -> tuple[object, ...]:
        name = row.name
        rest = frozenset(name.axes) - {(axis, name.axis(axis))}
        return row.file, name.family, name.workloads, rest

    return list(grouped(rows, curve).values())


def grid_of(name: BenchmarkName) -> tuple[int, int] | None:
    """Return (gx, gy) of `grid:gxXgy`, or None if the name has no such axis."""
    sides = (name.axis("grid") or "").split("x")
    if len(sides) != 2 or not all(side.isdecimal() for side in sides):
        return None
    return int(sides[0]), int(sides[1])


def knee(slowdowns: Sequence[float]) -> int | None:
    """Return the index of the knee of a curve ordered by grid, or None if it has none.

    KNEE_MEANING defines it: the first point where overlap has a cost, clearly higher than before,
    because blocks begin to compete with the communication for SMs. The curve may rise further.
    """
    lowest = float("inf")
    for index, slowdown in enumerate(slowdowns):
        if slowdown > 1.0 and slowdown >= KNEE_RISE * lowest:
            return index
        lowest = min(lowest, slowdown)
    return None
