"""Share of a device copy's bandwidth against row length (softmax) or size (GELU)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from overlapbench.grouping import grouped
from overlapbench.peers.cases import COPY, Figure, What, write_size
from overlapbench.peers.report import share_of_copy
from overlapbench.view import theme
from overlapbench.view.charts.axes import log_axis
from overlapbench.view.picture import pictures
from overlapbench.view.vega import Record, Spec, field, mark, panel, split, tooltip, whole


@dataclass(frozen=True)
class _Look:
    title: str
    x_title: str
    panels_a_row: int  # all of one type
    panel_width: int


_LOOKS: Mapping[What, _Look] = {
    "softmax": _Look("Softmax against its peers", "columns of a row", 3, 230),
    "gelu": _Look("GELU against its peers", "elements", 4, 160),
}


def draw(figures: Sequence[Figure], context: Mapping[str, str]) -> dict[str, bytes]:
    """Return NAME.png and NAME.svg for each operation that was measured."""
    files: dict[str, bytes] = {}
    for what in _LOOKS:
        chosen = [figure for figure in figures if figure.case.what == what]
        if chosen:
            files |= pictures(f"peers_{what}", specification(what, chosen, context))
    return files


def specification(what: What, figures: Sequence[Figure], context: Mapping[str, str]) -> Spec:
    """Return the Vega-Lite of one operation, with one panel per series and one curve per peer."""
    cases = grouped(figures, lambda figure: figure.case).values()
    rows = ({figure.peer: figure for figure in of_case} for of_case in cases)
    records = [record for row in rows for record in _records(row)]
    look = _LOOKS[what]
    subtitle = [
        " · ".join(filter(None, [context.get(key, "") for key in ("device", "torch", "date")])),
        "Cold cache, samples of all peers alternate. 100 is a device copy of the same bytes.",
    ]
    peers = list(split(records, "series"))
    panels = [_panel(series, part, peers, look) for series, part in split(records, "panel").items()]
    heading = {"text": look.title, "subtitle": subtitle}
    return whole({"concat": panels, "columns": look.panels_a_row}, heading)


def _records(row: Mapping[str, Figure]) -> list[Record]:
    shares = {peer: share_of_copy(row, peer) for peer in row if peer != COPY}
    case = row[COPY].case
    return [
        {"panel": case.series, "series": peer, "size": case.columns, "percent": 100 * share}
        for peer, share in shares.items()
        if share is not None
    ]


def _panel(series: str, records: Sequence[Record], peers: Sequence[str], look: _Look) -> Spec:
    style = theme.curve_style({peer: place for place, peer in enumerate(peers)})
    kind, looks = log_axis([record["size"] for record in records], 1, write_size)
    base = {
        "x": field(f"size:{kind}", title=look.x_title, **looks),
        "y": field("percent:Q", title="% of copy", scale={"domainMin": 0}),
        "color": style["color"],
        "tooltip": tooltip("series:N", "size:Q", "percent:Q"),
    }
    layers = [
        mark("line", base, strokeWidth=2),
        mark("point", base | {"shape": style["shape"]}, filled=True, size=50, opacity=1),
    ]
    title = {"text": series, "fontSize": 13}
    return panel(layers, records, title=title, width=look.panel_width, height=200)
