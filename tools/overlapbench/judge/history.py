"""The history's file: an SQLite database of runs, which can be opened, appended to, and read.

It has one table. A row holds a result file, compressed, and a Run, what was read from the file when
it was added: listing runs and drawing trends reads no result again. For trends, a run has the table
of counters, if the file has one, and each benchmark's figures: for every counter of the table that
the row has, the median over repetitions. A plain Google Benchmark file has only the time.

SQLite marks the file as ours by APPLICATION (`PRAGMA application_id`) and with the VERSION of its
table (`PRAGMA user_version`). An `add` is one transaction: a killed process leaves nothing of it,
and two concurrent processes wait for each other. It uses SQLite's default journal, which also works
on network file systems. Every error of SQLite becomes a ResultError that names the file.
"""

import contextlib
import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from overlapbench.output import ResultError, expand, harmless
from overlapbench.reading.counters import PARTS, Table, merge_tables, parse_table, stored_table
from overlapbench.reading.entries import Entries, read_entries
from overlapbench.reading.program_run import CONTEXT_FIELDS, surroundings, to_program_run
from overlapbench.reading.result import to_result
from overlapbench.reading.source import LARGEST_BYTES, Document, Fields, load

APPLICATION = 0x6F6C6270  # "olbp"
VERSION = 2
# Makes an empty file a history, also if two processes run it at once.
SCRIPT = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS run (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,      -- SHA-256 of the file
    record TEXT NOT NULL,             -- JSON: a Run
    document BLOB NOT NULL            -- the file, compressed with zlib
) STRICT;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
COMMIT;
"""
_REFUSED = ("injected_delay", "injected_fault")  # keys of a context
_PATIENCE_S = 60.0  # how long to wait for another writer
_ERRORS = {  # by SQLite's message
    "file is not a database": "not a history: not an SQLite database; name one with --database",
    "attempt to write a readonly database": "cannot be written: it or its folder is read-only",
    "database is locked": f"another process has locked it for {_PATIENCE_S:g} s; try again",
    "database disk image is malformed": "damaged; restore it from a backup",
}
# Fields of a machine: said without their names, not said, and not said where they are usual.
_BARE = frozenset({"backend", "GPU", "variables"})
_UNSAID = frozenset({"cpus", "cores"})  # the host has them
_USUAL = frozenset({("gate", "on")})
_NOT_OPENED = "unable to open database file"


@dataclass(frozen=True)
class Machine:
    """The fields that make figures comparable; "" if a file does not state one."""

    fields: tuple[tuple[str, str], ...]  # by their names in reports

    @classmethod
    def of(cls, context: Mapping[str, object]) -> "Machine":
        found = surroundings(context)
        return cls(tuple((label, found[key]) for key, label in CONTEXT_FIELDS.items()))

    def __str__(self) -> str:
        words = (
            value if name in _BARE else f"{name} {value}"
            for name, value in self.fields
            if value and (name, value) not in _USUAL and name not in _UNSAID
        )
        return ", ".join(words) or "unknown"

    def without(self, ignored: Sequence[str]) -> "Machine":
        return Machine(tuple(field for field in self.fields if field[0] not in ignored))


@dataclass(frozen=True)
class Measured:
    """One benchmark of one run."""

    benchmark: str
    repetitions: int
    problem: str  # why the figures cannot be trusted; "" for a good row
    figures: Mapping[str, float]  # by metric, the median of the repetitions


@dataclass(frozen=True)
class Run:
    """What the history knows of a result file."""

    source: str  # the file's name when it was added
    date: str  # as `utc` writes it
    revision: str  # "" where unknown
    host: str
    machine: Machine
    table: str  # JSON: the parts of the file that form its table of counters; "" if it has none
    measured: tuple[Measured, ...]
    id: int = 0  # in the order of adding; 0 for one that is not in a history

    @property
    def problems(self) -> int:
        """The number of benchmarks that have one."""
        return sum(bool(one.problem) for one in self.measured)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, number: int) -> "Run":
        values: dict[str, Any] = json.loads(text)
        fields = tuple((name, value) for name, value in values["machine"]["fields"])
        measured = tuple(Measured(**one) for one in values["measured"])
        return cls(**values | {"machine": Machine(fields), "measured": measured, "id": number})


def table_of(runs: Sequence[Run]) -> Table:
    """Return the table of counters of runs; ResultError if their tables contradict."""
    own = {
        text: parse_table(Document("a table", json.loads(text))) if text else stored_table()
        for text in {run.table for run in runs}
    }
    return merge_tables((f"run {run.id}", own[run.table]) for run in runs)


class History:
    """An open history."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, files: Iterable[tuple[str, Run]]) -> list[tuple[int, bool]]:
        """Add result files, all or none; return each one's number, and whether it is new."""
        with self._connection:  # commits or rolls back
            self._connection.execute("BEGIN IMMEDIATE")
            return [self._add(text.encode(), run) for text, run in files]

    def _add(self, document: bytes, run: Run) -> tuple[int, bool]:
        digest = hashlib.sha256(document).hexdigest()
        added = self._connection.execute(
            "INSERT OR IGNORE INTO run (digest, record, document) VALUES (?, ?, ?)",
            (digest, run.to_json(), zlib.compress(document)),
        )
        found = self._connection.execute("SELECT id FROM run WHERE digest = ?", (digest,))
        return int(found.fetchone()[0]), added.rowcount == 1

    def runs(self) -> list[Run]:
        """Return all runs in the order of time; within a second, in the order of adding."""
        rows = self._connection.execute("SELECT record, id FROM run ORDER BY id")
        return sorted((Run.from_json(*row) for row in rows), key=lambda run: run.date)

    def document(self, run: Run) -> bytes:
        """Return the file that a run was added from, byte for byte."""
        found = self._connection.execute("SELECT document FROM run WHERE id = ?", (run.id,))
        return zlib.decompressobj().decompress(found.fetchone()[0], LARGEST_BYTES)


