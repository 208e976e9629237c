"""Latency of the work that matters: alone, beside a load at equal priority, and with priority."""

from collections.abc import Sequence

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.curve_chart import Rows
from overlapbench.view.charts.panels import Record, bounds, panel_title, record_of, split
from overlapbench.view.charts.plot import Plot, parted, told
from overlapbench.view.series import SEPARATOR, file_names, label, shared_axes
from overlapbench.view.theme import Drawing

# The bars of a group, from the top: their names, counters and colours.
_BARS = (
    ("alone", "latency_alone_ms", theme.GREEN),
    ("beside the load, equal priority", "latency_equal_ms", theme.ORANGE),
    ("beside the load, priority of this column", "latency_ms", theme.BLUE),
)
_COLUMNS = {
    "high": "work on a high-priority stream",
    "equal": "control: equal priority, so no gain is possible",
}
_BAR_STEP = 19
_GAIN_ROOM = 1.5  # of the longest bar, for the text beside bars


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the Priority rows with the three latencies and the gain."""
    measured = Rows("Priority/*", known=["gain", *(counter for _, counter, _ in _BARS)])
    return [row for row in rows if measured.takes(row) and row.name.axis("priority") in _COLUMNS]


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw a group of three bars per pair, the controls beside the others."""
    records = _records(rows)
    parts = split(records, "column")
    longest = max(record["reach"] for record in records)
    colours = {what: colour for what, _, colour in _BARS}
    base = Plot().encode(
        x=_x("latency_ms", longest),
        y=alt.Y("what:N", title=None, axis=None, scale=alt.Scale(domain=list(colours))),
        tooltip=told("what:N", "latency_ms:Q", "gain:Q"),
    )
    good, bad = parted(base)
    legend = alt.Legend(orient="bottom", title=None, columns=len(colours))
    colour = theme.coloured("what", colours, legend)
    bars = alt.layer(
        good.mark_bar().encode(color=colour),
        bad.mark_bar(**theme.UNTRUSTED_BAR),
        *_interval_bars(base, records, longest),
        base.mark_text(align="left", dx=5).encode(x=_x("reach", longest), text="text:N"),
        width=(theme.WIDTH - 20) // len(parts) - 20,
        height=_BAR_STEP * len(_BARS),
    )
    panels = (
        _groups(bars, parts[title]).properties(title=panel_title(title, len(parts)))
        for title in _COLUMNS.values()
        if title in parts
    )
    return alt.hconcat(*panels, spacing=20)


def _x(field: str, longest: float) -> alt.X:
    scale = alt.Scale(domain=[0, _GAIN_ROOM * longest], nice=False)
    return alt.X(f"{field}:Q", title="latency (ms)", scale=scale)


def _interval_bars(base: alt.Chart, records: Sequence[Record], longest: float) -> list[alt.Chart]:
    if not any("latency_ms_low" in record for record in records):
        return []
    known = base.transform_filter("isValid(datum.latency_ms_low)")
    ends = {"x": _x("latency_ms_low", longest), "x2": "latency_ms_high"}
    return [known.mark_rule(strokeWidth=2, clip=True).encode(**ends)]


def _groups(bars: alt.LayerChart | alt.FacetChart, records: Sequence[Record]) -> alt.FacetChart:
    """Draw the bars of each pair below those of the one before."""
    header = alt.Header(
        title=None, labelOrient="top", labelAnchor="start", labelExpr="split(datum.label, '\\n')"
    )
    chart: alt.FacetChart = bars.facet(
        row=alt.Row("group:N", sort=list(split(records, "group")), header=header),
        spacing=26,
        data=alt.InlineData(values=list(records)),
    )
    return chart


def _records(rows: Sequence[Row]) -> list[Record]:
    """Make one record per bar; the same pairs of several files are adjacent."""
    leave_out = {"priority", *shared_axes(rows)}
    file = file_names(rows)
    pairs = list(dict.fromkeys(_group(row, leave_out) for row in rows))
    ordered = sorted(rows, key=lambda row: pairs.index(_group(row, leave_out)))
    return [
        record_of(
            row,
            ["gain"],
            group=_group(row, leave_out, file(row)),
            column=_COLUMNS[row.name.axis("priority") or ""],
            what=what,
            latency_ms=row.counters[counter],
            reach=row.intervals.get(counter, (0.0, row.counters[counter]))[1],
            text=_text(row, counter),
        )
        | bounds(row, counter, "latency_ms")
        for row in ordered
        for what, counter, _ in _BARS
    ]


def _group(row: Row, leave_out: set[str], file: str = "") -> str:
    """Name a pair in words, with its differences from others on a second line."""
    work, load = row.name.workloads
    apart = label("", dict(row.name.axes), leave_out, file)
    return "\n".join(filter(None, [f"{work} beside a load of {load}", apart]))


def _text(row: Row, counter: str) -> str:
    """Write the latency beside its bar, and the gain beside the last."""
    figure = f"{row.counters[counter]:.3f} ms"
    if counter != _BARS[-1][1]:
        return figure
    return f"{figure}{SEPARATOR}" + (
        f"gain {row.counters['gain']:.2f}" if row.trusted else row.state.value
    )
