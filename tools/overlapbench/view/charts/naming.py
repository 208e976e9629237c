"""The names of curves, panels and axes: what distinguishes a row from the others of its chart.

A Naming takes all rows of a chart, and returns a function that names one of them. Properties that
all rows share are stated once, above the chart. With several files, each curve names its file.

Names omit defaults. So if some rows of a collective name a transport, the others use NCCL, also in
other files. Rows without a choice (a copy to the host, the host backend) have no transport to show.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from overlapbench.grouping import grouped
from overlapbench.reading.names import binary_count, binary_size
from overlapbench.reading.result import HOST_LABEL
from overlapbench.reading.rows import Row

Name = Callable[[Row], str]
Naming = Callable[[Sequence[Row]], Name]

SEPARATOR = " · "
# Axes whose value alone is clear: `bf16`, `streaming`.
_BARE = frozenset({"cadence", "call", "direction", "form", "memory", "precision", "type"})
# Axes whose own name is longer than a label needs.
_SHORT = {"pipeline_streams": "streams", "supply_batches": "batches"}

SM_AXES = ("comm_sms", "comm_ctas")  # SMs or CTAs of a transport
STANDING_TRANSPORT = "nccl"
# Titles of panels, by the axis `first`, in the order of the panels.
_ORDERS = {"comp": "computation first", "comm": "communication first", "none": "neither side first"}


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


def by(name: Name) -> Naming:
    """Name a row by itself, independently of the others."""
    return lambda _: name


unnamed = by(lambda _: "")
by_workload = by(lambda row: "+".join(row.name.workloads))


def together(*namings: Naming) -> Naming:
    """Name rows by the names of several Namings."""

    def naming(rows: Sequence[Row]) -> Name:
        names = [one(rows) for one in namings]
        return lambda row: joined(*(name(row) for name in names))

    return naming


def named(
    *leave_out: str,
    head: Naming = unnamed,
    alike: Callable[[Row], Hashable] = lambda _: None,
    axes: Callable[[Row], Mapping[str, str]] = lambda row: dict(row.name.axes),
    file: Naming = file_names,
) -> Naming:
    """Name rows by a head, by their differences from others `alike`, and by their file.

    `axes` may distinguish a row; those that all rows share are omitted. A row without differences
    is named by its workloads.
    """

    def naming(rows: Sequence[Row]) -> Name:
        said = {
            kind: {*leave_out, *shared_axes(members)}
            for kind, members in grouped(rows, alike).items()
        }
        first, last, workloads = head(rows), file(rows), by_workload(rows)

        def name(row: Row) -> str:
            return label(first(row), axes(row), said[alike(row)], last(row)) or workloads(row)

        return name

    return naming


def side(number: int, *told: str, head: Naming = unnamed, alike: bool = False) -> Naming:
    """Name a side of a pair by its axes: 0 is the workload named first, 1 has all other axes."""

    def own(row: Row) -> Mapping[str, str]:
        first = row.table.axes_of_first(row.name)
        return {a: value for a, value in row.name.axes if (a in first) == (number == 0)}

    return named(
        *told,
        head=together(by(lambda row: row.name.workloads[number]), head),
        alike=lambda row: row.name.workloads[number] if alike else None,
        axes=own,
        file=unnamed,
    )


def transport_names(rows: Sequence[Row]) -> Name:
    """Return a function for a row's transport; "" if there is no other, and for peers."""
    chosen = {row.name.workloads[0] for row in rows if row.name.axis("transport")}

    def name(row: Row) -> str:
        if row.name.axis("peer"):
            return ""
        choice = row.name.workloads[0] in chosen and HOST_LABEL not in row.file
        return row.name.axis("transport") or (STANDING_TRANSPORT if choice else "")

    return name


def by_order(rows: Sequence[Row]) -> Name:
    """Name a row by the side that starts first: by its axis `first`, or the default of that axis.

    The default is `comp` on GPUs and `none` on the host backend, where no side leads. A file whose
    rows contain `comm` or `none`, and never `comp`, is from GPUs.
    """
    written: dict[str, set[str]] = {}
    for row in rows:
        written.setdefault(row.file, set()).update(filter(None, [row.name.axis("first")]))

    def name(row: Row) -> str:
        others = written[row.file]
        unwritten = "comp" if others and "comp" not in others else "none"
        order = row.name.axis("first") or unwritten
        return _ORDERS.get(order, f"first {order}")

    return name
