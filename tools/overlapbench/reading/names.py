"""Benchmark names: `Family/Workload[+Workload]/axis:value/...`.

For example `Overlap/AllToAll+Gemm/bytes:67108864/grid:16x16/work:tile/cache:cold`. In an `Overlap`
name the communication comes first, in a `Priority` name the work that matters. A family has one or
two words: `Lab/Link` is the family of `Lab/Link/Broadcast/bytes:67108864`. A name identifies a
configuration permanently, so parsing and writing are exact inverses. The suffixes that Google
Benchmark appends (`/repeats:3`, `/min_time:0.500`, `/manual_time`) are not part of the
configuration and are ignored.
"""

import functools
import itertools
import re
from collections.abc import Callable, Hashable
from typing import Self

from overlapbench.output import ResultError

_RUNNER_SUFFIXES = frozenset(
    {
        "iterations",
        "manual_time",
        "min_time",
        "min_warmup_time",
        "process_time",
        "real_time",
        "repeats",
        "threads",
    }
)
_WORKLOADS = {  # how many a name of the family may have
    "Overlap": (2, 3),
    **dict.fromkeys(("Priority", "Lab/Partition", "Lab/Matrix", "Lab/Attribution"), (2,)),
    "Lab/Triple": (3,),
    **dict.fromkeys(("Lab/Link", "Lab/Knee", "Pp/GPipe", "Pp/OneFOneB", "Pp/Interleaved"), (1,)),
}
_MOST_WORDS = 3  # before the axes: up to two of the family, and the workloads
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_BEFORE_AXES = re.compile(r"[A-Za-z][^:]*")
_THIRD_WORD = re.compile(r"[A-Z][^:]*")  # otherwise it is an axis without a value
_AXIS = re.compile(r"([a-z][a-z0-9_]*):([^\s/]+)")
_SIZE = re.compile(r"(?<![A-Za-z0-9_])([0-9]{1,9})([KMG])(?![A-Za-z0-9])")
_SHIFT = {"K": 10, "M": 20, "G": 30}


def spell_sizes(text: str) -> str:
    """Write every size in a name, pattern or expression in digits: `64M` becomes `67108864`.

    A search applies this to both its pattern and the names, so it accepts either form.
    """
    return _SIZE.sub(lambda size: str(int(size[1]) << _SHIFT[size[2]]), text)


def binary_size(size_bytes: int) -> str:
    """Write a size in its largest whole binary unit: 67108864 is `64 MiB`."""
    count = binary_count(size_bytes)
    return f"{count}B" if " " in count else f"{count} B"


def binary_count(count: int) -> str:
    """Write a number with its largest whole binary prefix: 4194304 is `4 Mi`."""
    for exponent, prefix in ((3, "Gi"), (2, "Mi"), (1, "Ki")):
        if count and count % 1024**exponent == 0:
            return f"{count // 1024**exponent} {prefix}"
    return str(count)


@functools.cache
def chooser(expression: str) -> Callable[[str], bool]:
    """Return a function that tells whether names match an expression, as for --benchmark_filter.

    It is a regular expression that may match anywhere in a name; after a `-`, it must not match.
    Sizes may be written as 64M. A part of a name matches as well, although its `+` is an operator.
    ResultError if it is not a regular expression.
    """
    sized = spell_sizes(expression.removeprefix("-"))
    try:
        search = re.compile(sized).search
    except re.error as error:
        told = f"{expression!r} is not a regular expression: {error}"
        raise ResultError(f"{told}; names are chosen as by --benchmark_filter") from None
    wanted = not expression.startswith("-")

    def chooses(name: str) -> bool:
        spelled = spell_sizes(name)
        return (sized in spelled or search(spelled) is not None) is wanted

    return chooses


def part_name(name: str) -> tuple[list[str], list[str]]:
    """Split any name at its slashes into the words of family and workloads, and the axes."""
    parts = name.split("/")
    words = list(itertools.takewhile(_BEFORE_AXES.fullmatch, parts[:_MOST_WORDS]))
    if len(words) == _MOST_WORDS and not _THIRD_WORD.fullmatch(words[-1]):
        words.pop()
    return words, parts[len(words) :]


def family_of(name: str) -> str:
    """Return the family of any name; if it has no workload, the first word."""
    words, _ = part_name(name)
    return "/".join(words[:-1]) or name.partition("/")[0]


class BenchmarkName(str):
    """One configuration: its name, with the parts of it. `axes` keeps the order of the name."""

    __slots__ = ("axes", "family", "workloads")
    family: str
    workloads: tuple[str, ...]  # none in another suite's name
    axes: tuple[tuple[str, str], ...]

    def __new__(
        cls, family: str, workloads: tuple[str, ...] = (), axes: tuple[tuple[str, str], ...] = ()
    ) -> Self:
        words = ("+".join(workloads),) if workloads else ()
        text = "/".join((family, *words, *(f"{axis}:{value}" for axis, value in axes)))
        name = super().__new__(cls, text)
        name.family, name.workloads, name.axes = family, workloads, axes
        return name

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name; ValueError says which part is wrong."""
        parts = text.split("/")
        while parts and parts[-1].partition(":")[0] in _RUNNER_SUFFIXES:
            parts.pop()
        words, axes = part_name("/".join(parts))
        if len(words) < 2:
            raise ValueError(f"{text!r} is not Family/Workload/axis:value/...")
        family, workloads = "/".join(words[:-1]), tuple(words[-1].split("+"))
        for word in (*words[:-1], *workloads):
            if not _WORD.fullmatch(word):
                raise ValueError(f"{word!r} is not the name of a family or a workload")
        allowed = _WORKLOADS.get(family, (1, 2))
        if len(workloads) not in allowed:
            wanted = " or ".join(map(str, allowed)) + " workload" + "s" * (allowed != (1,))
            raise ValueError(f"{family} takes {wanted}, not {words[-1]!r}")
        return cls(family, workloads, _parse_axes(axes))

    @classmethod
    def foreign(cls, text: str) -> Self:
        """Return another suite's name, which has a family and no other part."""
        name = cls(text)
        name.family = family_of(text)
        return name

    def axis(self, wanted: str) -> str | None:
        """Return the value of an axis, or None if the name does not contain it."""
        return dict(self.axes).get(wanted)

    def but_for(self, *axes: str) -> Hashable:
        """Return what names have in common that differ only in these axes, and in their order."""
        rest = frozenset(one for one in self.axes if one[0] not in axes)
        return self.family, self.workloads, rest


def _parse_axes(parts: list[str]) -> tuple[tuple[str, str], ...]:
    axes: dict[str, str] = {}
    for part in parts:
        match = _AXIS.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not axis:value")
        if match[1] in axes:
            raise ValueError(f"axis {match[1]!r} is given twice")
        axes[match[1]] = match[2]
    return tuple(axes.items())
