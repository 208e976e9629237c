"""Slowdown against grid: at how many blocks the computation begins to disturb the communication."""

from collections.abc import Sequence

import altair as alt

from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.charts.panels import Record, lay_out, panel_size, split
from overlapbench.view.charts.plot import (
    haloed,
    interval_bars,
    parted,
    plot,
    ring_area,
    rings,
    tooltip,
)
from overlapbench.view.charts.times import grid_axis, grid_records, select
from overlapbench.view.series import knee
from overlapbench.view.theme import Drawing

_CURVES_A_PANEL = 6  # that are distinguishable; more are split into a panel for each pair
_TOLD = ("name", "file", "grid", "problem")  # in tooltips, beside the slowdown
_TOOLTIP = tooltip([*(f"{field}:N" for field in _TOLD), "slowdown:Q"])
_LABEL_HEIGHT = 0.05  # of a knee's label, as a share of the plot
_TITLE = "slowdown T / max(C, M): 1 is perfect overlap"

__all__ = ["draw", "select"]


def draw(rows: Sequence[Row]) -> Drawing:
    """Draw slowdown against grid, one curve per series, all panels at one scale."""
    records = grid_records(rows)
    many = len(split(records, "series")) > _CURVES_A_PANEL
    parts = split(records, "pair") if many else {"": records}
    columns = min(2, len(parts))
    low, high = _range(records)
    gap = _LABEL_HEIGHT * (high - low)
    knees = {title: _knees(part, gap) for title, part in parts.items()}
    labels = [mark["label_at"] + gap for marks in knees.values() for mark in marks]
    scale = alt.Scale(domain=[low, max([high, *labels])], nice=False, zero=False)
    grids = grid_axis(records, columns)

    def draw_panel(part: Sequence[Record]) -> Drawing:
        return _panel(part, knees[part[0]["pair"] if many else ""], grids, scale)

    if not many:
        return draw_panel(records).properties(**panel_size(columns, 380))
    return lay_out(parts, draw_panel, 2, 380, color="independent", strokeDash="independent")


def _range(records: Sequence[Record]) -> tuple[float, float]:
    """Leave room for the rule at 1.0, and a margin."""
    fields = ("slowdown", "slowdown_low", "slowdown_high")
    told = ("slowdown",), fields  # of an untrusted row, and of a trusted one
    values = [r[field] for r in records for field in told[r["trusted"]] if field in r]
    low, high = min(0.95, *values), max(1.1, *values)
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _knees(records: Sequence[Record], gap: float) -> list[Record]:
    """Find each curve's knee; `label_at` keeps labels over one grid at least `gap` apart."""
    found = []
    for curve in split(records, "series").values():
        good = [record for record in curve if record["trusted"]]
        index = knee([record["slowdown"] for record in good])
        if index is not None:
            at = good[index]
            above = {"above": at.get("slowdown_high", at["slowdown"])}
            found.append({key: at[key] for key in ("series", "slowdown", *_TOLD)} | above)
    for marks in split(sorted(found, key=lambda mark: mark["slowdown"]), "grid").values():
        lowest_free = 0.0
        for place, mark in enumerate(marks):
            inside = [one for one in marks[:place] if mark["slowdown"] - one["slowdown"] < gap]
            mark["ring"] = ring_area(len(inside))
            mark["label"] = f"knee {mark['slowdown']:.2f}"
            mark["label_at"] = max(mark["above"] + 0.8 * gap, lowest_free)
            lowest_free = mark["label_at"] + gap
    return found


def _panel(
    records: Sequence[Record], knees: Sequence[Record], x: alt.X, scale: alt.Scale
) -> Drawing:
    colour, dash = theme.series_style(list(split(records, "series")))
    y = alt.Y("slowdown:Q", title=_TITLE, scale=scale)
    base = plot(records).encode(x=x, y=y, tooltip=_TOOLTIP)
    good, bad = parted(base)
    # Points come last, so that no ring or label hides one or takes its tooltip.
    return alt.layer(
        plot([{"perfect": 1.0}]).mark_rule().encode(y=alt.Y("perfect:Q", scale=scale)),
        *interval_bars(base, records, y, colour),
        good.mark_line(strokeWidth=2).encode(color=colour, strokeDash=dash),
        *_knee_marks(knees, scale, colour),
        bad.mark_point(**theme.UNTRUSTED_POINT),
        good.mark_point(filled=True, size=50, opacity=1).encode(color=colour),
    )


def _knee_marks(knees: Sequence[Record], scale: alt.Scale, colour: alt.Color) -> list[alt.Chart]:
    """Draw a ring around each knee, wider around another ring, and its slowdown above it."""
    base = plot(knees).encode(x="grid:O", tooltip=_TOOLTIP)
    ring = rings(base).encode(y=alt.Y("slowdown:Q", scale=scale), color=colour)
    label = base.encode(y=alt.Y("label_at:Q", scale=scale), text="label:N")
    halo, text = haloed(label, fontWeight="bold")
    return [ring, halo, text.encode(color=colour)]
