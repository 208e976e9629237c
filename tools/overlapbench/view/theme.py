"""Colours, fonts and sizes of all charts.

A specification contains no colour of background or text. A configuration sets those: LIGHT for the
pictures, and LIGHT or DARK for the page, following the reader's system. Colours that carry meaning
are Okabe and Ito's ("Color Universal Design", 2008), which readers with any colour vision can
distinguish, without the black and the yellow, which vanish on one of the two backgrounds, and a
brown. Curves also differ in point shape.
"""

from collections.abc import Mapping
from typing import Any

Encoding = dict[str, Any]  # of a mark: the fields of its records, by channel

WIDTH = 900  # of a whole picture, in CSS pixels
SCALE = 2  # PNG pixels to a CSS pixel, for sharp text

ORANGE, SKY, GREEN, BLUE = "#E69F00", "#56B4E9", "#009E73", "#0072B2"
VERMILION, PURPLE, BROWN = "#D55E00", "#CC79A7", "#96614B"
GREY = "#8A8A8A"
COMPUTATION, COMMUNICATION = BLUE, GREEN  # wherever both are drawn
INTERVAL: dict[str, Any] = {"strokeWidth": 3, "strokeOpacity": 0.45, "clip": True}
RING: dict[str, Any] = {"strokeWidth": 2, "opacity": 1}
UNTRUSTED_POINT: dict[str, Any] = {"color": GREY, "filled": False, "opacity": 1, "size": 80}
UNTRUSTED_BAR: dict[str, Any] = {"fill": None, "stroke": GREY, "strokeWidth": 1.5}
UNTRUSTED_CELL: dict[str, Any] = {"color": "#BDBDBD"}
_STRIPES = 6
UNMEASURED_CELL: dict[str, Any] = {
    "color": {
        "gradient": "linear",
        **{"x1": 0, "y1": 0, "x2": 1, "y2": 1},
        "stops": [
            {"offset": (stripe + at) / _STRIPES, "color": f"rgba(138, 138, 138, {opacity})"}
            for stripe in range(_STRIPES)
            for at, opacity in ((0, 0), (0.8, 0), (0.8, 0.4), (1, 0.4))
        ],
    }
}
# Of heat maps: only the labels, and a cell's second line.
CELL_AXIS: dict[str, Any] = {
    "labelLimit": 0,
    "maxExtent": 1000,  # otherwise the title overlaps long labels
    "domain": False,
    "ticks": False,
    "grid": False,
}
CELL_DETAIL: dict[str, Any] = {"fontSize": 10}
ON_CELL = "#1c1c1c"  # text on a cell of the heat map, whose colours are the same in both themes
# Six and five are coprime, so 30 curves get 30 different combinations.
SERIES_COLOURS = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY]
SERIES_SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down"]
_SHAPES = [*SERIES_SHAPES, "triangle-right", "triangle-left", "cross"]  # of a single colour
TRANSPORTS = {  # in every chart and panel
    "nccl": (BLUE, "circle"),
    "nccl_sym": (SKY, "square"),
    "nccl_ce": (PURPLE, "diamond"),
    "copy": (VERMILION, "triangle-up"),
    "sm_load": (GREEN, "triangle-down"),
    "sm_store": (ORANGE, "triangle-right"),
    "sm_bulk": (BROWN, "triangle-left"),
}


def curve_style(curves: Mapping[str, str]) -> Encoding:
    """Distinguish curves, given with their transports, by colour and point shape.

    A transport has its colour and shape; further curves of it differ in shape, as long as there are
    any. The others cycle through what is left. Dashes mean something else.
    """
    known = [TRANSPORTS[one] for one in dict.fromkeys(curves.values()) if one in TRANSPORTS]
    colours = [one for one in SERIES_COLOURS if one not in [colour for colour, _ in known]]
    shapes = [one for one in SERIES_SHAPES if one not in [shape for _, shape in known]]
    styles: dict[str, tuple[str, str]] = {}
    for place, (curve, transport) in enumerate(curves.items()):
        fills, marks = colours or SERIES_COLOURS, shapes or SERIES_SHAPES
        cycled = fills[place % len(fills)], marks[place % len(marks)]
        if own := TRANSPORTS.get(transport):
            others = ((own[0], shape) for shape in (*shapes, *_SHAPES))
            free = (style for style in (own, *others) if style not in styles.values())
            cycled = next(free, (own[0], cycled[1]))
        styles[curve] = cycled
    colour, shape = ({curve: style[i] for curve, style in styles.items()} for i in (0, 1))
    return {"color": styled(colour), "shape": styled(shape)}


def key(**looks: Any) -> dict[str, Any]:
    """Return a legend below the chart, with a line for each curve."""
    lines = {"columns": 1, "rowPadding": 1, "clipHeight": 15}  # as high, whatever the mark
    return {"orient": "bottom", "title": None, **lines, **looks}


def styled(
    styles: Mapping[str, Any], legend: Mapping[str, Any] | None = None, field: str = "series"
) -> dict[str, Any]:
    """Give each value of a field its style; the legend is in the order of `styles`."""
    scale = {"domain": list(styles), "range": list(styles.values())}
    look = key() if legend is None else legend
    return {"field": field, "type": "nominal", "scale": scale, "legend": look}


def _config(background: str, text: str, faint: str, grid: str) -> dict[str, Any]:
    font = "Liberation Sans, Arial, Helvetica, sans-serif"
    labels = {"labelColor": text, "titleColor": text, "labelFontSize": 12, "titleFontSize": 12}
    return {
        "background": background,
        "font": font,
        "padding": 12,
        "title": {
            "color": text,
            "subtitleColor": faint,
            "fontSize": 18,
            "subtitleFontSize": 12,
            "subtitlePadding": 6,
            "offset": 14,
            "anchor": "start",
            "frame": "bounds",
        },
        "axis": {**labels, "gridColor": grid, "domainColor": faint, "tickColor": faint}
        | {"titlePadding": 10, "titleFontWeight": "normal"},
        "legend": {**labels, "labelLimit": 0, "symbolSize": 90, "titleLimit": 0},
        "header": {**labels, "labelFontWeight": "bold", "labelLimit": 0},
        "view": {"stroke": grid},
        "text": {"color": text, "fontSize": 12},
        "rule": {"color": faint, "strokeWidth": 1.5},
        "style": {
            "halo": {"stroke": background, "strokeWidth": 4, "strokeJoin": "round"},
            "edge": {"stroke": background, "strokeWidth": 0.75},
            "outline": {"stroke": text, "strokeWidth": 1.75},
            "arrow": {"stroke": faint, "strokeWidth": 1},
            "arrowhead": {"color": faint, "stroke": background, "strokeWidth": 0.5},
        },
    }


LIGHT = _config(background="#ffffff", text="#1c1c1c", faint="#5c5c5c", grid="#e2e2e2")
DARK = _config(background="#16181c", text="#ececec", faint="#a8a8a8", grid="#34373d")
