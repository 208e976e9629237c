"""The history's file: an SQLite database that can be opened, appended to, and queried.

An `add` is one transaction: a killed process leaves nothing of it, and two concurrent processes
wait for each other. It uses SQLite's default journal, which also works on network file systems.
Every error of SQLite becomes a ResultError that names the file.
"""

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from overlapbench.judge import schema
from overlapbench.output import ResultError
from overlapbench.reading.counters import Table, merge_tables, parse_table, stored_table
from overlapbench.reading.launch import CONTEXT_FIELDS, surroundings
from overlapbench.reading.source import LARGEST_BYTES, Document

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

    fields: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        words = (
            value if name in _BARE else f"{name} {value}"
            for name, value in self.fields
            if value and (name, value) not in _USUAL and name not in _UNSAID
        )
        return ", ".join(words) or "unknown"

    def without(self, ignored: Sequence[str]) -> "Machine":
        return Machine(tuple(field for field in self.fields if field[0] not in ignored))


def machine_of(context: Mapping[str, object]) -> dict[str, str]:
    """Return the fields that make figures comparable, by their names in reports."""
    found = surroundings(context)
    return {label: found[key] for key, label in CONTEXT_FIELDS.items()}


@dataclass(frozen=True)
class Run:
    """One result file of the history."""

    id: int
    date: str
    revision: str
    host: str
    machine: Machine
    source: str
    added: str
    benchmarks: int
    problems: int


class Measured(NamedTuple):
    """One benchmark of one run."""

    benchmark: str
    repetitions: int
    problem: str  # why the figures cannot be trusted; "" for a good row
    figures: Mapping[str, float]  # by metric, the median of the repetitions


@dataclass(frozen=True)
class Record:
    """One result file, as it is added."""

    source: str
    digest: str  # of the file's content
    date: str  # as `utc` writes it
    revision: str  # "" where unknown
    host: str
    machine: str  # JSON: field to value
    table: str  # JSON: the parts of the file that form its table of counters; "" if it has none
    document: bytes  # the file, compressed
    measurements: tuple[Measured, ...]


class Database:
    """An open history."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, records: Sequence[Record]) -> list[tuple[int, bool]]:
        """Add all or none; return each one's run, and whether it is new."""
        with self._connection:  # commits or rolls back
            self._connection.execute("BEGIN IMMEDIATE")
            return [self._add(record) for record in records]

    def _add(self, record: Record) -> tuple[int, bool]:
        known = self._find("SELECT id FROM run WHERE digest = ?", record.digest)
        if known is not None:
            return known, False
        values = (
            record.digest,
            record.date,
            record.revision,
            record.host,
            self._number("machine", "fields", record.machine),
            record.source,
            len(record.measurements),
            sum(bool(measured.problem) for measured in record.measurements),
            record.document,
        )
        cursor = self._connection.execute(
            "INSERT INTO run (digest, date, revision, host, machine, source, benchmarks, problems,"
            f" document) VALUES ({', '.join('?' * len(values))})",
            values,
        )
        run = int(cursor.lastrowid or 0)
        if record.table:
            self._connection.execute(
                "INSERT INTO counters_of_run (run, counters) VALUES (?, ?)",
                (run, self._number("counters", "content", record.table)),
            )
        self._connection.executemany(
            "INSERT INTO measurement (run, benchmark, repetitions, problem, figures)"
            " VALUES (?, ?, ?, ?, ?)",
            (
                (run, self._number("benchmark", "name", name), *rest, json.dumps(figures))
                for name, *rest, figures in record.measurements
            ),
        )
        return run, True

    def _number(self, table: str, column: str, text: str) -> int:
        """Return the number of a text, assigning one if it is new."""
        known = self._find(f"SELECT id FROM {table} WHERE {column} = ?", text)
        if known is not None:
            return known
        new = self._connection.execute(f"INSERT INTO {table} ({column}) VALUES (?)", (text,))
        return int(new.lastrowid or 0)

    def _find(self, query: str, value: str) -> int | None:
        row = self._connection.execute(query, (value,)).fetchone()
        return None if row is None else int(row[0])

    def runs(self) -> list[Run]:
        """Return all runs in the order of time; within a second, in the order of adding."""
        rows = self._connection.execute(
            "SELECT r.id, date, revision, host, fields, source, added, benchmarks, problems"
            " FROM run r JOIN machine m ON m.id = r.machine ORDER BY date, r.id"
        )
        return [
            Run(number, date, revision, host, Machine(tuple(json.loads(fields).items())), *rest)
            for number, date, revision, host, fields, *rest in rows
        ]

    def table(self, runs: Sequence[Run]) -> Table:
        """Return the table of counters of runs; ResultError if their tables contradict."""
        known = dict(self._connection.execute("SELECT run, counters FROM counters_of_run"))
        numbers = {known[run.id] for run in runs if run.id in known}
        own = {number: self._read_table(number) for number in numbers}
        return merge_tables(
            (f"run {run.id}", own[known[run.id]] if run.id in known else stored_table())
            for run in runs
        )

    def _read_table(self, number: int) -> Table:
        query = "SELECT content FROM counters WHERE id = ?"
        (content,) = self._connection.execute(query, (number,)).fetchone()
        return parse_table(Document(f"table {number}", content, json.loads(content)))

    def document(self, run: int) -> bytes:
        """Return the file that a run was added from, byte for byte."""
        (content,) = self._connection.execute(
            "SELECT document FROM run WHERE id = ?", (run,)
        ).fetchone()
        return zlib.decompressobj().decompress(content, LARGEST_BYTES)

    def benchmarks(self) -> list[str]:
        """Return the names of all benchmarks, in the order of their first appearance."""
        return [
            name for (name,) in self._connection.execute("SELECT name FROM benchmark ORDER BY id")
        ]

    def measured_in(self, run: int) -> Iterator[Measured]:
        """Return a run's benchmarks."""
        rows = self._connection.execute(
            "SELECT name, repetitions, problem, figures FROM measurement m"
            " JOIN benchmark b ON b.id = m.benchmark WHERE run = ? ORDER BY m.rowid",
            (run,),
        )
        for name, repetitions, problem, figures in rows:
            yield Measured(name, repetitions, problem, json.loads(figures))

    def figures_of(self, benchmark: str) -> Mapping[int, Mapping[str, float]]:
        """Return a benchmark's figures in the runs that measured it well."""
        rows = self._connection.execute(
            "SELECT run, figures FROM measurement m JOIN benchmark b ON b.id = m.benchmark"
            " WHERE name = ? AND problem = ''",
            (benchmark,),
        )
        return {run: json.loads(figures) for run, figures in rows}


@contextlib.contextmanager
def open_history(path: Path, create: bool = False) -> Iterator[Database]:
    """Open a history, or `create` it; ResultError if the file is no history, or SQLite fails."""
    if not create and not path.exists():
        raise ResultError(f"{path}: no history yet: overlapbench history add creates it")
    mode = "rwc" if create else "rw"
    try:
        with contextlib.closing(
            sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                timeout=_PATIENCE_S,
                uri=True,
            )
        ) as connection:
            _prepare(connection, path, create)
            yield Database(connection)
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
        connection.executescript(schema.SCRIPT)
    if ask("PRAGMA application_id") != schema.APPLICATION:
        raise ResultError(f"{path}: an SQLite database, but not a history of overlapbench")
    version = ask("PRAGMA user_version")
    if version != schema.VERSION:
        raise ResultError(
            f"{path}: tables of version {version}, but this overlapbench reads {schema.VERSION}:"
            " use the one that made it"
        )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA query_only = {'OFF' if create else 'ON'}")
