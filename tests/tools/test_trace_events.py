"""Events are read in pieces of any size, from packed files too, as if decoded as a whole."""

import gzip
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import samples
import traces
from overlapbench.output import ResultError
from overlapbench.packages import optional
from overlapbench.traces import events, packed
from overlapbench.traces.events import EventFile
from overlapbench.traces.files import read_traces
from overlapbench.traces.model import ForeignFileError
from overlapbench.traces.packed import Text, opened
from overlapbench.traces.rules import Rules
from traces import GEMM, kineto, work

_texts = st.text(max_size=8) | st.sampled_from(["},{", '"}', "\\", "]", "}, {", "é}", "\u2028"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def read(data: bytes) -> tuple[list[Any], dict[str, Any]]:
    file = EventFile(Text("x.json", io.BytesIO(data), ""))
    return list(file), file.values


@given(
    st.lists(st.dictionaries(_texts, _values, max_size=3), max_size=5),
    st.dictionaries(_texts, _values, max_size=2),
    st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}]),
    st.integers(1, 60),
    st.booleans(),
)
@SETTINGS
def test_pieces_of_any_size_give_the_events_of_the_whole(
    expected: list[Any],
    beside: dict[str, Any],
    layout: dict[str, Any],
    size: int,
    is_ascii: bool,
) -> None:
    document = {"first": [{"a": 1}, {"b": 2}], "traceEvents": expected, "number": 12345} | beside
    data = json.dumps(document, ensure_ascii=is_ascii, **layout).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "_PIECE_BYTES", size)
        found, values = read(data)
        short, _ = read(json.dumps(expected, ensure_ascii=is_ascii, **layout).encode())
    assert found == short == json.loads(data)["traceEvents"]
    assert values == {key: value for key, value in document.items() if key != "traceEvents"}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_numbers_are_not_cut(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_PIECE_BYTES", size)
    numbers = [0.0, -1.5e-7, 1e22, 12, -3]
    assert read(
        json.dumps({"a": numbers[0], "b": numbers[1], "traceEvents": numbers}).encode()
    ) == (
        numbers,
        {"a": numbers[0], "b": numbers[1]},
    )


def test_other_encodings_are_known_by_their_mark() -> None:
    text = json.dumps(kineto([work("é", 1, 1)]), ensure_ascii=False)
    expected = read(text.encode())
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        assert read(text.encode(encoding)) == expected


def test_every_truncation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(kineto([work(GEMM, i, 1) for i in range(3)])).encode()
    for size in (7, 1 << 20):
        monkeypatch.setattr(events, "_PIECE_BYTES", size)
        for end in range(len(data)):
            with pytest.raises(ResultError, match=r"^x.json: (not JSON, or cut short: |empty$)"):
                read(data[:end])
        with pytest.raises(ResultError, match=r"cut short: there is more after its end$"):
            read(data + b"}")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (rb"C:\python\lib", "C:\\python\\lib"),
        (rb"\x1b[0m", "\\x1b[0m"),
        (rb"\u12", "\\u12"),
        (rb"\\server\q", "\\server\\q"),
        (b"two\nlines\tand\x01", "two\nlines\tand\x01"),
        (b"latin \xe9", "latin \ufffd"),
        (rb"right \u00e9 \\ \n", "right é \\ \n"),
    ],
)
@pytest.mark.parametrize("size", [1, 16, 1 << 20])
def test_text_that_is_not_quite_json_harms_nothing(
    text: bytes, name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_PIECE_BYTES", size)
    kernels = [json.dumps(work(GEMM, ts, 1)).encode() for ts in (5, 7)]
    host = b'{"ph": "X", "cat": "python_function", "name": "' + text + b'", "ts": 1, "dur": 1}'
    found, _ = read(b'{"traceEvents": [' + b",\n".join([kernels[0], host, kernels[1]]) + b"]}")
    assert [event["name"] for event in found] == [GEMM, name, GEMM]


@pytest.mark.parametrize("data", [b"", b"notes", b"{}", b"3", b'{"a": 1}\n{"b": 2}', b"\xff\xfe"])
def test_what_is_no_trace_is_told_from_a_damaged_one(data: bytes) -> None:
    with pytest.raises(ForeignFileError):
        read(data)
    with pytest.raises(ResultError) as refused:
        read(b'{"traceEvents": [{"a": 1}, {')
    assert not isinstance(refused.value, ForeignFileError)


def test_nesting_without_end_is_refused() -> None:
    for opening in (b"[" * 100_000, b'{"traceEvents": [' + b'{"a":' * 100_000):
        with pytest.raises(ResultError):
            read(opening)


def zstandard_frame(data: bytes) -> bytes:
    """Pack data as one frame of one raw block (RFC 8878), which needs no library."""
    assert len(data) < 1 << 16
    size = (len(data) - 256).to_bytes(2, "little")
    block = (len(data) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x60" + size + block + data


DATA = json.dumps(kineto([work(GEMM, i, 1) for i in range(1, 9)], None, None)).encode()


def archive(**files: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(f"traces/{name}.json", content)
        packed.writestr("readme.txt", "no trace")
    return made.getvalue()


PACKED = {
    "x.json": DATA,
    "x.json.gz": gzip.compress(DATA),
    "x.json.zst": zstandard_frame(DATA),
    "x.zip": archive(rank0=DATA),
    "twice.gz": gzip.compress(zstandard_frame(DATA)),
    "in.zip": archive(rank0=gzip.compress(DATA)),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_files_are_read_as_the_plain_one(name: str, tmp_path: Path) -> None:
    if b"\x28\xb5\x2f\xfd" in PACKED[name] + gzip_of(name) and not has_zstandard():
        pytest.skip("no package for Zstandard is installed")
    path = tmp_path / name
    path.write_bytes(PACKED[name])
    (one,) = read_traces([str(path)], Rules())
    assert [span.begin_ns for span in one.spans] == [1000 * i for i in range(1, 9)]
    path.write_bytes(PACKED[name][:-40])
    with pytest.raises(ResultError, match=rf"^{path}\S*: .*not .*, or cut short: "):
        read_traces([str(path)], Rules())


def gzip_of(name: str) -> bytes:
    return zstandard_frame(b" " * 300)[:4] if name == "twice.gz" else b""


def has_zstandard() -> bool:
    return any(optional(name) for name in ("compression.zstd", "zstandard"))


def test_an_archive_contains_the_ranks_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    path.write_bytes(archive(rank3=DATA, rank1=DATA, config=b"{}"))
    one, three = read_traces([str(path)], Rules())
    assert (one.rank, three.rank) == (1, 3)
    (note,) = one.notes
    assert note.startswith(f"left out a file that is no trace: {path}/traces/config.json: traceE")
    path.write_bytes(archive(config=b"{}"))
    with pytest.raises(ResultError, match=r"config.json: traceEvents: missing"):
        read_traces([str(path)], Rules())


def test_a_missing_zstandard_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "optional", lambda _: None)
    path = tmp_path / "x.json.zst"
    path.write_bytes(PACKED["x.json.zst"])
    with pytest.raises(ResultError, match=r"packed by Zstandard: unpack it, or pip install zst"):
        read_traces([str(path)], Rules())


def test_text_is_read_from_standard_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(DATA))))
    (text,) = opened("-")
    assert text.source == "-"


def test_memory_is_less_than_the_file(tmp_path: Path) -> None:
    """Decoded as a whole, it would take eight times the file."""
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    small.write_text(json.dumps([work(GEMM, 1, 1)]))
    traces.write_large(large, 20)
    used = peak_bytes(large) - peak_bytes(small)
    assert 0 < used < large.stat().st_size


def peak_bytes(trace: Path) -> int:
    """Return the largest resident size of a breakdown, in a process of its own."""
    measure = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, *sys.argv[1:]], check=True, stdout=2)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [sys.executable, "-c", measure, *samples.PROGRAM[1:], "trace", str(trace)]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return 1024 * int(run.stdout)
