"""What crosses the C interface for measuring: a library of Python functions stands in for it."""

import _ctypes
import ctypes
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from overlapbench.measurement import interface
from overlapbench.measurement.callables import Work, Wrapped
from overlapbench.measurement.interface import PAIR, SCHEDULE, MeasureError, Step, Suite

Library = dict[str, Callable[..., Any]]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Stand in for the library; all its functions succeed until a test replaces them."""
    functions: Library = {f"overlapbench_{name}": lambda *_: 0 for name in interface._FUNCTIONS}
    functions["overlapbench_measuring_error"] = lambda: "why ä".encode()
    functions["overlapbench_result"] = lambda _suite: '{"ä": 1}'.encode()
    monkeypatch.setattr(interface, "library_path", lambda: Path("/there"))
    monkeypatch.setattr(interface, "load_library", lambda _path: SimpleNamespace(**functions))
    return functions


def note(into: list[Any], what: object) -> int:
    """Note what a function was given, and return its status."""
    into.append(what)
    return 0


def texts(pointer: Any, count: int) -> list[str]:
    return [pointer[i].decode() for i in range(count)]


def test_it_opens_with_flags_and_asks_where_it_is(library: Library) -> None:
    opened: list[list[str]] = []

    def where(_suite: Any, place: Any) -> int:
        place._obj.rank, place._obj.device = 3, -1
        return 0

    library["overlapbench_open"] = lambda count, flags, _: note(opened, texts(flags, count))
    library["overlapbench_where"] = where
    suite = Suite(["--a=ä", "--b"])
    assert opened == [["--a=ä", "--b"]]
    assert (suite.place.rank, suite.place.device) == (3, -1)


@pytest.mark.parametrize(
    ("status", "error"), [(1, ValueError), (2, MeasureError), (-1, MeasureError)]
)
@pytest.mark.parametrize("name", ["open", "where"])
def test_a_refusal_is_told_by_the_librarys_line(
    library: Library, name: str, status: int, error: type[Exception]
) -> None:
    library[f"overlapbench_{name}"] = lambda *_: status
    with pytest.raises(error, match=r"^why ä$"):
        Suite([])


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("configure", lambda suite: suite.configure(["--a"])),
        ("interrupt_with", lambda suite: suite.interrupt_with(5)),
        ("broadcast", lambda suite: suite.broadcast("a")),
        ("measure", lambda suite: suite.measure(PAIR, "a", [], interface.NO_CALLBACK)),
        ("measure_own", lambda suite: suite.measure_own("a")),
    ],
)
def test_every_call_checks_its_status(
    library: Library, name: str, call: Callable[[Suite], object]
) -> None:
    library[f"overlapbench_{name}"] = lambda *_: 1
    with pytest.raises(ValueError, match="why"):
        call(Suite([]))


def test_flags_signals_and_names_are_passed_on(library: Library) -> None:
    given: list[Any] = []
    library["overlapbench_configure"] = lambda _, count, flags: note(given, texts(flags, count))
    library["overlapbench_interrupt_with"] = lambda _, signal: note(given, signal)
    library["overlapbench_measure_own"] = lambda _, name: note(given, name.decode())
    library["overlapbench_close"] = lambda suite: given.append(suite)
    suite = Suite([])
    suite.configure(["--x=1", "--y"])
    suite.interrupt_with(23)
    assert suite.measure_own("Comm/ä") == '{"ä": 1}'
    suite.close()
    assert given[:-1] == [["--x=1", "--y"], 23, "Comm/ä"]
    assert suite._suite.value is None


@pytest.mark.parametrize(
    ("text", "told"),
    [("", ""), ("rank 0 says ä", "rank 0 says ä"), ("x" * 600, "x" * 511), ("ä" * 300, "ä" * 255)],
)
def test_rank_0s_text_or_its_beginning_is_told_to_all(
    library: Library, text: str, told: str
) -> None:
    sent: list[tuple[bytes, int]] = []
    library["overlapbench_broadcast"] = lambda _, data, size: note(sent, (data.raw, size))
    assert Suite([]).broadcast(text) == told
    ((raw, size),) = sent
    assert len(raw) == size == 512
    assert raw.rstrip(b"\0") == text.encode()[:511]


def test_another_ranks_text_is_replaced(library: Library) -> None:
    def broadcast(_: Any, data: Any, _size: int) -> int:
        data.value = b"from rank 0"
        return 0

    library["overlapbench_broadcast"] = broadcast
    assert Suite([]).broadcast("mine") == "from rank 0"


def test_a_row_is_described_in_full(library: Library) -> None:
    seen: list[Any] = []

    def measure(_suite: Any, entry: Any) -> int:
        row = entry._obj
        works = [row.works[i] for i in range(row.work_count)]
        seen.append((row.kind, row.name.decode()))
        seen.append([(one.name.decode(), one.work_class, one.waits) for one in works])
        steps = [row.steps[i] for i in range(row.step_count)]
        seen.append(
            [
                (one.lane.decode(), one.name.decode(), one.work, one.after[: one.after_count])
                for one in steps
            ]
        )
        seen.append(texts(row.labels, row.label_count))
        seen.append(texts(row.axes, row.axis_count))
        return int(row.nothing(None, None, interface.Answer()))

    library["overlapbench_measure"] = measure
    called: list[str] = []
    wrapped = Wrapped(-1)
    works = [
        wrapped.entry("product", Work(lambda: None), gated=True),
        wrapped.entry("sum", Work(lambda: None, kind="comm"), gated=False),
        wrapped.entry("move", Work(lambda: None, kind="copy"), gated=True),
    ]
    answer = Suite([]).measure(
        SCHEDULE,
        "mine",
        works,
        wrapped.callback(lambda: called.append("nothing")),
        [Step("a", "first", 1, []), Step("b", "second", 0, [0]), Step("a", "third", 2, [0, 1])],
        ["n=4", "m=ä"],
        ["cache=warm"],
    )
    assert answer == '{"ä": 1}'
    assert seen == [
        (2, "mine"),
        [("product", 0, 0), ("sum", 1, 1), ("move", 2, 0)],
        [("a", "first", 1, []), ("b", "second", 0, [0]), ("a", "third", 2, [0, 1])],
        ["n=4", "m=ä"],
        ["cache=warm"],
    ]
    assert called == ["nothing"]


def test_a_work_has_the_callbacks_that_it_is_given() -> None:
    called: list[str] = []
    wrapped = Wrapped(-1)

    def call(name: str) -> Callable[[], None]:
        return lambda: called.append(name)

    full = wrapped.entry("a", Work(call("run"), call("verify"), call("reset")), gated=True)
    bare = wrapped.entry("b", Work(call("run")), gated=True)
    assert not bare.callbacks.reset
    assert not bare.callbacks.verify
    for callback in (full.callbacks.enqueue, full.callbacks.reset, full.callbacks.verify):
        assert callback(None, None, ctypes.pointer(interface.Answer())) == 0
    assert called == ["run", "reset", "verify"]
    wrong = wrapped.entry("c", Work(lambda: False, lambda: False, lambda: False), gated=True)
    answers = []
    for callback in (wrong.callbacks.enqueue, wrong.callbacks.reset, wrong.callbacks.verify):
        answer = interface.Answer()
        callback(None, None, ctypes.pointer(answer))
        answers.append(answer.text)
    assert answers == [b"", b"", b"the result is wrong"]  # only a check judges


def test_samples_are_those_of_the_rows_own_run(library: Library) -> None:
    """A group's last run is the row's own; a name may contain commas."""
    lines = ["a,b,0,comp,1.5,0", "a,b,0,both,2.5,0", "a,b,1,both,3.5,1", "a,b,1,comp,9,1"]
    library["overlapbench_samples"] = lambda _suite: "\n".join(lines).encode()
    suite = Suite([])
    assert suite.samples_ms() == [1.5, 9.0]
    library["overlapbench_samples"] = lambda _suite: b""
    assert Suite([]).samples_ms() == []


def test_a_library_that_is_missing_or_another_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(MeasureError) as raised:
        interface.load_library(tmp_path / "no.so")
    told = str(raised.value)
    assert told.startswith(f"{tmp_path}/no.so is missing: ")
    assert told.endswith("; or set OVERLAPBENCH_LIBRARY to its path")
    other = tmp_path / "other.so"
    other.write_bytes(b"no library")
    with pytest.raises(
        MeasureError, match=r"other\.so is not the library of this version: "
    ) as raised:
        interface.load_library(other)
    assert isinstance(raised.value.__cause__, OSError)


def test_a_library_without_our_functions_is_another() -> None:
    with pytest.raises(
        MeasureError, match=r"is not the library of this version: .*overlapbench_open"
    ):
        interface.load_library(Path(_ctypes.__file__))
