"""The history as text, for programs and as a picture: its runs, and the changes of level.

The trend chart has a panel for each benchmark, a curve for each machine, a rule for each change.
All panels share the x axis, time, so that simultaneous events align. Each benchmark has its own y
axis, which does not begin at 0, since a change of some percent must be visible. It is not narrower
than what counts as a change, so that noise does not fill it.
"""

import itertools
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence

from overlapbench.grouping import grouped
from overlapbench.judge.history import Run
from overlapbench.judge.series import LEAST_RUNS, Change, Found, Series
from overlapbench.judge.wording import percent
from overlapbench.output import ResultError, counted
from overlapbench.reading.counters import Counter
from overlapbench.reading.names import part_name
from overlapbench.statistics.intervals import digits
from overlapbench.statistics.levels import LEAST_CHANGE, LEAST_SEGMENT
from overlapbench.view import theme, vega
from overlapbench.view.charts.naming import describe, joined
from overlapbench.view.console import Entry, Screen, folded, table
from overlapbench.view.vega import Record, Spec

SCHEMA = "1"  # of the JSON
MOST_PANELS = 60
_READING = (
    "A dashed line marks the first run of a new level, labelled with the change:"
    " red for the worse, green for the better."
)
_COLUMNS = 3
_HEIGHT = 150
_LABEL_STEP = 15
# Aligned by their axes, not by labels outside them.
_GRID: Spec = {"bounds": "flush", "spacing": {"column": 80, "row": 75}}
_VERDICT_COLOURS = {"worse": theme.VERMILION, "better": theme.GREEN, "changed": theme.GREY}
_COLOURS = {"worse": "bold red", "better": "green"}


# ---- as text and as JSON


def list_runs(screen: Screen, runs: Sequence[Run]) -> str:
    """Return a line for each run, below its machine."""
    entries = [
        Entry(str(machine), [_cells(run) for run in of_machine])
        for machine, of_machine in itertools.groupby(runs, lambda run: run.machine)
    ]
    heads = ("run", "date", "revision", "file", "rows", "bad")
    return table(screen, heads, entries, words=4, title="machine")


def _cells(run: Run) -> tuple[str, ...]:
    counts = str(len(run.measured)), str(run.problems or "")
    return (str(run.id), _date(run), run.revision, run.source, *counts)


def list_changes(screen: Screen, counter: Counter, found: Found) -> str:
    """Return each change, and the number of series with too few runs."""
    entries = [
        _entry(series.benchmark, str(series.machine), change)
        for series, changes in found
        for change in changes or ()
    ]
    heads = ("verdict", "change", f"before {counter.label}", "after", "runs")
    text = table(screen, heads, entries, title="benchmark") if entries else ""
    return text + "".join(f"{folded(sentence, screen)}\n" for sentence in _summary(found))


def _entry(benchmark: str, machine: str, change: Change) -> Entry:
    figures = percent(change.natural), digits(change.before), digits(change.after)
    row = (change.direction, *figures, "{} / {}".format(*change.runs))
    last, first = (
        f"{run.revision or 'unknown'} ({_date(run)})" for run in (change.last, change.first)
    )
    note = f"between {last} and {first}, on {machine}"
    return Entry(benchmark, [row], note, _COLOURS.get(change.direction, ""))


def _summary(found: Found) -> Iterator[str]:
    told = [changes for _, changes in found if changes is not None]
    yield (
        f"{sum(map(len, told))} changes in {len(told)} series; detecting one"
        f" takes {LEAST_SEGMENT} runs at the new level"
    )
    if short := len(found) - len(told):
        yield f"inconclusive: {short} series have fewer than {LEAST_RUNS} usable runs"


def _date(run: Run) -> str:
    """Write the date, which is in UTC, shorter than the history keeps it."""
    return f"{run.date[:19]}Z"


def runs_json(runs: Sequence[Run]) -> str:
    return _json({"runs": [_record(run) for run in runs]})


