"""Figures that overlapbench peers wrote, validated, for tables and charts.

A file is accepted or refused as a whole, by a ResultError (source.py), for example `peers.json:
figures[3].ms: 0 is not above 0 (line 57)`. Every case must have a figure of ours, and a good one of
the copy, the baseline.
"""

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import TypeVar, cast

from overlapbench.peers.cases import (
    COPY,
    DIRECTIONS,
    ELEMENT_BYTES,
    FORMS,
    LARGEST_SIZE,
    OURS,
    WHATS,
    Case,
    Figure,
)
from overlapbench.peers.report import SCHEMA
from overlapbench.reading.source import Document, Fields, ResultError, short

_T = TypeVar("_T", bound=str)


def read_figures(source: str, text: str) -> tuple[dict[str, str], list[Figure]]:
    """Read the context and the figures."""
    document = Document.parse(source, text, "figures")
    version = document.values.get("overlapbench_peers")
    if version != SCHEMA:
        what = f"{short(version)} is not supported: must be {short(SCHEMA)}"
        raise ResultError(f"{source}: overlapbench_peers: {what}: overlapbench peers writes it")
    figures = [_figure(document.fields(index)) for index in range(len(document.entries))]
    _require_copies(source, figures)
    context = document.context
    return {key: context.line(key) for key in context.values}, figures


def _figure(fields: Fields) -> Figure:
    case, peer = _case(fields.inner("case")), fields.printable("peer")
    if problem := fields.line("problem"):
        return Figure(case, peer, problem=problem)
    ms, p05_ms, p95_ms = (_above_0(fields, key) for key in ("ms", "p05_ms", "p95_ms"))
    samples, error = _whole(fields, "samples"), fields.number("error")
    return Figure(case, peer, ms, p05_ms, p95_ms, samples, error)


def _case(fields: Fields) -> Case:
    what = _choice(fields, "what", WHATS)
    return Case(
        what,
        _choice(fields, "type", list(ELEMENT_BYTES)),
        _whole(fields, "rows"),
        _whole(fields, "columns"),
        _choice(fields, "form", FORMS if what == "gelu" else ("",)),
        _choice(fields, "direction", DIRECTIONS),
    )


def _choice(fields: Fields, key: str, choices: Collection[_T]) -> _T:
    value = fields.text(key)
    if value not in choices:
        raise fields.error(key, f"{short(value)} is not one of {', '.join(map(short, choices))}")
    return cast(_T, value)


def _whole(fields: Fields, key: str) -> int:
    number = fields.number(key)
    if not (number.is_integer() and 1 <= number <= LARGEST_SIZE):
        raise fields.error(key, f"{number:g} is not a whole number from 1 to {LARGEST_SIZE}")
    return int(number)


def _above_0(fields: Fields, key: str) -> float:
    number = fields.number(key)
    if number <= 0:
        raise fields.error(key, f"{number:g} is not above 0")
    return number


def _require_copies(source: str, figures: Sequence[Figure]) -> None:
    """Refuse a case without a good figure of the copy, or without one of ours."""
    for case, members in groupby(figures, key=lambda figure: figure.case):
        problems = {figure.peer: figure.problem for figure in members}
        size = f"{case.series} {case.rows}x{case.columns}"
        for peer in (COPY, OURS):
            if peer not in problems:
                raise ResultError(f"{source}: figures: {size} has no figure of {peer}")
        if problems[COPY]:
            raise ResultError(f"{source}: figures: {size}: the copy failed: {problems[COPY]}")
