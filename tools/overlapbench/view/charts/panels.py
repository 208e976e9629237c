"""Panels side by side in one picture: the records of each, their size and their titles.

`trusted` says whether a record's figures measure what its name says. Untrusted records are drawn
grey and hollow, and are part of no line. The 95 % interval of a figure is in FIELD_low and
FIELD_high; it is drawn as a bar through the point.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import altair as alt

from overlapbench.grouping import grouped
from overlapbench.reading.result import Row
from overlapbench.view import theme
from overlapbench.view.theme import Drawing

Record = dict[str, Any]
_Part = TypeVar("_Part")  # the data of a panel

FULL_WIDTH = theme.WIDTH - 90  # of a panel that fills the picture
_TITLE_LETTER_WIDTH = 7  # on average, in pixels
_SUBTITLE_LETTERS = 135  # that fit into a picture's width
_AXIS_WIDTH = 80  # beside the plot: labels and title of its y axis


def record_of(row: Row, counters: Sequence[str] = (), **fields: Any) -> Record:
    """Return a record with its origin, whether it is trusted, and its problem.

    It also contains the given counters that the row has, and the fields.
    """
    origin = {"name": str(row.name), "file": row.file}
    figures = {key: row.counters[key] for key in counters if key in row.counters}
    return {**origin, "trusted": row.trusted, "problem": row.problem, **figures, **fields}


def state_text(row: Row) -> str:
    """Write why a cell has no figure."""
    return "passed" if row.passed_control else row.state.value


def bounds(row: Row, counter: str, field: str = "") -> Record:
    """Return the interval of a counter as fields of the one that shows it; none without one."""
    if counter not in row.intervals:
        return {}
    low, high = row.intervals[counter]
    return {f"{field or counter}_low": low, f"{field or counter}_high": high}


def split(records: Sequence[Record], key: str) -> dict[str, list[Record]]:
    """Group records by the value of a key, or "" without one, in the order of appearance."""
    return grouped(records, lambda record: record.get(key, ""))


def panel_size(columns: int, height: int) -> dict[str, int]:
    """Return the size of one of so many panels side by side."""
    return {"width": theme.WIDTH // columns - _AXIS_WIDTH, "height": height}


def chart_title(title: str, lines: Sequence[str]) -> alt.TitleParams:
    """Return the title of a chart, with lines below it that are wrapped to its width."""
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
    """Draw a panel of each part below its title; with 0 columns, each fills the picture's width.

    Without a width, the columns fill it, too. `resolve` says which scales all panels share, and
    which are separate.
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
