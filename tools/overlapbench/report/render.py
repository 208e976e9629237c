"""The report's page: the template filled, with its style, scripts and libraries inside.

Whatever comes from a result file is untrusted. The template escapes it; what the script needs is a
block of JSON, in which no character can end an element. A Content-Security-Policy allows the
scripts and the style written here, by their hashes, and nothing else: nothing is loaded, sent or
evaluated. So Vega interprets its expressions (vega-interpreter) instead of compiling them.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from overlapbench.chart import Chart
from overlapbench.compare.verdicts import Comparison
from overlapbench.page import chart_looks, charts_script, page_environment, vega_libraries
from overlapbench.report import summary
from overlapbench.report.datatables import datatables
from overlapbench.report.runs import Run
from overlapbench.report.tables import Anchors, Rows, figure, make_tables
from overlapbench.report.timelines import NONE, Timelines
from overlapbench.report.tuned import Tuned
from overlapbench.series import KNEE_MEANING
from overlapbench.trace.picture import READING
from overlapbench.trace.report import HEADINGS

_FOLDER = Path(__file__).parent
_OPEN_UP_TO = 200  # rows; longer tables are folded until a reader, or a search, opens them


@dataclass(frozen=True)
class Report:
    """What a page is made of."""

    title: str
    runs: Sequence[Run]
    charts: Sequence[Chart]
    comparison: Comparison | None = None
    tuned: Sequence[Tuned] = ()
    timelines: Timelines = NONE


def render_report(report: Report) -> bytes:
    """Return the page as UTF-8."""
    rows = [row for run in report.runs for row in run.result.rows]
    anchors = Anchors(rows)
    comparison = report.comparison
    judged = {row.name: row for row in comparison.rows} if comparison else {}
    tables = make_tables(rows, report.runs[0].result.table, anchors, judged)
    environment = page_environment()
    environment.filters["figure"] = figure
    page = environment.get_template("report/page.html").render(
        title=report.title,
        drawn=[*report.charts, *(traced.picture for traced in report.timelines.shown)],
        timelines=report.timelines,
        timeline_headings=[" ".join(heading).replace("- ", "") for heading in HEADINGS],
        timeline_reading=" ".join(READING),
        find=anchors.find,
        charts={table.section.name: _charts_of(table, report.charts) for table in tables},
        tables=tables,
        tuned=report.tuned,
        open_up_to=_OPEN_UP_TO,
        knee=KNEE_MEANING,
        looks=chart_looks(),
        style=_style(environment),
        scripts=[
            _Inline(datatables()),
            _tables_script(),
            _Inline(vega_libraries()),
            _Inline(charts_script()),
        ],
        **_about_runs(report.runs, tables),
        **_about_changes(comparison, anchors),
    )
    return page.encode(errors="replace")  # halves of characters, which JSON can hold


def _about_runs(runs: Sequence[Run], tables: Sequence[Rows]) -> dict[str, object]:
    shared, differing = summary.machine(runs)
    lines = [line for table in tables for line in table.lines]
    bad = [line for line in lines if line.state]
    return {
        "bad": bad,
        "causes": summary.causes(bad),
        "controls": sum(line.row.passed_control for line in lines),
        "runs": summary.list_runs(runs),
        "run_columns": summary.run_columns(runs),
        "several": len(runs) > 1,
        "row_count": sum(len(run.result.rows) for run in runs),
        "overview": summary.overview(tables),
        "worst": summary.worst_slowdowns(tables),
        "shared": shared,
        "differing": differing,
    }


def _about_changes(comparison: Comparison | None, anchors: Anchors) -> dict[str, object]:
    if comparison is None:
        return {"compared": None, "counts": {}, "sentences": [], "changes": []}
    counts, sentences = summary.compared(comparison)
    changes = summary.list_changes(comparison, anchors)
    return {"compared": comparison, "counts": counts, "sentences": sentences, "changes": changes}


def _charts_of(table: Rows, charts: Sequence[Chart]) -> list[Chart]:
    """Return the charts whose rows are of the section: every chart keeps to one."""
    lines = {(line.row.file, line.row.name) for line in table.lines}
    return [chart for chart in charts if (chart.rows[0].file, chart.rows[0].name) in lines]


class _Inline:
    """The content of an element and the hash that lets a policy allow it."""

    def __init__(self, content: Markup) -> None:
        self.content = content
        digest = hashlib.sha256(content.encode()).digest()
        self.hash = f"'sha256-{base64.b64encode(digest).decode()}'"


def _tables_script() -> _Inline:
    return _Inline(Markup((_FOLDER / "tables.js").read_text(encoding="utf-8")))


def _style(environment: jinja2.Environment) -> _Inline:
    template = environment.get_template("report/style.css")
    return _Inline(Markup(template.render(looks=chart_looks())))
