"""Growth: whether the resources of a process grow while it runs.

This module reads the lines of --resources_out. Lines of one process with the same name (a
benchmark, or "" if nothing is set up) are a series. They show the same resources unless something
leaks.

The rule: with a series cut into quarters, the median of the last quarter may exceed the median of
the second by at most an allowance. The first quarter is ignored because caches, allocators and
libraries fill up then; medians ignore a line that was taken at a bad moment. The allowance of
counted resources (descriptors, threads, streams, events, buffers) is zero. That of memory is 2 MiB
or 2 %, whichever is more: allocators return pages at arbitrary times.
"""

import csv
import io
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from overlapbench.grouping import grouped
from overlapbench.output import ResultError
from overlapbench.reading.source import can_be_measured

SHORTEST = 16  # lines: four per quarter
_PAGES_BYTES = 2 << 20
_PAGES_SHARE = 0.02
_BEGINNING = ("seconds", "benchmark", "groups")


@dataclass(frozen=True)
class Reading:
    """One line of --resources_out."""

    seconds: float
    benchmark: str
    groups: int
    held: Mapping[str, float]


@dataclass(frozen=True)
class Growth:
    """One resource over one series."""

    resource: str
    benchmark: str
    lines: int
    before: float
    after: float
    per_hour: float  # slope of a least-squares line after the first quarter
    allowance: float

    @property
    def amount(self) -> float:
        return self.after - self.before

    @property
    def found(self) -> bool:
        return self.amount > self.allowance


def read(source: str, text: str) -> list[Reading]:
    """Read a file's text; ResultError unless every line is complete."""
    try:
        return _read(source, csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise ResultError(f"{source}: not CSV: {error}") from None


def _read(source: str, lines: Iterator[list[str]]) -> list[Reading]:
    header = next(lines, [])
    if tuple(header[:3]) != _BEGINNING or len(header) == len(_BEGINNING):
        raise ResultError(f"{source}: line 1: not a file of --resources_out")
    readings = []
    for number, line in enumerate(lines, start=2):
        if line and line[0].startswith("#"):
            raise ResultError(f"{source}: line {number}: {','.join(line).lstrip('# ')}")
        try:
            seconds, groups, *held = numbers = tuple(map(float, (line[0], *line[2:])))
            if len(line) != len(header):
                raise ValueError
        except (ValueError, IndexError):
            raise ResultError(f"{source}: line {number}: cut short, or not numbers") from None
        if not all(map(can_be_measured, numbers)):
            raise ResultError(f"{source}: line {number}: a number is out of range")
        named = dict(zip(header[len(_BEGINNING) :], held, strict=True))
        readings.append(Reading(seconds, line[1], int(groups), named))
    return readings


def groups_of(readings: Iterable[Reading]) -> dict[str, int]:
    """Count the groups of samples that each benchmark took."""
    named = grouped(readings, lambda reading: reading.benchmark)
    return {name: sum(one.groups for one in members) for name, members in named.items() if name}


def growths(readings: Iterable[Reading]) -> list[Growth]:
    """Judge every resource of every series of one process; short series are skipped."""
    return [
        _judge(resource, benchmark, members)
        for benchmark, members in grouped(readings, lambda one: one.benchmark).items()
        if len(members) >= SHORTEST
        for resource in members[0].held
    ]


def worst(found: Iterable[Growth]) -> dict[str, Growth]:
    """Return, for each resource, the growth nearest to its allowance or furthest above it."""
    return {
        resource: max(members, key=lambda growth: growth.amount - growth.allowance)
        for resource, members in grouped(found, lambda growth: growth.resource).items()
    }


def _judge(resource: str, benchmark: str, members: Sequence[Reading]) -> Growth:
    values = [reading.held[resource] for reading in members]
    quarter = len(values) // 4
    before = statistics.median_high(values[quarter : 2 * quarter])
    after = statistics.median_low(values[-quarter:])
    counted = not resource.endswith("_bytes")
    return Growth(
        resource,
        benchmark,
        len(values),
        before,
        after,
        3600 * _slope([reading.seconds for reading in members[quarter:]], values[quarter:]),
        0.0 if counted else max(_PAGES_BYTES, _PAGES_SHARE * before),
    )


def _slope(seconds: Sequence[float], values: Sequence[float]) -> float:
    if seconds[0] == seconds[-1]:
        return 0.0
    return statistics.linear_regression(seconds, values).slope
