"""Output of `nsys export --type sqlite`: one table per kind of record, times in nanoseconds.

    CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET   start, end, globalPid, deviceId, streamId,
                                                   correlationId
    CUPTI_ACTIVITY_KIND_GRAPH_TRACE                whole graphs, without the work in them
    CUPTI_ACTIVITY_KIND_RUNTIME                    start, end, globalTid, correlationId: the calls
    NVTX_EVENTS                                    start, end, globalTid, text or textId: windows
    StringIds                                      id, value: kernels' names (demangledName)
    TARGET_INFO_SESSION_START_TIME                 utcEpochNs: the clock that files share

A table exists only if it has records. Later versions added some columns (textId, srcDeviceId), so
columns that no figure requires may be missing. A correlationId may be NULL; then the call is
unknown. One file may contain several processes and devices (devices.py).
tests/data/nsys contains exports of Nsight Systems 2025.5.2.
"""

import math
import sqlite3
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from overlapbench.output import ResultError
from overlapbench.reading.source import short
from overlapbench.traces.model import (
    Category,
    ForeignFileError,
    Span,
    Trace,
    Window,
    is_between_devices,
)
from overlapbench.traces.plausible import Fault, Omitted, plausible
from overlapbench.traces.processes import Device, ranks_among
from overlapbench.traces.rules import Rules
from overlapbench.traces.windows import number_of, place

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
_COLUMNS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # required, and optional
    f"{_PREFIX}KERNEL": ((*_WORK, "demangledName"), _GRID),
    f"{_PREFIX}MEMCPY": ((*_WORK, "copyKind"), ("srcDeviceId", "dstDeviceId", "bytes")),
    f"{_PREFIX}MEMSET": (_WORK, ("bytes",)),
    _CALLS: (("start", "end", "globalTid", "correlationId"), ()),
    _GRAPHS: (("start", "end"), ()),
    _RANGES: (("start", "end", "globalTid"), ("text", "textId")),
    _STRINGS: (("id", "value"), ()),
    _CLOCK: (("utcEpochNs",), ()),
}
_PROCESS = 1 << 24  # a globalTid is the process's globalPid plus a thread number below this
# CUpti_ActivityMemcpyKind, and what nsys adds to it: ENUM_CUDA_MEMCPY_OPER of an export
_COPIES = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD"}
_COPIES |= {9: "HtoH", 10: "PtoP", 11: "unified HtoD", 12: "unified DtoH", 13: "unified DtoD"}
_PEER = 10
Place = tuple[int, int]  # process and device
Call = tuple[int, int]  # process and correlation


def read_nsys(source: str, rules: Rules) -> list[Trace]:
    """Read the traces of one file, one per process and device; ResultError if that fails."""
    address = f"file:{quote(str(Path(source).absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA trusted_schema = OFF")
            return _Reader(source, connection, rules).read()
    except (sqlite3.Error, OverflowError) as error:
        raise ResultError(f"{source}: damaged, or cut short: {error}") from None


class _Record(dict[str, object]):
    """A row of a table."""

    table = ""  # with its file

    def integer(self, key: str) -> int:
        value = self[key]
        if not isinstance(value, int):
            what = short(value) if not isinstance(value, bytes) else "bytes"
            raise ResultError(f"{self.table}.{key}: {what} is not a whole number")
        return value

    def count(self, key: str) -> int | None:
        """Return an optional whole number; None if the record lacks it."""
        value = self.get(key)
        return value if isinstance(value, int) else None

    @property
    def process(self) -> int:
        return self.integer("globalPid" if "globalPid" in self else "globalTid") // _PROCESS

    @property
    def call(self) -> Call | None:
        owner = self.get("globalPid", self.get("globalTid"))
        if self["correlationId"] is None or owner is None:
            return None
        return self.process, self.integer("correlationId")


