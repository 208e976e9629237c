"""The data that the history keeps from a result file.

It keeps the file itself, which can be exported byte for byte, and its origin. For trends, it keeps
the table of counters, if the file has one, and each benchmark's figures: for every counter of the
table that the row has, the median over repetitions. A plain Google Benchmark file has only the
time.

Runs are comparable on the same *machine*: the fields that comparisons require to agree (launch.py).
"""

import hashlib
import json
import math
import statistics
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from overlapbench.judge.database import Measured, Record, machine_of
from overlapbench.reading.counters import PARTS, TIME, VALID
from overlapbench.reading.entries import Names
from overlapbench.reading.launch import Launch, parse_launch
from overlapbench.reading.result import Contract, State, read_contract, read_run
from overlapbench.reading.source import Document, Fields, ResultError, expand, harmless, load

_NO_HISTORY = ("injected_delay", "injected_fault")


def read_records(arguments: Sequence[str], revision: str = "") -> list[Record]:
    """Read files, globs and `-`; ResultError unless every one is a result."""
    sources = expand(arguments)
    if sources.count("-") > 1:
        raise ResultError("-: standard input can be read only once")
    return [parse_record(source, load(source), revision) for source in sources]


def parse_record(source: str, text: str, revision: str = "") -> Record:
    """Validate one file; `revision` replaces the revision in its context."""
    launch = parse_launch(source, text)
    document = Document.parse(source, text)
    context = document.context
    for key in _NO_HISTORY:
        if key in context.values:
            raise context.error(key, "slowed down on purpose: a history must not contain it")
    contract = read_contract(document)
    table = {part: document.values[part] for part in PARTS if part in document.values}
    return Record(
        source="standard input" if source == "-" else harmless(source),
        digest=hashlib.sha256(text.encode()).hexdigest(),
        date=_date(context),
        revision=harmless(revision) or context.line("git_revision"),
        host=context.line("host_name"),
        machine=json.dumps(machine_of(context.values)),
        table=json.dumps(table, sort_keys=True) if contract.stated else "",
        document=zlib.compress(text.encode()),
        measurements=tuple(_measurements(document, launch, contract)),
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


def _measurements(document: Document, launch: Launch, contract: Contract) -> Iterator[Measured]:
    """Reduce the repetitions of each benchmark; `launch` has checked the document."""
    if not contract.ours:
        for name, row in launch.rows.items():
            time_ms = launch.time_ms(name)
            known = {} if math.isnan(time_ms) else {TIME: time_ms}
            yield Measured(name, row.repetitions, row.problem, known)
        return
    names = Names()
    runs: dict[str, list[Mapping[str, float]]] = {name: [] for name in launch.rows}
    for index in range(len(document.entries)):
        fields = document.fields(index)
        if fields.values.get("run_type") == "aggregate":
            continue
        name, required = names.resolve(fields, contract)
        run = read_run(fields, contract, required, all_intervals=False)
        if run.state is not State.ERROR:
            runs[name].append({TIME: run.time_ms, **run.counters})
    for name, found in runs.items():
        row = launch.rows[name]
        # Only figures that all repetitions have.
        shared = set.intersection(*map(set, found)) - {VALID} if found else set()
        medians = {key: statistics.median(run[key] for run in found) for key in sorted(shared)}
        yield Measured(name, row.repetitions, row.problem, medians)
