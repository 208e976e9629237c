"""The text of traces, unpacked while it is read: gzip, Zstandard and zip, known by first bytes.

    for text in opened("rank0.json.zst"):   # an archive (zip) may contain several
        text.read(1 << 20)

Zstandard needs Python 3.14 or the package `zstandard`. A file may be packed twice, such as a
`.json.gz` in an archive.
"""

import gzip
import io
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast

from overlapbench.output import ResultError, numerically
from overlapbench.packages import optional

SUFFIXES = (".json", ".json.gz", ".json.zst")  # of traces in folders and archives
ARCHIVE = ".zip"
LARGEST_TEXT_BYTES = 16 << 30  # unpacked: above the size of any useful trace, below a bomb's
_ZIP = b"PK\x03\x04"
_WINDOW_BITS = 31  # for files of `zstd --long=31`


class Text:
    """Unpacked bytes, read in order; ResultError if the file is damaged or cannot be read."""

    def __init__(self, source: str, stream: IO[bytes], form: str) -> None:
        self.source, self._stream, self._form = source, stream, form
        self._left_bytes = LARGEST_TEXT_BYTES

    def read(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except Exception as error:
            raise _refusal(self.source, self._form, error) from None
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise ResultError(f"{self.source}: above {LARGEST_TEXT_BYTES >> 20} MiB when unpacked")
        return data


def opened(source: str) -> Iterator[Text]:
    """Open a file, or standard input for `-`; yield one text, or those in an archive."""
    with ExitStack() as stack:
        try:
            file = (
                sys.stdin.buffer if source == "-" else stack.enter_context(Path(source).open("rb"))
            )
            yield from _unpacked(source, file, stack, "")
        except OSError as error:
            raise _refusal(source, "", error) from None


def _unpacked(source: str, packed: IO[bytes], stack: ExitStack, form: str) -> Iterator[Text]:
    """Unpack as often as the file is packed."""
    stream = cast(Any, packed if hasattr(packed, "peek") else io.BufferedReader(cast(Any, packed)))
    try:
        magic = stream.peek(4)[:4]
    except Exception as error:
        raise _refusal(source, form, error) from None
    if magic == _ZIP:
        yield from _archived(source, stream, stack)
        return
    for start, (name, unpack) in _FORMS.items():
        if magic.startswith(start):
            yield from _unpacked(source, unpack(source, stream, stack), stack, name)
            return
    yield Text(source, stream, form)


def _archived(source: str, packed: IO[bytes], stack: ExitStack) -> Iterator[Text]:
    if not packed.seekable():
        packed, pipe = cast(IO[bytes], stack.enter_context(tempfile.TemporaryFile())), packed  # noqa: SIM115
        shutil.copyfileobj(pipe, packed)
    try:
        archive = stack.enter_context(zipfile.ZipFile(packed))
        names = sorted((n for n in archive.namelist() if n.endswith(SUFFIXES)), key=numerically)
        if not names:
            raise ResultError(f"{source}: no trace in this archive ({', '.join(SUFFIXES)})")
        members = {name: stack.enter_context(archive.open(name)) for name in names}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise _refusal(source, "zip", error) from None
    for name, member in members.items():
        yield from _unpacked(f"{source}/{name}", member, stack, "zip")


def _gzip(_source: str, packed: IO[bytes], stack: ExitStack) -> IO[bytes]:
    return cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=packed)))


def _zstd(source: str, packed: IO[bytes], stack: ExitStack) -> IO[bytes]:
    if standard := optional("compression.zstd"):
        limit = {standard.DecompressionParameter.window_log_max: _WINDOW_BITS}
        reader = standard.ZstdFile(packed, options=limit)
    elif package := optional("zstandard"):
        unpacker = package.ZstdDecompressor(max_window_size=1 << _WINDOW_BITS)
        reader = unpacker.stream_reader(packed, read_across_frames=True, closefd=False)
    else:
        raise ResultError(f"{source}: packed by Zstandard: unpack it, or pip install zstandard")
    return cast(IO[bytes], stack.enter_context(reader))


_FORMS: Mapping[bytes, tuple[str, Callable[[str, IO[bytes], ExitStack], IO[bytes]]]] = {
    b"\x1f\x8b": ("gzip", _gzip),
    b"\x28\xb5\x2f\xfd": ("Zstandard", _zstd),
}


def _refusal(source: str, form: str, error: Exception) -> ResultError:
    """Return the line for an error of a reader; errors that it cannot have are raised again."""
    if isinstance(error, ResultError):
        return error
    if form:
        return ResultError(f"{source}: not {form}, or cut short: {error}")
    if isinstance(error, OSError):
        return ResultError(f"{source}: cannot be read: {error.strerror}")
    raise error
