"""Rows: one benchmark of one file, with its state and its figures.

A row has an attribute for each of its counters. It is a Figure: the value, as a float, that knows
its 95 % interval.

    row.slowdown            1.41
    row.slowdown.low        1.39
    row.slowdown.below(1.5) True: the whole interval is
    row.time                Google Benchmark's time, in ms

`dir(row)` lists the counters, and attributes.pyi declares all of them for type checkers.
Repetitions of a benchmark become one row, whose counters are the medians over them. What ob.measure
returns are such rows, too.
"""

import itertools
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import TYPE_CHECKING, Any

from overlapbench.output import ResultError
from overlapbench.reading.counters import TIME, Table, stored_table
from overlapbench.reading.names import BenchmarkName
from overlapbench.statistics.intervals import Interval, digits, pool

if TYPE_CHECKING:
    from overlapbench.reading.attributes import Attributes
else:
    Attributes = object


class State(Enum):
    """The state of a row, from best to worst."""

    OK = "ok"
    SERIALIZED = "serialized"  # measured well: the two sides did not run at once
    CONTROL = "control"  # a negative control with the expected outcome
    NOISY = "noisy"  # measured, but uncertain, disturbed by other load, or impossible
    INVALID = "invalid"  # does not measure what its name says
    ERROR = "error"  # not measured

    @property
    def trusted(self) -> bool:
        """Tell whether the figures measure what the name says, and can be read alone."""
        return self in (State.OK, State.SERIALIZED)

    @property
    def comparable(self) -> bool:
        """Tell whether the figures measure what the name says, however wide their intervals."""
        return self not in (State.INVALID, State.ERROR)

    def line(self, reason: str) -> str:
        """Write a state with its reason, where nothing else shows the state; "" for a plain row."""
        if self in (State.OK, State.ERROR):
            return reason
        return f"{self.value}: {reason or 'no reason is given'}"


# Shown of any row that has them, before its family's own.
_SHOWN = (
    *("comp_ms", "comm_ms", "overlap_ms", "slowdown", "efficiency", "coverage", "comp_slowdown"),
    *("comm_slowdown", "sequential_ms", "bound_ms", "pct_of_bound", "speedup", "exposed_comm_ms"),
)


class Inconclusive(ResultError):  # noqa: N818 it is an outcome
    """A figure cannot be judged: its row is noisy or invalid, or the limit is in its interval.

    In a test with the fixture overlap_benchmark, the test is skipped, or fails with
    `when_noisy = "fail"` (docs/package.md).
    """


class Figure(float):
    """A counter's value in its unit, with the ends of its 95 % interval; NaN where none is known.

    It is a float: it compares, formats and computes as its value does.
    """

    counter: str
    low: float
    high: float
    doubt: str  # why the figure may not be judged; "" if it may
    text: str  # the value with four digits, or as a count

    def __new__(
        cls,
        value: float,
        counter: str,
        interval: Interval | None = None,
        doubt: str = "",
        text: str = "",
    ) -> "Figure":
        figure = super().__new__(cls, value)
        figure.counter, figure.doubt, figure.text = counter, doubt, text or digits(value)
        figure.low, figure.high = interval or (math.nan, math.nan)
        return figure

    def __reduce__(self) -> tuple[type["Figure"], tuple[object, ...]]:
        return Figure, (self.value, self.counter, self.interval, self.doubt, self.text)

    @property
    def value(self) -> float:
        """The figure without its interval."""
        return float(self)

    @property
    def interval(self) -> Interval | None:
        """The ends of the interval, the lower one first; None where none is known."""
        return None if math.isnan(self.low) else (self.low, self.high)

    @property
    def ends(self) -> str:
        """The interval in words: `1.20 to 1.31`; "" where none is known."""
        return f"{digits(self.low)} to {digits(self.high)}" if self.interval else ""

    def below(self, limit: float) -> bool:
        """Tell whether the figure is below a limit, with its whole interval.

        False if it is at the limit or above, with its whole interval.

        Inconclusive  the interval contains the limit or is unknown, or the row is noisy or invalid
        """
        return self._judge(self.high < limit, self.low >= limit, limit)

    def above(self, limit: float) -> bool:
        """Tell whether the figure is above a limit, with its whole interval; as `below`."""
        return self._judge(self.low > limit, self.high <= limit, limit)

    def _judge(self, holds: bool, fails: bool, limit: float) -> bool:
        if self.doubt or not (holds or fails):
            why = self.doubt or ("too uncertain" if self.interval else "no interval is known")
            raise Inconclusive(f"{self.counter} {self} against {limit:g}: {why}")
        return holds

    def __str__(self) -> str:
        return f"{self.text} ({self.ends})" if self.interval else self.text

    def __repr__(self) -> str:  # pytest shows it where an assertion fails
        return f"{self.counter} {self}"


