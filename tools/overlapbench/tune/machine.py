"""Queries the program and measures rows: everything that the tuner runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from overlapbench.judge.runner import Runner
from overlapbench.judge.session import filter_of
from overlapbench.output import ResultError, harmless
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.result import Result, parse_result
from overlapbench.reading.rows import Row
from overlapbench.tune.search import Estimate
from overlapbench.tune.space import Grid, Point, Wish, axis_flags, ladders, parse_axes

COMMAND = "tune"  # the one side of the runner
NO_BUILD = "--no-build"
# A search measures its rows for their full time, however precise they are earlier.
_QUICK = ("--no-self-test", "--precision=0")


@dataclass(frozen=True)
class Objective:
    """What a search minimises: a counter of its rows."""

    name: str
    word: str
    counter: str
    unit: str
    flags: Sequence[str] = ()  # without which rows lack it


OF_TIME = Objective("time", "time", "overlap_ms", "ms")
_ENERGY = ("--energy=own",)
OBJECTIVES = {
    one.name: one
    for one in (
        OF_TIME,
        Objective("energy", "energy", "energy_J", "J", _ENERGY),
        Objective("energy_time", "energy x time", "energy_time_Js", "J s", _ENERGY),
    )
}


@dataclass
class Machine:
    """The program on this machine. `unit_ms` is the measuring time of an evaluation."""

    runner: Runner
    unit_ms: int
    objective: Objective = OF_TIME
    runs: int = 0

    @property
    def command(self) -> list[str]:
        """The command with which a user measures."""
        command = [*self.runner.commands[COMMAND], *self.runner.flags]
        return [word for word in command if word != NO_BUILD]

    def rows_of(self, wish: Wish) -> list[BenchmarkName]:
        """Return the rows that a pair stands for here; ResultError has the program's message."""
        return [BenchmarkName.parse(name) for name in self._list(wish.flags)]

    def grid_of(self, wish: Wish, sms: int) -> Grid:
        """Return the settings that exist; ResultError if there is nothing to vary."""
        listing = self.runner.ask(COMMAND, [f"--pair={wish.pair}", "--list_axes"])
        ladder = ladders(parse_axes(listing, wish.pair.split("+")), wish.fixed, sms)
        if not ladder:
            raise ResultError(f"{wish.pair}: nothing to vary here: every setting has one value")
        flags = axis_flags({knob: ",".join(values) for knob, values in ladder.items()})
        grid = Grid.of(ladder, self._list([*wish.flags, *flags]), sms)
        if len(grid) < 2 or grid.default not in grid.names:
            raise ResultError(f"{wish.pair}: nothing to vary here: only one combination exists")
        return grid

    def measure(
        self, wish: Wish, grid: Grid, points: Sequence[Point], units: int
    ) -> dict[Point, Estimate]:
        """Measure points in one process; points without a comparable time are left out."""
        names = {grid.names[point]: point for point in points}
        budget = [f"--budget_ms={units * self.unit_ms}", *_QUICK]
        rows = self._run(wish, grid, points, budget).rows
        found = ((names.get(str(row.name)), self._estimate(row)) for row in rows)
        return {point: one for point, one in found if point is not None and one}

    def run(self, wish: Wish, grid: Grid, point: Point) -> Estimate:
        """Measure one point in its own process, as ./bench would; ResultError if that fails."""
        row = self._run(wish, grid, [point], ["--no-self-test"]).rows[0]
        if found := self._estimate(row):
            return found
        why = "" if row.state.comparable else row.problem
        raise ResultError(f"not confirmed: {why or 'a run lacks what is minimised'}")

    def _estimate(self, row: Row) -> Estimate | None:
        counter = self.objective.counter
        if not row.state.comparable or counter not in row.counters:
            return None
        return Estimate(row.counters[counter], *row.intervals.get(counter, (0.0, math.inf)))

    def context_of(self, wish: Wish, row: BenchmarkName) -> Mapping[str, object]:
        """Measure a row as briefly as possible, and return the context of the result.

        ResultError if what is minimised cannot be measured here.
        """
        context = self._results([*wish.flags, "--budget_ms=1", *_QUICK], [str(row)]).context
        energy = harmless(str(context.get("energy", "")))
        if energy.startswith("not available"):
            raise ResultError(f"--minimise: energy {energy}")
        return context

    def _run(self, wish: Wish, grid: Grid, points: Sequence[Point], flags: Sequence[str]) -> Result:
        axes = {
            knob: ",".join(dict.fromkeys(point[place] for point in points))
            for place, knob in enumerate(grid.ladder)
        }
        names = [grid.names[point] for point in points]
        return self._results([*wish.flags, *axis_flags(axes), *flags], names)

    def _results(self, flags: Sequence[str], names: Sequence[str]) -> Result:
        self.runs += 1
        runner = replace(self.runner, flags=[*self.runner.flags, *flags, *self.objective.flags])
        run = runner.run(COMMAND, self.runs, filter_of(names))
        text = self.runner.files.pop(run.source).decode()
        return parse_result(run.source, text)

    def _list(self, flags: Iterable[str]) -> list[str]:
        printed = self.runner.ask(COMMAND, [*flags, "--benchmark_list_tests"])
        return [line for line in printed.splitlines() if line.startswith("Overlap/")]
