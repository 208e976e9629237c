"""Times against grid: what the slowdown is made of."""

from collections.abc import Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.panels import Record, interval_bars, lay_out, parted, split
from overlapbench.charts.plot import plot, told
from overlapbench.charts.sweep import TIMES, grid_axis, select_sweeps, sweep_records
from overlapbench.result import Row
from overlapbench.theme import Drawing

# Drawn in this order, so that T lies above the others where they meet.
_STYLES = {
    "C: computation alone": theme.COMPUTATION,
    "M: communication alone": theme.COMMUNICATION,
    "T: both together": theme.VERMILION,
}
select = select_sweeps


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw C, M and T against grid, one panel a series, all at one scale."""
    curves = split(_one_time_each(sweep_records(rows)), "series")
    columns = min(2, len(curves))
    every_grid = grid_axis([record for curve in curves.values() for record in curve], columns)
    return lay_out(curves, lambda part: _panel(part, every_grid), columns, 240, y="shared")


def _one_time_each(records: Sequence[Record]) -> list[Record]:
    return [
        {key: value for key, value in record.items() if not key.startswith(TIMES)}
        | {"what": what}
        | {
            key.replace(counter, "time_ms"): value
            for key, value in record.items()
            if key.startswith(counter)
        }
        for record in records
        for counter, what in zip(TIMES, _STYLES, strict=True)
    ]


def _panel(records: Sequence[Record], x: alt.X) -> Drawing:
    legend = alt.Legend(orient="top", title=None)
    colour = theme.coloured("what", _STYLES, legend)
    shape = alt.Shape("what:N", scale=alt.Scale(domain=list(_STYLES)), legend=legend)
    y = alt.Y("time_ms:Q", title="time (ms)", scale=alt.Scale(type="log"))
    base = plot(records).encode(x=x, y=y, tooltip=told("what:N", "time_ms:Q"))
    good, bad = parted(base)
    return alt.layer(
        *interval_bars(base, records, y, colour),
        good.mark_line(strokeWidth=2).encode(color=colour),
        good.mark_point(filled=True, size=50, opacity=1).encode(color=colour, shape=shape),
        bad.mark_point(**theme.UNTRUSTED_POINT).encode(shape=shape),
    )
