"""The report's page: the template filled, with its style, scripts and libraries inside.

All content of result files is untrusted. The template escapes it; the script reads its data from a
block of JSON, in which no character can end an element. A Content-Security-Policy allows only the
scripts and the style written here, by their hashes: nothing is loaded, sent or evaluated. So Vega
interprets its expressions (vega-interpreter) instead of compiling them.
"""

import base64
import hashlib
from collections.abc import Sequence

from markupsafe import Markup

from overlapbench.findings.energy import energy_answer
from overlapbench.findings.rules import find
from overlapbench.judge import wording
from overlapbench.judge.verdicts import Comparison
from overlapbench.prediction.model import Prediction
from overlapbench.reading.names import part_name
from overlapbench.view import breakdown, prediction
from overlapbench.view.charts.finish import KNEE_MEANING
from overlapbench.view.page import inserted, page_environment, render_template, vega_libraries
from overlapbench.view.report import tables
from overlapbench.view.report.runs import COLUMNS, Run
from overlapbench.view.timeline import Timeline
from overlapbench.view.timeline_picture import READING, draw_for_page
from overlapbench.view.vega import Drawing

_OPEN_UP_TO = 200  # rows; longer tables are folded until a reader, or a search, opens them


def render_report(
    title: str,
    runs: Sequence[Run],
    charts: Sequence[Drawing],
    comparison: Comparison | None = None,
    timelines: Sequence[Timeline] = (),
    left_out: Sequence[str] = (),  # traced rows
    predicted: Sequence[Prediction] = (),  # steps, beside what was measured
) -> bytes:
    """Return the page as UTF-8."""
    rows = [row for run in runs for row in run.result.rows]
    anchors = tables.Anchors(rows)
    judged = {row.name: row for row in comparison.rows} if comparison else {}
    sections = tables.make_sections(rows, runs[0].result.table)
    bad = [row for section in sections for row in section.rows if row.bad]
    shared, differing = tables.machine(runs)
    traced = [draw_for_page(one, f"timeline-{place}") for place, one in enumerate(timelines)]
    return render_template(
        "report/page.html",
        title=title,
        drawn=[*charts, *traced],
        traced=traced,
        left_out=left_out,
        predicted=[(one.name, prediction.cells(one)) for one in predicted],
        prediction_heads=prediction.HEADS,
        prediction_errors=prediction.errors(predicted),
        timeline_headings=[" ".join(head).replace("- ", "") for head in breakdown.HEADINGS],
        shares=breakdown.cells,
        timeline_reading=" ".join(READING),
        anchors=anchors,
        say=tables,
        wording=wording,
        judged=judged,
        hash_of=_hash_of,
        part_name=part_name,
        charts_of=lambda section: _charts_of(section, charts),
        tables=sections,
        open_up_to=_OPEN_UP_TO,
        knee=KNEE_MEANING,
        style=Markup(page_environment().get_template("report/style.css").render()),
        scripts=[inserted("report/tables.js"), vega_libraries(), inserted("charts.js")],
        bad=bad,
        controls=sum(row.passed_control for row in rows),
        runs=runs,
        mixed=len({run.result.machine for run in runs}) > 1,
        run_columns={
            key: column
            for key, column in COLUMNS.items()
            if any(run.result.context.get(key) for run in runs)
        },
        row_count=len(rows),
        findings=find([run.result for run in runs]),
        energy=energy_answer([run.result for run in runs]),
        worst=tables.worst_slowdown(rows),
        shared=shared,
        differing=differing,
        compared=comparison,
    )


def _charts_of(section: tables.Section, charts: Sequence[Drawing]) -> list[Drawing]:
    """Return the charts of a section; every chart has rows of only one."""
    rows = {(row.file, row.name) for row in section.rows}
    return [chart for chart in charts if (chart.rows[0].file, chart.rows[0].name) in rows]


def _hash_of(content: Markup) -> str:
    """Return the hash that lets a policy allow the content of an element."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
