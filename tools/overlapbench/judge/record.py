"""Result files as runs of the history.

For trends, a run keeps the table of counters, if the file has one, and each benchmark's figures:
for every counter of the table that the row has, the median over repetitions. A plain Google
Benchmark file has only the time.

Runs are comparable on the same *machine*: the fields that comparisons require to agree (launch.py).
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from overlapbench.judge.history import Machine, Measured, Run
from overlapbench.output import ResultError, expand, harmless
from overlapbench.reading.counters import PARTS
from overlapbench.reading.entries import Entries, read_entries
from overlapbench.reading.launch import to_launch
from overlapbench.reading.result import to_result
from overlapbench.reading.source import Fields, load

_NO_HISTORY = ("injected_delay", "injected_fault")


def read_runs(arguments: Sequence[str], revision: str = "") -> list[tuple[str, Run]]:
    """Read files, globs and `-`, each with its text; ResultError unless every one is a result."""
    sources = expand(arguments)
    if sources.count("-") > 1:
        raise ResultError("-: standard input can be read only once")
    texts = [(source, load(source)) for source in sources]
    return [(text, parse_run(source, text, revision)) for source, text in texts]


def parse_run(source: str, text: str, revision: str = "") -> Run:
    """Validate one file; `revision` replaces the revision in its context."""
    entries = read_entries(source, text)
    document, context = entries.document, entries.document.context
    for key in _NO_HISTORY:
        if key in context.values:
            raise context.error(key, "slowed down on purpose: a history must not contain it")
    table = {part: document.values.get(part) for part in PARTS}
    return Run(
        source="standard input" if source == "-" else harmless(source),
        date=_date(context),
        revision=harmless(revision) or context.line("git_revision"),
        host=context.line("host_name"),
        machine=Machine.of(context.values),
        table=json.dumps(table, sort_keys=True) if entries.backend else "",
        measured=tuple(_measured(entries)),
    )


def utc(text: str) -> str:
    """Write an ISO date in UTC, so that dates sort as text. Raises ValueError."""
    date = datetime.fromisoformat(text)
    known = date if date.tzinfo else date.replace(tzinfo=UTC)
    return known.astimezone(UTC).isoformat(timespec="seconds")


def _date(context: Fields) -> str:
    text = context.text("date")
    try:
        return utc(text)
    except (ValueError, OverflowError):
        raise context.error("date", f"{text!r} is not a date such as 2026-03-01T12:00:00") from None


def _measured(entries: Entries) -> Iterator[Measured]:
    """Yield each benchmark's repetitions, its problem, and the medians of its figures."""
    figures = {str(row.name): row.figures for row in to_result(entries, "").rows}
    for name, row in to_launch(entries).rows.items():
        medians = {key: figures[name][key].value for key in sorted(figures[name])}
        yield Measured(str(name), row.repetitions, row.problem, medians)
