"""The history as text, for programs and as a picture: its runs, and the changes of level.

The trend chart has a panel for each benchmark, a curve for each machine, a rule for each change.
All panels share the x axis, time, so that simultaneous events align. Each benchmark has its own y
axis, which does not begin at 0, since a change of some percent must be visible. It is not narrower
than what counts as a change, so that noise does not fill it.
"""

import itertools
import json
import statistics
from collections.abc import Iterator, Sequence

from overlapbench.grouping import grouped
from overlapbench.judge.history import Run
from overlapbench.judge.series import LEAST_RUNS, Change, Found, Series
from overlapbench.judge.wording import percent
from overlapbench.output import ResultError, counted
from overlapbench.reading.counters import Counter
from overlapbench.statistics.intervals import digits
from overlapbench.statistics.levels import LEAST_CHANGE, LEAST_SEGMENT
from overlapbench.view import theme, vega
from overlapbench.view.charts.axes import CLOSE
from overlapbench.view.charts.curves import Curves, X, Y
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
_AXIS: Spec = {"labelOverlap": True, "tickCount": 4}
_DATES = X("date", "", lambda *_: ("T", {"scale": {"type": "utc", "padding": 8}, "axis": _AXIS}))
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

    Of too many benchmarks, those that changed most are drawn.
    """
    parts = grouped(found, lambda one: one[0].benchmark)
    if not parts:
        name = counter.name
        raise ResultError(f"no matching benchmark has {name}: check --benchmark and --metric")
    shown = sorted(parts, key=lambda name: -_largest(parts[name]))[:MOST_PANELS]
    left_out = (
        f"{MOST_PANELS} of {len(parts)} benchmarks: those that changed most, then the first;"
        " --benchmark chooses others"
    )
    changes = sum(len(changes or ()) for _, changes in found)
    lines = [title, left_out * (len(parts) > MOST_PANELS), _READING * bool(changes)]
    told = f"{counted(changes, 'change')} of {counter.label} in {len(found)} series"
    heading = vega.chart_title(told if changes else f"Trend of {counter.label}", lines)
    points = {name: [one for series, _ in parts[name] for one in _points(series)] for name in shown}
    every = [point for of_one in points.values() for point in of_one]

    def draw(name: str) -> Spec:
        values = [point["value"] for point in points[name]]
        margin = LEAST_CHANGE * abs(statistics.median(values))
        ends = [statistics.median(values) - margin, statistics.median(values) + margin]
        y = Y("value", counter.label, CLOSE, ends)
        chart = Curves(x=_DATES, y=y, tooltip=["revision:N", "run"])
        panel = chart.draw_panel(points[name], every, _COLUMNS)
        changed = (change for _, changes in parts[name] for change in changes or ())
        marks = [_mark(change, place) for place, change in enumerate(changed)]
        return panel | {
            "layer": [*_rules(marks, panel["layer"][-1]["encoding"]["x"]), *panel["layer"]]
        }

    drawn = vega.lay_out({name: name for name in parts if name in shown}, draw, _COLUMNS, _HEIGHT)
    return vega.whole(drawn | {"resolve": {"scale": {"x": "shared"}}}, heading)


def _largest(part: Found) -> float:
    """Return the largest change of a benchmark's level, in either direction."""
    sizes = (abs(change.badness) for _, changes in part for change in changes or ())
    return max(sizes, default=0.0)


def _points(series: Series) -> Iterator[Record]:
    for point in series.points:
        run = point.run
        about = {"date": run.date, "revision": run.revision, "run": run.id, "trusted": True}
        yield about | {"value": point.value, "series": str(series.machine), "transport": ""}


def _rules(marks: Sequence[Record], x: Spec) -> list[Spec]:
    rule: Spec = {"x": x, "color": vega.field("colour:N", scale=None)}
    rule["tooltip"] = vega.tooltip("date:T", "revision:N", "label:N")
    height = vega.field("label_y:Q", scale=None, axis=None)
    text = rule | {"text": vega.field("label:N"), "y": height}
    return [
        vega.mark("rule", rule, "", marks, strokeDash=[4, 3], strokeWidth=1.5),
        *vega.haloed(text, "", marks, align="right", dx=-4, fontWeight="bold"),
    ]


def _mark(change: Change, place: int) -> Record:
    return {
        "date": change.first.date,
        "revision": change.first.revision,
        "label": percent(change.natural),
        "label_y": _LABEL_STEP / 2 + place * _LABEL_STEP % _HEIGHT,  # so that none is hidden
        "colour": _VERDICT_COLOURS[change.direction],
    }
