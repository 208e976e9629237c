"""Vega-Lite as plain data: fields, marks, and panels of records.

A record is what one mark shows. `trusted` says whether its figures measure what its name says;
untrusted records are drawn grey and hollow, and are part of no line. The 95 % interval of a figure
is in FIELD_low and FIELD_high.

Altair makes the same data, but copies and checks all of it for every layer and panel, which took
nine tenths of the drawing time. Tests check each specification against the schema.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from overlapbench.grouping import grouped
from overlapbench.output import Wrapper
from overlapbench.view import theme

Spec = dict[str, Any]
Record = dict[str, Any]
_Part = TypeVar("_Part")  # the data of a panel

PICTURES = (".png", ".svg", ".html")  # endings of what page.py makes of a specification
VERSION = "6.4"  # of Vega-Lite, as vl-convert names it
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
GOOD, BAD = "datum.trusted", "!datum.trusted"
_COUNTS = ("gpus:Q", "sms:Q")
FULL_WIDTH = theme.WIDTH - 90  # of a panel that fills the picture
_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal", "T": "temporal"}
_TITLE_LETTER_WIDTH = 7  # on average, in pixels
_TITLE_LETTERS = 88  # that fit into a picture's width
_SUBTITLE_LETTERS = 135  # that fit into a picture's width
_AXIS_WIDTH = 80  # beside the plot: labels and title of its y axis


@dataclass(frozen=True)
class Drawing:
    """A drawing for a page, which figures.html places; `spec` has its data, and no theme."""

    name: str  # unique among those drawn together
    title: str
    rows: Sequence[Any]  # that it shows
    notes: Sequence[str]  # the source of the figures, and how to read them
    spec: Spec


def field(shorthand: str, **looks: Any) -> Spec:
    """Encode a field, given as `NAME:Q` (a quantity), `:N` (a name), `:O` (an order) or `:T`."""
    name, _, kind = shorthand.rpartition(":")
    return {"field": name, "type": _TYPES[kind], **looks}


def tooltip(*fields: str) -> list[Spec]:
    """Tell fields, with four digits, zeros too, unless they are counts."""
    measured = (one.endswith(":Q") and one not in _COUNTS for one in fields)
    return [
        field(one, **({"format": ".4r"} if digits else {}))
        for one, digits in zip(fields, measured, strict=True)
    ]


def told(*fields: str) -> list[Spec]:
    """Return the tooltip of a row's mark: the row, the fields, and its problem."""
    return tooltip("name:N", "file:N", *fields, "problem:N")


def mark(
    kind: str,
    encoding: Mapping[str, Any],
    where: str = "",
    records: Iterable[Record] | None = None,
    **looks: Any,
) -> Spec:
    """Draw a mark for each record, or for each of the panel's records for which `where` holds."""
    made: Spec = {"mark": {"type": kind, **looks}, "encoding": dict(encoding)}
    if where:
        made["transform"] = [{"filter": where}]
    if records is not None:
        made["data"] = {"values": list(records)}
    return made


def intervals(records: Sequence[Record], encoding: Spec, axis: str = "y") -> list[Spec]:
    """Draw a bar for each interval of a trusted field on an axis, if there are any."""
    place, name = encoding[axis], encoding[axis]["field"]
    if not any(f"{name}_low" in record for record in records):
        return []
    ends = {axis: place | {"field": f"{name}_low"}, f"{axis}2": {"field": f"{name}_high"}}
    plain = {channel: one for channel, one in encoding.items() if channel != "shape"}
    return [mark("rule", plain | ends, f"{GOOD} && isValid(datum.{name}_low)", **theme.INTERVAL)]


def haloed(
    encoding: Spec, where: str = "", records: Iterable[Record] | None = None, **looks: Any
) -> list[Spec]:
    """Write labels that are legible over any line."""
    plain = {key: value for key, value in encoding.items() if key != "color"}
    return [
        mark("text", plain, where, records, style="halo", **looks),
        mark("text", encoding, where, records, **looks),
    ]


def split(records: Iterable[Record], key: str) -> dict[str, list[Record]]:
    """Group records by the value of a key, or "" without one, in the order of appearance."""
    return grouped(records, lambda record: record.get(key, ""))


def panel(layers: Sequence[Spec], records: Sequence[Record] = (), **more: Any) -> Spec:
    """Layer marks, of these records unless they have their own."""
    data = {"data": {"values": list(records)}} if records else {}
    return {**data, "layer": list(layers), **more}


def panel_title(text: str, columns: int) -> Spec:
    """Wrap the title of a panel to its width."""
    lines = Wrapper(theme.WIDTH // columns // _TITLE_LETTER_WIDTH).wrap(text)
    return {"text": lines, "fontSize": 13, "offset": 6}


def chart_title(title: str, lines: Sequence[str]) -> Spec:
    """Return the title of a chart, with lines below it that are wrapped to its width."""
    subtitle = [part for line in lines for part in textwrap.wrap(line, _SUBTITLE_LETTERS)]
    return {"text": textwrap.wrap(title, _TITLE_LETTERS), "subtitle": subtitle}


def lay_out(
    parts: Mapping[str, _Part],
    draw: Callable[[_Part], Spec],
    most_columns: int,
    height: int,
    width: float = 0,
) -> Spec:
    """Draw a panel of each part below its title; a single untitled part is the whole drawing.

    With 0 columns, each panel fills the picture's width. Without a width, the columns fill it, too.
    The height is that of panels that have none.
    """
    columns = min(most_columns, len(parts)) or 1
    column_width = theme.WIDTH // columns - _AXIS_WIDTH if most_columns else FULL_WIDTH
    size = {"width": width or column_width, "height": height}
    if [*parts] == [""]:
        return size | draw(parts[""])
    panels = [
        size | draw(part) | {"title": panel_title(title, columns)} for title, part in parts.items()
    ]
    return {"concat": panels, "columns": columns}


def whole(drawing: Spec, title: Spec | None = None) -> Spec:
    """Return a drawing as a specification on its own."""
    heading = {"title": title} if title else {}
    return {"$schema": SCHEMA, **heading, **drawing}
