"""Predictions for people: a table, a sentence of advice, and a chart."""

from collections.abc import Sequence
from itertools import compress

from overlapbench.grouping import grouped
from overlapbench.output import counted
from overlapbench.prediction.model import Prediction
from overlapbench.reading.names import part_name
from overlapbench.statistics.intervals import digits
from overlapbench.view import vega
from overlapbench.view.charts.axes import FROM_ZERO, count_axis
from overlapbench.view.charts.curves import Curves, X, Y
from overlapbench.view.charts.naming import STANDING_TRANSPORT
from overlapbench.view.console import Entry, Screen, folded, table
from overlapbench.view.vega import Spec

HEADS = ("GPUs", "nodes", "GB/s", "ms", "interval", "comp", "link", "contention", "prior",
          "measured", "error")  # fmt: skip


def text_of(found: Sequence[Prediction], screen: Screen) -> str:
    """Write a table with a line for each prediction, without columns that are empty."""
    lines = [cells(one) for one in found]
    filled = [any(column) for column in zip(*lines, strict=True)]
    heads = [*compress(HEADS, filled)]
    entries = [
        Entry(name, [[*compress(cells(one), filled)] for one in same])
        for name, same in grouped(found, lambda one: one.name).items()
    ]
    return table(screen, heads, entries, words=0)


def cells(one: Prediction) -> tuple[str, ...]:
    shares = (one.computation, one.link, one.contention, one.prior)
    return (
        str(one.ranks),
        str(one.hosts),
        f"{one.network.GBps:g}" if one.network else "",
        digits(one.ms),
        f"{digits(one.low, 3)} to {digits(one.high, 3)}",
        *(f"{100 * share / one.ms:.0f} %" for share in shares),
        "" if one.measured is None else digits(one.measured),
        "" if one.error is None else f"{100 * one.error:+.1f} %",
    )


def errors(found: Sequence[Prediction]) -> str:
    """Say how far the predictions of measured steps are off; "" without any."""
    off = [100 * abs(one.error) for one in found if one.error is not None]
    if not off:
        return ""
    steps = counted(len(off), "step")
    return f"{steps}: {sum(off) / len(off):.1f} % off on average, {max(off):.1f} % at most"


def advice(found: Sequence[Prediction], screen: Screen) -> str:
    """Name the fastest of several settings on the same GPUs, if its interval tells it apart."""
    return "".join(f"\n{folded(line, screen)}\n" for line in _fastest(found))


def _fastest(found: Sequence[Prediction]) -> list[str]:
    def place(one: Prediction) -> tuple[object, ...]:
        return *one.name.split("/")[:2], one.ranks, one.hosts, one.network

    told = []
    for group in grouped(found, place).values():
        best, slowest = min(group, key=lambda one: one.ms), max(group, key=lambda one: one.ms)
        if best.high < slowest.low:
            line = f"{best.name}: {_time(best)} on {best.ranks} GPUs, instead of"
            told.append(f"{line} {digits(slowest.ms)}")
    return told


def picture(found: Sequence[Prediction], suffix: str) -> bytes:
    """Draw them, with the extra [charts]."""
    from overlapbench.view import page

    return page.render(specification(found), suffix)


def specification(found: Sequence[Prediction]) -> Spec:
    """Draw step time and efficiency against the number of GPUs, a curve for each setting.

    The efficiency is that of the same step on the fewest GPUs, on which it may need no network.
    """
    first = {
        name: min(same, key=lambda one: one.ranks).ms
        for name, same in grouped(found, lambda one: one.name).items()
    }
    records = [
        {"name": one.name, "series": _curve(one), "transport": _transport(one), "trusted": True}
        | {"gpus": one.ranks, "ms": one.ms, "ms_low": one.low, "ms_high": one.high}
        | {"efficiency": 100 * first[one.name] / one.ms}
        for one in found
    ]

    def draw(figure: str) -> Spec:
        x, y = X("gpus", "GPUs", count_axis), Y(figure, "", FROM_ZERO)
        return Curves(x=x, y=y, tooltip=["gpus", "efficiency"]).draw_panel(records, records, 2)

    panels = {"step time (ms)": "ms", "efficiency (%)": "efficiency"}
    drawn = vega.lay_out(panels, draw, most_columns=2, height=260)
    largest = max(found, key=lambda one: (one.ranks, -one.ms))
    topic = f"On {largest.ranks} GPUs, the step takes {_time(largest)}"
    return vega.whole(drawn, vega.chart_title(next(iter(_fastest(found)), topic), []))


def _time(one: Prediction) -> str:
    return f"{digits(one.ms)} ms ({digits(one.low)} to {digits(one.high)})"


def _transport(one: Prediction) -> str:
    axes = (axis.partition(":") for axis in part_name(one.name)[1])
    return next((value for axis, _, value in axes if axis == "transport"), STANDING_TRANSPORT)


def _curve(one: Prediction) -> str:
    return one.name + (f", {one.network.GBps:g} GB/s" if one.network else "")
