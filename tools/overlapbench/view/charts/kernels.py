"""Charts of the launches of kernels, and of priority."""

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts import axes, naming
from overlapbench.view.charts.bars import Bar, Bars
from overlapbench.view.charts.curves import Curves, X, Y
from overlapbench.view.charts.naming import joined
from overlapbench.view.charts.records import Rows, bounds
from overlapbench.view.vega import Record

_LATENCIES = {"alone": theme.GREEN, "more, beside the load": theme.BLUE}
_PRIORITIES = {"high": "high priority", "equal": "control: equal priority"}


def _latency(row: Row) -> Bar:
    """Divide the latency beside the load into that alone, and what the load adds."""
    alone_ms, equal_ms, ms = (
        row.counters[f"latency{which}_ms"] for which in ("_alone", "_equal", "")
    )
    if not row.trusted:
        return Bar(ms, ms, joined(f"{ms:.3f} ms", row.state.value))
    parts: list[Record] = [
        {"part": part, "adds": adds, "gain": row.counters["gain"]} | bounds(row, "latency_ms")
        for part, adds in zip(_LATENCIES, (alone_ms, ms - alone_ms), strict=True)
    ]
    text = joined(f"{ms:.3f} ms", f"gain {row.counters['gain']:.2f}")
    return Bar(equal_ms, max(equal_ms, ms), text, parts)


PRIORITY = Bars(
    name="priority",
    title="Latency under a load, with and without priority",
    reading="The tick is the latency with equal priority. gain is that / the bar: the speedup that"
    " priority gives.",
    rows=Rows(
        "Priority/*",
        known=["gain", "latency_alone_ms", "latency_equal_ms", "latency_ms"],
        when=lambda row: row.name.axis("priority") in _PRIORITIES,
    ),
    label=naming.named("priority", head=naming.by(lambda row: " beside ".join(row.name.workloads))),
    bar=_latency,
    colours=_LATENCIES,
    x_title="latency (ms)",
    panel=naming.by(lambda row: _PRIORITIES[row.name.axis("priority") or ""]),
    tooltip=["gain", "latency_ms_low", "latency_ms_high"],
    text_room=2.2,
)


# A kernel by its way of launching, even if all use the same.
_BY_CALL = naming.named(
    "launches",
    head=naming.by(lambda row: "RoundTrip" if row.name.workloads == ("RoundTrip",) else ""),
    alike=lambda row: row.name.workloads,
    defaults={"call": ""},
)


LAUNCH = Curves(
    name="launch",
    title="What launching kernels costs",
    reading="The axes are logarithmic. A round trip ends when the host knows that the kernel is"
    " done.",
    rows=[
        Rows(f"Launch/{kernel}", (counter,), measured=counter, told={"panel": f"{cost} kernel"})
        for kernel, counter, cost in (
            ("EmptyKernel", "host_us_per_launch", "host cost of an empty"),
            ("RoundTrip", "round_trip_us", "host cost of an empty"),
            ("EmptyKernel", "device_us_per_launch", "device cost of an empty"),
        )
    ],
    x=X("launches", "launches", axes.count_axis, unwritten=1),
    y=Y("us_per_launch", "µs per launch", axes.log_scale),
    series=_BY_CALL,
)
CHARTS = (PRIORITY, LAUNCH)
