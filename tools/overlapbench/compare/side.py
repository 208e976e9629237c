"""A side of a comparison: its launches, as arrays instead of a million small objects."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapbench.compare.statistics import Array
from overlapbench.launch import COLUMNS, CONTEXT_FIELDS, SAVED, Figures, Launch
from overlapbench.metrics import EFFICIENCY, JUDGED, METRICS, Better
from overlapbench.source import ResultError


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
        names = tuple(dict.fromkeys(row for launch in launches for row in launch.rows))
        figures = [[launch.rows.get(row) for launch in launches] for row in names]
        values = _arrays([[f.values if f else None for f in row] for row in figures])
        spread = _arrays([[f.spread if f else None for f in row] for row in figures])
        return cls(
            sources,
            {key: frozenset(launch.context[key] for launch in launches) for key in CONTEXT_FIELDS},
            names,
            tuple(frozenset(f.unit for f in row if f and f.unit) for row in figures),
            tuple(map(_problem, figures)),
            tuple(sum(f is not None for f in row) for row in figures),
            values,
            {metric: badness(metric, values[_judged_by(metric)]) for metric in JUDGED},
            {metric: spread[_judged_by(metric)] for metric in JUDGED},
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


def _problem(row: Sequence[Figures | None]) -> str:
    """Return the first problem, and in how many launches there is one."""
    present = [figures for figures in row if figures]
    problems = [figures.problem for figures in present if figures.problem]
    if not problems:
        return ""
    share = f"{len(problems)} of {len(present)} launches: " if len(present) > 1 else ""
    return share + problems[0]


def _arrays(rows: Sequence[Sequence[tuple[float, ...] | None]]) -> dict[str, Array]:
    """Turn tuples that follow COLUMNS into an array for each metric."""
    nothing = (np.nan,) * len(COLUMNS)
    cube = np.array([[values or nothing for values in row] for row in rows], dtype=np.float64)
    return {metric: np.ascontiguousarray(cube[:, :, i]) for i, metric in enumerate(COLUMNS)}
