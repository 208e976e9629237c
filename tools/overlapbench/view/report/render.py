"""The report's page: the template filled, with its style, scripts and libraries inside.

All content of result files is untrusted. The template escapes it; the script reads its data from a
block of JSON, in which no character can end an element. A Content-Security-Policy allows only the
scripts and the style written here, by their hashes: nothing is loaded, sent or evaluated. So Vega
interprets its expressions (vega-interpreter) instead of compiling them.
"""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from overlapbench.judge.verdicts import Comparison
from overlapbench.judge.wording import cells
from overlapbench.judge.wording import summary as comparison_summary
from overlapbench.view import breakdown
from overlapbench.view.chart import Chart
from overlapbench.view.page import charts_script, page_environment, render_template, vega_libraries
from overlapbench.view.report import summary
from overlapbench.view.report.runs import COLUMNS, Run
from overlapbench.view.report.tables import (
    Anchors,
    Section,
    figure,
    make_tables,
    meaning,
    split_axes,
)
from overlapbench.view.report.tuned import Tuned
from overlapbench.view.series import KNEE_MEANING
from overlapbench.view.timeline import Timeline
from overlapbench.view.timeline_picture import READING, draw_for_page

_FOLDER = Path(__file__).parent
_OPEN_UP_TO = 200  # rows; longer tables are folded until a reader, or a search, opens them


def render_report(
    title: str,
    runs: Sequence[Run],
    charts: Sequence[Chart],
    comparison: Comparison | None = None,
    tuned: Sequence[Tuned] = (),
    timelines: Sequence[Timeline] = (),
    left_out: Sequence[str] = (),  # traced rows
) -> bytes:
    """Return the page as UTF-8."""
    rows = [row for run in runs for row in run.result.rows]
    anchors = Anchors(rows)
    judged = {row.name: row for row in comparison.rows} if comparison else {}
    tables = make_tables(rows, runs[0].result.table, anchors, judged)
    bad = [line for table in tables for line in table.lines if line.state]
    shared, differing = summary.machine(runs)
    traced = [draw_for_page(one, f"timeline-{place}") for place, one in enumerate(timelines)]
    return render_template(
        "report/page.html",
        title=title,
        drawn=[*charts, *traced],
        traced=traced,
        left_out=left_out,
        timeline_headings=[" ".join(head).replace("- ", "") for head in breakdown.HEADINGS],
        shares=breakdown.cells,
        timeline_reading=" ".join(READING),
        anchors=anchors,
        figure=figure,
        hash_of=_hash_of,
        meaning=meaning,
        cells=cells,
        split_axes=split_axes,
        charts_of=lambda table: _charts_of(table, charts),
        tables=tables,
        tuned=tuned,
        open_up_to=_OPEN_UP_TO,
        knee=KNEE_MEANING,
        style=Markup(page_environment().get_template("report/style.css").render()),
        scripts=[
            Markup((_FOLDER / "tables.js").read_text(encoding="utf-8")),
            vega_libraries(),
            charts_script(),
        ],
        bad=bad,
        causes=summary.causes(bad),
        controls=sum(row.passed_control for row in rows),
        runs=runs,
        run_columns={
            key: column
            for key, column in COLUMNS.items()
            if any(run.result.context.get(key) for run in runs)
        },
        several=len(runs) > 1,
        row_count=len(rows),
        worst=summary.worst_slowdowns(tables),
        shared=shared,
        differing=differing,
        compared=comparison,
        counts=comparison.counts if comparison else {},
        sentences=comparison_summary(comparison)[1:] if comparison else [],
        changes=summary.list_changes(comparison) if comparison else [],
    )


def _charts_of(table: Section, charts: Sequence[Chart]) -> list[Chart]:
    """Return the charts of a section; every chart has rows of only one."""
    lines = {(line.row.file, line.row.name) for line in table.lines}
    return [chart for chart in charts if (chart.rows[0].file, chart.rows[0].name) in lines]


def _hash_of(content: Markup) -> str:
    """Return the hash that lets a policy allow the content of an element."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
