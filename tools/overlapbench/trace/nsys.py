"""What `nsys export --type sqlite` writes: one table a kind of record, times in nanoseconds.

    CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET   start, end, globalPid, deviceId, streamId,
                                                   correlationId
    CUPTI_ACTIVITY_KIND_GRAPH_TRACE                whole graphs, without the work in them
    CUPTI_ACTIVITY_KIND_RUNTIME                    start, end, globalTid, correlationId: the calls
    NVTX_EVENTS                                    start, end, globalTid, text or textId: windows
    StringIds                                      id, value: kernels' names (demangledName)
    TARGET_INFO_SESSION_START_TIME                 utcEpochNs: the clock that files share

A table is there only if something was recorded for it. Some columns came with later versions
(textId, srcDeviceId), so a column that a figure can do without may be missing. A correlationId may
be NULL; then no call is known. One file may hold several processes and devices: each pair of them
is a rank. tests/data/nsys has exports of Nsight Systems 2025.5.2.
"""

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from overlapbench.source import ResultError, short
from overlapbench.trace.model import Category, Span, Trace, Window
from overlapbench.trace.rules import Rules
from overlapbench.trace.windows import number_of, place

_PREFIX = "CUPTI_ACTIVITY_KIND_"
_TABLES = {
    f"{_PREFIX}KERNEL": Category.KERNEL,
    f"{_PREFIX}MEMCPY": Category.MEMCPY,
    f"{_PREFIX}MEMSET": Category.MEMSET,
}
_CALLS, _STRINGS, _RANGES = f"{_PREFIX}RUNTIME", "StringIds", "NVTX_EVENTS"
_GRAPHS = f"{_PREFIX}GRAPH_TRACE"
_CLOCK = "TARGET_INFO_SESSION_START_TIME"
_WORK = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId")
_GRID = ("gridX", "gridY", "gridZ")
_COLUMNS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # needed, and of some versions
    f"{_PREFIX}KERNEL": ((*_WORK, "demangledName"), _GRID),
    f"{_PREFIX}MEMCPY": ((*_WORK, "copyKind"), ("srcDeviceId", "dstDeviceId", "bytes")),
    f"{_PREFIX}MEMSET": (_WORK, ("bytes",)),
    _CALLS: (("start", "end", "globalTid", "correlationId"), ()),
    _GRAPHS: (("start", "end"), ()),
    _RANGES: (("start", "end", "globalTid"), ("text", "textId")),
    _STRINGS: (("id", "value"), ()),
    _CLOCK: (("utcEpochNs",), ()),
}
_PROCESS = 1 << 24  # a globalTid is its process's globalPid and a thread's number below this
# CUpti_ActivityMemcpyKind, and what nsys adds to it: ENUM_CUDA_MEMCPY_OPER of an export
_COPIES = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD"}
_COPIES |= {9: "HtoH", 10: "PtoP", 11: "unified HtoD", 12: "unified DtoH", 13: "unified DtoD"}
_PEER = 10
Place = tuple[int, int]  # process and device
Call = tuple[int, int]  # process and correlation
Row = Mapping[str, object]


def read_nsys(source: str, rules: Rules) -> list[Trace]:
    """Read the traces of one file, one a process and device; ResultError where that fails."""
    address = f"file:{quote(str(Path(source).absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA trusted_schema = OFF")
            return _Reader(source, connection, rules).read()
    except (sqlite3.Error, OverflowError) as error:
        raise ResultError(f"{source}: damaged, or cut short: {error}") from None


