"""Files as the ranks of one run: the reader of each file, and its rank.

A folder or an archive stands for the traces in it; its other files are left out, and a note names
them. A file's first bytes show its type, whatever its name. If a file does not state its rank, the
rank is taken from the file's name (`rank3`), or else the lowest free number is used. In our own
traces, each row is a run; all other traces belong to one run.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from overlapbench.grouping import grouped
from overlapbench.output import ResultError, expand, listed, numerically
from overlapbench.traces.kineto import read_kineto
from overlapbench.traces.model import ForeignFileError, Trace
from overlapbench.traces.nsys import read_nsys
from overlapbench.traces.packed import ARCHIVE, SUFFIXES, opened
from overlapbench.traces.rules import Rules

_SQLITE = b"SQLite format 3\0"
_REPORTS = (".nsys-rep", ".qdrep")
_IN_FOLDERS = (*SUFFIXES, ARCHIVE, ".sqlite")
_SHOWN_BYTES = 1 << 16
_NAMED_ROWS = 3  # in an error message
_RANK = re.compile(r"rank[_-]?(\d{1,5})(?!\d)", re.I)
# Rounded times overlap by a microsecond: Kineto wrote whole ones before 2022.
_ROUNDED_NS = 1000


def read_traces(arguments: Sequence[str], rules: Rules) -> list[Trace]:
    """Read the files of one run and return its ranks in order. ResultError for a bad file."""
    rows = read_rows(arguments, rules)
    if len(rows) > 1:
        names = listed([row or "another tool's" for row in rows], _NAMED_ROWS)
        raise ResultError(f"traces of {len(rows)} rows: give those of one row: {names}")
    (ranks,) = rows.values()
    return ranks


def read_rows(arguments: Sequence[str], rules: Rules) -> dict[str, list[Trace]]:
    """Read the files of all rows, in order; traces of other tools are the row ""."""
    traces = (trace for source in expand(arguments) for trace in _read(source, rules))
    return {
        row: [replace(one, notes=(*one.notes, *_overlaps(one))) for one in _numbered(traces)]
        for row, traces in grouped(traces, lambda trace: trace.row).items()
    }


def files_of(arguments: Sequence[str]) -> Iterator[str]:
    """Return the files to read: expand globs and folders."""
    for source in expand(arguments):
        yield from _within(source)


def is_trace(source: str) -> bool:
    """Tell whether a file, a folder or an archive is read as traces: its first text shows it."""
    if source == "-":
        return False
    if Path(source).is_dir() or source.endswith((*_REPORTS, ARCHIVE)) or _is_sqlite(source):
        return True
    starts = (text.read(_SHOWN_BYTES).lstrip() for text in opened(source))
    return any(start.startswith(b"[") or b'"traceEvents"' in start for start in starts)


def _within(source: str) -> list[str]:
    if not Path(source).is_dir():
        return [source]
    try:
        found = sorted(Path(source).iterdir(), key=lambda file: numerically(file.name))
    except OSError as error:
        raise ResultError(f"{source}: cannot be read: {error.strerror}") from None
    files = [str(file) for file in found if file.name.endswith(_IN_FOLDERS)]
    if not files:
        raise ResultError(f"{source}: no trace in this folder ({', '.join(_IN_FOLDERS)})")
    return files


def _read(source: str, rules: Rules) -> list[Trace]:
    """Read a file, or the traces among the files of a folder or an archive."""
    traces: list[Trace] = []
    foreign: list[ForeignFileError] = []
    for file in _within(source):
        if file.endswith(_REPORTS):
            raise ResultError(f"{file}: export it first: nsys export --type sqlite {file}")
        for text in [None] if _is_sqlite(file) else opened(file):  # several in an archive
            try:
                traces += _named(read_kineto(text, rules) if text else read_nsys(file, rules))
            except ForeignFileError as error:
                foreign.append(error)
    if not traces:
        raise foreign[0]
    notes = tuple(f"left out a file that is no trace: {error}" for error in foreign)
    return [replace(trace, notes=(*trace.notes, *notes)) for trace in traces]


def _named(traces: list[Trace]) -> list[Trace]:
    """Take the rank from the file's name if the file does not state it."""
    named = _RANK.search(Path(traces[0].source).name)
    if len(traces) == 1 and traces[0].rank is None and named:
        return [replace(traces[0], rank=int(named[1]))]
    return traces


def _is_sqlite(source: str) -> bool:
    """Check a file's first bytes, but not a pipe's, which could then not be read again.

    The reader refuses an unreadable file.
    """
    with contextlib.suppress(OSError):
        if Path(source).is_file():
            with Path(source).open("rb") as file:
                return file.read(len(_SQLITE)) == _SQLITE
    return False


def _numbered(traces: Sequence[Trace]) -> list[Trace]:
    stated = Counter(trace.rank for trace in traces if trace.rank is not None)
    for rank, times in stated.items():
        if times > 1:
            sources = dict.fromkeys(trace.source for trace in traces if trace.rank == rank)
            raise ResultError(f"{', '.join(sources)}: rank {rank} occurs twice")
    free = (rank for rank in range(len(traces)) if rank not in stated)
    numbered = [t if t.rank is not None else replace(t, rank=next(free)) for t in traces]
    return sorted(numbered, key=lambda trace: trace.rank or 0)


def _overlaps(trace: Trace) -> list[str]:
    """Report spans that overlap on one lane, since a stream would run them in sequence."""
    ends: dict[str, int] = {}
    count = longest = 0
    for span in trace.spans:
        overlap = min(ends.get(span.lane, span.begin_ns), span.end_ns) - span.begin_ns
        if overlap > _ROUNDED_NS:
            count, longest = count + 1, max(longest, overlap)
        ends[span.lane] = max(ends.get(span.lane, span.end_ns), span.end_ns)
    if not count:
        return []
    return [
        f"spans that overlap an earlier one of their stream: {count}, by up to"
        f" {longest / 1000:.1f} us (programmatic launches, graphs, or a wrong trace)"
    ]
