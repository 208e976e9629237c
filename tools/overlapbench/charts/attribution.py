"""Where a slowdown comes from: what each shared resource adds to it, one bar a pair.

A bar is as long as the excess, slowdown - 1, and its parts are the measured shares of it. A share
may be negative by noise: it then stands left of zero, and the others reach beyond the excess.
"""

from collections.abc import Callable, Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.lab import has_pair, order_title, orders_of, state_text, transport_names
from overlapbench.charts.panels import Record, identity, parted, split
from overlapbench.charts.plot import Plot, tooltip
from overlapbench.result import Row
from overlapbench.series import SEPARATOR, describe
from overlapbench.theme import Drawing

LEAST_SLOWDOWN = 1.1  # below, shares of the excess are shares of noise
# Counter, what it is called, and its colour.
_CAUSES = (
    ("by_sm", "SMs", theme.BLUE),
    ("by_hbm", "device memory", theme.ORANGE),
    ("by_l2", "L2", theme.GREEN),
    ("by_clock", "clock", theme.PURPLE),
    ("residual", "unexplained", theme.SKY),
)
_STEP = 22  # of a bar
_LETTER_WIDTH = 6.2
_MARGINS = 60
_TEXT_ROOM = 1.3  # of the longest bar: what is written beside it must fit
_TITLE = "slowdown - 1: what both together cost beyond the longer side"


def select_attributions(rows: Sequence[Row]) -> list[Row]:
    """Return the Lab/Attribution rows with shares: those with a slowdown worth explaining."""
    shares = {counter for counter, _, _ in _CAUSES}
    return [
        row
        for row in rows
        if has_pair(row, "Lab/Attribution", "slowdown") and shares <= row.counters.keys()
    ]


def draw_attributions(rows: Sequence[Row]) -> Drawing:
    """Draw the bars; a pair without a slowdown worth explaining has a line that says so."""
    bars = _bars(rows)
    parts = [part for row, bar in zip(rows, bars, strict=True) for part in _parts(row, bar)]
    low = 1.1 * min([0.0, *(part["from"] for part in parts), *(part["to"] for part in parts)])
    high = max([0.1, *(bar["reach"] for bar in bars)])
    scale = alt.Scale(domain=[low, _TEXT_ROOM * high], nice=False)
    names = list(split(bars, "pair"))
    y = alt.Y(
        "pair:N",
        title=None,
        scale=alt.Scale(domain=names),
        axis=alt.Axis(**theme.CELL_AXIS),
    )
    letters = max(map(len, names))
    return alt.layer(
        *_stacks(parts, y, scale),
        *_ends(bars, y, scale),
        width=theme.WIDTH - _MARGINS - _LETTER_WIDTH * letters,
        height=_STEP * len(names),
    )


def _bars(rows: Sequence[Row]) -> list[Record]:
    """Make the record of each row's whole bar, and what stands at its end."""
    name = _names(rows)
    bars = []
    for row in rows:
        excess = row.counters["slowdown"] - 1
        parts = [excess * row.counters[counter] for counter, _, _ in _CAUSES]
        explained = row.trusted and row.counters["slowdown"] > LEAST_SLOWDOWN
        reach = sum(part for part in parts if part > 0) if explained else max(0.0, excess)
        bars.append(
            identity(row)
            | {
                "pair": name(row),
                "slowdown": row.counters["slowdown"],
                "excess": max(0.0, excess),
                "explained": explained,
                "reach": reach if explained or not row.trusted else 0.0,
                "text": _text(row, explained),
            }
        )
    return bars


def _text(row: Row, explained: bool) -> str:
    figure = f"{row.counters['slowdown']:.2f}"
    if not row.trusted:
        return f"{figure}{SEPARATOR}{state_text(row)}"
    return figure if explained else f"{figure}: no slowdown to explain"


def _parts(row: Row, bar: Record) -> list[Record]:
    """Stack the parts of a row's bar: negative ones leftwards from zero."""
    if not bar["explained"]:
        return []
    ends = {True: 0.0, False: 0.0}  # by whether a part is positive
    parts = []
    for counter, cause, _ in _CAUSES:
        share = row.counters[counter]
        start = ends[share >= 0]
        ends[share >= 0] = start + share * bar["excess"]
        low, high = row.intervals.get(counter, (None, None))
        parts.append(
            bar
            | {"cause": cause, "share": share, "adds": share * bar["excess"]}
            | {"from": start, "to": ends[share >= 0]}
            | ({"share_low": low, "share_high": high} if low is not None else {})
        )
    return parts


def _names(rows: Sequence[Row]) -> Callable[[Row], str]:
    """Return what names a row: its workloads, and what sets it apart from others of these."""
    transport, order = transport_names(rows), orders_of(rows)
    orders = {order(row) for row in rows}
    files = {row.file for row in rows}
    values: dict[tuple[tuple[str, ...], str], set[str]] = {}
    for row in rows:
        for axis, value in row.name.axes:
            values.setdefault((row.name.workloads, axis), set()).add(value)

    def name(row: Row) -> str:
        communication, computation = row.name.workloads
        axes = [
            describe(axis, value)
            for axis, value in row.name.axes
            if axis not in ("transport", "first") and len(values[row.name.workloads, axis]) > 1
        ]
        carried = [" ".join(filter(None, [communication, transport(row)]))]
        started = [order_title(order(row))] if len(orders) > 1 else []
        file = [row.file] if len(files) > 1 else []
        apart = SEPARATOR.join([*carried, *axes, *started, *file])
        return f"{computation} beside {apart}"

    return name


def _stacks(parts: Sequence[Record], y: alt.Y, scale: alt.Scale) -> list[alt.Chart]:
    if not parts:
        return []
    causes = [cause for _, cause, _ in _CAUSES]
    colour = alt.Color(
        "cause:N",
        scale=alt.Scale(domain=causes, range=[colour for _, _, colour in _CAUSES]),
        legend=alt.Legend(orient="bottom", title=None, columns=len(causes)),
    )
    told = ("slowdown", "adds", "share", "share_low", "share_high")
    base = Plot(alt.InlineData(values=list(parts))).encode(
        x=alt.X("from:Q", title=_TITLE, scale=scale),
        x2="to",
        y=y,
        color=colour,
        tooltip=tooltip(["name:N", "file:N", "cause:N", *(f"{field}:Q" for field in told)]),
    )
    return [base.mark_bar(height=_STEP * 0.6)]


def _ends(bars: Sequence[Record], y: alt.Y, scale: alt.Scale) -> list[alt.Chart]:
    """Write the slowdown behind each bar, and draw those hollow that are not to be trusted."""
    base = Plot(alt.InlineData(values=list(bars))).encode(
        y=y, tooltip=tooltip(["name:N", "file:N", "slowdown:Q", "problem:N"])
    )
    good, bad = parted(base)
    x = alt.X("excess:Q", title=_TITLE, scale=scale)
    return [
        bad.mark_bar(height=_STEP * 0.6, **theme.UNTRUSTED_BAR).encode(x=x),
        good.transform_filter("datum.explained")
        .mark_tick(thickness=3, opacity=1, height=_STEP * 0.8, color=theme.GREY)
        .encode(x=x),
        base.mark_text(align="left", dx=6).encode(
            x=alt.X("reach:Q", title=_TITLE, scale=scale), text="text:N"
        ),
    ]
