"""Copy bandwidth against size: one panel per route, one curve per kind of memory and engine.

The bus has a panel for each direction with the other direction idle. With both directions busy,
each has its own panel, too, since they may not share evenly.
"""

from collections.abc import Sequence

from overlapbench.reading.result import Row
from overlapbench.view.charts.curve_chart import Rows
from overlapbench.view.charts.naming import Name, named
from overlapbench.view.charts.panels import Record
from overlapbench.view.series import SEPARATOR


def _route(direction: str, panel: str, group: str, counter: str = "GBps") -> Rows:
    """Return the rows of a panel; panels of a group share a scale."""
    return Rows(
        "Copy/Bandwidth",
        (counter,),
        where={"direction": direction},
        measured=counter,
        told={"panel": panel, "group": group},
    )


_BUSY = "both directions busy"
COPIES = (
    _route("host_to_device", "host to device", "bus"),
    _route("device_to_host", "device to host", "bus"),
    _route("both", f"host to device, {_BUSY}", "bus", "host_to_device_GBps"),
    _route("both", f"device to host, {_BUSY}", "bus", "device_to_host_GBps"),
    _route("device_local", "within the device (read + written)", "device"),
    _route("peer", "to a peer device", "device"),
)
_WITHIN_DEVICES = ("device_local", "peer")  # directions without host memory
_DEFAULTS = {"memory": "pinned", "engine": "copy"}  # values that a name omits


def by_kind_of_copy(rows: Sequence[Row]) -> Name:
    """Name a copy by its memory and engine, and other distinguishing axes."""
    told = ("direction", "bytes")
    host = named(*told, defaults=_DEFAULTS)(rows)
    within = named(*told, "memory", defaults=_DEFAULTS)(rows)
    return lambda row: (within if row.name.axis("direction") in _WITHIN_DEVICES else host)(row)


def with_peak(records: Sequence[Record]) -> str:
    """Add the highest rate to a panel's title: it is hard to read off a logarithmic axis."""
    rates = [record["GBps"] for record in records if record["trusted"]]
    title = str(records[0]["panel"])
    return f"{title}{SEPARATOR}at most {max(rates):,.1f} GB/s" if rates else title
