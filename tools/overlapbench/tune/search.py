"""The race: which settings are measured next, which are out, and which one wins.

A grid of settings has hundreds or thousands of points; the share LIMIT of them is measured. The
settings are not independent: the best number of SMs for a collective depends on its transport, and
whether the order matters depends on the SMs that the computation leaves free. So the race begins
with every transport in every order. For the best three, it varies the SMs of both sides. Then it
varies each group of settings around the best of all, until nothing is better.

SMs are varied along paths: from many SMs of the communication to few, from mild limits of the
computation to strict ones. A path ends where it has become clearly worse, so that few evaluations
go to settings that starve one side. A step of all paths is measured in one process, so that they
are compared under the same clocks.

A candidate is out if the low end of its interval exceeds the high end of the best one's by more
than a margin: the gain that later settings may still bring. Longer measurements decide among the
last few, without a margin. If several are then equal within noise, the one with the fewest settings
wins.

An evaluation is one row measured once for a unit of time; a measurement of four units counts as
four.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from overlapbench.reading.entries import QUANTILE
from overlapbench.tune.space import (
    CARRIERS,
    OF_COMMUNICATION,
    OF_COMPUTATION,
    ORDER,
    PRIORITIES,
    Grid,
    Point,
)

LIMIT = 0.15  # the share of the grid that may be measured
_FEW = 4  # evaluations per transport and order; with fewer, each is tried in one way only
LEAST_LIMIT = 8  # evaluations: 15 % of a grid of fewer than 54 settings is too few to choose from
_SHARED = (*OF_COMPUTATION, *OF_COMMUNICATION)
_GROUPS = (OF_COMPUTATION, OF_COMMUNICATION, (ORDER,), PRIORITIES, CARRIERS)
_CANDIDATES, _MARGIN = 3, 0.35  # whose shares of the SMs are varied, if no more than this is lost
_WORSE = 0.05  # a path ends if it is worse than its best by more
_FINALISTS = (4, 2)  # how many are measured again, and then again
_UNITS = (2, 4)  # and for how long
_SHARE_OF_FINALS = 5  # at most every fifth evaluation
# A smaller difference does not justify a setting.
_NEGLIGIBLE = 0.005


class Estimate(NamedTuple):
    """What is minimised of both sides together, such as their time, and its 95 % interval."""

    figure: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """The standard error of the figure's logarithm; NaN where the interval is unknown."""
        is_known = self.low > 0 and self.high < math.inf
        return math.log(self.high / self.low) / (2 * QUANTILE) if is_known else math.nan


# Measures points for so many units of time; the result omits points that cannot be measured.
Measure = Callable[[str, Sequence[Point], int], Mapping[Point, Estimate]]


