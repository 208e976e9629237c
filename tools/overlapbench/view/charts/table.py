"""The table of charts: the name of each, what it shows, and how to read it.

A new chart is one entry: its name (also of its files), its title, how to read it, a description of
the rows it needs, and its shape. Most are Curves (curve_chart.py), which are data. Any other chart
has its own module, which selects the rows and draws them with Altair.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from overlapbench.reading.counters import TIME
from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts import (
    attribution,
    axes,
    launch,
    link,
    matrix,
    mlp,
    naming,
    pairs,
    partition,
    priority,
    slowdown,
    steps,
    times,
    tokens,
)
from overlapbench.view.charts.copy_bandwidth import COPIES, by_kind_of_copy, with_peak
from overlapbench.view.charts.curve_chart import Curves, Rows, Stacked, X
from overlapbench.view.charts.curves import Figures
from overlapbench.view.series import KNEE_MEANING


class Shape(Protocol):
    """What a chart shows, and how: Curves, or a module with these two functions."""

    def select(self, rows: Sequence[Row], /) -> list[Row]:
        """Return the rows that the chart shows; if there are none, it is not drawn."""

    def draw(self, rows: Sequence[Row], /) -> theme.Drawing:
        """Draw those rows."""


@dataclass(frozen=True)
class ChartKind:
    """One entry of the table."""

    name: str
    title: str
    reading: str
    needs: str
    shape: Shape
    wide: bool = False  # cannot be drawn narrower on a narrow screen


def _ratio(dividend: str, divisor: str) -> Callable[[Row], float]:
    return lambda row: row.counters[dividend] / row.counters[divisor]


def _copy_share(family: str, axis: str, title: str) -> Curves:
    return Curves(
        rows=[Rows(f"{family}/*", ("pct_of_copy",), told={"family": family})],
        x=X(axis, title, axes.elements_axis, field="x"),
        figures=[
            Figures(
                "pct_of_copy",
                "% of a copy",
                axes.percent_scale,
                tooltip=["fused_speedup", "predicted_speedup"],
                level=100,
                level_style={"color": theme.GREY, "strokeDash": [4, 4]},
            )
        ],
        panel=naming.by(
            lambda row: f"{row.name.family} {row.name.axis('precision') or ''}".strip()
        ),
        series=naming.named("count", "columns", "precision", head=naming.by_workload),
        columns=6,
    )


CHARTS = (
    ChartKind(
        name="slowdown",
        title="Slowdown against grid",
        reading=f"The ring marks the knee: {KNEE_MEANING}.",
        needs="Overlap rows at two or more grids",
        shape=slowdown,
    ),
    ChartKind(
        name="times",
        title="Times against grid",
        reading="With perfect overlap, T would equal the higher of C and M.",
        needs="Overlap rows at two or more grids",
        shape=times,
    ),
    ChartKind(
        name="pairs",
        title="Slowdown of pairs",
        reading="For a pair measured at several grids, the cell shows the worst and its grid.",
        needs="Overlap rows",
        shape=pairs,
        wide=True,
    ),
    ChartKind(
        name="bandwidth",
        title="Bus bandwidth against size",
        reading="Each communication alone, as nccl-tests defines bus bandwidth.",
        needs="Comm rows with bytes and busbw_GBps",
        shape=Curves(
            rows=[Rows("Comm/*", known=["busbw_GBps"])],
            x=X("bytes", "size per rank", axes.size_axis, field="size_bytes"),
            figures=[
                Figures(
                    "busbw_GBps",
                    "bus bandwidth (GB/s)",
                    axes.zero_scale,
                    style=theme.series_style,
                    height=220,
                    alone=340,
                )
            ],
            panel=naming.where_transports_differ(naming.by_workload, naming.unnamed),
            series=naming.where_transports_differ(
                naming.named("transport", "bytes", head=naming.by_transport()),
                naming.named("bytes", head=naming.by_workload),
            ),
        ),
    ),
    ChartKind(
        name="copy_bandwidth",
        title="Copy bandwidth against size",
        reading="Both axes are logarithmic. With both directions busy, the bus carries the sum of"
        " the two panels.",
        needs="Copy/Bandwidth rows",
        shape=Curves(
            rows=COPIES,
            x=X("bytes", "size", axes.size_axis, field="size_bytes"),
            figures=[Figures("GBps", "GB/s", axes.log_scale, height=200)],
            series=by_kind_of_copy,
            scale_of_each="group",
            panel_title=with_peak,
        ),
    ),
    ChartKind(
        name="pipeline",
        title="Speedup of pipelines against streams",
        reading="The dashed line is the ideal that the stages' own times allow. Each point is"
        " labelled with the percentage of it that was reached.",
        needs="Copy/Pipelined rows",
        shape=Curves(
            rows=[Rows("Copy/Pipelined", ("speedup", "sequential_ms", "bound_ms", "pct_of_bound"))],
            x=X("pipeline_streams", "streams", axes.count_axis, field="streams"),
            figures=[
                Figures(
                    "speedup",
                    "speedup over sequential",
                    axes.ratio_scale,
                    reference="bound_speedup",
                    tooltip=["pct_of_bound"],
                    level=1.0,
                    label="share",
                    label_dy=13,
                )
            ],
            derived={
                "bound_speedup": _ratio("sequential_ms", "bound_ms"),
                "share": lambda row: f"{row.counters['pct_of_bound']:.0f} %",
            },
            panel=naming.named("pipeline_streams", file=naming.unnamed),
            series=naming.by_file,
            columns=3,
        ),
    ),
    ChartKind(
        name="compute_transfer",
        title="Transfers beside a computation, against buffers",
        reading="The dashed line is the same work serialized on one stream. Events or a"
        " waiting host tie the streams together.",
        needs="Copy/ComputeTransfer rows",
        shape=Curves(
            rows=[Rows("Copy/ComputeTransfer", ("sequential_ms", "speedup"))],
            x=X("buffers", "buffers", axes.level_axis),
            figures=[
                Figures(
                    "time_ms",
                    "time (ms)",
                    axes.zero_scale,
                    reference="sequential_ms",
                    tooltip=["speedup"],
                    interval=TIME,
                    alone=300,
                )
            ],
            derived={"time_ms": _ratio("sequential_ms", "speedup")},
            series=naming.named("buffers", defaults={"tie": "events"}),
        ),
    ),
    ChartKind(
        name="fragments",
        title="One transfer cut into fragments",
        reading="The dashed line is the same data in one transfer. Both axes are logarithmic.",
        needs="Copy/Fragmented rows",
        shape=Curves(
            rows=[Rows("Copy/Fragmented", ("one_transfer_ms", "fragmented_slowdown"))],
            x=X("fragments", "fragments", axes.count_axis),
            figures=[
                Figures(
                    "time_ms",
                    "time (ms)",
                    axes.log_scale,
                    reference="one_transfer_ms",
                    tooltip=["fragmented_slowdown"],
                    interval=TIME,
                    alone=340,
                )
            ],
            derived={
                "time_ms": lambda row: (
                    row.counters["one_transfer_ms"] * row.counters["fragmented_slowdown"]
                )
            },
            series=naming.named("fragments"),
        ),
    ),
    ChartKind(
        name="priority",
        title="Latency under a load, with and without priority",
        reading="gain is the second bar / the third: the speedup that priority gives.",
        needs="Priority rows",
        shape=priority,
    ),
    ChartKind(
        name="supply",
        title="Supply of batches against workers",
        reading="The dashed line, or tick, is predicted from making and consuming alone.",
        needs="Supply/Batches rows",
        shape=Curves(
            rows=[
                Rows(
                    "Supply/Batches",
                    ("batches_per_s", "predicted_batches_per_s"),
                    known=["device_idle_share"],
                )
            ],
            x=X("workers", "workers", axes.linear_axis, least=0),
            figures=[
                Figures(
                    "batches_per_s",
                    "batches per second",
                    axes.zero_scale,
                    reference="predicted_batches_per_s",
                    tooltip=["prediction_error_pct"],
                    alone=280,
                ),
                Figures(
                    "device_idle_share",
                    "device idle (share of the time)",
                    axes.share_scale,
                    alone=150,
                ),
            ],
            series=naming.named("workers"),
        ),
    ),
    ChartKind(
        name="launch",
        title="What launching kernels costs",
        reading="The axes are logarithmic. A round trip ends when the host knows that the kernel is"
        " done.",
        needs="Launch rows",
        shape=launch,
    ),
    ChartKind(
        name="copy_share",
        title="Share of a copy's bandwidth",
        reading="100 % is a copy of as many bytes as the kernel must move, in the same run.",
        needs="Gelu or Softmax rows",
        shape=Stacked(
            [
                _copy_share("Gelu", "count", "elements"),
                _copy_share("Softmax", "columns", "elements of a row"),
            ]
        ),
    ),
    ChartKind(
        name="mlp",
        title="Training a network",
        reading="Lines are least-squares fits: the slope is the cost of one more step or layer.",
        needs="Mlp rows at three numbers of steps or layers",
        shape=mlp,
    ),
    ChartKind(
        name="bubbles",
        title="Bubbles of pipelines against micro-batches",
        reading="The dashed line is the published formula, which neglects transfer times.",
        needs="Pp rows",
        shape=Curves(
            rows=[Rows("Pp/*", known=["bubble_share", "formula_bubble_share"])],
            x=X("microbatches", "micro-batches", axes.count_axis),
            figures=[
                Figures(
                    "bubble_share",
                    "bubbles (share of T)",
                    axes.difference_scale,
                    reference="formula_bubble_share",
                )
            ],
            panel=naming.by_workload,
            series=naming.named(
                "microbatches",
                head=naming.by(lambda row: row.name.family.removeprefix("Pp/")),
                alike=lambda row: row.name.workloads,
            ),
            columns=0,
            panel_by_panel=True,
        ),
    ),
    ChartKind(
        name="tokens",
        title="Tensor-parallel layers against tokens",
        reading="Each point is the fastest number of chunks, labelled with that number and the"
        " speedup over the plain form, which is dashed. The bound is dotted. The axes are"
        " logarithmic.",
        needs="Tp rows",
        shape=tokens,
    ),
    ChartKind(
        name="buckets",
        title="Exposed communication against the size of buckets",
        reading="The time of a data-parallel step beyond its computation alone. The dashed line is"
        " predicted from its parts, each measured alone.",
        needs="Ddp/Buckets rows",
        shape=Curves(
            rows=[Rows("Ddp/Buckets", known=["exposed_comm_ms", "bound_ms"])],
            x=X("bucket_bytes", "bucket size", axes.size_axis),
            figures=[
                Figures(
                    "exposed_comm_ms",
                    "exposed communication (ms)",
                    axes.difference_scale,
                    reference="predicted_ms",
                    tooltip=["step_overhead_pct"],
                    holds_intervals=True,
                    alone=300,
                )
            ],
            derived={
                "predicted_ms": lambda row: (
                    row.counters["bound_ms"] - (row.time_ms - row.counters["exposed_comm_ms"])
                )
            },
            series=naming.named(
                "transport", "bucket_bytes", head=naming.by_transport("in buckets")
            ),
        ),
    ),
    ChartKind(
        name="steps",
        title="What training steps expose, and why",
        reading="100 % is the step's computation alone. The tick marks the end of the plain form,"
        " in which nothing overlaps.",
        needs="rows of training steps",
        shape=steps,
        wide=True,
    ),
    ChartKind(
        name="link",
        title="Link bandwidth against SMs",
        reading=f"The ring marks the knee: the fewest SMs that reach {link.KNEE_SHARE:.0%} of the"
        " plateau, the highest point. Dashed lines use no SMs.",
        needs="Lab/Link rows that use SMs",
        shape=link,
    ),
    ChartKind(
        name="partition",
        title="Sharing the SMs between two sides",
        reading="Each cell shows T, and below it the slowdowns of the computation | of the"
        " communication. The frame marks the best T of a panel.",
        needs="Lab/Partition rows",
        shape=partition,
        wide=True,
    ),
    ChartKind(
        name="matrix",
        title="Who takes from whom",
        reading="Upper half of a cell: slowdown of the computation. Lower half: of the"
        " communication.",
        needs="Lab/Matrix rows",
        shape=matrix,
        wide=True,
    ),
    ChartKind(
        name="attribution",
        title="Where a slowdown comes from",
        reading="The tick is the measured slowdown - 1. If the stand-ins take more than the"
        " communication does, the bar extends past the tick, and the negative rest is drawn left of"
        f" zero. Slowdowns of at most {attribution.LEAST_SLOWDOWN:g} are not explained.",
        needs="Lab/Attribution rows",
        shape=attribution,
        wide=True,
    ),
)
