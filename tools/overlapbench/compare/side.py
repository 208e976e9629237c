"""A side of a comparison: its launches, as arrays instead of a million small objects."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapbench.compare.statistics import Array
from overlapbench.entries import COLUMNS, SAVED
from overlapbench.launch import CONTEXT_FIELDS, Launch
from overlapbench.metrics import EFFICIENCY, JUDGED, METRICS, Better
from overlapbench.source import ResultError, harmless


@dataclass(frozen=True)
class Side:
    """Base or new. Arrays are benchmarks x launches, in the order of `names` and of `sources`."""

    sources: tuple[str, ...]
    context: Mapping[str, frozenset[str]]  # the values of CONTEXT_FIELDS in all launches
    names: tuple[str, ...]  # in the order of the files
    units: tuple[frozenset[str], ...]
    problems: tuple[str, ...]  # of a benchmark; "" when it is good in every launch that has it
    launches: tuple[int, ...]  # how many have the benchmark
    values: Mapping[str, Array]  # by COLUMNS
    badness: Mapping[str, Array]  # by JUDGED, as is the next
    spread: Mapping[str, Array]  # inside launches
    incomplete: tuple[str, ...]  # a line for each launch that ended early

    @cached_property
    def index(self) -> Mapping[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def launches_of(self, name: str) -> int:
        return self.launches[self.index[name]] if name in self.index else 0

    def problem(self, name: str) -> str:
        return self.problems[self.index[name]]

    def unit(self, name: str) -> frozenset[str]:
        return self.units[self.index[name]]

    @classmethod
    def collect(cls, name: str, launches: Sequence[Launch]) -> "Side":
        """Put launches together; ResultError when there is none, or one file is given twice."""
        sources = tuple(launch.source for launch in launches)
        if not launches:
            raise ResultError(f"{name}: no file is given")
        for source in sources:
            if sources.count(source) > 1:
                raise ResultError(f"{source}: given twice as {name}: a launch counts once")
        names = tuple(dict.fromkeys(name for launch in launches for name in launch.names))
        index = {name: row for row, name in enumerate(names)}
        shape = (len(COLUMNS), len(names), len(launches))
        values, spread = np.full(shape, np.nan), np.full(shape, np.nan)
        units: list[set[str]] = [set() for _ in names]
        problems: list[list[str]] = [[] for _ in names]
        for place, launch in enumerate(launches):
            rows = [index[row] for row in launch.names]
            values[:, rows, place], spread[:, rows, place] = launch.values.T, launch.spread.T
            for row, unit, problem in zip(rows, launch.units, launch.problems, strict=True):
                units[row].add(unit)
                problems[row].append(problem)
        return cls(
            sources,
            {key: frozenset(launch.context[key] for launch in launches) for key in CONTEXT_FIELDS},
            names,
            tuple(frozenset(found - {""}) for found in units),
            tuple(map(_problem, problems)),
            tuple(map(len, problems)),
            dict(zip(COLUMNS, values, strict=True)),
            {m: badness(m, values[COLUMNS.index(_judged_by(m))]) for m in JUDGED},
            {m: spread[COLUMNS.index(_judged_by(m))] for m in JUDGED},
            tuple(
                f"{harmless(run.source)}: {run.incomplete}" for run in launches if run.incomplete
            ),
        )


def badness(metric: str, values: Array) -> Array:
    """Return figures that grow as `values` get worse, whose differences are relative changes.

    Of efficiency the values are saved shares. NaN where there is no ratio to take, of 0.
    """
    if metric == EFFICIENCY:
        return -values
    logs = np.log(np.where(values > 0, values, np.nan))
    return -logs if METRICS[metric].better is Better.UP else logs


def natural(metric: str, change: float) -> float:
    """Return a change of badness as it shows in the figures: relative, and of T for efficiency."""
    if metric == EFFICIENCY:
        return -change
    return math.expm1(-change if METRICS[metric].better is Better.UP else change)


def _judged_by(metric: str) -> str:
    """Return the column that a metric is judged by."""
    return SAVED if metric == EFFICIENCY else metric


def _problem(launches: Sequence[str]) -> str:
    """Return the first problem, and in how many launches there is one."""
    problems = [problem for problem in launches if problem]
    if not problems:
        return ""
    share = f"{len(problems)} of {len(launches)} launches: " if len(launches) > 1 else ""
    return share + problems[0]
