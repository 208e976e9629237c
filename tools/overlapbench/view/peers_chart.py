"""Share of a device copy's bandwidth against row length (softmax) or size (GELU)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import altair as alt

from overlapbench.grouping import grouped
from overlapbench.peers.cases import COPY, Figure, What, write_size
from overlapbench.peers.report import share_of_copy
from overlapbench.view import theme
from overlapbench.view.chart import pictures
from overlapbench.view.charts import plot
from overlapbench.view.charts.axes import log_axis


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


def specification(
    what: What, figures: Sequence[Figure], context: Mapping[str, str]
) -> dict[str, Any]:
    """Return the Vega-Lite of one operation, with one panel per series and one curve per peer."""
    cases = grouped(figures, lambda figure: figure.case).values()
    rows = ({figure.peer: figure for figure in of_case} for of_case in cases)
    records = [record for row in rows for record in _records(row)]
    look = _LOOKS[what]
    subtitle = [
        " · ".join(filter(None, [context.get(key, "") for key in ("device", "torch", "date")])),
        "Cold cache, samples of all peers alternate. 100 is a device copy of the same bytes.",
    ]
    heading = alt.TitleParams(look.title, subtitle=subtitle)
    return plot.specification(lambda: _panels(records, look).properties(title=heading))


def _panels(records: Sequence[dict[str, Any]], look: _Look) -> theme.Drawing:
    peers = list(dict.fromkeys(record["series"] for record in records))
    panels = [
        _panel(series, list(members), peers, look)
        for series, members in groupby(records, key=lambda record: str(record["panel"]))
    ]
    return alt.concat(*panels, columns=look.panels_a_row)


def _records(row: Mapping[str, Figure]) -> list[dict[str, Any]]:
    shares = {peer: share_of_copy(row, peer) for peer in row if peer != COPY}
    case = row[COPY].case
    return [
        {"panel": case.series, "series": peer, "size": case.columns, "percent": 100 * share}
        for peer, share in shares.items()
        if share is not None
    ]


def _panel(
    series: str, records: Sequence[dict[str, Any]], peers: Sequence[str], look: _Look
) -> theme.Drawing:
    colour, shape = theme.curve_style(peers)
    base = plot.plot(records).encode(
        x=log_axis("size", [record["size"] for record in records], look.x_title, write_size),
        y=alt.Y("percent:Q", title="% of copy", scale=alt.Scale(domainMin=0)),
        color=colour,
        tooltip=["series:N", "size:Q", "percent:Q"],
    )
    return alt.layer(
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=50, opacity=1).encode(shape=shape),
    ).properties(title=alt.TitleParams(series, fontSize=13), width=look.panel_width, height=200)
