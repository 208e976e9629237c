"""Panels side by side in one picture: records parted among them, their size and their titles."""

import textwrap
from collections.abc import Sequence
from typing import Any

import altair as alt

from overlapbench import theme

Record = dict[str, Any]

_TITLE_LETTER_WIDTH = 7  # on average, in pixels
_AXIS_WIDTH = 80  # beside the plot: labels and title of its y axis


def split(records: Sequence[Record], key: str) -> dict[str, list[Record]]:
    """Part records by the value of a key, in the order in which the values appear."""
    parts: dict[str, list[Record]] = {}
    for record in records:
        parts.setdefault(record[key], []).append(record)
    return parts


def panel_size(columns: int, height: int) -> dict[str, int]:
    """Return the size of one of so many panels side by side."""
    return {"width": theme.WIDTH // columns - _AXIS_WIDTH, "height": height}


def panel_title(text: str, columns: int) -> alt.TitleParams:
    """Wrap the title of a panel to its width."""
    lines = textwrap.wrap(text, theme.WIDTH // columns // _TITLE_LETTER_WIDTH)
    return alt.TitleParams(lines, fontSize=13, offset=6)
