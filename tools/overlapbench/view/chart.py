"""The table of charts, and how an entry of it becomes pictures.

This module adds titles and notes, in the same way for all charts; colours come from the theme. A
title states what the rows show (charts/findings.py) or, if nothing for certain, the topic.
A chart shows at most MOST_ROWS rows, and says so: a picture of more takes minutes, gigabytes, and
tells nothing.

Every chart draws figures of rows that are not `trusted` grey and hollow, and excludes them from
lines, knees and worst values.
"""

from collections import Counter
from collections.abc import Sequence

from overlapbench.reading.result import Result
from overlapbench.reading.rows import Row
from overlapbench.view.charts import laboratory, pairs, training
from overlapbench.view.charts.general import GENERAL
from overlapbench.view.charts.naming import joined, label, shared_axes
from overlapbench.view.charts.records import ChartKind
from overlapbench.view.vega import Drawing, chart_title, whole

CHARTS: Sequence[ChartKind] = (  # in the order in which they are shown
    *pairs.CHARTS,
    *training.CHARTS,
    *laboratory.CHARTS,
    GENERAL,
)
MOST_ROWS = 1000


def draw_charts(
    results: Sequence[Result], title: str, one_family_each: bool = False
) -> list[Drawing]:
    """Draw every chart for which the results contain rows, in the order of the table.

    A chart of several families is drawn once per family on request. Peers, whose names have an axis
    `peer`, belong to the family that they are compared with.
    """
    rows = [row for result in results for row in result.rows]
    charts = []
    for kind in CHARTS:
        selected = kind.select(rows)
        parts = _families(kind, selected) if one_family_each else {kind.name: selected}
        for name, part in parts.items():
            # Without curves that a cut leaves incomplete.
            shown = part if len(part) <= MOST_ROWS else kind.select(part[:MOST_ROWS])
            if shown:
                found = kind.finding([row for row in shown if row.trusted])
                notes = [*filter(None, [found and kind.title])]
                notes += _notes(kind, shown, results, len(part))
                heading = found or kind.title
                spec = whole(kind.draw(shown), chart_title(heading, [title, *notes]))
                charts.append(Drawing(name, heading, shown, notes, spec))
    return charts


def _families(kind: ChartKind, rows: Sequence[Row]) -> dict[str, Sequence[Row]]:
    """Divide the rows of a chart by family, if there are several."""
    own = [row for row in rows if row.name.axis("peer") is None]
    families = list(dict.fromkeys(row.name.family for row in own))
    if len(families) < 2:
        return {kind.name: rows}
    return {
        f"{kind.name}-{family.replace('/', '-')}": [
            row for row in rows if row.name.family == family or row.name.axis("peer")
        ]
        for family in families
    }


def _notes(
    kind: ChartKind, rows: Sequence[Row], results: Sequence[Result], selected: int
) -> list[str]:
    """Say where the figures come from, what they share, how to read them, and which are bad."""
    drawn_from = {row.file for row in rows}
    common = label("", shared_axes(rows))
    shown = [result for result in results if result.label in drawn_from]
    machines = list(dict.fromkeys(result.machine for result in shown))
    mixed = f"{' and '.join(machines)}: compare figures only within one of them."
    cut = f"Shows the first {len(rows)} of {selected} rows." if len(rows) < selected else ""
    told = [mixed if len(machines) > 1 else "", common, kind.reading, cut, _warning(rows)]
    return [*filter(None, [*map(_origin, shown), *told])]


def _origin(result: Result) -> str:
    ranks = str(result.context.get("ranks") or "")
    return joined(result.label, ranks and f"{ranks} {'rank' if ranks == '1' else 'ranks'}")


def _warning(rows: Sequence[Row]) -> str:
    states = Counter(row.state.value for row in rows if row.bad)
    bad = ", ".join(f"{count} {state}" for state, count in states.items())
    controls = sum(row.passed_control and not row.trusted for row in rows)
    what = "grey, and left out of lines, knees and worst values"
    parts = [f"Not to be trusted: {bad} of {len(rows)} rows: {what}."] if bad else []
    parts += [f"Negative controls passed: {controls}; also grey."] if controls else []
    return " ".join(parts)
