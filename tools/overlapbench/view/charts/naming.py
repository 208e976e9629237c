"""The names of curves and panels: what distinguishes a row from the others of its chart.

A Naming takes all rows of a chart, and returns a function that names one of them. Properties that
all rows share are stated once, above the chart. With several files, each curve names its file.

Names omit defaults. So if some rows of a collective name a transport, the others use NCCL. Rows
without a choice (a copy to the host, a collective of the host backend) have no transport to show.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial

from overlapbench.grouping import grouped
from overlapbench.reading.result import Row
from overlapbench.view.series import file_names, joined, label, shared_axes

Name = Callable[[Row], str]
Naming = Callable[[Sequence[Row]], Name]

SM_AXES = ("comm_sms", "comm_ctas")  # SMs or CTAs of a transport
_STANDING_TRANSPORT = "nccl"
# Titles of panels, by the axis `first`, in the order of the panels.
_ORDERS = {"comp": "computation first", "comm": "communication first", "none": "neither side first"}


def by(name: Name) -> Naming:
    """Name a row by itself, independently of the others."""
    return lambda _: name


unnamed = by(lambda _: "")
by_file = by(lambda row: row.file)
by_workload = by(lambda row: "+".join(row.name.workloads))


def together(*namings: Naming) -> Naming:
    """Name rows by the names of several Namings."""

    def naming(rows: Sequence[Row]) -> Name:
        names = [one(rows) for one in namings]
        return lambda row: joined(*(name(row) for name in names))

    return naming


def by_transport(otherwise: str = "") -> Naming:
    """Name rows by their transport, or else by `otherwise` or their workload."""

    def naming(rows: Sequence[Row]) -> Name:
        transport = transport_names(rows)
        return lambda row: transport(row) or otherwise or row.name.workloads[0]

    return naming


def named(
    *leave_out: str,
    head: Naming = unnamed,
    alike: Callable[[Row], Hashable] = lambda _: None,
    axes: Callable[[Row], Mapping[str, str]] = lambda row: dict(row.name.axes),
    defaults: Mapping[str, str] | None = None,
    file: Naming = file_names,
) -> Naming:
    """Name rows by a head, by their differences from others `alike`, and by their file.

    `axes` may distinguish a row; those that all rows share are omitted. `defaults` are axes that a
    row's name omits if they have this value: they are always shown. A row without differences is
    named by its workloads.
    """
    told = defaults or {}

    def naming(rows: Sequence[Row]) -> Name:
        said = {
            kind: {*leave_out, *(shared_axes(members).keys() - told.keys())}
            for kind, members in grouped(rows, alike).items()
        }
        first, last, workloads = head(rows), file(rows), by_workload(rows)

        def name(row: Row) -> str:
            apart = {**told, **axes(row)}
            return label(first(row), apart, said[alike(row)], last(row)) or workloads(row)

        return name

    return naming


def axes_of_side(side: int) -> Callable[[Row], Mapping[str, str]]:
    """Return a function for the axes of a pair's first workload (0), or all others (1)."""
    return lambda row: {
        axis: value
        for axis, value in row.name.axes
        if (axis in row.table.axes_of_first(row.name)) == (side == 0)
    }


def side(number: int, *told: str, head: Naming = unnamed, alike: bool = False) -> Naming:
    """Name a side of a pair by its axes: 0 is the workload named first."""
    return named(
        *told,
        head=together(by(lambda row: row.name.workloads[number]), head),
        alike=lambda row: row.name.workloads[number] if alike else None,
        axes=axes_of_side(number),
        file=unnamed,
    )


def where_several(of: Naming, naming: Naming, otherwise: Naming = unnamed) -> Naming:
    """Use one Naming if the first Naming distinguishes several rows, or else the other."""

    def chosen(rows: Sequence[Row]) -> Name:
        several = len(set(map(of(rows), rows))) > 1
        return (naming if several else otherwise)(rows)

    return chosen


def if_several(naming: Naming) -> Naming:
    """Name rows only if the Naming distinguishes several."""
    return where_several(naming, naming)


where_transports_differ = partial(where_several, by(lambda row: row.name.axis("transport") or ""))


def transport_names(rows: Sequence[Row]) -> Name:
    """Return a function for a row's transport; "" if there is no other."""
    chosen = {_communication(row) for row in rows if row.name.axis("transport")}

    def name(row: Row) -> str:
        standing = _STANDING_TRANSPORT if _communication(row) in chosen else ""
        return row.name.axis("transport") or standing

    return name


def _communication(row: Row) -> tuple[str, str]:
    return row.file, row.name.workloads[0]


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
