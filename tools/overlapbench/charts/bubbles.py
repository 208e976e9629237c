"""Share of bubbles of pipelines over ranks against micro-batches, beside the published formula."""

from collections.abc import Sequence

import altair as alt

from overlapbench import theme
from overlapbench.charts.curves import Figures, count_axis, draw_curves, whole
from overlapbench.charts.panels import Record, bounds, identity, panel_title, split
from overlapbench.result import Row
from overlapbench.series import SEPARATOR, axes_label, shared_axes
from overlapbench.theme import Drawing

_FIGURES = ("bubble_share", "formula_bubble_share")


def select_bubbles(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of pipelines over ranks that have micro-batches and both shares."""
    return [
        row
        for row in rows
        if row.name.family.startswith("Pp/")
        and whole(row, "microbatches")
        and all(figure in row.counters for figure in _FIGURES)
    ]


def draw_bubbles(rows: Sequence[Row]) -> Drawing:
    """Draw a panel for each computation of a stage, one curve an order of the pipeline."""
    records = _records(rows)
    parts = split(records, "panel")
    series = list(split(records, "series"))
    x = count_axis("microbatches", [record["microbatches"] for record in records], "micro-batches")
    figures = Figures("bubble_share", "bubbles (share of T)", _shares(records), _FIGURES[1])
    panels = (
        draw_curves(part, x, figures, series).properties(
            title=panel_title(title, 1), width=theme.WIDTH - 90, height=240
        )
        for title, part in parts.items()
    )
    chart: alt.VConcatChart = alt.vconcat(*panels)
    return chart


def _shares(records: Sequence[Record]) -> alt.Scale:
    """Hold all shares and 0, and what noise put below it."""
    shares = [record[figure] for record in records for figure in _FIGURES]
    return alt.Scale(domain=[min(0.0, *shares), 1.1 * max(shares)], nice=False)


def _records(rows: Sequence[Row]) -> list[Record]:
    several_files = len({row.file for row in rows}) > 1
    panels = split([{"row": row, "panel": "+".join(row.name.workloads)} for row in rows], "panel")
    return [
        identity(row)
        | {"panel": panel, "microbatches": whole(row, "microbatches")}
        | {"series": _series(row, [other["row"] for other in part], several_files)}
        | {figure: row.counters[figure] for figure in _FIGURES}
        | bounds(row, "bubble_share")
        for panel, part in panels.items()
        for row in (item["row"] for item in part)
    ]


def _series(row: Row, panel: Sequence[Row], several_files: bool) -> str:
    """Name an order, and what sets the row apart from others of its panel."""
    order = row.name.family.removeprefix("Pp/")
    apart = axes_label(row, {"microbatches", *shared_axes(panel)}, several_files)
    unnamed = "+".join(row.name.workloads)  # nothing does
    return order if apart == unnamed else SEPARATOR.join((order, apart))
