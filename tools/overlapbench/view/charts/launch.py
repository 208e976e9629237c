"""The cost of launches: of empty kernels, and of work cut into ever shorter kernels."""

from collections.abc import Sequence

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.axes import count_axis, log_scale
from overlapbench.view.charts.curve_chart import Curves, Rows, X, whole
from overlapbench.view.charts.curves import Figures, draw_curves
from overlapbench.view.charts.naming import Name, by_workload
from overlapbench.view.charts.panels import (
    FULL_WIDTH,
    Record,
    bounds,
    panel_title,
    record_of,
    split,
)
from overlapbench.view.charts.plot import haloed, plot
from overlapbench.view.series import file_names, label, shared_axes
from overlapbench.view.theme import Drawing

_RULE_LABEL_STEP = 16  # in pixels, so that the labels of close rules do not overlap
_PIECES = Rows("Launch/Pieces", ("pieces_slowdown", "kernel_us", "dominated_below_us"))
_SLOWDOWN = Figures(
    "pieces_slowdown",
    "time / time in one kernel",
    lambda values: log_scale([1.0, *values]),
    tooltip=["kernel_us", "launches", "dominated_below_us"],
)


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the Launch rows with the figures of a panel."""
    return [row for row in rows if _PIECES.takes(row) or _COSTS.takes(row)]


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw the cost of an empty kernel to host and device, above the cost of pieces."""
    # The legend lists a round trip last.
    costs = _COSTS.records(sorted(rows, key=lambda row: row.name.workloads == ("RoundTrip",)))
    cut = [row for row in rows if _PIECES.takes(row)]
    call = _by_call(cut, file_names(rows))
    pieces = [
        record_of(row, _PIECES.above_zero, series=call(row), launches=whole(row, "launches"))
        | bounds(row, "pieces_slowdown")
        for row in cut
    ]
    series = list(split([*costs, *pieces], "series"))
    drawings = [_COSTS.draw_records(costs, series)] if costs else []
    if pieces:
        said = {*shared_axes(rows), "call"}  # of all rows, by the chart, and by the legend
        title = label("one kernel's work cut into pieces", shared_axes(cut), said)
        drawings.append(_draw_pieces(pieces, series, title))
    return alt.vconcat(*drawings)


def _by_call(rows: Sequence[Row], file: Name) -> Name:
    """Name rows of a kernel by its way of launching, even if all use the same."""
    said = {"launches", *(shared_axes(rows) if rows else ())} - {"call"}
    workload = by_workload(rows)

    def name(row: Row) -> str:
        head = "" if row in rows else workload(row)
        return label(head, dict(row.name.axes), said, file(row)) or workload(row)

    return name


def _empty_kernels(counter: str, panel: str, workload: str = "EmptyKernel") -> Rows:
    return Rows(f"Launch/{workload}", (counter,), measured=counter, told={"panel": panel})


_TO_HOST = "host cost of an empty kernel"
_COSTS = Curves(
    rows=[
        _empty_kernels("host_us_per_launch", _TO_HOST),
        _empty_kernels("round_trip_us", _TO_HOST, "RoundTrip"),
        _empty_kernels("device_us_per_launch", "device cost of an empty kernel"),
    ],
    x=X("launches", "launches", count_axis, unwritten=1),
    figures=[Figures("us_per_launch", "µs per launch", log_scale)],
    series=lambda rows: _by_call(
        [row for row in rows if row.name.workloads == ("EmptyKernel",)], file_names(rows)
    ),
)


def _draw_pieces(records: Sequence[Record], series: Sequence[str], title: str) -> Drawing:
    lengths = [record[key] for record in records for key in ("kernel_us", "dominated_below_us")]
    x = alt.X(
        "kernel_us:Q",
        title="length of one kernel (µs)",
        scale=log_scale(lengths),
        axis=alt.Axis(format="~g", tickCount=6),
    )
    curves = draw_curves(records, x, _SLOWDOWN, _SLOWDOWN.scale_of(records), series)
    return alt.layer(_domination(records, x, series), curves).properties(
        title=panel_title(title, 1), width=FULL_WIDTH, height=260
    )


def _domination(records: Sequence[Record], x: alt.X, series: Sequence[str]) -> Drawing:
    """Draw the length below which launches dominate, from the shortest trusted kernels."""
    good = [record for record in records if not record["problem"]]
    rules = []
    for step, curve in enumerate(split(good, "series").values()):
        shortest = min(curve, key=lambda record: float(record["kernel_us"]))
        length_us = shortest["dominated_below_us"]
        rules.append(
            {
                "series": shortest["series"],
                "kernel_us": length_us,  # the place of the rule
                "label": f"launches dominate below {length_us:.2g} µs",
                "label_y": 10 + _RULE_LABEL_STEP * step,
            }
        )
    colour, _ = theme.curve_style(series)
    base = plot(rules).encode(x=x, color=colour)
    label = base.encode(y=alt.Y("label_y:Q", scale=None, axis=None), text="label:N")
    return alt.layer(base.mark_rule(), *haloed(label, align="left", dx=5))
