"""The events of a trace in Chrome's JSON, one after the other, whatever the size of the file.

    file = EventFile(text)   # an object with `traceEvents`, or that list alone
    for event in file: ...   # each as the decoder returns it
    file.values              # the object's other values, complete after the last event

Only a piece of the text is in memory. A piece ends where an event seems to end; if that was inside
of one, its events are decoded one by one. Profilers do not escape all text of the host, such as
paths with backslashes. So a backslash that begins no escape stands for itself, names may contain
control characters, and bytes that are not UTF-8 become U+FFFD.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from overlapbench.output import ResultError
from overlapbench.reading.source import decode_json, decode_text
from overlapbench.traces.model import ForeignFileError
from overlapbench.traces.packed import Text

EVENTS = "traceEvents"
NO_EVENTS = f"{EVENTS}: missing: not a trace of PyTorch's profiler"
_PIECE_BYTES = 1 << 20
_LARGEST_VALUE = 64 << 20  # characters of one event
_IN_NUMBERS = ("", *".eE+-0123456789")  # after a number that is cut
_IN_ESCAPES = "\\u0123456789abcdefABCDEF"  # of an escape, as far as it may be cut
_SPACE = re.compile(r"[ \t\r\n]*")
_BACKSLASH = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_DECODER = json.JSONDecoder(strict=False)


class EventFile:
    """One pass over the events of a file."""

    def __init__(self, text: Text) -> None:
        self.source = text.source
        self.values: dict[str, Any] = {}
        self._read = text.read
        self._text, self._place, self._cut = "", 0, ""
        self._dropped = 0  # characters before the text in memory
        self._is_whole = self._found = False

    def __iter__(self) -> Iterator[Any]:
        yield from self._list() if self._opening() == "[" else self._object()
        if self._next():
            raise self._refusal("there is more after its end")
        if not self._found:
            raise ForeignFileError(f"{self.source}: {NO_EVENTS}")

    def _opening(self) -> str:
        start = self._read(_PIECE_BYTES)
        encoding = json.detect_encoding(start)  # UTF-8, or another one with a mark
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._add(start)
        opening = self._next()
        if opening not in ("{", "["):
            try:
                decode_json(self.source, decode_text(self.source, start))
            except ResultError as error:
                raise ForeignFileError(str(error)) from None
            raise ForeignFileError(f"{self.source}: {NO_EVENTS}")
        self._place += 1
        return opening

    def _object(self) -> Iterator[Any]:
        """Read names and values up to the closing brace."""
        while (mark := self._next()) != "}":
            if mark == ",":
                self._place += 1
                continue
            name = self._value() if mark == '"' else None
            if name is None or self._next() != ":":
                raise self._refusal("a name is missing")
            self._place += 1
            if self._next() == "[" and name == EVENTS:
                self._place += 1
                yield from self._list()
            else:
                self.values[name] = self._value()
        self._place += 1

    def _list(self) -> Iterator[Any]:
        """Read events up to the closing bracket."""
        self._found = True
        while True:
            end = self._text.rfind("},", self._place) + 1
            if (events := _decoded(self._text[self._place : end])) is not None:
                yield from events
                self._place = end + 1
            else:
                until = self._dropped + len(self._text)
                while self._dropped + self._place < until:
                    if (mark := self._next()) == "]":
                        self._place += 1
                        return
                    if mark == ",":
                        self._place += 1
                    else:
                        yield self._value()
            if not self._fill(_PIECE_BYTES) and not self._next():
                raise self._refusal("its end is missing")

    def _value(self) -> Any:
        """Decode the value that begins here, however much must be read for it."""
        size = _PIECE_BYTES
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._place)
                if self._is_whole or self._text[end : end + 1] not in _IN_NUMBERS:
                    self._place = end
                    return value
            except (ValueError, RecursionError) as error:
                if self._is_whole or len(self._text) > _LARGEST_VALUE:
                    raise self._refusal(str(error)) from None
            self._fill(size)
            size *= 2

    def _next(self) -> str:
        """Go to the next character that is no space, and return it; "" at the end of the file."""
        while True:
            match = _SPACE.match(self._text, self._place)
            self._place = match.end() if match else self._place
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._fill(_PIECE_BYTES):
                return ""

    def _fill(self, size: int) -> bool:
        """Read more, and forget what has been decoded; return False at the end of the file."""
        self._dropped += self._place
        self._text, self._place = self._text[self._place :], 0
        return self._add(self._read(size))

    def _add(self, data: bytes) -> bool:
        """Decode and mend more text, except for an escape at its end that may be cut."""
        more = self._cut + self._decoder.decode(data, final=not data)
        self._is_whole = not data
        known = more.rstrip(_IN_ESCAPES) if data else more
        self._cut = more[len(known) :]
        self._text += _BACKSLASH.sub(lambda match: match[0] if match[1] else r"\\", known)
        return bool(data)

    def _refusal(self, why: str) -> ResultError:
        kind = ResultError if self._found else ForeignFileError
        return kind(f"{self.source}: not JSON, or cut short: {why}")


def _decoded(piece: str) -> list[Any] | None:
    """Decode whole events; None if there are none, or something else."""
    try:
        return list(_DECODER.decode(f"[{piece}]")) if piece else None
    except (ValueError, RecursionError):
        return None
