"""Sources of results: files, globs and standard input, as JSON with locations for error messages.

Every refusal is a ResultError, one line with the file and the field, for example
`run.json: benchmarks[3].slowdown: -1 is not above 0`. A file above 256 MiB is refused before it is
read: no run of the suite comes near that size, and reading it would take several times as much
memory.
"""

import gzip
import io
import json
import math
import sys
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

from overlapbench.output import ResultError, harmless

SCHEMA = "2"
BACKENDS = ("cuda", "host")
_KEY = "overlapbench_schema"
LARGEST_BYTES = 256 << 20
# Limits of a number that is not 0: beyond them, ratios overflow or underflow.
SMALLEST, LARGEST = 1e-100, 1e100
_GZIP = b"\x1f\x8b"  # the first bytes
_Choice = TypeVar("_Choice", bound=Enum)
_DEEPEST = 16  # levels of a context; Google Benchmark's has 3


def load(source: str) -> str:
    """Read the text of a file, which may be packed by gzip, or of standard input for `-`."""
    data = read_bytes(source)
    return decode_text(source, _unpacked(source, data) if data.startswith(_GZIP) else data)


def _unpacked(source: str, data: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            text = packed.read(LARGEST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ResultError(f"{source}: not gzip, or cut short: {error}") from None
    _require_size(source, text)
    return text


def decode_text(source: str, data: bytes) -> str:
    """Decode JSON in UTF-8, or in UTF-16 as PowerShell writes it; with or without a mark in front.

    ResultError names the first invalid byte.
    """
    encoding = json.detect_encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        told = f"byte {error.start} is not {encoding.removesuffix('-sig').upper()}"
        raise ResultError(f"{source}: not JSON: {told}") from None


def read_bytes(source: str | Path) -> bytes:
    """Read a file, or standard input for the text `-`; ResultError if it is too large."""
    try:
        if source == "-":
            data = sys.stdin.buffer.read(LARGEST_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ResultError(f"{source}: cannot be read: {error.strerror}") from None
    _require_size(source, data)
    return data


def _require_size(source: str | Path, data: bytes) -> None:
    if len(data) > LARGEST_BYTES:
        raise ResultError(f"{source}: above {LARGEST_BYTES >> 20} MiB: too large for a result")


@dataclass(frozen=True)
class Document:
    """A result file's context and entries."""

    source: str
    values: Mapping[str, object]
    list_name: str = "benchmarks"

    @classmethod
    def parse(cls, source: str, text: str) -> "Document":
        """Decode JSON; ResultError unless it has a context, as Google Benchmark's files do."""
        values = decode_json(source, text)
        if not isinstance(values, dict) or not isinstance(values.get("context"), dict):
            raise ResultError(f"{source}: context: missing: not a result")
        if not _is_flat(values["context"]):
            raise ResultError(f"{source}: context: nested deeper than {_DEEPEST}: not a result")
        return cls(source, values)

    @property
    def context(self) -> "Fields":
        return Fields(self, None, cast(Mapping[str, object], self.values["context"]))

    @cached_property
    def rows(self) -> Sequence["Fields"]:
        """The entries of the list; there must be at least one, and each must be an object."""
        entries, name = self.values.get(self.list_name), self.list_name
        if not isinstance(entries, list) or not entries:
            raise ResultError(f"{self.source}: {name}: missing or empty: nothing was measured")
        rows = []
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict):
                told = f"{name}[{index}]: {short(entry)} is not an object"
                raise ResultError(f"{self.source}: {told}")
            rows.append(Fields(self, index, entry))
        return rows


@dataclass(slots=True)
class Fields:
    """A JSON object with its location, for error messages."""

    document: Document
    index: int | None  # in the document's list; None for the context
    values: Mapping[str, object]

    @property
    def path(self) -> str:
        return "context" if self.index is None else f"{self.document.list_name}[{self.index}]"

    def error(self, key: str, what: str) -> ResultError:
        return ResultError(f"{self.document.source}: {self.path}.{key}: {what}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if value is None:
            raise self.error(key, "missing")
        if not isinstance(value, str):
            raise self.error(key, f"{short(value)} is not text")
        return value

    def line(self, key: str) -> str:
        """Return optional text on one line, without control characters."""
        return harmless(self.text(key, ""))

    def choice(self, key: str, choices: type[_Choice]) -> _Choice:
        """Return the value that a text names."""
        text = self.text(key)
        try:
            return choices(text)
        except ValueError:
            known = ", ".join(str(choice.value) for choice in choices)
            raise self.error(key, f"{short(text)} is not one of {known}") from None

    def printable(self, key: str) -> str:
        """Return text that will be printed, so it must not contain control characters."""
        text = self.text(key)
        if not text or not text.isprintable():
            raise self.error(key, f"{short(text)} is empty or contains control characters")
        return text

    def number(self, key: str) -> float:
        if key not in self.values:
            raise self.error(key, "missing")
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"{short(value)} is not a number")
        size = abs(value)
        if size == math.inf or size != size:
            raise self.error(key, f"{short(value)} is not a finite number")
        if not can_be_measured(size):
            raise self.error(key, f"{short(value)} is out of range")
        return float(value)

    def failure(self) -> str:
        """Return why an entry was not measured; "" if it was."""
        for flag, message in (("error_occurred", "error_message"), ("skipped", "skip_message")):
            if self.values.get(flag):
                return self.line(message) or "failed, giving no reason"
        return ""


def can_be_measured(number: float) -> bool:
    """Tell whether a number is 0 or within the limits; infinity and NaN are not.

    Squares and ratios of numbers beyond the limits overflow.
    """
    return not number or SMALLEST <= abs(number) <= LARGEST


def short(value: object) -> str:
    """Quote a value for an error message."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= 40 else text[:37] + "..."


def _is_flat(value: object) -> bool:
    """Tell whether a value is nested shallowly enough for recursive code."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return not level


def decode_json(source: str, text: str) -> object:
    """Decode JSON, with NaN, Infinity and any number, so that a refusal can name their field."""
    if not text.strip():
        raise ResultError(f"{source}: empty")
    try:
        return json.loads(text)
    except RecursionError:
        raise ResultError(f"{source}: not JSON, or cut short: nested too deeply") from None
    except ValueError as error:
        raise ResultError(f"{source}: not JSON, or cut short: {error}") from None


# ---- what a file says about its run


def is_own(context: Fields) -> bool:
    """Tell whether this suite wrote the file, and no other Google Benchmark program."""
    return _KEY in context.values


def check_context(context: Fields) -> str:
    """Return the backend of a result of this suite; ResultError for any other file."""
    if not is_own(context):
        raise context.error(_KEY, "missing: not a result of overlapbench")
    schema = context.text(_KEY)
    if schema != SCHEMA:
        raise context.error(_KEY, f"{schema!r} is not supported: must be {SCHEMA!r}")
    backend = context.text("backend")
    if backend not in BACKENDS:
        raise context.error("backend", f"{backend!r} is not one of {', '.join(BACKENDS)}")
    return backend


def read_incomplete(document: Document) -> str:
    """Return why the run ended before all rows were measured; "" if all were."""
    reason = document.values.get("incomplete", "")
    if not isinstance(reason, str):
        raise ResultError(f"{document.source}: incomplete: {short(reason)} is not text")
    return harmless(reason)


def measurement_of(date: object, rows: Iterable[Hashable]) -> object:
    """Return what copies of a measurement share, and no other one has: its date and its figures.

    Where nothing was measured, nothing tells two of them apart: each is like no other.
    """
    figures = frozenset(rows)
    return (str(date), hash(figures)) if figures else object()


def failed_self_test(context: Mapping[str, object]) -> bool:
    """Tell whether known delays were measured wrong, so that no figure of the file is trusted."""
    return str(context.get("self_test", "")).startswith("failed")
