"""What charts of the laboratory and of training steps share: names of transports, of curves and of
orders, and texts of cells.

Names leave out what a row has by default. So where some rows of a collective name a transport, the
others are carried by NCCL; what has no choice (a copy to the host, a collective of the host
backend) has no transport to tell.
"""

from collections.abc import Callable, Collection, Sequence

from overlapbench.result import Row
from overlapbench.series import SEPARATOR, label, shared_axes

_STANDING_TRANSPORT = "nccl"
# Titles of panels, by the axis `first`, in the order in which they stand.
_ORDERS = {
    "comp": "computation first",
    "comm": "communication first",
    "none": "neither side first",
}
SM_AXES = ("comm_sms", "comm_ctas")
_UNKNOWN = "?"


def transport_names(rows: Sequence[Row]) -> Callable[[Row], str]:
    """Return what tells a row's transport; "" where there is no other to tell it from."""
    chosen = {_communication(row) for row in rows if row.name.axis("transport")}

    def name(row: Row) -> str:
        standing = _STANDING_TRANSPORT if _communication(row) in chosen else ""
        return row.name.axis("transport") or standing

    return name


def names_of_curves(
    rows: Sequence[Row], leave_out: Collection[str], unnamed: str
) -> Callable[[Row], str]:
    """Return what names a row's curve: its transport, else `unnamed`; then what sets it apart."""
    transport = transport_names(rows)
    said = {"transport", *leave_out, *shared_axes(rows)}
    several_files = len({row.file for row in rows}) > 1

    def name(row: Row) -> str:
        text = label(transport(row) or unnamed, dict(row.name.axes), said)
        return f"{text}{SEPARATOR}{row.file}" if several_files else text

    return name


def _communication(row: Row) -> tuple[str, str]:
    return row.file, row.name.workloads[0]


def orders_of(rows: Sequence[Row]) -> Callable[[Row], str]:
    """Return what tells the side that starts first: the axis `first`, or what it leaves unwritten.

    That is `comp` on GPUs and `none` on the host backend, where nothing decides it. A file whose
    rows write `comm` or `none`, and never `comp`, is of GPUs.
    """
    written: dict[str, set[str]] = {}
    for row in rows:
        written.setdefault(row.file, set()).update(filter(None, [row.name.axis("first")]))

    def order(row: Row) -> str:
        others = written[row.file]
        return row.name.axis("first") or ("comp" if others and "comp" not in others else "none")

    return order


def order_title(order: str) -> str:
    """Write the axis `first` for a reader."""
    return _ORDERS.get(order, f"first {order}")


def in_order(orders: Sequence[str]) -> list[str]:
    """Sort values of the axis `first` as panels stand."""
    known = list(_ORDERS)
    return sorted(set(orders), key=lambda order: (order not in known, [*known, order].index(order)))


def has_pair(row: Row, family: str, *counters: str) -> bool:
    """Tell whether a row is of the family and has the counters, or failed: its cell says so."""
    return row.name.family == family and (
        not row.counters or all(row.counters.get(key, 0.0) > 0 for key in counters)
    )


def two_digits(row: Row, counter: str) -> str:
    """Write a ratio for a cell."""
    return f"{row.counters[counter]:.2f}" if counter in row.counters else _UNKNOWN


def state_text(row: Row) -> str:
    """Write why a cell has no figure."""
    return "passed" if row.passed_control else row.state.value