class _Reader:
    def __init__(self, source: str, connection: sqlite3.Connection, rules: Rules) -> None:
        self.source, self.connection, self.rules = source, connection, rules
        clock = [self._integer(_CLOCK, row, "utcEpochNs") for row in self._rows(_CLOCK)]
        self.common_clock, self.base_ns = bool(clock), clock[0] if clock else 0

    def read(self) -> list[Trace]:
        whole_graphs = self._whole_graphs()
        why = f"; {whole_graphs}" if whole_graphs else ""
        if not any(self._columns(table) for table in _TABLES):
            raise ResultError(f"{self.source}: no table {', '.join(_TABLES)}: no device work{why}")
        names = self._names()
        calls = {
            call: self._times(_CALLS, row)
            for row in self._rows(_CALLS)
            if (call := self._call(_CALLS, row)) is not None
        }
        spans: dict[Place, list[Span]] = defaultdict(list)
        for table, category in _TABLES.items():
            for where, span in self._spans(table, category, names, calls):
                spans[where].append(span)
        if not spans:
            raise ResultError(f"{self.source}: its tables are empty: no device work{why}")
        ranges = self._ranges(names)
        traces = []
        for (process, _), found in sorted(spans.items()):
            of_rank = tuple(sorted(found, key=lambda span: span.interval))
            windows = place(of_rank, ranges.get(process, []), ())
            notes = (whole_graphs,) if whole_graphs else ()
            traces.append(Trace(self.source, None, of_rank, windows, self.common_clock, notes))
        return traces

    def _whole_graphs(self) -> str:
        """Return what a reader of the figures must know of graphs; "" if there is nothing."""
        count = sum(1 for _ in self._rows(_GRAPHS))
        if count == 0:
            return ""
        return (
            f"{count} launches of graphs are recorded as wholes, and their work is missing here:"
            " run nsys profile with --cuda-graph-trace=node"
        )

    def _spans(
        self,
        table: str,
        category: Category,
        names: Mapping[int, str],
        calls: Mapping[Call, tuple[int, int]],
    ) -> Iterator[tuple[Place, Span]]:
        for row in self._rows(table):
            if row["start"] == row["end"] == 0:
                continue  # CUPTI's way to say that it has no times of a record
            begin, end = self._times(table, row)
            found, name = category, "Memset"
            if category is Category.KERNEL:
                name = names.get(self._integer(table, row, "demangledName"), "a kernel of no name")
            elif category is Category.MEMCPY:
                kind = self._integer(table, row, "copyKind")
                name = f"Memcpy {_COPIES.get(kind, kind)}"
                found = Category.PEER if kind == _PEER or _is_peer(row) else category
            key = self._call(table, row)
            call = None if key is None else calls.get(key)
            span = Span(
                name,
                self.rules.classify(found, name),
                begin,
                end,
                str(self._integer(table, row, "streamId")),
                found,
                call[1] if call else None,
                bytes=_count(row.get("bytes")),
                blocks=_blocks(row),
            )
            yield (self._process(table, row), self._integer(table, row, "deviceId")), span

    def _ranges(self, names: Mapping[int, str]) -> Mapping[int, list[Window]]:
        """Return each process's annotations; a mark, which has no end, is none."""
        ranges: dict[int, list[Window]] = defaultdict(list)
        for row in self._rows(_RANGES):
            text, key = row.get("text"), row.get("textId")
            name = text if isinstance(text, str) else names.get(key if isinstance(key, int) else -1)
            if name and row["end"] is not None and row[_owner(row)] is not None:
                window = Window(name, *self._times(_RANGES, row), number_of(name))
                ranges[self._process(_RANGES, row)].append(window)
        return ranges

    def _names(self) -> dict[int, str]:
        return {
            self._integer(_STRINGS, row, "id"): str(row["value"]) for row in self._rows(_STRINGS)
        }

    def _rows(self, table: str) -> Iterator[Row]:
        """Return the rows of a table; none where there is no such table."""
        columns = self._columns(table)
        if not columns:
            return
        needed, optional = _COLUMNS[table]
        if lacking := [column for column in needed if column not in columns]:
            raise ResultError(f"{self.source}: {table} has no column {', '.join(lacking)}")
        chosen = [*needed, *(column for column in optional if column in columns)]
        names = ", ".join(f'"{column}"' for column in chosen)
        for row in self.connection.execute(f'SELECT {names} FROM "{table}"'):
            yield dict(row)

    def _columns(self, table: str) -> set[str]:
        """Return the columns of a table; a view, which could run for ever, is none."""
        known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        if self.connection.execute(known, (table,)).fetchone() is None:
            return set()
        return {row["name"] for row in self.connection.execute(f'PRAGMA table_info("{table}")')}

    def _times(self, table: str, row: Row) -> tuple[int, int]:
        begin, end = (self._integer(table, row, key) for key in ("start", "end"))
        if end < begin:
            raise ResultError(
                f"{self.source}: {table}: end {end} is before start {begin}: it ends before it"
                " begins"
            )
        return self.base_ns + begin, self.base_ns + end

    def _call(self, table: str, row: Row) -> Call | None:
        if row["correlationId"] is None or row[_owner(row)] is None:
            return None
        return self._process(table, row), self._integer(table, row, "correlationId")

    def _process(self, table: str, row: Row) -> int:
        return self._integer(table, row, _owner(row)) // _PROCESS

    def _integer(self, table: str, row: Row, key: str) -> int:
        value = row[key]
        if not isinstance(value, int):
            what = short(value) if not isinstance(value, bytes) else "bytes"
            raise ResultError(f"{self.source}: {table}.{key}: {what} is not a whole number")
        return value


def _owner(row: Row) -> str:
    return "globalPid" if "globalPid" in row else "globalTid"


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _blocks(row: Row) -> int | None:
    sizes = [_count(row.get(column)) for column in _GRID]
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(_GRID) else None


def _is_peer(row: Row) -> bool:
    devices = row.get("srcDeviceId"), row.get("dstDeviceId")
    return None not in devices and devices[0] != devices[1]
