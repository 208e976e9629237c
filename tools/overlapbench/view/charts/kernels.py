"""Charts of single kernels and their launches, of priority, and of the supply of batches."""

from collections.abc import Sequence

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts import axes, finish, naming
from overlapbench.view.charts.bars import Bar, Bars
from overlapbench.view.charts.curves import Curves, Figures, Stacked, X
from overlapbench.view.charts.naming import Name
from overlapbench.view.charts.records import Rows, bounds, kind_of, whole
from overlapbench.view.series import file_names, joined, label, shared_axes
from overlapbench.view.vega import Record

_LATENCIES = {  # the bars of a group, from the top
    "latency_alone_ms": ("alone", theme.GREEN),
    "latency_equal_ms": ("beside the load, equal priority", theme.ORANGE),
    "latency_ms": ("beside the load, priority of this column", theme.BLUE),
}
_PRIORITIES = {
    "high": "work on a high-priority stream",
    "equal": "control: equal priority, so no gain is possible",
}


def _by_load(rows: Sequence[Row]) -> Name:
    """Name a pair in words, with its differences from others on further lines."""
    leave_out, file = {"priority", *shared_axes(rows)}, file_names(rows)

    def name(row: Row) -> str:
        work, load = row.name.workloads
        apart = label("", dict(row.name.axes), leave_out)
        return "\n".join(filter(None, [work, f"beside a load of {load}", apart, file(row)]))

    return name


def _latencies(row: Row) -> Bar:
    gain = f"gain {row.counters['gain']:.2f}" if row.trusted else row.state.value
    parts: list[Record] = [
        {"part": what, "adds": row.counters[counter], "gain": row.counters["gain"]}
        | {"text": joined(f"{row.counters[counter]:.3f} ms", gain * (counter == "latency_ms"))}
        | bounds(row, counter, "adds")
        for counter, (what, _) in _LATENCIES.items()
    ]
    return Bar(0, 0, "", parts)


PRIORITY = Bars(
    name="priority",
    title="Latency under a load, with and without priority",
    reading="gain is the second bar / the third: the speedup that priority gives.",
    rows=Rows(
        "Priority/*",
        known=["gain", *_LATENCIES],
        when=lambda row: row.name.axis("priority") in _PRIORITIES,
    ),
    label=_by_load,
    bar=_latencies,
    colours=dict(_LATENCIES.values()),
    x_title="latency (ms)",
    panel=naming.by(lambda row: _PRIORITIES[row.name.axis("priority") or ""]),
    tooltip=["gain"],
    apart=True,
    text_room=1.5,
)


SUPPLY = Curves(
    name="supply",
    title="Supply of batches against workers",
    reading="The dashed line, or tick, is predicted from making and consuming alone.",
    rows=[
        Rows(
            "Supply/Batches",
            ("batches_per_s", "predicted_batches_per_s"),
            known=["device_idle_share"],
        )
    ],
    x=X("workers", "workers", axes.linear_axis, least=0),
    figures=Figures(
        "batches_per_s",
        "batches per second",
        axes.zero_scale,
        reference="predicted_batches_per_s",
        tooltip=["prediction_error_pct"],
        alone=280,
    ),
    below=Figures(
        "device_idle_share", "device idle (share of the time)", axes.share_scale, alone=150
    ),
    series=naming.named(),
)


def _launches(kernel: str, counter: str, panel: str) -> Rows:
    return Rows(f"Launch/{kernel}", (counter,), measured=counter, told={"panel": panel})


# A kernel by its way of launching, even if all use the same.
_BY_CALL = naming.named(
    "launches",
    head=naming.by(lambda row: "RoundTrip" if row.name.workloads == ("RoundTrip",) else ""),
    alike=lambda row: row.name.workloads,
    defaults={"call": ""},
)


def _of_pieces(rows: Sequence[Row]) -> Name:
    cut = [row for row in rows if kind_of(row) == "Launch/Pieces"]
    said = {*shared_axes(rows), "call"}  # of all rows, by the chart, and by the legend
    title = label("one kernel's work cut into pieces", shared_axes(cut), said) if cut else ""
    return lambda _: title


_TO_HOST = "host cost of an empty kernel"
LAUNCH = Stacked(
    name="launch",
    title="What launching kernels costs",
    reading="The axes are logarithmic. A round trip ends when the host knows that the kernel is"
    " done.",
    charts=[
        Curves(
            rows=[
                _launches("EmptyKernel", "host_us_per_launch", _TO_HOST),
                _launches("RoundTrip", "round_trip_us", _TO_HOST),
                _launches("EmptyKernel", "device_us_per_launch", "device cost of an empty kernel"),
            ],
            x=X("launches", "launches", axes.count_axis, unwritten=1),
            figures=Figures("us_per_launch", "µs per launch", axes.log_scale),
            series=_BY_CALL,
        ),
        Curves(
            rows=[Rows("Launch/Pieces", ("pieces_slowdown", "kernel_us", "dominated_below_us"))],
            x=X(
                "launches",
                "length of one kernel (µs)",
                axes.smooth_axis,
                field="kernel_us",
                value=lambda row: row.counters.get("kernel_us"),
            ),
            figures=Figures(
                "pieces_slowdown",
                "time / time in one kernel",
                axes.ratio_log_scale,
                tooltip=["kernel_us", "launches", "dominated_below_us"],
                height=260,
            ),
            panel=_of_pieces,
            derived={"launches": lambda row: whole(row, "launches")},
            series=_BY_CALL,
            finish=finish.mark_domination,
            columns=0,
        ),
    ],
    own_legends=False,
)


def _copy_share(family: str, axis: str, title: str) -> Curves:
    return Curves(
        rows=[Rows(f"{family}/*", ("pct_of_copy",), told={"family": family})],
        x=X(axis, title, axes.elements_axis, field="x"),
        figures=Figures(
            "pct_of_copy",
            "% of a copy",
            axes.percent_scale,
            tooltip=["fused_speedup", "predicted_speedup"],
            level=100,
            level_style={"color": theme.GREY, "strokeDash": [4, 4]},
        ),
        panel=naming.by(lambda row: " ".join([row.name.family, row.name.axis("precision") or ""])),
        series=naming.named("count", "columns", "precision", head=naming.by_workload),
        columns=6,
    )


COPY_SHARES = Stacked(
    name="copy_share",
    title="Share of a copy's bandwidth",
    reading="100 % is a copy of as many bytes as the kernel must move, in the same run.",
    charts=[
        _copy_share("Gelu", "count", "elements"),
        _copy_share("Softmax", "columns", "elements of a row"),
    ],
)

CHARTS = (PRIORITY, SUPPLY, LAUNCH, COPY_SHARES)
