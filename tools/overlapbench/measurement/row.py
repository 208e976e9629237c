"""The rows that measuring returns: figures that know their intervals, and judge them.

row = ob.measure(comp=multiply, comm=reduce)
row.slowdown                1.41, a float
row.slowdown.low            the lower end of its 95 % interval
row.slowdown.below(1.5)     True: the whole interval is below
row.comm_slowdown           every counter of the row is an attribute
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from overlapbench.measurement.interface import MeasureError
from overlapbench.reading.counters import TIME
from overlapbench.reading.result import Row as ReadRow
from overlapbench.reading.result import State
from overlapbench.statistics.intervals import Interval

_SHOWN = (
    *("comp_ms", "comm_ms", "overlap_ms", "slowdown", "efficiency", "coverage", "comp_slowdown"),
    *("comm_slowdown", "sequential_ms", "bound_ms", "pct_of_bound", "speedup", "exposed_comm_ms"),
)


def _package() -> Any:
    """Return the package, which is above all rooms and finds what draws."""
    return sys.modules["overlapbench"]


class Inconclusive(MeasureError):  # noqa: N818 it is an outcome
    """A figure is too uncertain to be judged: its row is noisy, or its interval contains the limit.

    In a test with the fixture overlap_benchmark, the test is skipped, or fails with
    `when_noisy = "fail"` (docs/package.md).
    """


class Figure(float):
    """A counter's value with the ends of its 95 % interval; NaN where none is known.

    It is a float: it compares, formats and computes as its value does.
    """

    counter: str
    low: float
    high: float
    doubt: str  # why the figure may not be judged; "" if it may

    def __new__(
        cls, value: float, counter: str, interval: Interval | None = None, doubt: str = ""
    ) -> "Figure":
        figure = super().__new__(cls, value)
        figure.counter, figure.doubt = counter, doubt
        figure.low, figure.high = interval or (math.nan, math.nan)
        return figure

    def __getnewargs__(self) -> tuple[Any, ...]:
        return float(self), self.counter, self.interval, self.doubt

    @property
    def interval(self) -> Interval | None:
        """The ends of the interval, the lower one first; None where none is known."""
        return None if math.isnan(self.low) else (self.low, self.high)

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
            raise Inconclusive(f"{self!r} against {limit:g}: {self.doubt or 'too uncertain'}")
        return holds

    def __repr__(self) -> str:
        ends = f"{self.low:.4g} to {self.high:.4g}" if self.interval else "no interval"
        return f"{self.counter} {float(self):.4g} ({ends})"

    def __str__(self) -> str:
        return f"{float(self):.4g}"


@dataclass(frozen=True, repr=False)
class Row:
    """A measured row. Times are in milliseconds; each is the maximum over the ranks.

    `print(row)` shows the figures with their 95 % intervals, and so does a notebook. Every counter
    is an attribute, a Figure: `row.slowdown`, `row.comm_slowdown`. All ranks get the same row.

    document    a result file that contains this row alone
    exception   what a callable raised, if one did
    samples_ms  the times of all samples of the row's own run, in their order
    """

    read: ReadRow
    document: Mapping[str, Any]  # as ./bench would write it for this row alone
    titles: Mapping[str, tuple[str, str]]  # by counter, with its unit
    exception: BaseException | None = None  # that a callable raised
    samples_ms: Sequence[float] = ()

    @property
    def name(self) -> str:
        """The row's name, by which comparisons match rows."""
        return str(self.read.name)

    @property
    def state(self) -> State:
        """Whether the figures can be trusted: `ok`, `serialized`, `noisy`, `invalid` or `error`."""
        return self.read.state

    @property
    def reason(self) -> str:
        """Why the row has its state; for a good row, a finding or ""."""
        return self.read.reason

    @property
    def ok(self) -> bool:
        """Tell whether the figures measure what the name says, and are precise enough."""
        return self.read.trusted

    @property
    def time_ms(self) -> Figure:
        """The median time of the row's own run; NaN if nothing was measured."""
        return self._figure(TIME, self.read.time_ms)

    @property
    def counters(self) -> Mapping[str, float]:
        """Every counter of the row, in the units of docs/metrics.md."""
        return self.read.counters

    def __getitem__(self, counter: str) -> Figure:
        """Return a counter; KeyError says why it is missing."""
        if counter not in self.counters:
            raise KeyError(f"{self.name} has no {counter}: {self.read.problem or 'see counters'}")
        return self._figure(counter, self.counters[counter])

    def __getattr__(self, counter: str) -> Figure:
        if counter.startswith("_") or counter not in self.titles:
            raise AttributeError(f"a row has no attribute {counter!r}")
        try:
            return self[counter]
        except KeyError as missing:
            raise AttributeError(missing.args[0]) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.counters]

    def interval(self, counter: str) -> Interval | None:
        """Return the 95 % interval of a counter, or of "time" in ms; None where there is none."""
        return self.read.intervals.get(counter)

    C = property(lambda self: self["comp_ms"], doc="The computation alone, in ms.")
    M = property(lambda self: self["comm_ms"], doc="The communication alone, in ms.")
    T = property(lambda self: self.time_ms, doc="The row's own run: of a pair, both together.")
    slowdown = property(lambda self: self["slowdown"], doc="T / max(C, M); 1 is perfect.")
    efficiency = property(lambda self: self["efficiency"], doc="(C + M - T) / min(C, M).")
    coverage = property(lambda self: self["coverage"], doc="How much the sides ran together.")

    def to_dict(self) -> dict[str, Any]:
        """Return the row with flat keys, for a data frame or JSON.

        Keys are `benchmark`, `state`, `reason`, `axis_X` for each part X:VALUE of the name,
        `time_ms`, each counter, and the ends of intervals: `slowdown_low`, `slowdown_high`.
        """
        told: dict[str, Any] = {"benchmark": self.name, "state": self.state.value}
        told |= {"reason": self.reason}
        told |= {f"axis_{axis}": value for axis, value in self.read.name.axes}
        for key, figure in {"time_ms": self.time_ms, **{c: self[c] for c in self.counters}}.items():
            told[key] = float(figure)
            if figure.interval:
                stem, ms = (key.removesuffix("_ms"), "_ms") if key == "time_ms" else (key, "")
                told |= {f"{stem}_low{ms}": figure.low, f"{stem}_high{ms}": figure.high}
        return told

    def plot(self) -> Any:
        """Return an Altair chart of the row's times, which a notebook shows.

        PackageError  the packages of the extra `charts` are not installed
        """
        return _package().plot(self.read)

    def _figure(self, counter: str, value: float) -> Figure:
        doubt = "" if self.ok or self.state is State.CONTROL else self.read.problem
        return Figure(value, counter, self.interval(counter), doubt)

    def _shown(self) -> list[Figure]:
        shown = [self[name] for name in _SHOWN if name in self.counters]
        if "overlap_ms" not in self.counters and self.state is not State.ERROR:
            shown.insert(0, self.time_ms)
        return shown

    def __repr__(self) -> str:
        return f"<Row {self.name}: {self.state.value}, {self.time_ms:.4g} ms>"

    def __str__(self) -> str:
        lines = [f"{self.name}  {self.state.value}{self.reason and ': '}{self.reason}"]
        for figure in self._shown():
            title, unit = self.titles.get(figure.counter, (figure.counter, ""))
            line = f"  {title:<14}{figure:10.4g} {unit:<3}"
            if figure.interval:
                line += f"  {figure.low:.4g} to {figure.high:.4g}"
            lines.append(line.rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        said = f"{self.state.value}{self.reason and ': '}{self.reason}"
        cells = "".join(map(self._cells, self._shown()))
        head = "<tr><th></th><th>value</th><th>unit</th><th>95 % interval</th></tr>"
        title = f"<p><b>{escape(self.name)}</b> {escape(said)}</p>"
        return f"{title}<table>{head}{cells}</table>{self._picture()}"

    def _picture(self) -> str:
        """Return the chart as SVG; "" without the extra `charts`, or if nothing was measured."""
        return "" if self.state is State.ERROR else str(_package()._picture_of(self.read))

    def _cells(self, figure: Figure) -> str:
        title, unit = self.titles.get(figure.counter, (figure.counter, ""))
        ends = f"{figure.low:.4g} to {figure.high:.4g}" if figure.interval else ""
        cells = (title, f"{figure:.4g}", unit, ends)
        return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
