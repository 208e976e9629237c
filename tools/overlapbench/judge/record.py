"""The data that the history keeps from a result file.

It keeps the file itself, which can be exported byte for byte, and its origin. For trends, it keeps
the table of counters, if the file has one, and each benchmark's figures: for every counter of the
table that the row has, the median over repetitions. A plain Google Benchmark file has only the
time.

Runs are comparable on the same *machine*: the fields that comparisons require to agree (launch.py).
"""

import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from overlapbench.judge.database import Measured, Record, machine_of
from overlapbench.output import ResultError, expand, harmless
from overlapbench.reading.counters import PARTS
from overlapbench.reading.entries import Entries, read_entries
from overlapbench.reading.launch import to_launch
from overlapbench.reading.result import to_result
from overlapbench.reading.source import Fields, load

_NO_HISTORY = ("injected_delay", "injected_fault")


def read_records(arguments: Sequence[str], revision: str = "") -> list[Record]:
    """Read files, globs and `-`; ResultError unless every one is a result."""
    sources = expand(arguments)
    if sources.count("-") > 1:
        raise ResultError("-: standard input can be read only once")
    return [parse_record(source, load(source), revision) for source in sources]


def parse_record(source: str, text: str, revision: str = "") -> Record:
    """Validate one file; `revision` replaces the revision in its context."""
    entries = read_entries(source, text)
    document, context = entries.document, entries.document.context
    for key in _NO_HISTORY:
        if key in context.values:
            raise context.error(key, "slowed down on purpose: a history must not contain it")
    table = {part: document.values.get(part) for part in PARTS}
    return Record(
        source="standard input" if source == "-" else harmless(source),
        digest=hashlib.sha256(text.encode()).hexdigest(),
        date=_date(context),
        revision=harmless(revision) or context.line("git_revision"),
        host=context.line("host_name"),
        machine=json.dumps(machine_of(context.values)),
        table=json.dumps(table, sort_keys=True) if entries.backend else "",
        document=zlib.compress(text.encode()),
        measurements=tuple(_measurements(entries)),
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


def _measurements(entries: Entries) -> Iterator[Measured]:
    """Yield each benchmark's repetitions, its problem, and the medians of its figures."""
    figures = {str(row.name): row.figures for row in to_result(entries, "").rows}
    for name, row in to_launch(entries).rows.items():
        medians = {key: figures[name][key].value for key in sorted(figures[name])}
        yield Measured(str(name), row.repetitions, row.problem, medians)
