"""Panels side by side in one picture: records parted among them, their size and their titles.

A record says in `trusted` whether its figures are what its name says. Those that are not are drawn
grey and hollow, and are part of no line. The 95 % interval of a figure is in FIELD_low and
FIELD_high; it is drawn as a bar through the point.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import altair as alt

from overlapbench import theme
from overlapbench.grouping import grouped
from overlapbench.result import Row
from overlapbench.theme import Drawing

Record = dict[str, Any]
_Part = TypeVar("_Part")  # what a panel is drawn of

FULL_WIDTH = theme.WIDTH - 90  # of a panel that fills the picture
_TITLE_LETTER_WIDTH = 7  # on average, in pixels
_SUBTITLE_LETTERS = 135  # that fit into a picture's width
_AXIS_WIDTH = 80  # beside the plot: labels and title of its y axis


def record_of(row: Row, counters: Sequence[str] = (), **fields: Any) -> Record:
    """Return where a record comes from, whether it can be trusted, and what else it says.

    Then follow those of the counters that the row has, and the fields.
    """
    origin = {"name": str(row.name), "file": row.file}
    figures = {key: row.counters[key] for key in counters if key in row.counters}
    return {**origin, "trusted": row.trusted, "problem": row.problem, **figures, **fields}


def state_text(row: Row) -> str:
    """Write why a cell has no figure."""
    return "passed" if row.passed_control else row.state.value


def bounds(row: Row, counter: str, field: str = "") -> Record:
    """Return the fields of a counter's interval, of the field that shows it; none without one."""
    if counter not in row.intervals:
        return {}
    low, high = row.intervals[counter]
    return {f"{field or counter}_low": low, f"{field or counter}_high": high}


def split(records: Sequence[Record], key: str) -> dict[str, list[Record]]:
    """Part records by the value of a key, "" of those without, in the order of appearance."""
    return grouped(records, lambda record: record.get(key, ""))


def panel_size(columns: int, height: int) -> dict[str, int]:
    """Return the size of one of so many panels side by side."""
    return {"width": theme.WIDTH // columns - _AXIS_WIDTH, "height": height}


def chart_title(title: str, lines: Sequence[str]) -> alt.TitleParams:
    """Return the title of a chart, with lines below it, which are wrapped to its width."""
    subtitle = [part for line in lines for part in textwrap.wrap(line, _SUBTITLE_LETTERS)]
    return alt.TitleParams(title, subtitle=subtitle)


def panel_title(text: str, columns: int) -> alt.TitleParams:
    """Wrap the title of a panel to its width."""
    lines = textwrap.wrap(text, theme.WIDTH // columns // _TITLE_LETTER_WIDTH)
    return alt.TitleParams(lines, fontSize=13, offset=6)


def lay_out(
    parts: Mapping[str, _Part],
    draw: Callable[[_Part], Drawing],
    most_columns: int,
    height: int,
    width: float | None = None,
    **resolve: Literal["independent", "shared"],
) -> alt.ConcatChart | alt.VConcatChart:
    """Draw a panel of each part below its title; in 0 columns each fills the picture.

    Without a width the columns fill it, too. `resolve` are scales that all panels share, or that
    each has of its own.
    """
    columns = min(most_columns, len(parts))
    size: dict[str, Any] = {"width": width or FULL_WIDTH, "height": height}
    if columns and width is None:
        size = panel_size(columns, height)
    panels = [
        draw(part).properties(title=panel_title(title, columns or 1), **size)
        for title, part in parts.items()
    ]
    chart = alt.concat(*panels, columns=columns) if columns else alt.vconcat(*panels)
    return chart.resolve_scale(**resolve) if resolve else chart
