"""The C interface for measuring (interface/overlapbench.h), declared for ctypes.

The library is liboverlapbench.so in build/release, or the file that OVERLAPBENCH_LIBRARY names
(overlapbench/installation.py). ctypes releases the GIL while a function runs, and reacquires it for
a callback, whichever thread calls it.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlapbench.installation import library_path, way_to_build

_REFUSED = 1  # the status of wrong arguments
_INT, _LONG, _TEXT, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p
TEXT_BYTES = 512  # of an answer, with the terminating zero

ALONE, PAIR, SCHEDULE = 0, 1, 2
CLASSES = {"comp": 0, "comm": 1, "copy": 2}


class MeasureError(RuntimeError):
    """Nothing can be measured here, or no longer, or a row is an error; one line says why."""


class Answer(ctypes.Structure):
    """What a callback reports."""

    _fields_ = (
        ("max_rel_err", ctypes.c_double),
        ("tolerance", ctypes.c_double),
        ("text", ctypes.c_char * TEXT_BYTES),
    )


Callback = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, ctypes.POINTER(Answer))
NO_CALLBACK = Callback()


class Callbacks(ctypes.Structure):
    _fields_ = (("enqueue", Callback), ("reset", Callback), ("verify", Callback))


class WorkEntry(ctypes.Structure):
    _fields_ = (
        ("name", _TEXT),
        ("work_class", _INT),
        ("waits", _INT),
        ("callbacks", Callbacks),
        ("context", _POINTER),
    )


class StepEntry(ctypes.Structure):
    _fields_ = (
        ("lane", _TEXT),
        ("name", _TEXT),
        ("work", _LONG),
        ("after", ctypes.POINTER(_LONG)),
        ("after_count", _LONG),
    )


class RowEntry(ctypes.Structure):
    _fields_ = (
        ("kind", _INT),
        ("name", _TEXT),
        ("works", ctypes.POINTER(WorkEntry)),
        ("work_count", _LONG),
        ("steps", ctypes.POINTER(StepEntry)),
        ("step_count", _LONG),
        ("labels", ctypes.POINTER(_TEXT)),
        ("label_count", _LONG),
        ("axes", ctypes.POINTER(_TEXT)),
        ("axis_count", _LONG),
        ("nothing", Callback),
        ("nothing_context", _POINTER),
    )


class Place(ctypes.Structure):
    """Which rank this is; `device` is the number of the GPU, or -1 on the host backend."""

    rank: int
    ranks: int
    local_rank: int
    device: int
    _fields_ = (("rank", _INT), ("ranks", _INT), ("local_rank", _INT), ("device", _INT))


# A library's functions, without `overlapbench_`: the types of their parameters and result.
Functions = Mapping[str, tuple[list[Any], Any]]
_FUNCTIONS: Functions = {
    "open": ([_LONG, ctypes.POINTER(_TEXT), ctypes.POINTER(_POINTER)], _INT),
    "configure": ([_POINTER, _LONG, ctypes.POINTER(_TEXT)], _INT),
    "interrupt_with": ([_POINTER, _INT], _INT),
    "where": ([_POINTER, ctypes.POINTER(Place)], _INT),
    "broadcast": ([_POINTER, _POINTER, _LONG], _INT),
    "measure": ([_POINTER, ctypes.POINTER(RowEntry)], _INT),
    "measure_own": ([_POINTER, _TEXT], _INT),
    "result": ([_POINTER], _TEXT),
    "samples": ([_POINTER], _TEXT),
    "measuring_error": ([], _TEXT),
    "close": ([_POINTER], None),
}


@dataclass(frozen=True)
class Step:
    """A step of a schedule; `work` and `after` are indices into the lists of works and steps."""

    lane: str
    name: str
    work: int
    after: Sequence[int]


def open_library(
    path: Path, functions: Functions, remedy: str, error: Callable[[str], Exception]
) -> ctypes.CDLL:
    """Load a library and declare its functions.

    Raises a one-line `error` if the file is missing, with the remedy, or has another version.
    """
    if not path.is_file():
        raise error(f"{path} is missing: {remedy}")
    try:
        library = ctypes.CDLL(str(path))
        for name, (parameters, result) in functions.items():
            function = getattr(library, f"overlapbench_{name}")
            function.argtypes, function.restype = parameters, result
    except (OSError, AttributeError) as cause:
        raise error(f"{path} is not the library of this version: {cause}") from cause
    return library


def load_library(path: Path) -> ctypes.CDLL:
    """Load the library for measuring; if it is missing, MeasureError says what to do."""
    remedy = f"{way_to_build()}; or set OVERLAPBENCH_LIBRARY to its path"
    return open_library(path, _FUNCTIONS, remedy, MeasureError)


class Suite:
    """The open library, at most one per process."""

    def __init__(self, flags: Sequence[str]) -> None:
        self._library = load_library(library_path())
        self._suite = ctypes.c_void_p()
        self._check("open", len(flags), _texts(flags), ctypes.byref(self._suite))
        self.place = Place()
        self._check("where", self._suite, ctypes.byref(self.place))

    def configure(self, flags: Sequence[str]) -> None:
        """Set the flags of the next rows, which become errors if the ranks' flags differ."""
        self._check("configure", self._suite, len(flags), _texts(flags))

    def interrupt_with(self, signal: int) -> None:
        """Set the signal to send to a thread if a callback does not return to it; 0: none."""
        self._check("interrupt_with", self._suite, signal)

    def broadcast(self, text: str) -> str:
        """Return rank 0's text, or its beginning, on every rank."""
        data = ctypes.create_string_buffer(text.encode()[: TEXT_BYTES - 1], TEXT_BYTES)
        self._check("broadcast", self._suite, data, TEXT_BYTES)
        return data.value.decode(errors="ignore")

    def measure(
        self,
        kind: int,
        name: str,
        works: Sequence[WorkEntry],
        nothing: Any,
        steps: Sequence[Step] = (),
        labels: Sequence[str] = (),
        axes: Sequence[str] = (),
    ) -> str:
        """Return the JSON of one row; ValueError: it cannot be measured; MeasureError: none can."""
        entries = [
            StepEntry(
                step.lane.encode(),
                step.name.encode(),
                step.work,
                (_LONG * len(step.after))(*step.after),
                len(step.after),
            )
            for step in steps
        ]
        row = RowEntry(
            kind,
            name.encode(),
            *((WorkEntry * len(works))(*works), len(works)),
            *((StepEntry * len(entries))(*entries), len(entries)),
            *(_texts(labels), len(labels)),
            *(_texts(axes), len(axes)),
            nothing,
        )
        self._check("measure", self._suite, ctypes.byref(row))
        return self._result()

    def measure_own(self, name: str) -> str:
        """Return the JSON of one of the suite's own rows; raises as `measure` does."""
        self._check("measure_own", self._suite, name.encode())
        return self._result()

    def samples_ms(self) -> list[float]:
        """Return all samples of the last row's own run, in the order in which they were taken."""
        text: bytes = self._library.overlapbench_samples(self._suite)
        lines = [line.rsplit(",", 4) for line in text.decode().splitlines()]
        own = lines[-1][2] if lines else ""  # a group's last run is the row's own
        return [float(total_ms) for _, _, run, total_ms, _ in lines if run == own]

    def close(self) -> None:
        """End MPI if the library has started it."""
        self._library.overlapbench_close(self._suite)
        self._suite = ctypes.c_void_p()

    def _result(self) -> str:
        result: bytes = self._library.overlapbench_result(self._suite)
        return result.decode()

    def _check(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, f"overlapbench_{name}")(*arguments)
        if status:
            message = self._library.overlapbench_measuring_error().decode()
            raise (ValueError if status == _REFUSED else MeasureError)(message)


def _texts(texts: Sequence[str]) -> Any:
    return (_TEXT * len(texts))(*(text.encode() for text in texts))