@contextlib.contextmanager
def open_history(path: Path, create: bool = False) -> Iterator[History]:
    """Open a history, or `create` it; ResultError if the file is no history, or SQLite fails."""
    if not create and not path.exists():
        raise ResultError(f"{path}: no history yet: overlapbench history add creates it")
    address = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
    try:
        with contextlib.closing(
            sqlite3.connect(address, timeout=_PATIENCE_S, uri=True)
        ) as connection:
            _prepare(connection, path, create)
            yield History(connection)
    except (sqlite3.Error, zlib.error) as error:
        raise ResultError(f"{path}: {_explain(path, str(error))}") from None


def _explain(path: Path, error: str) -> str:
    """Say what to do about an error of SQLite."""
    if error != _NOT_OPENED:
        return _ERRORS.get(error, error)
    if path.is_dir():
        return "cannot be opened: it is a folder; name a file in it"
    if not path.parent.is_dir():
        return f"cannot be opened: there is no folder {path.parent}; create it first"
    return "cannot be opened: you may not read or write it or its folder"


def _prepare(connection: sqlite3.Connection, path: Path, create: bool) -> None:
    """Refuse a file that is not a history; turn an empty file into one."""

    def ask(question: str) -> int:
        return int(connection.execute(question).fetchone()[0])

    if create and not ask("SELECT count(*) FROM sqlite_schema"):
        connection.executescript(SCRIPT)
    if ask("PRAGMA application_id") != APPLICATION:
        raise ResultError(f"{path}: an SQLite database, but not a history of overlapbench")
    version = ask("PRAGMA user_version")
    if version != VERSION:
        raise ResultError(
            f"{path}: tables of version {version}, but this overlapbench reads {VERSION}:"
            " use the one that made it"
        )
    connection.execute(f"PRAGMA query_only = {'OFF' if create else 'ON'}")


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
    for key in _REFUSED:
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
    run = to_program_run(entries)
    each = zip(map(str, run.names), run.repetitions, run.problems, strict=True)
    for name, repetitions, problem in each:
        medians = {key: figures[name][key].value for key in sorted(figures[name])}
        yield Measured(name, repetitions, problem, medians)
