"""Charts of communication and copies: bandwidths and pipelines."""

from collections.abc import Callable, Sequence

from overlapbench.reading.result import Row
from overlapbench.view.charts import axes, naming
from overlapbench.view.charts.curves import Curves, X, Y
from overlapbench.view.charts.naming import SEPARATOR, Name
from overlapbench.view.charts.records import Rows
from overlapbench.view.vega import Record

BANDWIDTH = Curves(
    name="bandwidth",
    title="Bus bandwidth against size",
    reading="Each communication alone, as nccl-tests defines bus bandwidth.",
    rows=[Rows("Comm/*", known=["busbw_GBps"])],
    x=X("bytes", "size per rank", axes.size_axis, field="size_bytes"),
    y=Y("busbw_GBps", "bus bandwidth (GB/s)", axes.zero_scale),
    height=220,
    alone=340,
    panel=naming.where_transports_differ(naming.by_workload, naming.unnamed),
    series=naming.where_transports_differ(
        naming.named("transport", "bytes", head=naming.by_transport()),
        naming.named("bytes", head=naming.by_workload),
    ),
)


_BUSY = "both directions busy"
# The panels of copies: the direction, the title, the group that shares a scale, and the counter.
# The bus has a panel for each direction with the other direction idle. With both directions busy,
# each has its own panel, too, since they may not share evenly.
_ROUTES = (
    ("host_to_device", "host to device", "bus", "GBps"),
    ("device_to_host", "device to host", "bus", "GBps"),
    ("both", f"host to device, {_BUSY}", "bus", "host_to_device_GBps"),
    ("both", f"device to host, {_BUSY}", "bus", "device_to_host_GBps"),
    ("device_local", "within the device (read + written)", "device", "GBps"),
    ("peer", "to a peer device", "device", "GBps"),
)
_WITHIN_DEVICES = ("device_local", "peer")  # directions without host memory


def _by_kind_of_copy(rows: Sequence[Row]) -> Name:
    """Name a copy by its memory and engine, and other distinguishing axes."""
    defaults = {"memory": "pinned", "engine": "copy"}  # values that a name omits
    host = naming.named("direction", defaults=defaults)(rows)
    within = naming.named("direction", "memory", defaults=defaults)(rows)
    return lambda row: (within if row.name.axis("direction") in _WITHIN_DEVICES else host)(row)


def _with_peak(records: Sequence[Record]) -> str:
    """Add the highest rate to a panel's title: it is hard to read off a logarithmic axis."""
    rates = [record["GBps"] for record in records if record["trusted"]]
    title = str(records[0]["panel"])
    return f"{title}{SEPARATOR}at most {max(rates):,.1f} GB/s" if rates else title


COPIES = Curves(
    name="copy_bandwidth",
    title="Copy bandwidth against size",
    reading="Both axes are logarithmic. With both directions busy, the bus carries the sum of"
    " the two panels.",
    rows=[
        Rows(
            "Copy/Bandwidth",
            (counter,),
            where={"direction": direction},
            measured=counter,
            told={"panel": panel, "group": group},
        )
        for direction, panel, group, counter in _ROUTES
    ],
    x=X("bytes", "size", axes.size_axis, field="size_bytes"),
    y=Y("GBps", "GB/s", axes.log_scale),
    height=200,
    series=_by_kind_of_copy,
    scale_of_each="group",
    panel_title=_with_peak,
)


def _ratio(dividend: str, divisor: str) -> Callable[[Row], float]:
    return lambda row: row.counters[dividend] / row.counters[divisor]


PIPELINE = Curves(
    name="pipeline",
    title="Speedup of pipelines against streams",
    reading="The dashed line is the ideal that the stages' own times allow. Each point is"
    " labelled with the percentage of it that was reached.",
    rows=[Rows("Copy/Pipelined", ("speedup", "sequential_ms", "bound_ms", "pct_of_bound"))],
    x=X("pipeline_streams", "streams", axes.count_axis, field="streams"),
    y=Y("speedup", "speedup over sequential", axes.ratio_scale),
    reference="bound_speedup",
    tooltip=["pct_of_bound"],
    level=1.0,
    label="share",
    label_dy=13,
    derived={
        "bound_speedup": _ratio("sequential_ms", "bound_ms"),
        "share": lambda row: f"{row.counters['pct_of_bound']:.0f} %",
    },
    panel=naming.named("pipeline_streams", file=naming.unnamed),
    series=naming.by_file,
    columns=3,
)


CHARTS = (BANDWIDTH, COPIES, PIPELINE)
