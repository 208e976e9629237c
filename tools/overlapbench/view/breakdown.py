"""A breakdown as text and as data.

Each rank has a row and, if collectives of several ranks are known, one that divides its
communication. Then follow details of the worst rank, which computes the smallest share of its time,
the verdict and the findings, and notes on all ranks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from overlapbench.findings import steps
from overlapbench.findings.finding import text_of
from overlapbench.output import harmless, listed
from overlapbench.traces.breakdown import MIXES, PARTS, Breakdown, worst_of
from overlapbench.traces.idle import Cause, Part
from overlapbench.traces.model import Class
from overlapbench.view.console import Entry, Screen, paragraph, shortened, table

SCHEMA_KEY, SCHEMA = "overlapbench_trace", "1"  # of the JSON
_LISTED = 5  # names that other tools classify differently
# Of each mix and of idle: the column's title in two lines.
_COLUMNS: Mapping[Sequence[Part], tuple[str, str]] = {
    (MIXES[0],): ("COMP", "only"),
    (MIXES[1],): ("COMM", "only"),
    (MIXES[2],): ("MEM", "only"),
    (MIXES[3],): ("COMP", "+COMM"),
    (MIXES[4],): ("COMP", "+MEM"),
    (MIXES[5],): ("COMM", "+MEM"),
    (MIXES[6],): ("all", "three"),
    tuple(Cause): ("", "idle"),
}
HEADINGS = (("", "rank"), ("", "T ms"), *_COLUMNS.values(), ("over-", "lap"))
_CAUSES: Mapping[Cause, str] = {
    Cause.DEPENDENCY: "for a dependency",
    Cause.RANKS: "for other ranks",
    Cause.HOST: "for the host to enqueue",
    Cause.GATE: "for the gate",
    Cause.UNKNOWN: "unknown",
}


def render(breakdowns: Sequence[Breakdown], screen: Screen) -> str:
    """Write the tables, the details of the worst rank, and the notes."""
    worst = worst_of(breakdowns)
    parts = (
        paragraph(f"T is {worst.window}. Shares of T in percent.", screen),
        _table(breakdowns, screen),
        _waiting(breakdowns, screen),
        "\n".join(_details(worst, len(breakdowns) > 1, screen)),
        paragraph(steps.verdict(breakdowns), screen),
        text_of(steps.find(breakdowns), screen.width),
        *_notes(breakdowns, screen),
    )
    return "\n\n".join(text for part in parts if (text := part.rstrip("\n"))) + "\n"


def _table(breakdowns: Sequence[Breakdown], screen: Screen) -> str:
    above, below = zip(*HEADINGS[1:], strict=True)
    ranks = [Entry("rank", [below])]
    for one in breakdowns:
        rank, *figures = cells(one)
        margins = _margins(one)
        ranks.append(Entry(rank, [figures, ["±", *margins]] if margins else [figures]))
    return table(screen, above, ranks, words=0)


def cells(one: Breakdown) -> list[str]:
    """Return the figures of a rank, in the order of HEADINGS."""
    tenths = one.tenths
    figures = [f"{sum(tenths[part] for part in column) / 10:.1f}" for column in _COLUMNS]
    overlap = "-" if one.overlap_pct is None else f"{one.overlap_pct:.1f}"
    return [str(one.rank), _ms(one.total_ns), *figures, overlap]


def _margins(one: Breakdown) -> list[str]:
    """Return the margin of each share of a rank; empty if unknown."""
    of_parts = [one.margin_pct(column) for column in _COLUMNS]
    if None in of_parts:
        return []
    comm = [mix for mix in MIXES if Class.COMM in mix]
    overlap = one.margin_pct([mix for mix in comm if Class.COMP in mix], comm)
    return ["" if margin is None else f"{margin:.1f}" for margin in (*of_parts, overlap)]


def _waiting(breakdowns: Sequence[Breakdown], screen: Screen) -> str:
    """Divide the communication of all ranks."""
    known = {one.rank: one.waiting for one in breakdowns if one.waiting}
    if not known:
        return ""
    heads = ("all", "waiting", "moving", "unmatched", "last", "others wait")
    ranks = []
    for rank, one in known.items():
        unmatched_ns = one.total_ns - one.waiting_ns - one.moving_ns
        times = map(_ms, (one.total_ns, one.waiting_ns, one.moving_ns, unmatched_ns))
        last = f"{one.last} of {one.collectives}"
        ranks.append(Entry(str(rank), [[*times, last, _ms(one.awaited_ns)]]))
    about = "Communication in ms: waiting for the last rank to arrive, and moving data."
    return "\n".join((about, "", table(screen, heads, ranks, words=0, title="rank")))


def _notes(breakdowns: Sequence[Breakdown], screen: Screen) -> Iterator[str]:
    """Return the notes, each with its ranks unless all have it."""
    ranks: dict[str, list[str]] = {}
    for one in breakdowns:
        for note in dict.fromkeys(one.notes):
            ranks.setdefault(note, []).append(str(one.rank))
    for note, whose in ranks.items():
        on = f" on rank {listed(whose, _LISTED)}" if len(whose) < len(breakdowns) else ""
        yield paragraph(f"note{on}: {note}", screen, "  ")


def _details(one: Breakdown, several: bool, screen: Screen) -> Iterator[str]:
    if several:
        share = 100 * one.not_computing
        yield f"Rank {one.rank} computes least: idle, copying or communicating {share:.1f} % of T."
        if one.waiting and one.waiting.waiting_ns:
            waits = 100 * one.waiting.waiting_ns / one.total_ns
            yield f"For {waits:.1f} % of T it waits, in collectives, for the last rank to arrive."
        yield ""
    yield from _overlap(one, screen)
    if any(one.parts_ns[cause] for cause in Cause):
        yield "\nIdle, waiting"
        tenths = one.tenths
        for cause, title in _CAUSES.items():
            if ns := one.parts_ns[cause]:
                yield f"  {title:<26}{tenths[cause] / 10:7.1f} %{_ms(ns):>12} ms"


def _overlap(one: Breakdown, screen: Screen) -> Iterator[str]:
    if one.overlap_pct is None:
        yield "There is no communication."
    else:
        yield f"Of the communication, {one.overlap_pct:.1f} % ran beside computation."
    if fused := sum(ns for (kind, _), ns in one.work_ns.items() if kind is Class.FUSED):
        yield f"Fused kernels compute and communicate at once: {_ms(fused)} ms, counted as both."
    if not one.differences or (one.overlap_pct is None and one.named_overlap_pct is None):
        return
    share = one.named_overlap_pct
    say = "there is none" if share is None else f"{share:.1f} %"
    yield f"Tools that classify kernels by name say {say}. They differ in"
    for each in one.differences[:_LISTED]:
        start = f"  {each.count:>5} × {_ms(each.total_ns):>9} ms in all  {each.kind}, not"
        start += f" {each.named or 'nothing'}  "
        yield start + shortened(harmless(each.name), screen.width - len(start))
    if (more := len(one.differences) - _LISTED) > 0:
        total = _ms(sum(each.total_ns for each in one.differences))
        yield f"  and {more} more names; {total} ms together"


def to_dict(breakdowns: Sequence[Breakdown]) -> dict[str, Any]:
    """Return all figures of all ranks, as JSON has them."""
    return {
        SCHEMA_KEY: SCHEMA,
        "worst_rank": worst_of(breakdowns).rank,
        "verdict": steps.verdict(breakdowns),
        "findings": [one.to_dict() for one in steps.find(breakdowns)],
        "ranks": [_record(one) for one in breakdowns],
    }


def _record(one: Breakdown) -> dict[str, Any]:
    """Return all figures of a rank."""
    tenths, waiting = one.tenths, one.waiting
    return {
        "rank": one.rank,
        "file": one.source,
        "window": one.window,
        "T_ms": one.total_ns / 1e6,
        "windows": one.windows,
        "pct": {_key(part): tenths[part] / 10 for part in PARTS},
        "pct_margin": {_key(part): one.margin_pct([part]) for part in PARTS},
        "ms": {_key(part): one.parts_ns[part] / 1e6 for part in PARTS},
        "communication": waiting
        and {
            "ms": waiting.total_ns / 1e6,
            "waiting_ms": waiting.waiting_ns / 1e6,
            "moving_ms": waiting.moving_ns / 1e6,
            "collectives": waiting.collectives,
            "last": waiting.last,
            "others_waited_ms": waiting.awaited_ns / 1e6,
        },
        "overlap_pct": one.overlap_pct,
        "overlap_pct_by_name": one.named_overlap_pct,
        "differences": [
            {
                "name": each.name,
                "class": each.kind,
                "class_by_name": each.named,
                "count": each.count,
                "ms": each.total_ns / 1e6,
            }
            for each in one.differences
        ],
        "patterns": [
            {"name": f.name, "pct": f.pct, "ms": f.ns / 1e6, "advice": f.advice}
            for f in one.patterns
        ],
        "notes": list(one.notes),
    }


def _key(part: Part) -> str:
    return f"idle_{part.value}" if isinstance(part, Cause) else "+".join(part)


def _ms(ns: int) -> str:
    """Write milliseconds in at most ten characters."""
    ms = ns / 1e6
    return f"{ms:.3f}" if ms < 1e6 else f"{ms:.3e}"
