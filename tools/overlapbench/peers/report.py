"""The figures as text and as JSON."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from overlapbench.peers.cases import COPY, OURS, Figure

SCHEMA = "1"


def render_table(figures: Sequence[Figure]) -> str:
    """Write a table per series: the copy's bandwidth, our time, each peer's share of the copy."""
    tables = groupby(figures, key=lambda figure: figure.case.series)
    blocks = ["\n".join(_table(series, list(members))) for series, members in tables]
    return "\n\n".join(blocks) + "\n"


def _table(series: str, figures: Sequence[Figure]) -> Iterator[str]:
    peers = [peer for peer in dict.fromkeys(figure.peer for figure in figures) if peer != COPY]
    size = "columns" if figures[0].case.what == "softmax" else "elements"
    yield f"{series}: share of the bandwidth of a device copy of the same bytes, in percent"
    names = "".join(f"{peer:>14}" for peer in peers)
    yield f"{size:>10} {'copy GB/s':>10} {'ours ms':>9}{names}  fastest"
    for case, members in groupby(figures, key=lambda figure: figure.case):
        row = {figure.peer: figure for figure in members}
        cells = "".join(f"{_cell(row, peer):>14}" for peer in peers)
        ours = f"{row[OURS].ms:.4f}" if not row[OURS].problem else "-"
        copy = f"{case.columns:>10} {_GBps(row[COPY]):>10.0f}"
        fastest = max(peers, key=lambda peer: share_of_copy(row, peer) or 0)
        yield f"{copy} {ours:>9}{cells}  {fastest}"
    for figure in figures:
        if figure.problem:
            yield f"  {figure.case.columns} {figure.peer}: {figure.problem}"


def _cell(row: Mapping[str, Figure], peer: str) -> str:
    share = share_of_copy(row, peer)
    return "-" if share is None else f"{100 * share:.1f}"


def share_of_copy(row: Mapping[str, Figure], peer: str) -> float | None:
    """Return the copy's time over the peer's time, or None if the peer has no good figure."""
    figure = row.get(peer)
    return None if figure is None or figure.problem else row[COPY].ms / figure.ms


def _GBps(figure: Figure) -> float:  # noqa: N802 the unit's case carries meaning
    return figure.case.moved_bytes / figure.ms / 1e6


def to_json(context: Mapping[str, str], figures: Sequence[Figure]) -> bytes:
    """Write the JSON that reader.py reads."""
    rows = [dataclasses.asdict(figure) for figure in figures]
    document = {"overlapbench_peers": SCHEMA, "context": dict(context), "figures": rows}
    return (json.dumps(document, indent=1) + "\n").encode()
