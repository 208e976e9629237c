"""Slowdown against grid: at how many blocks the computation begins to disturb the communication."""

from collections.abc import Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.panels import Record, panel_size, panel_title, split
from overlapbench.charts.sweep import grid_axis, sweep_records
from overlapbench.result import Row
from overlapbench.series import knee
from overlapbench.theme import Drawing

_CURVES_A_PANEL = 6  # that can be told apart; more are split into a panel for each pair
_TOLD = ("name", "file", "grid", "problem")  # in tooltips, beside the slowdown
_LABEL_HEIGHT = 0.05  # of a knee's label, as a share of the plot


def draw_slowdown(rows: Sequence[Row]) -> Drawing:
    """Draw slowdown against grid, one curve a series, all panels at one scale."""
    records = sweep_records(rows)
    many = len(split(records, "series")) > _CURVES_A_PANEL
    parts = split(records, "pair") if many else {"": records}
    columns = min(2, len(parts))
    low, high = _range(records)
    gap = _LABEL_HEIGHT * (high - low)
    knees = {title: _knees(part, gap) for title, part in parts.items()}
    labels = [mark["label_at"] + gap for marks in knees.values() for mark in marks]
    scale = alt.Scale(domain=[low, max([high, *labels])], nice=False, zero=False)
    panels = {
        title: _panel(part, knees[title], grid_axis(records, columns), scale).properties(
            **panel_size(columns, 380)
        )
        for title, part in parts.items()
    }
    if not many:
        return panels[""]
    titled = (
        panel.properties(title=panel_title(title, columns)) for title, panel in panels.items()
    )
    chart: alt.ConcatChart = alt.concat(*titled, columns=columns).resolve_scale(
        color="independent", strokeDash="independent"
    )
    return chart


def _range(records: Sequence[Record]) -> tuple[float, float]:
    """Leave room for the rule at 1.0 and its label, and a margin."""
    values = [record["slowdown"] for record in records]
    low, high = min(0.95, *values), max(1.1, *values)
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _knees(records: Sequence[Record], gap: float) -> list[Record]:
    """Find each curve's knee; `label_at` keeps labels over one grid at least `gap` apart."""
    found = []
    for curve in split(records, "series").values():
        good = [record for record in curve if not record["problem"]]
        index = knee([record["slowdown"] for record in good])
        if index is not None:
            found.append({key: good[index][key] for key in ("series", "slowdown", *_TOLD)})
    lowest_free: dict[str, float] = {}
    for mark in sorted(found, key=lambda mark: mark["slowdown"]):
        mark["label"] = f"knee {mark['slowdown']:.2f}"
        mark["label_at"] = max(mark["slowdown"] + 0.8 * gap, lowest_free.get(mark["grid"], 0.0))
        lowest_free[mark["grid"]] = mark["label_at"] + gap
    return found


def _panel(
    records: Sequence[Record], knees: Sequence[Record], x: alt.X, scale: alt.Scale
) -> Drawing:
    colour, dash = theme.series_style(list(split(records, "series")))
    base = alt.Chart(alt.InlineData(values=list(records))).encode(
        x=x,
        y=alt.Y("slowdown:Q", title="slowdown T / max(C, M)", scale=scale),
        tooltip=_tooltip(),
    )
    good = base.transform_filter("datum.problem === ''")
    bad = base.transform_filter("datum.problem !== ''")
    return alt.layer(
        *_perfect_overlap(scale),
        good.mark_line(strokeWidth=2).encode(color=colour, strokeDash=dash),
        good.mark_point(filled=True, size=50, opacity=1).encode(color=colour),
        bad.mark_point(**theme.UNTRUSTED_POINT),
        *_knee_marks(knees, scale, colour),
    )


def _tooltip() -> list[str]:
    return [*(f"{field}:N" for field in _TOLD), "slowdown:Q"]


def _perfect_overlap(scale: alt.Scale) -> tuple[alt.Chart, alt.Chart]:
    """Draw the rule at 1.0 and say what it means."""
    at_one = alt.Chart(alt.InlineData(values=[{"perfect": 1.0}])).encode(
        y=alt.Y("perfect:Q", scale=scale)
    )
    return at_one.mark_rule(), at_one.mark_text(
        align="right", baseline="top", dx=-6, dy=5, text="perfect overlap"
    ).encode(x=alt.value("width"))


def _knee_marks(
    knees: Sequence[Record], scale: alt.Scale, colour: alt.Color
) -> tuple[alt.Chart, alt.Chart, alt.Chart]:
    """Ring each knee, which hides its point, and write its slowdown above it, over any line."""
    base = alt.Chart(alt.InlineData(values=list(knees))).encode(x="grid:O", tooltip=_tooltip())
    ring = base.mark_point(size=220, strokeWidth=2, opacity=1)
    label = base.encode(y=alt.Y("label_at:Q", scale=scale), text="label:N")
    return (
        ring.encode(y=alt.Y("slowdown:Q", scale=scale), color=colour),
        label.mark_text(style="halo", fontWeight="bold"),
        label.mark_text(fontWeight="bold").encode(color=colour),
    )
