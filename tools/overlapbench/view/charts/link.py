"""Bandwidth of the link between GPUs against the SMs that drive it.

A curve is a transport. Its ring marks the knee: the fewest SMs that reach KNEE_SHARE of its
plateau, its highest point. Copy engines take no SMs: a dashed line across the panel.
"""

from collections.abc import Sequence

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.axes import count_axis
from overlapbench.view.charts.curve_chart import Rows
from overlapbench.view.charts.naming import SM_AXES, by_workload, named, transport_names
from overlapbench.view.charts.panels import Record, bounds, lay_out, record_of, split
from overlapbench.view.charts.plot import interval_bars, parted, plot, ring_area, rings, told
from overlapbench.view.theme import Drawing

KNEE_SHARE = 0.95
_LINK = Rows("Lab/Link/*", above_zero=["GBps"])
_WAYS = {"Broadcast": "Broadcast: one way", "SendRecv": "SendRecv: both ways at once"}
_X_TITLE = "SMs (NCCL: CTAs) that the transport uses"
_TOLD = ("sms:Q", "GBps:Q", "GBps_per_sm:Q")
_HEADROOM = 1.08  # of the highest bandwidth
_LABEL_GAP = 0.06  # between names of dashed lines, as a share of the axis
_DASH = [6, 4]


def select(rows: Sequence[Row]) -> list[Row]:
    """Return the Lab/Link rows with a bandwidth, if any of them takes SMs."""
    found = [row for row in rows if _LINK.takes(row)]
    return found if any(_sms(row) for row in found) else []


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw a panel for each way to load the link, all at one scale."""
    records = _records(rows)
    parts = split(records, "way")
    x = count_axis("sms", [record["sms"] for record in records if record["sms"]], _X_TITLE)
    reach = max(record["GBps_high" if "GBps_high" in record else "GBps"] for record in records)
    scale = alt.Scale(domain=[0, _HEADROOM * reach], nice=False)
    colours = theme.cycle(list(split(records, "series")), theme.SERIES_COLOURS)

    def draw_panel(part: Sequence[Record]) -> Drawing:
        return _panel(part, x, scale, colours)

    return lay_out(parts, draw_panel, 2, 300, color="independent", shape="independent")


def _sms(row: Row) -> int:
    """Return the number of SMs that a row took, or else was given; 0 for a copy engine."""
    written = next((row.name.axis(axis) for axis in SM_AXES if row.name.axis(axis)), None) or "0"
    return round(row.counters.get("comm_sms", float(written) if written.isdecimal() else 0.0))


def _records(rows: Sequence[Row]) -> list[Record]:
    series = named("transport", *SM_AXES, head=transport_names)(rows)
    way = by_workload(rows)
    return [
        record_of(
            row,
            ["GBps", "GBps_per_sm"],
            way=_WAYS.get(way(row), way(row)),
            series=series(row),
            sms=_sms(row),
        )
        | bounds(row, "GBps")
        for row in rows
    ]


def _panel(
    records: Sequence[Record], x: alt.X, scale: alt.Scale, colours: dict[str, str]
) -> Drawing:
    points = [record for record in records if record["sms"]]
    knees = _knees(points, scale.domain[1])
    legend = {series: series for series in split(points, "series")} | {
        knee["series"]: f"{knee['series']}: knee at {knee['sms']}, plateau"
        f" {knee['plateau']:.0f} GB/s"
        for knee in knees
    }
    points = [point | {"curve": legend[point["series"]]} for point in points]
    knees = [mark | {"curve": legend[mark["series"]]} for mark in knees]
    colour, shape = _style(legend, colours)
    y = alt.Y("GBps:Q", title="GB/s", scale=scale)
    base = plot(points).encode(x=x, y=y, tooltip=told(*_TOLD))
    good, bad = parted(base)
    return alt.layer(
        *_references([record for record in records if not record["sms"]], scale, colours),
        *interval_bars(base, points, y, colour),
        good.mark_line(strokeWidth=2).encode(color=colour),
        rings(plot(knees).encode(x=x, y=y, color=colour, tooltip=told(*_TOLD))),
        bad.mark_point(**theme.UNTRUSTED_POINT).encode(shape=shape),
        good.mark_point(filled=True, size=50, opacity=1).encode(color=colour, shape=shape),
    )


def _knees(points: Sequence[Record], top: float) -> list[Record]:
    """Find each curve's knee; a ring around another is wider."""
    knees: list[Record] = []
    for curve in split([point for point in points if point["trusted"]], "series").values():
        plateau = max(point["GBps"] for point in curve)
        reached = [point for point in curve if point["GBps"] >= KNEE_SHARE * plateau]
        knee = min(reached, key=lambda point: int(point["sms"]))
        if len({point["sms"] for point in curve}) < 2:
            continue
        near = [
            other
            for other in knees
            if other["sms"] == knee["sms"] and abs(other["GBps"] - knee["GBps"]) < 0.03 * top
        ]
        knees.append(knee | {"plateau": plateau, "ring": ring_area(len(near))})
    return knees


def _style(legend: dict[str, str], colours: dict[str, str]) -> tuple[alt.Color, alt.Shape]:
    """Give a transport one colour and point shape in all panels."""
    shapes = theme.cycle(list(colours), theme.SERIES_SHAPES)
    colour = {curve: colours[series] for series, curve in legend.items()}
    scale = alt.Scale(domain=list(colour), range=[shapes[series] for series in legend])
    key = theme.key()
    return theme.coloured("curve", colour, key), alt.Shape("curve:N", scale=scale, legend=key)


def _references(
    records: Sequence[Record], scale: alt.Scale, colours: dict[str, str]
) -> list[alt.Chart]:
    """Draw transports without SMs across the panel, with names at the left that do not overlap.

    The name of the highest is above its line, the others are below theirs.
    """
    gap = _LABEL_GAP * scale.domain[1]
    y = alt.Y("GBps:Q", title="GB/s", scale=scale)
    layers: list[alt.Chart] = []
    highest_free = float("inf")
    for record in sorted(records, key=lambda record: -float(record["GBps"])):
        above = record["GBps"] + gap / 2
        at = min(record["GBps"] - gap / 2, highest_free) if layers else above
        highest_free = at - gap
        colour = colours[record["series"]] if record["trusted"] else theme.GREY
        text = f"{record['series']}, no SMs: {record['GBps']:.0f} GB/s"
        base = plot([record | {"label": text, "label_at": at}]).encode(tooltip=told(*_TOLD))
        label = base.encode(x=alt.value(6), y=alt.Y("label_at:Q", scale=scale), text="label:N")
        layers += [
            base.mark_rule(strokeDash=_DASH, strokeWidth=2, color=colour).encode(y=y),
            label.mark_text(style="halo", align="left"),
            label.mark_text(align="left", color=colour),
        ]
    return layers
