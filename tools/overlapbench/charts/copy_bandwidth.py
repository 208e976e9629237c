"""Copy bandwidth against size: every route, each kind of memory and engine a curve.

The bus is shown once a direction with the other direction idle, and once with both busy: then each
direction has a panel of its own, for they need not share evenly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from overlapbench.charts.curves import (
    Figures,
    draw_curves,
    is_measured,
    log_scale,
    size_axis,
    whole,
)
from overlapbench.charts.panels import Record, bounds, identity, panel_size, panel_title, split
from overlapbench.result import Row
from overlapbench.series import SEPARATOR, axes_label, shared_axes
from overlapbench.theme import Drawing


@dataclass(frozen=True)
class _Panel:
    direction: str
    counter: str
    title: str
    group: str  # panels of a group have one scale

    @property
    def leave_out(self) -> set[str]:
        """Return the axes that say nothing here: within devices no host memory takes part."""
        return set() if self.group == "bus" else {"memory"}


_PANELS = (
    _Panel("host_to_device", "GBps", "host to device", "bus"),
    _Panel("device_to_host", "GBps", "device to host", "bus"),
    _Panel("both", "host_to_device_GBps", "host to device, both directions busy", "bus"),
    _Panel("both", "device_to_host_GBps", "device to host, both directions busy", "bus"),
    _Panel("device_local", "GBps", "within the device (read + written)", "device"),
    _Panel("peer", "GBps", "to a peer device", "device"),
)
_DEFAULTS = {"memory": "pinned", "engine": "copy"}  # that a name does not write


def select_copies(rows: Sequence[Row]) -> list[Row]:
    """Return the Copy/Bandwidth rows that have a size and the rates of a panel."""
    return [row for row in rows if whole(row, "bytes") and _panels_of(row)]


def draw_copies(rows: Sequence[Row]) -> Drawing:
    """Draw bandwidth against size, log-log, one panel a route, one curve a kind of copy."""
    records = _records(rows)
    series = list(split(records, "series"))
    scales = {
        group: log_scale([record["GBps"] for record in part])
        for group, part in split(records, "group").items()
    }
    x = size_axis("size_bytes", [record["size_bytes"] for record in records], "size")
    parts = split(records, "panel")
    columns = min(2, len(parts))
    titles = [panel.title for panel in _PANELS if panel.title in parts]
    panels = (
        draw_curves(
            parts[title], x, Figures("GBps", "GB/s", scales[parts[title][0]["group"]]), series
        ).properties(title=panel_title(_peak(parts[title]), columns), **panel_size(columns, 200))
        for title in titles
    )
    chart: alt.ConcatChart = alt.concat(*panels, columns=columns)
    return chart


def _panels_of(row: Row) -> list[_Panel]:
    direction = row.name.axis("direction")
    return [
        panel
        for panel in _PANELS
        if panel.direction == direction and is_measured(row, "Copy/Bandwidth", panel.counter)
    ]


def _records(rows: Sequence[Row]) -> list[Record]:
    common = {"direction", "bytes", *shared_axes(rows)} - _DEFAULTS.keys()
    several_files = len({row.file for row in rows}) > 1
    return [
        identity(row)
        | {
            "series": axes_label(row, common | panel.leave_out, several_files, _DEFAULTS),
            "panel": panel.title,
            "group": panel.group,
            "size_bytes": whole(row, "bytes"),
            "GBps": row.counters[panel.counter],
        }
        | bounds(row, panel.counter, "GBps")
        for row in rows
        for panel in _panels_of(row)
    ]


def _peak(records: Sequence[Record]) -> str:
    """Add to a panel's title the highest rate, which a logarithmic axis does not tell closely."""
    rates = [record["GBps"] for record in records if record["trusted"]]
    title = str(records[0]["panel"])
    return f"{title}{SEPARATOR}at most {max(rates):,.1f} GB/s" if rates else title
