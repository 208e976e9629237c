"""One pair from its first row to the answer: race, and confirmation.

A search picks the fastest of many measurements, and the fastest is also the luckiest. So the gain
is measured again, in fresh processes, A B B A, and judged in the same way as two builds
(statistics/estimates.py).
"""

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from overlapbench.findings.apply import takes_a_kernel
from overlapbench.judge.session import BASE, schedule
from overlapbench.judge.side import within_of
from overlapbench.output import ResultError
from overlapbench.reading.names import BenchmarkName
from overlapbench.statistics import estimates
from overlapbench.statistics.estimates import Prior
from overlapbench.statistics.intervals import digits
from overlapbench.tune.machine import Machine
from overlapbench.tune.search import Estimate, Race
from overlapbench.tune.space import Grid, Point, Wish

_ERRORS = 0.05  # of the interval, which contains the gain in 95 of 100 cases


@dataclass(frozen=True)
class Gain:
    """What the winner saves, as shares of the default's figure; negative if it takes more."""

    default: float
    best: float
    share: float
    low: float
    high: float
    runs: int  # per side

    @property
    def certain(self) -> bool:
        """Tell whether the winner is better: the interval does not contain zero."""
        return self.low > 0


@dataclass
class Study:
    """The search for one row. Its state can be read at any time."""

    machine: Machine
    wish: Wish
    row: BenchmarkName
    context: Mapping[str, object]
    grid: Grid
    runs: int  # per side, to confirm the gain; 0: claim none
    say: Callable[[str], None]
    deadline: float = math.inf  # by time.monotonic
    race: Race = field(init=False)
    choice: Point | None = None
    gain: Gain | None = None
    plain: Point | None = None  # the best that needs no new code, if it is not the choice
    plain_gain: Gain | None = None
    problem: str = ""  # why no gain is claimed, apart from its size
    spent_s: float = 0.0  # on the search
    run_s: float = 3.0  # of one row in its own process; initially a guess

    def __post_init__(self) -> None:
        self.race = Race(self.grid, self._measure, self._goes_on)

    @property
    def best(self) -> Point | None:
        """The choice, or the fastest point so far."""
        return self.choice if self.choice is not None else self.race.best

    def run(self) -> None:
        """Search, and confirm the choice; if the program fails, the study ends with a problem."""
        try:
            self.choice = self.race.run()
            if self.choice is None:
                tried = "no row could be measured; overlapbench run shows why"
                self.problem = tried if self.race.tried else "the time budget is over"
                return
            if self.runs > 0 and self.choice != self.grid.default:
                self.gain = self._confirm(self.choice)
                self._confirm_plain()
        except ResultError as error:
            self.problem = str(error)

    def remaining_s(self) -> float:
        """Estimate how long search and confirmation still take."""
        left, each_s = self.race.limit - self.race.spent, 1.0
        if self.race.spent:
            each_s = self.spent_s / self.race.spent  # including its share of the run
        return left * each_s + 2 * self.runs * self.run_s

    def _goes_on(self) -> bool:
        return time.monotonic() + 2 * self.runs * self.run_s < self.deadline

    def _measure(self, title: str, points: Sequence[Point], units: int) -> Mapping[Point, Estimate]:
        best, unit = self.race.best, self.machine.objective.unit
        so_far = f", best {digits(self.race.known[best].figure)} {unit}" if best is not None else ""
        left = f", about {spell_time(self.remaining_s())} left at most" if so_far else ""
        self.say(f"{title}: {len(points)} rows{so_far}{left}")
        started = time.monotonic()
        found = self.machine.measure(self.wish, self.grid, points, units)
        self.spent_s += time.monotonic() - started
        return found

    def _confirm_plain(self) -> None:
        """Confirm the best that needs no new code, too: it is what most users can set."""
        known, grid = self.race.known, self.grid
        fit = [point for point in known if not takes_a_kernel(grid.changed(point))]
        plain = min(fit, key=lambda point: known[point].figure, default=grid.default)
        if plain in (grid.default, self.choice) or not self._goes_on():
            return
        with contextlib.suppress(ResultError):  # the best stands, whatever this one does
            self.plain, self.plain_gain = plain, self._confirm(plain)

    def _confirm(self, choice: Point) -> Gain:
        """Run default and choice in turn, A B B A."""
        made: dict[Point, list[Estimate]] = {self.grid.default: [], choice: []}
        order = schedule(self.runs)
        for number, side in enumerate(order):
            left = spell_time((len(order) - number) * self.run_s)
            what, point = ("default", self.grid.default) if side == BASE else ("best", choice)
            self.say(f"confirming: run {number + 1} of {len(order)}: {what}, about {left} left")
            started = time.monotonic()
            made[point].append(self.machine.run(self.wish, self.grid, point))
            self.run_s = time.monotonic() - started
        return gain_of(made[self.grid.default], made[choice])


def spell_time(seconds: float) -> str:
    """Write a time as people say it: `40 s`, `3 min`."""
    return f"{math.ceil(seconds)} s" if seconds < 90 else f"{round(seconds / 60)} min"


def gain_of(default: Sequence[Estimate], best: Sequence[Estimate]) -> Gain:
    """Compare what runs of both measured."""
    base, new = (np.log([[one.figure for one in side]]) for side in (default, best))
    within = within_of(np.array([[one.error for one in (*default, *best)]]))
    found = estimates.estimate(base, new, within, Prior(math.nan, 1.0))
    half = float(estimates.reach(found.error, found.freedom, 1, false_alarms=_ERRORS)[0])
    share, low, high = (-math.expm1(found.change[0] + sign * half) for sign in (0, 1, -1))
    return Gain(math.exp(found.base[0]), math.exp(found.new[0]), share, low, high, len(default))