@dataclass
class Race:
    """One search. Its state can be read at any time, for example after an interruption."""

    grid: Grid
    measure: Measure
    goes_on: Callable[[], bool] = lambda: True  # whether there is time left
    known: dict[Point, Estimate] = field(default_factory=dict)
    tried: set[Point] = field(default_factory=set)
    spent: int = 0

    @property
    def limit(self) -> int:
        """The limit on evaluations."""
        return max(LEAST_LIMIT, int(LIMIT * len(self.grid)))

    @property
    def reserve(self) -> int:
        """The evaluations reserved for the finals."""
        finals = sum(n * units for n, units in zip(_FINALISTS, _UNITS, strict=True))
        return min(finals, self.limit // _SHARE_OF_FINALS)

    @property
    def best(self) -> Point | None:
        """The fastest point so far."""
        return min(self.known, key=lambda point: self.known[point].figure, default=None)

    def run(self) -> Point | None:
        """Race, and return the winner; None if nothing could be measured."""
        self._try("transports and orders", self._first())
        around = self.survivors()
        self._walk([(p, path) for p in around for path in self._sharing(p)])
        while (best := self.best) is not None and self._try("around the best", self._near(best)):
            if best == self.best:
                break
        return self._decide()

    def survivors(self) -> list[Point]:
        """Return the best points of the best transports and orders, the fastest first."""
        leads: dict[Point, Point] = {}
        for point in self._fastest_first():
            leads.setdefault(self.grid.part(point, (*CARRIERS, ORDER)), point)
        return self.keep(list(leads.values()), _MARGIN)[:_CANDIDATES]

    def keep(self, points: Sequence[Point], margin: float) -> list[Point]:
        """Return the points that may be as fast as the fastest of them."""
        best = min((self.known[point] for point in points), default=Estimate(0, 0, 0))
        return [point for point in points if self.known[point].low <= best.high * (1 + margin)]

    def _first(self) -> list[Point]:
        """Return every transport in every order: without a limit, and with one that leaves SMs.

        With few evaluations, each transport is tried once. Those that take SMs are tried with the
        limit: without it, they wait for the computation, however fast they are. The others are
        tried without.

        A grid within the limit on evaluations is measured completely.
        """
        if len(self.grid) <= self.limit - self.reserve:
            return list(self.grid.names)
        carriers = self.grid.varying(self.grid.default, (*CARRIERS, ORDER))
        few = _FEW * len(carriers) > self.limit
        both = [point for point in carriers if not few or self.grid.takes_sms(point)]
        limited = [point for start in both for point in self._limited(start)]
        if few and limited:
            takes_none = [point for point in carriers if not self.grid.takes_sms(point)]
            carriers = list(dict.fromkeys([self.grid.default, *takes_none]))
        return [*carriers, *limited]

    def _limited(self, start: Point) -> list[Point]:
        """Return the point whose computation leaves the most SMs."""
        others = (p for knob in OF_COMPUTATION for p in self.grid.varying(start, (knob,)))
        return [point for point in others if point != start][:1]

    def _sharing(self, point: Point) -> list[list[Point]]:
        """Return paths through divisions of the SMs, around the best of a transport and order.

        If the computation is limited, the sides share all SMs, and the communication starts with
        many. If not, its SMs and the limits are varied separately.
        """
        takes_sms = self.grid.takes_sms(point)
        if takes_sms and self.grid.sms_named(point, OF_COMPUTATION):
            return self.grid.fitting(point)
        base = point if takes_sms else self.grid.unlimited(point)
        lines = (self.grid.line(base, knob) for knob in _SHARED)
        return [[other for other in reversed(line) if other != base] for line in lines]

    def _near(self, point: Point) -> list[Point]:
        """Return all points that differ from this one in one group of settings."""
        return [other for knobs in _GROUPS for other in self.grid.varying(point, knobs)]

    def _fastest_first(self) -> list[Point]:
        return sorted(self.known, key=lambda point: self.known[point].figure)

    def _walk(self, paths: Sequence[tuple[Point, Sequence[Point]]]) -> None:
        """Measure paths, given with their starts, step by step as long as they are good."""
        going = [(self.known[start].figure, list(path)) for start, path in paths if path]
        while going:
            step = [path.pop(0) for _, path in going]
            if not self._try("shares of the SMs", step) and not self.tried.issuperset(step):
                return
            going = [
                (min(bar, figure), path)
                for (bar, path), point in zip(going, step, strict=True)
                if path and (figure := self._figure(point, bar)) <= bar * (1 + _WORSE)
            ]

    def _figure(self, point: Point, unmeasurable: float) -> float:
        """Return a point's figure; infinity if it was not tried."""
        if point in self.known:
            return self.known[point].figure
        return unmeasurable if point in self.tried else math.inf

    def _try(self, title: str, points: Iterable[Point]) -> bool:
        """Measure new points as far as evaluations suffice; tell whether any was measured."""
        new = [point for point in dict.fromkeys(points) if point not in self.tried]
        new = new[: max(0, self.limit - self.reserve - self.spent)]
        return self._measure(title, new, 1)

    def _measure(self, title: str, points: Sequence[Point], units: int) -> bool:
        if not points or not self.goes_on():
            return False
        self.tried.update(points)
        self.spent += units * len(points)
        self.known.update(self.measure(title, points, units))
        return True

    def _decide(self) -> Point | None:
        """Measure the last few again, for longer, and return the winner."""
        points = self._fastest_first()
        for finalists, units in zip(_FINALISTS, _UNITS, strict=True):
            affordable = max(0, self.limit - self.spent) // units
            points = self.keep(points, 0)[:finalists]
            again = points[:affordable]
            if len(again) < 2 or not self._measure("finals", again, units):
                break
            points = sorted(again, key=lambda point: self.known[point].figure)
        return self._simplest(self.keep(points, 0))

    def _simplest(self, points: Sequence[Point]) -> Point | None:
        """Return the point with the fewest settings among those as good as the fastest."""
        if not points:
            return None
        bar = min(self.known[point].figure for point in points) * (1 + _NEGLIGIBLE)
        good = [point for point in points if self.known[point].figure <= bar]
        return min(
            good, key=lambda point: (len(self.grid.changed(point)), self.known[point].figure)
        )