class _Reader:
    def __init__(self, source: str, connection: sqlite3.Connection, rules: Rules) -> None:
        self.source, self.connection, self.rules = source, connection, rules
        self.omitted = Omitted()
        clock = [record.integer("utcEpochNs") for record in self._records(_CLOCK)]
        self.common_clock, self.base_ns = bool(clock), clock[0] if clock else 0

    def read(self) -> list[Trace]:
        notes: tuple[str, ...] = ()
        if graphs := sum(1 for _ in self._records(_GRAPHS)):
            notes = (
                f"{graphs} graph launches are recorded as a whole, without their work:"
                " run nsys profile with --cuda-graph-trace=node",
            )
        if not any(self._columns(table) for table in _TABLES):
            why = "; ".join([f"no table {', '.join(_TABLES)}: no device work", *notes])
            raise ForeignFileError(f"{self.source}: {why}")
        ranges = self._ranges()
        if not (ranks := ranks_among(self._devices(), None)):
            why = "; ".join(["no device work", *self.omitted.notes(), *notes])
            raise ForeignFileError(f"{self.source}: its tables are empty: {why}")
        return [
            Trace(
                self.source,
                None,
                tuple(device.spans),
                place(device.spans, ranges.get(device.process, []), ()),
                self.common_clock,
                notes=(*notes, *device.notes, *self.omitted.notes()),
            )
            for device in ranks
        ]

    def _devices(self) -> list[Device]:
        spans: dict[Place, list[Span]] = defaultdict(list)
        for table, category in _TABLES.items():
            for record in self._records(table):
                if span := self._span(record, category):
                    spans[record.process, record.integer("deviceId")].append(span)
        calls = self.returned.values()
        host = (min(calls), max(calls)) if calls else None
        devices = [
            Device(process, str(number), plausible(found, host, self.omitted))
            for (process, number), found in sorted(spans.items())
        ]
        return [device for device in devices if device.spans]

    @cached_property
    def names(self) -> Mapping[int, str]:
        return {one.integer("id"): str(one["value"]) for one in self._records(_STRINGS)}

    @cached_property
    def returned(self) -> Mapping[Call | None, int]:
        """When each call returned."""
        calls = (one for one in self._records(_CALLS) if one.call)
        return {one.call: self._times(one)[1] for one in calls}

    def _span(self, record: _Record, category: Category) -> Span | None:
        """Return a span; None if its times cannot be used."""
        name = "Memset"
        if category is Category.KERNEL:
            name = self.names.get(record.integer("demangledName"), "unnamed kernel")
        elif category is Category.MEMCPY:
            kind = record.integer("copyKind")
            name = f"Memcpy {_COPIES.get(kind, kind)}"
            if kind == _PEER or is_between_devices(
                record.get("srcDeviceId"), record.get("dstDeviceId")
            ):
                category = Category.PEER
        # CUPTI sets both times to 0 if it has none for a record.
        begin, end = record.integer("start"), record.integer("end")
        if end < begin or (begin, end) == (0, 0):
            self.omitted.add(Fault.BACKWARD if end < begin else Fault.NO_TIME, name)
            return None
        sizes = [size for column in _GRID if (size := record.count(column)) is not None]
        return Span(
            name,
            self.rules.classify(category, name),
            self.base_ns + begin,
            self.base_ns + end,
            str(record.integer("streamId")),
            category,
            self.returned.get(record.call),
            bytes=record.count("bytes"),
            blocks=math.prod(sizes) if len(sizes) == len(_GRID) else None,
        )

    def _ranges(self) -> Mapping[Hashable, list[Window]]:
        """Return each process's annotations, without marks, which have no end."""
        ranges: dict[Hashable, list[Window]] = defaultdict(list)
        for record in self._records(_RANGES):
            text, key = record.get("text"), record.count("textId")
            name = text if isinstance(text, str) else self.names.get(-1 if key is None else key)
            if name and record["end"] is not None and record["globalTid"] is not None:
                begin, end = self._times(record)
                if begin <= end:
                    ranges[record.process].append(Window(name, begin, end, number_of(name)))
        return ranges

    def _times(self, record: _Record) -> tuple[int, int]:
        return self.base_ns + record.integer("start"), self.base_ns + record.integer("end")

    def _records(self, table: str) -> Iterator[_Record]:
        """Return the rows of a table; none if the table is missing."""
        columns = self._columns(table)
        if not columns:
            return
        needed, optional = _COLUMNS[table]
        if lacking := [column for column in needed if column not in columns]:
            raise ResultError(f"{self.source}: {table} has no column {', '.join(lacking)}")
        chosen = [*needed, *(column for column in optional if column in columns)]
        names = ", ".join(f'"{column}"' for column in chosen)
        for row in self.connection.execute(f'SELECT {names} FROM "{table}"'):
            record = _Record(row)
            record.table = f"{self.source}: {table}"
            yield record

    def _columns(self, table: str) -> set[str]:
        """Return the columns of a table; none for a view, which could run forever."""
        query = (
            "SELECT columns.name FROM sqlite_master AS tables, pragma_table_info(?) AS columns"
            " WHERE tables.type = 'table' AND tables.name = ?"
        )
        return {row["name"] for row in self.connection.execute(query, (table, table))}