@dataclass(slots=True)
class Entry:
    """One entry of a file: a repetition of a benchmark, or an aggregate of several."""

    name: BenchmarkName | None  # None if it belongs to no benchmark
    unit: str = ""  # of the file's time
    state: State = State.OK
    reason: str = ""  # of the state
    repetition: float | None = None  # None if it has no figures, as an aggregate
    figures: Mapping[str, float] = field(default_factory=dict)  # by counter; the time in ms
    intervals: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Row(Attributes):
    """One benchmark of one file, its repetitions summed up, or a row that ob.measure returns.

    `print(row)` shows the figures with their 95 % intervals, and so does a notebook. Every counter
    (docs/metrics.md) is an attribute, a Figure: `row.slowdown`, `row.comm_slowdown`. Times are in
    ms; each is the maximum over the ranks, and all ranks get the same row.

    file        the label of the Result it belongs to
    name        by which comparisons match rows; a text with `family`, `workloads` and `axes`
    counters    by name; empty if nothing was measured
    state       `ok`, `serialized`, `control`, `noisy`, `invalid` or `error`
    time_ms     the median time of the row's own run; NaN if nothing was measured
    reason      of the state; for a good row a finding such as `bandwidth-bound`, or ""
    intervals   of counters, and of "time" in ms
    table       defines the counters
    document    of a measured row: a result file that contains this row alone
    exception   likewise, what a callable raised, if one did
    samples_ms  likewise, the times of all samples of the row's own run, in their order
    """

    file: str
    name: BenchmarkName
    counters: Mapping[str, float]
    state: State = State.OK
    time_ms: float = math.nan
    reason: str = ""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    table: Table = field(default_factory=stored_table, compare=False)
    document: Mapping[str, Any] = field(default_factory=dict, compare=False)
    exception: BaseException | None = field(default=None, compare=False)
    samples_ms: Sequence[float] = field(default=(), compare=False)

    # ---- figures

    @property
    def figures(self) -> dict[str, Figure]:
        """The time, as "time" in ms, and every counter, by name."""
        measured = {} if math.isnan(self.time_ms) else {TIME: self.time_ms}
        return {name: self._figure(name, x) for name, x in {**measured, **self.counters}.items()}

    def __getitem__(self, counter: str) -> Figure:
        """Return a counter, or "time" in ms; KeyError says why it is missing."""
        value = self.time_ms if counter == TIME else self.counters.get(counter, math.nan)
        if math.isnan(value):
            raise KeyError(f"{self.name} has no {counter}: {self.problem or 'see counters'}")
        return self._figure(counter, value)

    def _figure(self, counter: str, value: float) -> Figure:
        doubt = "" if self.trusted or self.state is State.CONTROL else self.problem
        known = self.table.counters.get(counter)
        text = known.text(value) if known else ""
        return Figure(value, counter, self.intervals.get(counter), doubt, text)

    C = property(lambda self: self["comp_ms"], doc="The computation alone, in ms.")
    M = property(lambda self: self["comm_ms"], doc="The communication alone, in ms.")
    T = property(
        lambda self: self._figure(TIME, self.time_ms),
        doc="The row's own run, in ms: of a pair, both together.",
    )

    if not TYPE_CHECKING:  # attributes.pyi declares them

        def __getattr__(self, name: str) -> Figure:
            if name.startswith("_") or name not in self.table.counters:
                raise AttributeError(f"a row has no attribute {name!r}")
            try:
                return self[name]
            except KeyError as missing:
                raise AttributeError(missing.args[0]) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.figures]

    def to_dict(self) -> dict[str, Any]:
        """Return what the row says, with flat keys: its axes, its counters and their intervals.

        Keys are `file`, `benchmark`, `family`, `state`, `reason`, `axis_X` for each axis of the
        name, `time_ms`, each counter's name, and `X_low` and `X_high` for each interval.
        """
        told: dict[str, Any] = {"file": self.file, "benchmark": str(self.name)}
        told |= {"family": self.name.family, "state": self.state.value, "reason": self.reason}
        told |= {f"axis_{axis}": _number(value) for axis, value in self.name.axes}
        for name, figure in self.figures.items():
            unit = "_ms" * (name == TIME)
            told[name + unit] = figure.value
            if figure.interval:
                told |= {f"{name}_low{unit}": figure.low, f"{name}_high{unit}": figure.high}
        return told

    # ---- what the state means

    @property
    def trusted(self) -> bool:
        """Tell whether the figures measure what the name says, and are precise enough."""
        return self.state.trusted

    @property
    def passed_control(self) -> bool:
        """Tell whether this is a negative control with the expected outcome.

        Good rows of Priority with equal priorities are, too: they gained nothing.
        """
        gained_nothing = self.name.family == "Priority" and self.name.axis("priority") == "equal"
        return self.state is State.CONTROL or (gained_nothing and self.state is State.OK)

    @property
    def bad(self) -> bool:
        """Tell whether the row is neither trusted nor a passed control."""
        return not self.trusted and not self.passed_control

    @property
    def problem(self) -> str:
        """Why the figures cannot be trusted; "" for a good row."""
        if self.trusted:
            return ""
        passed = f"control passed: {self.reason}"
        return passed if self.passed_control else self.state.line(self.reason)

    @property
    def remark(self) -> str:
        """What the suite says about a good row."""
        return self.state.line(self.reason) if self.trusted else ""

    # ---- shown

    def plot(self) -> Any:
        """Return an Altair chart of the row's times, which a notebook shows.

        PackageError  the packages of the extra `charts` are not installed
        """
        return _package().plot(self)

    def __eq__(self, other: object) -> bool:
        """Compare what the rows say: a missing time is NaN, which Python 3.13 finds unequal."""
        return isinstance(other, Row) and self.to_dict() == other.to_dict()

    def __repr__(self) -> str:
        return f"<Row {self.name}: {self.state.value}, {digits(self.time_ms)} ms>"

    def __str__(self) -> str:
        lines = [f"{self.name}  {self.said}"]
        for title, value, unit, ends in self._lines():
            lines.append(f"  {title:<14}{value:>10} {unit:<3}  {ends}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return a table and, with the extra `charts`, the chart."""
        table = html_table(("counter", "value", "unit", "95 % interval"), list(self._lines()))
        picture = "" if self.state is State.ERROR else str(_package()._picture_of(self))
        return f"<p><b>{escape(self.name)}</b> {escape(self.said)}</p>{table}{picture}"

    @property
    def said(self) -> str:
        """The state and its reason."""
        return f"{self.state.value}{self.reason and ': '}{self.reason}"

    def _lines(self) -> Iterator[tuple[str, ...]]:
        """Yield the title, value, unit and interval of each figure that is shown first."""
        figures = self.figures
        leads = (family.lead for family in self.table.families if family.name == self.name.family)
        first = () if "overlap_ms" in figures else (TIME,)
        for name in dict.fromkeys((*first, *_SHOWN, *itertools.chain(*leads))):
            if name in figures:
                figure, counter = figures[name], self.table.counters[name]
                yield counter.title, figure.text, counter.printed_unit, figure.ends


def _package() -> Any:
    """Return the package, which is above all rooms and finds what draws."""
    return sys.modules["overlapbench"]


def html_table(columns: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Write a table for a notebook; all text is escaped."""
    rows = [("th", columns), *(("td", line) for line in lines)]
    written = (
        "".join(f"<{tag}>{escape(str(value))}</{tag}>" for value in line) for tag, line in rows
    )
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in written) + "</table>"


def _number(value: str) -> int | str:
    return int(value) if value.isdecimal() else value


def sum_up(runs: Sequence[Row], what: str) -> Row:
    """Return the medians over runs of one benchmark; problems call the runs `what`."""
    if len(runs) == 1:
        return runs[0]
    measured = [run for run in runs if not math.isnan(run.time_ms)]
    shared = set.intersection(*(set(run.counters) for run in measured)) if measured else set()
    state = max((run.state for run in runs), key=list(State).index)
    if state is State.ERROR and measured:
        state = State.INVALID
    alike = [run.state is state or not (run.trusted or state.trusted) for run in runs]
    return Row(
        runs[0].file,
        runs[0].name,
        {key: statistics.median(run.counters[key] for run in measured) for key in sorted(shared)},
        state,
        statistics.median(run.time_ms for run in measured) if measured else math.nan,
        _common([run.reason * same for run, same in zip(runs, alike, strict=True)], what),
        _pooled(measured),
        runs[0].table,
    )


def _pooled(runs: Sequence[Row]) -> dict[str, Interval]:
    """Return the interval of each counter that has one in all runs."""
    shared = set.intersection(*(set(run.intervals) for run in runs)) if runs else set()
    return {
        name: pool([run[name] for run in runs], [run.intervals[name] for run in runs])
        for name in sorted(shared)
    }


def _common(texts: Sequence[str], what: str) -> str:
    """Return the first text, and how many runs have one unless all do."""
    given = [text for text in texts if text]
    if not given:
        return ""
    if len(given) == len(texts):
        return given[0]
    return f"{len(given)} of {len(texts)} {what}: {given[0]}"
