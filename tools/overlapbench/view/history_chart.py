"""The trend chart: a panel for each benchmark, a curve for each machine, a rule for each change.

All panels share the x axis, time, so that simultaneous events align. Each benchmark has its own y
axis, which does not begin at 0, since a change of some percent must be visible. It is not narrower
than what counts as a change, so that noise does not fill it.
"""

import statistics
from collections.abc import Mapping, Sequence

from overlapbench.grouping import grouped
from overlapbench.judge.series import Change, Found, Series
from overlapbench.judge.wording import percent
from overlapbench.output import ResultError
from overlapbench.reading.counters import Counter
from overlapbench.reading.names import part_name
from overlapbench.statistics.levels import LEAST_CHANGE
from overlapbench.view import theme
from overlapbench.view.series import describe, joined
from overlapbench.view.vega import (
    Record,
    Spec,
    chart_title,
    field,
    haloed,
    lay_out,
    mark,
    panel,
    tooltip,
    whole,
)

MOST_PANELS = 60
_COLUMNS = 3
_HEIGHT = 150
_LABEL_STEP = 15
# Aligned by their axes, not by labels outside them.
_GRID: Spec = {"bounds": "flush", "spacing": {"column": 80, "row": 75}}
_VERDICT_COLOURS = {"worse": theme.VERMILION, "better": theme.GREEN, "changed": theme.GREY}


def draw_trend(counter: Counter, found: Found, title: str) -> Spec:
    """Return the specification; ResultError if there is nothing to draw, or too much."""
    parts = grouped(found, lambda one: one[0].benchmark)
    if not parts:
        name = counter.name
        raise ResultError(f"no matching benchmark has {name}: check --benchmark and --metric")
    if len(parts) > MOST_PANELS:
        raise ResultError(
            f"{len(parts)} benchmarks: at most {MOST_PANELS} fit into a chart: narrow --benchmark"
        )
    machines = sorted({str(series.machine) for series, _ in found})
    titles, common = _titles(list(parts))
    columns = min(_COLUMNS, len(parts))
    dates = [point.run.date for series, _ in found for point in series.points]
    x = field(
        "date:T",
        title=None,
        scale={"domain": [min(dates), max(dates)], "type": "utc", "padding": 8},
        axis={"labelOverlap": True, "tickCount": 4},
    )
    panels = {titles[name]: part for name, part in parts.items()}
    lines = [title, *machines * (len(machines) == 1), common, _reading(found)]
    heading = chart_title(f"Trend of {counter.label}", lines)
    drawn = lay_out(panels, lambda part: _panel(counter, part, x, machines), columns, _HEIGHT)
    return whole(drawn | _GRID, heading)


def _panel(
    counter: Counter,
    part: Sequence[tuple[Series, Sequence[Change] | None]],
    x: Spec,
    machines: Sequence[str],
) -> Spec:
    points = [record for series, _ in part for record in _points(series)]
    changed = (change for _, changes in part for change in changes or ())
    marks = [_mark(change, place) for place, change in enumerate(changed)]
    scale = {"zero": False, "nice": True, "domain": _domain([one["value"] for one in points])}
    colour = theme.curve_style({machine: place for place, machine in enumerate(machines)})["color"]
    if len(machines) == 1:
        colour["legend"] = None
    told: Spec = {"tooltip": tooltip("date:T", "value:Q", "revision:N", "run:Q", "series:N")}
    curve = {"x": x, "y": field("value:Q", title=counter.label, scale=scale), "color": colour}
    rule: Spec = {"x": x, "color": field("colour:N", scale=None)}
    rule["tooltip"] = tooltip("date:T", "revision:N", "label:N")
    text = rule | {"text": field("label:N"), "y": field("label_y:Q", scale=None, axis=None)}
    layers = [
        mark("rule", rule, "", marks, strokeDash=[4, 3], strokeWidth=1.5),
        mark("line", curve | told, strokeWidth=1, opacity=0.5),
        mark("point", curve | told, filled=True, size=25, opacity=1),
        *haloed(text, "", marks, align="right", dx=-4, fontWeight="bold"),
    ]
    return panel(layers, points)


def _points(series: Series) -> list[Record]:
    return [
        {
            "date": point.run.date,
            "value": point.value,
            "revision": point.run.revision,
            "run": point.run.id,
            "series": str(series.machine),
        }
        for point in series.points
    ]


def _domain(values: Sequence[float]) -> list[float]:
    middle = statistics.median(values)
    margin = LEAST_CHANGE * abs(middle)
    return [min(*values, middle - margin), max(*values, middle + margin)]


def _mark(change: Change, place: int) -> Record:
    return {
        "date": change.first.date,
        "revision": change.first.revision,
        "label": percent(change.natural),
        "label_y": _LABEL_STEP / 2 + place * _LABEL_STEP % _HEIGHT,  # so that none is hidden
        "colour": _VERDICT_COLOURS[change.direction],
    }


def _titles(names: Sequence[str]) -> tuple[Mapping[str, str], str]:
    """Name each panel by its differences; also return what all names have in common."""
    parts = {name: part_name(name) for name in names}
    axes = {
        name: [describe(*a.split(":", 1)) if ":" in a else a for a in parts[name][1]]
        for name in names
    }
    shared = set.intersection(*map(set, axes.values())) if names[1:] else set()
    titles = {
        name: joined("/".join(parts[name][0]), *(a for a in axes[name] if a not in shared))
        for name in names
    }
    return titles, joined(*(a for a in axes[names[0]] if a in shared))


def _reading(found: Found) -> str:
    if not any(changes for _, changes in found):
        return ""
    return (
        "A dashed line marks the first run of a new level, labelled with the change:"
        " red for the worse, green for the better."
    )
