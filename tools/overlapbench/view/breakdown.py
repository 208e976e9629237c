"""A breakdown as text of 80 columns, and as JSON.

Each rank has a row and a bar and, if collectives of several ranks are known, a row that divides its
communication. Then follow details of the worst rank, which computes the smallest share of its time,
and notes on all ranks.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from overlapbench.reading.source import harmless, listed
from overlapbench.traces.breakdown import MIXES, PARTS, Breakdown, apportion, worst_of
from overlapbench.traces.collectives import Waiting
from overlapbench.traces.idle import Cause, Part
from overlapbench.traces.model import Class

SCHEMA = "1"
_WIDTH = 80
_BAR = 64
_LISTED = 5  # names that other tools classify differently
_IDLE = "."
_PARTS = re.compile("[^/]*/|[^/]+")
# In the order of MIXES: the bar's character, and the column's title in two lines.
_MARKS = "#~=%+-@"
_TITLES = (
    ("COMP", "only"),
    ("COMM", "only"),
    ("MEM", "only"),
    ("COMP", "+COMM"),
    ("COMP", "+MEM"),
    ("COMM", "+MEM"),
    ("all", "three"),
)
_DIVIDED = "{:>5} {:>10} {:>10} {:>10} {:>10} {:>11} {:>12}"
HEADINGS = (("", "rank"), ("", "T ms"), *_TITLES, ("", "idle"), ("over-", "lap"))
_COLUMNS: Sequence[Sequence[Part]] = (*((mix,) for mix in MIXES), tuple(Cause))
_CAUSES: Mapping[Cause, str] = {
    Cause.DEPENDENCY: "for a dependency",
    Cause.RANKS: "for other ranks",
    Cause.HOST: "for the host to enqueue",
    Cause.GATE: "for the gate",
    Cause.UNKNOWN: "unknown",
}


def render(breakdowns: Sequence[Breakdown]) -> str:
    """Write the tables, the bars, the details of the worst rank, and the notes."""
    worst = worst_of(breakdowns)
    parts = (
        fold(f"T is {worst.window}. Shares of T in percent.", ""),
        _table(breakdowns),
        _bars(breakdowns),
        _waiting(breakdowns),
        _details(worst, len(breakdowns) > 1),
        *_notes(breakdowns),
    )
    return "\n\n".join(text for part in parts if (text := "\n".join(part))) + "\n"


def _table(breakdowns: Sequence[Breakdown]) -> Iterator[str]:
    yield from map(_line, zip(*HEADINGS, strict=True))
    for one in breakdowns:
        yield _line(cells(one))
        if margins := _margins(one):
            yield _line(["", "±", *margins]).rstrip()


def _line(columns: Sequence[str]) -> str:
    rank, total, *shares = columns
    return f"{rank:>5} {total:>10}{''.join(f'{share:>7}' for share in shares)}"


def cells(one: Breakdown) -> list[str]:
    """Return the figures of a rank, in the order of HEADINGS."""
    tenths = one.tenths
    figures = [f"{sum(tenths[part] for part in column) / 10:.1f}" for column in _COLUMNS]
    overlap = "-" if one.overlap_pct is None else f"{one.overlap_pct:.1f}"
    return [str(one.rank), _ms(one.total_ns), *figures, overlap]


def _margins(one: Breakdown) -> list[str]:
    """Return the margin of each share of a rank; empty if unknown."""
    of_parts = [one.margin_pct(column) for column in _COLUMNS]
    if any(margin is None for margin in of_parts):
        return []
    comm = [mix for mix in MIXES if Class.COMM in mix]
    overlap = one.margin_pct([mix for mix in comm if Class.COMP in mix], comm)
    return ["" if margin is None else f"{margin:.1f}" for margin in (*of_parts, overlap)]


def _bars(breakdowns: Sequence[Breakdown]) -> Iterator[str]:
    for one in breakdowns:
        parts = [one.parts_ns[part] for part in PARTS]
        marks = _MARKS + _IDLE * len(Cause)
        bar = "".join(m * n for m, n in zip(marks, apportion(parts, _BAR), strict=True))
        yield f"{one.rank:>5} |{bar}|"
    legend = [
        f"{mark} {''.join(title).replace('only', '')}"
        for mark, title, mix in zip(_MARKS, _TITLES, MIXES, strict=True)
        if any(one.parts_ns[mix] for one in breakdowns)
    ]
    yield f"{'':>6} {'   '.join([*legend, f'{_IDLE} idle'])}"


def _waiting(breakdowns: Sequence[Breakdown]) -> Iterator[str]:
    """Divide the communication of all ranks, and name the one that the others wait for."""
    known = [(one.rank, one.waiting) for one in breakdowns if one.waiting]
    if not known:
        return
    yield "Communication in ms: waiting for the last rank to arrive, and moving data."
    yield ""
    yield _DIVIDED.format("rank", "all", "waiting", "moving", "unmatched", "last", "others wait")
    for rank, one in known:
        unmatched = one.total_ns - one.waiting_ns - one.moving_ns
        times = (one.total_ns, one.waiting_ns, one.moving_ns, unmatched)
        last = f"{one.last} of {one.collectives}"
        yield _DIVIDED.format(rank, *map(_ms, times), last, _ms(one.awaited_ns))
    latest, one = max(known, key=lambda known: known[1].awaited_ns)
    if one.awaited_ns:
        yield ""
        yield (
            f"The others wait longest for rank {latest}, {_ms(one.awaited_ns)} ms in all:"
            f" it is the last in {one.last} of {one.collectives}."
        )


def _notes(breakdowns: Sequence[Breakdown]) -> Iterator[Iterator[str]]:
    """Return the notes, each with its ranks unless all have it."""
    ranks: dict[str, list[int]] = {}
    for one in breakdowns:
        for note in dict.fromkeys(one.notes):
            ranks.setdefault(note, []).append(one.rank)
    for note, whose in ranks.items():
        some = len(whose) < len(breakdowns)
        on = f" on rank {listed([*map(str, whose)], _LISTED)}" if some else ""
        yield fold(f"note{on}: {note}", "  ")


def _details(one: Breakdown, several: bool) -> Iterator[str]:
    if several:
        share = 100 * one.not_computing
        yield f"Rank {one.rank} computes least: idle, copying or communicating {share:.1f} % of T."
        if one.waiting and one.waiting.waiting_ns:
            waits = 100 * one.waiting.waiting_ns / one.total_ns
            yield f"For {waits:.1f} % of T it waits, in collectives, for the last rank to arrive."
        yield ""
    yield from _overlap(one)
    tenths = one.tenths
    if any(one.parts_ns[cause] for cause in Cause):
        yield ""
        yield "Idle, waiting"
        for cause, title in _CAUSES.items():
            if one.parts_ns[cause]:
                yield f"  {title:<26}{tenths[cause] / 10:7.1f} %{_ms(one.parts_ns[cause]):>12} ms"
    for finding in one.findings:
        yield ""
        yield f"{finding.name}: {finding.pct:.1f} % of T"
        yield from fold(finding.advice, "  ")


def _overlap(one: Breakdown) -> Iterator[str]:
    if one.overlap_pct is None:
        yield "There is no communication."
    else:
        yield f"Of the communication, {one.overlap_pct:.1f} % ran beside computation."
    if fused := sum(ns for (kind, _), ns in one.work_ns.items() if kind is Class.FUSED):
        yield f"Fused kernels compute and communicate at once: {_ms(fused)} ms, counted as both."
    if one.overlap_pct is None and one.named_overlap_pct is None:
        return
    if one.differences:
        share = one.named_overlap_pct
        say = "there is none" if share is None else f"{share:.1f} %"
        yield f"Tools that classify kernels by name say {say}. They differ in"
    for difference in one.differences[:_LISTED]:
        named = difference.named or "nothing"
        counted = f"{difference.count:>5} × {_ms(difference.total_ns):>9} ms in all"
        start = f"  {counted}  {difference.kind}, not {named}  "
        yield start + shortened(harmless(difference.name), _WIDTH - len(start))
    if len(one.differences) > _LISTED:
        total = _ms(sum(difference.total_ns for difference in one.differences))
        yield f"  and {len(one.differences) - _LISTED} more names; {total} ms together"


def to_json(breakdowns: Sequence[Breakdown], **more: object) -> bytes:
    """Write all figures of all ranks, and more."""
    document = {
        "overlapbench_trace": SCHEMA,
        "worst_rank": worst_of(breakdowns).rank,
        "ranks": [_record(one) for one in breakdowns],
        **more,
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def _record(one: Breakdown) -> dict[str, Any]:
    tenths = one.tenths
    return {
        "rank": one.rank,
        "file": one.source,
        "window": one.window,
        "T_ms": one.total_ns / 1e6,
        "windows": one.windows,
        "pct": {_key(part): tenths[part] / 10 for part in PARTS},
        "pct_margin": {_key(part): one.margin_pct([part]) for part in PARTS},
        "ms": {_key(part): one.parts_ns[part] / 1e6 for part in PARTS},
        "communication": _divided(one.waiting),
        "overlap_pct": one.overlap_pct,
        "overlap_pct_by_name": one.named_overlap_pct,
        "differences": [
            {
                "name": difference.name,
                "class": difference.kind,
                "class_by_name": difference.named,
                "count": difference.count,
                "ms": difference.total_ns / 1e6,
            }
            for difference in one.differences
        ],
        "patterns": [
            {"name": f.name, "pct": f.pct, "ms": f.ns / 1e6, "advice": f.advice}
            for f in one.findings
        ],
        "notes": list(one.notes),
    }


def _divided(one: Waiting | None) -> dict[str, float] | None:
    if one is None:
        return None
    return {
        "ms": one.total_ns / 1e6,
        "waiting_ms": one.waiting_ns / 1e6,
        "moving_ms": one.moving_ns / 1e6,
        "collectives": one.collectives,
        "last": one.last,
        "others_waited_ms": one.awaited_ns / 1e6,
    }


def _key(part: Part) -> str:
    return f"idle_{part.value}" if isinstance(part, Cause) else "+".join(part)


def _ms(ns: int) -> str:
    """Write milliseconds in at most ten characters."""
    ms = ns / 1e6
    return f"{ms:.3f}" if ms < 1e6 else f"{ms:.3e}"


def shortened(name: str, width: int) -> str:
    """Cut text that is too long."""
    return name if len(name) <= width else name[: width - 3] + "..."


def fold(text: str, indent: str) -> Iterator[str]:
    """Break text at spaces. Words longer than a line are broken at each /, or cut."""
    line = indent
    for word in harmless(text).split():
        long = len(indent) + len(word) >= _WIDTH
        for part in _PARTS.findall(word) if long else [word]:
            if len(line) + len(part) >= _WIDTH and line.strip():
                yield line.rstrip()
                line = indent
            line += shortened(part, _WIDTH - len(line) - 1)
        line += " "
    yield line.rstrip()
