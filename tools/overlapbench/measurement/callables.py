"""Callables as the C interface's callbacks: on which stream they enqueue, and what they raise.

On the cuda backend, a callable runs with the lane's stream as the current stream of PyTorch and
CuPy, if these are imported. If it has a parameter named `stream`, it also receives the stream, a
cudaStream_t as an integer. On the host backend it runs on the lane's own thread, and `stream` is 0.

If a callable does not return to the main thread in time, the library sends that thread a signal,
whose handler raises TimeoutError in the callable.
"""

import contextlib
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from overlapbench.measurement.interface import (
    CLASSES,
    NO_CALLBACK,
    TEXT_BYTES,
    Answer,
    Callback,
    Callbacks,
    MeasureError,
    WorkEntry,
)

HOST = -1  # the device number of the host backend
# It is ignored by default, and hardly any program handles it.
SIGNAL = signal.SIGURG


@dataclass(frozen=True)
class Verdict:
    """What a check found. An error above the tolerance, or a fault, is a wrong result.

    max_rel_err  the largest relative error; 0 if results are compared exactly
    tolerance    the largest permitted error
    fault        what is wrong, in one line; "" if nothing is
    """

    max_rel_err: float = 0.0
    tolerance: float = 0.0
    fault: str = ""

    def __post_init__(self) -> None:
        for name in ("max_rel_err", "tolerance"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, must not be negative")


@dataclass(frozen=True)
class Work:
    """A callable, and the functions that verify its result.

    run      enqueues the work on the current stream and returns without waiting for it; the suite
             calls it many times
    verify   checks the result of one `run` after one `reset`, and returns True or None if it is
             right, False if it is wrong, or a Verdict; it may wait
    reset    called before that `run`: fills the inputs and poisons the outputs
    kind     "comp", "comm" or "copy"; a communication may wait for other ranks

    A callable with a parameter named `stream` receives the stream, a cudaStream_t as an integer.

    ValueError  `kind` is none of these
    """

    run: Callable[..., object]
    verify: Callable[..., object] | None = None
    reset: Callable[..., object] | None = None
    kind: str = "comp"

    def __post_init__(self) -> None:
        if self.kind not in CLASSES:
            raise ValueError(f"kind is {self.kind!r}, must be one of {', '.join(CLASSES)}")


@dataclass
class Wrapped:
    """The callbacks of one row. Keep it for as long as anything may call them."""

    device: int
    raised: list[BaseException] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)

    def entry(self, name: str, work: Work, gated: bool) -> WorkEntry:
        """Return a work as the interface expects it."""
        callbacks = Callbacks(
            self.callback(work.run),
            self.callback(work.reset) if work.reset else NO_CALLBACK,
            self.callback(work.verify, judges=True) if work.verify else NO_CALLBACK,
        )
        return WorkEntry(name.encode(), CLASSES[work.kind], not gated, callbacks, None)

    def callback(self, function: Callable[..., object], judges: bool = False) -> Any:
        """Return a callback that never raises; `judges`: the function returns a verdict."""
        call = on_stream(function, self.device)

        def callback(_context: object, stream: int | None, answer: Any) -> int:
            try:
                result = _called(call, stream or 0)
                if judges:
                    _write(answer.contents, _verdict(result))
            except BaseException as error:
                self.raised.append(error)
                _write(answer.contents, Verdict(fault=describe(error)))
                return 1
            return 0

        kept = Callback(callback)
        self.kept.append(kept)
        return kept


def take_signal() -> int:
    """Return the signal that interrupts a callable; 0 if none can.

    Python handles signals in the main thread only. A handler that the program installed stays.
    """
    if threading.current_thread() is not threading.main_thread():
        return 0
    if signal.getsignal(SIGNAL) is not signal.SIG_DFL:
        return 0
    signal.signal(SIGNAL, _interrupt)
    return SIGNAL


def _interrupt(_signal: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code is _called.__code__:
            raise TimeoutError("it did not return in time")
        frame = frame.f_back


def _called(call: Callable[[int], object], stream: int) -> object:
    """Make the call. While this frame is on the stack, `callback` catches exceptions."""
    return call(stream)


def describe(error: BaseException) -> str:
    """Return an exception as one line."""
    return ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split()))))


def on_stream(function: Callable[..., object], device: int) -> Callable[[int], object]:
    """Return a function that makes a stream current and calls the given function."""
    if not callable(function):
        raise TypeError(f"{function!r} is not callable")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{function!r} does nothing when it is called: it is async or a generator")
    takes_stream = _takes_stream(function)
    contexts: dict[int, list[Any]] = {}

    def call(stream: int) -> object:
        with contextlib.ExitStack() as stack:
            if device != HOST:
                if stream not in contexts:
                    contexts[stream] = list(_contexts(stream, device))
                    if not contexts[stream] and not takes_stream:
                        raise MeasureError(
                            "neither PyTorch nor CuPy is imported: add a parameter named `stream`"
                        )
                for context in contexts[stream]:
                    stack.enter_context(context)
            return function(stream=stream) if takes_stream else function()

    return call


def _takes_stream(function: Callable[..., object]) -> bool:
    try:
        return "stream" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have none
        return False


def _contexts(stream: int, device: int) -> Iterator[Any]:
    if torch := sys.modules.get("torch"):
        yield torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device))
    if cupy := sys.modules.get("cupy"):
        yield cupy.cuda.ExternalStream(stream, device)


def _verdict(result: object) -> Verdict:
    # NumPy's bool, or a tensor with one element.
    is_right = getattr(result, "item", lambda: result)()
    match is_right:
        case Verdict():
            return is_right
        case None | True:
            return Verdict()
        case False:
            return Verdict(fault="the result is wrong")
    raise TypeError(f"verify returned {result!r}, must return True, False, None or a Verdict")


def _write(answer: Answer, verdict: Verdict) -> None:
    answer.max_rel_err, answer.tolerance = verdict.max_rel_err, verdict.tolerance
    answer.text = verdict.fault.encode()[: TEXT_BYTES - 1].decode(errors="ignore").encode()