def changes_json(counter: Counter, found: Found) -> str:
    changes = [
        {
            "benchmark": series.benchmark,
            "machine": dict(series.machine.fields),
            "verdict": change.direction,
            "change": change.natural,
            "before": change.before,
            "after": change.after,
            "runs": change.runs,
            "last": _record(change.last),
            "first": _record(change.first),
        }
        for series, changes in found
        for change in changes or ()
    ]
    short = [series.benchmark for series, changes in found if changes is None]
    return _json({"metric": counter.name, "changes": changes, "inconclusive": short})


def _record(run: Run) -> Record:
    told = {"id": run.id, "date": run.date, "revision": run.revision, "host": run.host}
    counts = {"benchmarks": len(run.measured), "problems": run.problems}
    return told | {"source": run.source, "machine": dict(run.machine.fields)} | counts


def _json(document: Record) -> str:
    written = {"overlapbench_history": SCHEMA, **document}
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


# ---- as a picture


def draw_trend(counter: Counter, found: Found, title: str) -> Spec:
    """Return the specification; ResultError if there is nothing to draw.

    Of too many benchmarks, those that changed most are drawn, and then the first ones.
    """
    parts = grouped(found, lambda one: one[0].benchmark)
    if not parts:
        name = counter.name
        raise ResultError(f"no matching benchmark has {name}: check --benchmark and --metric")
    left_out = ""
    if len(parts) > MOST_PANELS:
        left_out = (
            f"{MOST_PANELS} of {len(parts)} benchmarks: those that changed most, then the first;"
            " --benchmark chooses others"
        )
        chosen = set(sorted(parts, key=lambda name: -_largest(parts[name]))[:MOST_PANELS])
        parts = {name: part for name, part in parts.items() if name in chosen}
        found = [one for part in parts.values() for one in part]
    machines = sorted({str(series.machine) for series, _ in found})
    titles, common = _titles(list(parts))
    columns = min(_COLUMNS, len(parts))
    dates = [point.run.date for series, _ in found for point in series.points]
    x = vega.field(
        "date:T",
        title=None,
        scale={"domain": [min(dates), max(dates)], "type": "utc", "padding": 8},
        axis={"labelOverlap": True, "tickCount": 4},
    )
    panels = {titles[name]: part for name, part in parts.items()}
    reading = _READING if any(changes for _, changes in found) else ""
    lines = [title, *machines * (len(machines) == 1), common, left_out, reading]
    count = sum(len(changes or ()) for _, changes in found)
    told = f"{counted(count, 'change')} of {counter.label} in {len(found)} series"
    heading = vega.chart_title(told if count else f"Trend of {counter.label}", lines)
    drawn = vega.lay_out(panels, lambda part: _panel(counter, part, x, machines), columns, _HEIGHT)
    return vega.whole(drawn | _GRID, heading)


def _largest(part: Sequence[tuple[Series, Sequence[Change] | None]]) -> float:
    """Return the largest change of a benchmark's level, in either direction."""
    sizes = (abs(change.badness) for _, changes in part for change in changes or ())
    return max(sizes, default=0.0)


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
    colour = theme.curve_style(dict.fromkeys(machines, ""))["color"]
    if len(machines) == 1:
        colour["legend"] = None
    told: Spec = {"tooltip": vega.tooltip("date:T", "value:Q", "revision:N", "run:Q", "series:N")}
    curve = {"x": x, "y": vega.field("value:Q", title=counter.label, scale=scale), "color": colour}
    rule: Spec = {"x": x, "color": vega.field("colour:N", scale=None)}
    rule["tooltip"] = vega.tooltip("date:T", "revision:N", "label:N")
    text = rule | {
        "text": vega.field("label:N"),
        "y": vega.field("label_y:Q", scale=None, axis=None),
    }
    layers = [
        vega.mark("rule", rule, "", marks, strokeDash=[4, 3], strokeWidth=1.5),
        vega.mark("line", curve | told, strokeWidth=1, opacity=0.5),
        vega.mark("point", curve | told, filled=True, size=25, opacity=1),
        *vega.haloed(text, "", marks, align="right", dx=-4, fontWeight="bold"),
    ]
    return vega.panel(layers, points)


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
