"""Callables as callbacks: which stream is current, and what they return; without a GPU."""

import contextlib
import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from overlapbench.measurement.callables import (
    HOST,
    SIGNAL,
    Verdict,
    Work,
    Wrapped,
    describe,
    on_stream,
    take_signal,
)
from overlapbench.measurement.interface import TEXT_BYTES, Answer

STREAM = 0xBEEF
DEVICE = 3
Entered = list[tuple[str, int, int]]


def ask(function: Callable[..., object], judges: bool = False) -> tuple[int, str, Answer]:
    """Call a callback as the library does; return its status, its text and its answer."""
    answer = Answer()
    callback = Wrapped(HOST).callback(function, judges)
    status = callback(None, STREAM, ctypes.byref(answer))
    return status, answer.text.decode(), answer


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> Entered:
    """Put stand-ins in place of PyTorch and CuPy; return the streams that are current."""
    inside: Entered = []

    @contextlib.contextmanager
    def entered(library: str, stream: int, device: int) -> Iterator[None]:
        inside.append((library, stream, device))
        yield
        inside.pop()

    class Reusable:
        def __init__(self, library: str, stream: int, device: int) -> None:
            self._arguments = library, stream, device

        def __enter__(self) -> None:
            self._open = entered(*self._arguments)
            self._open.__enter__()

        def __exit__(self, *_: object) -> None:
            self._open.__exit__(None, None, None)

    torch = SimpleNamespace(
        ExternalStream=lambda stream, device: Reusable("torch", stream, device),
        stream=lambda stream: stream,
    )
    cupy = SimpleNamespace(ExternalStream=lambda stream, device: Reusable("cupy", stream, device))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=torch))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cupy))
    return inside


def test_the_lanes_stream_is_the_current_one_of_every_library(current: Entered) -> None:
    seen: list[Entered] = []
    call = on_stream(lambda: seen.append(list(current)), DEVICE)
    for _ in range(2):
        call(STREAM)
    assert seen == [[("torch", STREAM, DEVICE), ("cupy", STREAM, DEVICE)]] * 2
    assert current == []


def test_on_the_host_there_is_no_current_stream(current: Entered) -> None:
    seen: list[Entered] = []
    on_stream(lambda: seen.append(list(current)), HOST)(0)
    assert seen == [[]]


def test_a_parameter_named_stream_gets_it() -> None:
    assert on_stream(lambda stream: stream, DEVICE)(STREAM) == STREAM
    assert on_stream(lambda *, stream=1: stream, HOST)(0) == 0


def test_a_callable_that_cannot_know_its_stream_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, library, raising=False)
    with pytest.raises(RuntimeError, match="add a parameter named `stream`"):
        on_stream(lambda: None, DEVICE)(STREAM)


def test_an_exception_is_one_line_and_is_kept() -> None:
    def fail() -> None:
        raise ValueError("a\n  b " + "é" * TEXT_BYTES)

    wrapped, answer = Wrapped(HOST), Answer()
    assert wrapped.callback(fail)(None, None, ctypes.byref(answer)) == 1
    text = answer.text.decode()
    assert text.startswith("ValueError: a b é")
    assert TEXT_BYTES - 3 < len(answer.text) < TEXT_BYTES
    assert isinstance(wrapped.raised[0], ValueError)
    assert describe(KeyboardInterrupt()) == "KeyboardInterrupt"


@pytest.mark.parametrize(
    ("result", "text"),
    [(None, ""), (True, ""), (False, "the result is wrong"), (Verdict(fault="no"), "no")],
)
def test_the_return_value_of_a_check_is_the_verdict(result: object, text: str) -> None:
    assert ask(lambda: result, judges=True)[:2] == (0, text)
    assert ask(lambda: result)[:2] == (0, "")


def test_a_verdict_has_its_numbers() -> None:
    *_, answer = ask(lambda: Verdict(0.25, 0.5), judges=True)
    assert (answer.max_rel_err, answer.tolerance) == (0.25, 0.5)


def test_a_work_is_of_a_known_kind() -> None:
    with pytest.raises(ValueError, match="kind is 'both', must be one of comp, comm, copy"):
        Work(lambda: None, kind="both")


class OneBool:
    """Like a tensor of one bool."""

    def item(self) -> bool:
        return False


def test_a_verdict_of_another_type_is_none() -> None:
    assert ask(lambda: OneBool(), judges=True)[:2] == (0, "the result is wrong")
    for result in ("wrong", (0.5, 0.1), 1):
        status, text, _ = ask(lambda result=result: result, judges=True)
        assert status == 1
        assert text == (
            f"TypeError: verify returned {result!r}, must return True, False, None or a Verdict"
        )
    with pytest.raises(ValueError, match="max_rel_err is -1, must not be negative"):
        Verdict(-1, 0.1)


def test_what_does_nothing_when_it_is_called_is_refused() -> None:
    async def later() -> None:
        pass

    def step_by_step() -> Iterator[int]:
        yield 1

    for function in (later, step_by_step):
        with pytest.raises(TypeError, match="does nothing when it is called: it is async or a gen"):
            Wrapped(HOST).callback(function)


@pytest.fixture
def taken() -> Iterator[int]:
    """Take the signal that interrupts a callable, and give it back."""
    # A shell's background job ignores Ctrl-C.
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield take_signal()
    signal.signal(SIGNAL, signal.SIG_DFL)
    signal.signal(signal.SIGINT, ctrl_c)


def test_the_signal_interrupts_a_callable_and_nothing_else(taken: int) -> None:
    status, text, _ = ask(lambda: signal.raise_signal(taken))
    assert (status, text) == (1, "TimeoutError: it did not return in time")
    assert ask(lambda: signal.raise_signal(taken), judges=True)[0] == 1
    signal.raise_signal(taken)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_callable_of_another_thread_is_not_interrupted(taken: int) -> None:
    told: list[tuple[int, str]] = []
    may_return = threading.Event()
    thread = threading.Thread(target=lambda: told.append(ask(may_return.wait)[:2]))
    thread.start()
    assert thread.ident is not None
    signal.pthread_kill(thread.ident, taken)
    may_return.set()
    thread.join()
    assert told == [(0, "")]


def test_a_signal_that_the_program_uses_is_left_to_it() -> None:
    def own(*_: object) -> None:
        pass

    signal.signal(SIGNAL, own)
    try:
        assert take_signal() == 0
        assert signal.getsignal(SIGNAL) is own
    finally:
        signal.signal(SIGNAL, signal.SIG_DFL)


def test_another_thread_than_the_main_one_takes_no_signal() -> None:
    taken: list[int] = []
    thread = threading.Thread(target=lambda: taken.append(take_signal()))
    thread.start()
    thread.join()
    assert taken == [0]
    assert signal.getsignal(SIGNAL) is signal.SIG_DFL
