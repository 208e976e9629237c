"""The tuner's race run again, without a machine, on grids whose every setting was measured.

dev/measure_grid.py measures such grids. A longer measurement returns the recorded one again, so the
finals add no information, and the best of a grid is also its luckiest: a gap smaller than the
recorded intervals is noise.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlapbench.tune.search import Estimate, Race
from overlapbench.tune.space import Grid, Point


@dataclass(frozen=True)
class Recorded:
    """A row's whole grid as measured. `known` omits points without a comparable time."""

    grid: Grid
    known: Mapping[Point, Estimate]
    gap_then: float | None = None  # of the search that was run on the machine


@dataclass(frozen=True)
class Replayed:
    """What a search found on a recorded grid."""

    recorded: Recorded
    choice: Point
    best: Point
    evaluations: int

    @property
    def gap(self) -> float:
        """How much longer the choice takes than the best of all; 0 if it is the best."""
        known = self.recorded.known
        return known[self.choice].figure / known[self.best].figure - 1


def replay(recorded: Recorded) -> Replayed:
    known = recorded.known
    race = Race(recorded.grid, lambda _, points, __: {p: known[p] for p in points if p in known})
    choice = race.run()
    assert choice is not None
    return Replayed(recorded, choice, min(known, key=lambda point: known[point].figure), race.spent)


def read_recorded(path: Path) -> list[Recorded]:
    return [_recorded(pair) for pair in json.loads(path.read_text(encoding="utf-8"))["pairs"]]


def _recorded(pair: Mapping[str, Any]) -> Recorded:
    whole = pair["whole_grid"]
    times = {one["name"]: one for one in whole["settings"]}
    grid = Grid.of(whole["ladder"], times, whole["multiprocessors"])
    assert len(grid) == len(times)
    known = {
        point: Estimate(one["overlap_ms"], one["low_ms"], one.get("high_ms", math.inf))
        for point, name in grid.names.items()
        if "overlap_ms" in (one := times[name])
    }
    return Recorded(grid, known, pair.get("exhaustive", {}).get("gap"))
