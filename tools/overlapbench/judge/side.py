"""A side of a comparison: its runs, as arrays instead of a million small objects."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from overlapbench.output import ResultError, harmless
from overlapbench.reading.counters import EFFICIENCY, Better, Counter, Table, merge_tables
from overlapbench.reading.entries import SAVED, columns_of
from overlapbench.reading.program_run import CONTEXT_FIELDS, ProgramRun
from overlapbench.statistics.distributions import Array

_LARGEST = 700.0  # the exponential of more overflows; an interval may end beyond


@dataclass(frozen=True)
class Benchmark:
    """What a side's runs say about a benchmark besides its figures."""

    units: frozenset[str]
    problem: str  # "" if it is good in every run that contains it
    runs: int  # number of runs that contain it
    bad: int = 0  # in how many of them it has a problem: their figures are left out


@dataclass(frozen=True)
class Side:
    """Base or new. Arrays are benchmarks x runs, in the order of `benchmarks` and `sources`."""

    sources: tuple[str, ...]
    context: Mapping[str, frozenset[str]]  # the values of CONTEXT_FIELDS in all runs
    table: Table  # of all runs
    benchmarks: Mapping[str, Benchmark]  # in the order of the files
    values: Mapping[str, Array]  # by column
    errors: Array  # standard errors of the times inside the runs
    doubts: tuple[str, ...]  # a line for each run that ended early, or failed its self-test
    copies: tuple[str, ...] = ()  # a line for each file that repeats another run

    @cached_property
    def index(self) -> Mapping[str, int]:
        return {name: i for i, name in enumerate(self.benchmarks)}

    def good(self, name: str) -> int:
        """Return the number of runs that measured a benchmark well."""
        return self.benchmarks[name].runs - self.benchmarks[name].bad

    def of(self, names: Sequence[str]) -> "Side":
        """Return the side with only these benchmarks, in this order."""
        places = [self.index[name] for name in names]
        return replace(
            self,
            benchmarks={name: self.benchmarks[name] for name in names},
            values={column: array[places] for column, array in self.values.items()},
            errors=self.errors[places],
        )

    def badness(self, metric: str) -> Array:
        """Return the badness of a judged counter."""
        column = SAVED if metric == EFFICIENCY else metric
        return badness(self.table.counters[metric], self.values[column])

    def under(self, table: Table) -> "Side":
        """Return the side under a table that was merged from its own and another's."""
        if table == self.table:
            return self
        nothing = np.full_like(self.errors, np.nan)
        values = {column: self.values.get(column, nothing) for column in columns_of(table)}
        return replace(self, table=table, values=values)

    @classmethod
    def collect(cls, name: str, runs: Sequence[ProgramRun]) -> "Side":
        """Combine runs; ResultError if there is none, or if a file is given twice.

        The figures of a row with a problem are left out.
        """
        sources = tuple(run.source for run in runs)
        if not runs:
            raise ResultError(f"{name}: no file is given")
        for source in sources:
            if sources.count(source) > 1:
                raise ResultError(f"{source}: given twice as {name}: a run counts once")
        names = dict.fromkeys(name for run in runs for name in run.names)
        index = {name: row for row, name in enumerate(names)}
        table = merge_tables((run.source, run.table) for run in runs)
        errors = np.full((len(names), len(runs)), np.nan)
        values = {column: np.full_like(errors, np.nan) for column in columns_of(table)}
        units: dict[str, set[str]] = {name: set() for name in names}
        problems: dict[str, list[str]] = {name: [] for name in names}
        for place, run in enumerate(runs):
            rows = [index[row] for row in run.names]
            good = np.where([not problem for problem in run.problems], 1.0, np.nan)
            for column, figures in zip(run.columns, run.values.T, strict=True):
                if column in values:
                    values[column][rows, place] = figures * good
            errors[rows, place] = run.errors * good
            for row, unit, problem in zip(run.names, run.units, run.problems, strict=True):
                units[row].add(unit)
                problems[row].append(problem)
        return cls(
            sources,
            {key: frozenset(run.context[key] for run in runs) for key in CONTEXT_FIELDS},
            table,
            {
                name: Benchmark(
                    frozenset(units[name] - {""}), _problem(told), len(told), sum(map(bool, told))
                )
                for name, told in problems.items()
            },
            values,
            errors,
            tuple(f"{harmless(run.source)}: {run.doubt}" for run in runs if run.doubt),
        )

    @classmethod
    def of_files(cls, name: str, runs: Sequence[ProgramRun]) -> "Side":
        """Combine runs that were read from files; a copy of another file does not count."""
        own, copies = distinct(runs)
        return replace(cls.collect(name, own), copies=copies)


def distinct(runs: Sequence[ProgramRun]) -> tuple[list[ProgramRun], tuple[str, ...]]:
    """Return the runs without copies of another one, and a line for each copy.

    Two runs never measure the same figures throughout. A file that is given twice stays.
    """
    first: dict[object, ProgramRun] = {}
    own, copies = [], []
    for run in runs:
        same = first.setdefault(run.measurement, run)
        if same is run or same.source == run.source:
            own.append(run)
        else:
            names = harmless(run.source), harmless(same.source)
            copies.append("{} repeats {}: it counts once".format(*names))
    return own, tuple(copies)


def badness(counter: Counter, values: Array) -> Array:
    """Return logarithms that grow as `values` get worse, whose differences are relative changes.

    For efficiency, the values are saved shares, and it is judged by 1 + share, which is the speedup
    (C + M) / T. NaN for a value of 0, which has no ratio.
    """
    ratios = 1 + values if counter.name == EFFICIENCY else values
    logs = np.log(np.where(ratios > 0, ratios, np.nan))
    return -logs if counter.better is Better.HIGHER else logs


def figure_of(counter: Counter, mean: float) -> float:
    """Return the figure for a mean badness, NaN for NaN; for efficiency, the speedup."""
    log = -mean if counter.better is Better.HIGHER else mean
    return math.exp(log if math.isnan(log) else min(log, _LARGEST))


def natural(counter: Counter, change: float) -> float:
    """Return a change of badness as a relative change of the figures."""
    return figure_of(counter, change) - 1


def within_of(errors: Array) -> Array:
    """Return each benchmark's standard error inside a run: the root of the mean square."""
    known = np.isfinite(errors).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt(np.nansum(errors**2, axis=1) / known))


def _problem(runs: Sequence[str]) -> str:
    """Return the first problem, and the number of runs with a problem."""
    problems = [problem for problem in runs if problem]
    if not problems:
        return ""
    share = f"{len(problems)} of {len(runs)} runs: " if len(runs) > 1 else ""
    return share + problems[0]
