"""What the history keeps of a result file.

The file itself, so that it can be had again byte for byte; where it comes from; and, ready for
trends, its table of counters, if it has one, and each benchmark's figures: the medians over its
repetitions, of every counter of the table that the row has. A plain file of Google Benchmark has
its time only.

Runs are comparable on the same *machine*: the fields that comparing goes by (launch.py), and for a
file that names no backend, hence no device, its host.
"""

import hashlib
import json
import statistics
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from overlapbench.counters import PARTS, TIME, VALID
from overlapbench.entries import Names
from overlapbench.launch import CONTEXT_FIELDS, Launch, parse_launch
from overlapbench.result import Contract, State, read_contract, read_run
from overlapbench.source import Document, Fields, ResultError, expand, harmless, load

_NO_HISTORY = ("injected_delay", "injected_fault")


class Measurement(NamedTuple):
    """One benchmark of one run."""

    benchmark: str
    repetitions: int
    problem: str  # why the figures are not to be trusted; empty for a good row
    figures: str  # JSON: metric to median


@dataclass(frozen=True)
class Record:
    """One result file."""

    source: str
    digest: str  # of the file's content
    date: str  # as `utc` writes it
    revision: str  # "" where unknown
    host: str
    machine: str  # JSON: field to value
    table: str  # JSON: the parts of the file that are its table of counters; "" where it has none
    document: bytes  # the file, compressed
    measurements: tuple[Measurement, ...]


def read_records(arguments: Sequence[str], revision: str = "") -> list[Record]:
    """Read files, globs and `-`; ResultError unless every one is a result."""
    sources = expand(arguments)
    if sources.count("-") > 1:
        raise ResultError("-: standard input can be read only once")
    return [parse_record(source, load(source), revision) for source in sources]


def parse_record(source: str, text: str, revision: str = "") -> Record:
    """Validate one file; `revision` replaces what its context says."""
    launch = parse_launch(source, text)
    document = Document.parse(source, text)
    context = document.context
    for key in _NO_HISTORY:
        if key in context.values:
            raise context.error(key, "slowed down on purpose: not part of a history")
    content = text.encode()
    contract = read_contract(document)
    return Record(
        source="standard input" if source == "-" else harmless(source),
        digest=hashlib.sha256(content).hexdigest(),
        date=_date(context),
        revision=harmless(revision) or context.line("git_revision"),
        host=context.line("host_name"),
        machine=json.dumps(_machine(launch.context, context)),
        table=_table(document) if contract.stated else "",
        document=zlib.compress(content),
        measurements=tuple(_measurements(document, launch, contract)),
    )


def _table(document: Document) -> str:
    parts = {part: document.values[part] for part in PARTS if part in document.values}
    return json.dumps(parts, sort_keys=True)


def utc(text: str) -> str:
    """Write an ISO date in UTC, so that the order of texts is that of time. Raises ValueError."""
    date = datetime.fromisoformat(text)
    known = date if date.tzinfo else date.replace(tzinfo=UTC)
    return known.astimezone(UTC).isoformat(timespec="seconds")


def _date(context: Fields) -> str:
    text = context.text("date")
    try:
        return utc(text)
    except (ValueError, OverflowError):
        raise context.error("date", f"{text!r} is not a date such as 2026-03-01T12:00:00") from None


def _machine(compared: Mapping[str, str], context: Fields) -> Mapping[str, str]:
    fields = {label: compared[key] for key, label in CONTEXT_FIELDS.items()}
    return fields | {"host": "" if fields["backend"] else context.line("host_name")}


def _measurements(document: Document, launch: Launch, contract: Contract) -> Iterable[Measurement]:
    """Reduce the repetitions of each benchmark; `launch` has checked the document."""
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
        yield Measurement(name, row.repetitions, row.problem, json.dumps(_medians(found)))


def _medians(runs: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """Return the median of each figure that all repetitions have."""
    shared = set.intersection(*map(set, runs)) - {VALID} if runs else set()
    return {key: statistics.median(run[key] for run in runs) for key in sorted(shared)}
