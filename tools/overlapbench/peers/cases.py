"""The cases of GELU and softmax, and the figures measured for each peer."""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

What = Literal["gelu", "softmax"]
Direction = Literal["forward", "backward"]

ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
FORMS = ("tanh", "erf")
WHATS: tuple[What, ...] = ("gelu", "softmax")
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")
OURS, COPY = "overlapbench", "copy"

LARGEST_SIZE = 1 << 31
SUFFIXES = {"": 0, "K": 10, "M": 20, "G": 30}


@dataclass(frozen=True)
class Case:
    """One operation on one matrix of random numbers; GELU's has a single row."""

    what: What
    type: str
    rows: int
    columns: int
    form: str = ""  # of GELU
    direction: Direction = "forward"

    @property
    def elements(self) -> int:
        """Return the number of elements of the input."""
        return self.rows * self.columns

    @property
    def moved_bytes(self) -> int:
        """Return the fewest bytes that must be read and written, as many as the copy moves."""
        matrices = 2 if self.direction == "forward" else 3
        return matrices * self.elements * ELEMENT_BYTES[self.type]

    @property
    def series(self) -> str:
        """Return what all cases of one table have in common."""
        if self.what == "softmax":
            return f"softmax {self.type}"
        return f"gelu {self.form} {self.direction} {self.type}"


@dataclass(frozen=True)
class Figure:
    """One peer's time for one case, or why there is none."""

    case: Case
    peer: str
    ms: float = 0.0  # the median
    p05_ms: float = 0.0
    p95_ms: float = 0.0
    samples: int = 0
    error: float = 0.0  # the largest, relative to the permitted error
    problem: str = ""  # why it was not timed; empty for a good figure


def summarize(times: Sequence[float]) -> tuple[float, float, float]:
    """Return median, 5th and 95th percentile."""
    if len(times) < 2:
        return times[0], times[0], times[0]
    twentieths = statistics.quantiles(times, n=20, method="inclusive")
    return statistics.median(times), twentieths[0], twentieths[-1]


def plan_gelu(
    types: Sequence[str], sizes: Sequence[int], directions: Sequence[Direction]
) -> Iterator[Case]:
    """Yield every type, form, direction and size."""
    for type_name, form, direction, size in itertools.product(types, FORMS, directions, sizes):
        yield Case("gelu", type_name, 1, size, form, direction)


def plan_softmax(types: Sequence[str], columns: Sequence[int], matrix_bytes: int) -> Iterator[Case]:
    """Yield every type and row length, each with as many rows as fit in `matrix_bytes`."""
    for type_name, length in itertools.product(types, columns):
        rows = max(1, matrix_bytes // (length * ELEMENT_BYTES[type_name]))
        yield Case("softmax", type_name, rows, length)


def write_size(size: int) -> str:
    """Write a size in the shortest form that the command line accepts: 4096 is 4K."""
    fitting = [(suffix, power) for suffix, power in SUFFIXES.items() if size % (1 << power) == 0]
    suffix, power = fitting[-1]
    return f"{size >> power}{suffix}"
