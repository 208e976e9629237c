"""Damaged result files: whatever bytes change, readers take a file or refuse it by ResultError.

Each test starts from a valid result and damages it: bytes are changed, lost and doubled, the text
is cut, values of the document are moved, removed and replaced. No damage may raise anything else,
and a refusal is one line that names the file and could not steer a terminal.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import samples
from growth import read as read_resources
from overlapbench.output import ResultError
from overlapbench.reading.program_run import read_program_runs
from overlapbench.reading.result import read_results

VALID = samples.document(
    [
        *samples.sweep()[:2],
        *samples.bandwidths()[:2],
        samples.overlap("AllToAll+Gemm/n:64", valid=0.0, label="serialized"),
        samples.row("Comm/AllReduce/bytes:8", error_occurred=True, error_message="no GPU"),
        samples.row("Comm/AllReduce/bytes:16", 0),
        samples.row("Comm/AllReduce/bytes:16", 1),
        samples.row("Comm/AllReduce/bytes:16", run_type="aggregate", aggregate_name="mean"),
    ]
)
# As few definitions as the rows need, so that damage hits rows as well.
FEW = ("time", "valid", "comp_ms", "comm_ms", "overlap_ms", "slowdown", "busbw_GBps")
VALID["counters"] = [counter for counter in VALID["counters"] if counter["name"] in FEW]
VALID["families"], VALID["workloads"] = VALID["families"][:1], VALID["workloads"][:1]
BYTES = json.dumps(VALID, indent=1).encode()
RESOURCES = b"seconds,benchmark,groups,resident_bytes,threads\n0.5,,0,1e6,4\n1.5,A/B,9,2e6,5\n"

Reader = Callable[[Path], object]
READERS: dict[str, Reader] = {
    "result": lambda path: read_results([str(path)]),
    "run": lambda path: read_program_runs([str(path)]),
}
# Values that JSON can contain in wrong places, and numbers and texts that have broken readers.
STRANGE: list[Any] = [
    *(None, True, False, 0, -1, 10**400, -(10**400), 1e308, 5e-324, math.nan, math.inf),
    *("", "0", "\x00", "\x1b[2J", "a\nb", "\ud800", "\u202e", "'; --", "<script>", "x" * 5000),
    *([], [[]], {}, {"": {}}),
]
SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def places(value: object) -> Iterator[tuple[Any, Any]]:
    """Yield every container and key of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[arg-type]
    for key, inner in items:
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


@st.composite
def damaged_bytes(draw: st.DrawFn, valid: bytes) -> bytes:
    """Change, remove, double or cut off some of the bytes."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        length = draw(st.integers(1, 8))
        kind = draw(st.sampled_from(["change", "remove", "double", "cut", "insert"]))
        if kind == "change":
            data[place : place + length] = draw(st.binary(min_size=length, max_size=length))
        elif kind == "remove":
            del data[place : place + length]
        elif kind == "double":
            data[place:place] = data[place : place + 40 * length]
        elif kind == "insert":
            data[place:place] = draw(st.sampled_from([b"[", b"{", b'"', b"\\", b",", b"1e999"]))
        else:
            del data[place:]
    return bytes(data)


@st.composite
def damaged_document(draw: st.DrawFn) -> bytes:
    """Remove, replace or exchange some of the values; the result is JSON."""
    document = copy.deepcopy(VALID)
    for _ in range(draw(st.integers(1, 4))):
        if not (found := list(places(document))):
            break
        container, key = draw(st.sampled_from(found))
        kind = draw(st.sampled_from(["remove", "replace", "exchange"]))
        if kind == "remove":
            del container[key]
        elif kind == "replace":
            container[key] = copy.deepcopy(draw(st.sampled_from(STRANGE)))
        else:
            container[key] = copy.deepcopy(draw(st.sampled_from(found))[0])
    return json.dumps(document).encode()


def read(reader: Reader, path: Path, data: bytes) -> str:
    """Return why a file is refused; "" when it is taken."""
    path.write_bytes(data)
    try:
        reader(path)
    except ResultError as error:
        return str(error)
    return ""


def require_one_harmless_line(refusal: str, path: Path) -> None:
    assert refusal == "" or refusal.startswith(f"{path}: ")
    assert refusal.isprintable(), "it would steer a terminal"
    refusal.encode()  # and can be printed


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_the_undamaged_file_is_taken(reader: Reader, tmp_path: Path) -> None:
    assert read(reader, tmp_path / "run.json", BYTES) == ""


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@given(data=damaged_bytes(BYTES))
@SETTINGS
def test_damaged_bytes_are_taken_or_refused(reader: Reader, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run.json"
    require_one_harmless_line(read(reader, path, data), path)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@given(data=damaged_document())
@SETTINGS
def test_damaged_documents_are_taken_or_refused(
    reader: Reader, tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "run.json"
    require_one_harmless_line(read(reader, path, data), path)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("strange", STRANGE, ids=lambda value: repr(value)[:12])
def test_every_value_may_be_strange(reader: Reader, tmp_path: Path, strange: object) -> None:
    """Exhaustive over the first row of each kind, where hypothesis only samples."""
    path = tmp_path / "run.json"
    for number in range(len(list(places(VALID)))):
        document = copy.deepcopy(VALID)
        container, key = list(places(document))[number]
        container[key] = strange
        require_one_harmless_line(read(reader, path, json.dumps(document).encode()), path)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_every_truncation_is_refused(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for end in range(0, len(BYTES), 7):
        refusal = read(reader, path, BYTES[:end])
        assert refusal, f"cut at byte {end}"
        require_one_harmless_line(refusal, path)


@given(data=damaged_bytes(RESOURCES))
@SETTINGS
def test_damaged_resources_are_taken_or_refused(data: bytes) -> None:
    refusal = "resources.csv: "
    try:
        read_resources("resources.csv", data.decode("utf-8", "replace"))
    except ResultError as error:
        refusal = str(error)
    require_one_harmless_line(refusal, Path("resources.csv"))
