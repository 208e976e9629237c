"""The race run again on a fully measured grid; it needs no machine.

A file of --exhaustive --output contains every setting with its time and interval (`whole_grid`,
which `record` writes). A modified search can be tested on it: replay() says how far from the best
it ends, and after how many evaluations. A longer measurement returns the recorded one, so the
finals add no information. The best of a whole grid is also its luckiest: a gap smaller than the
recorded intervals is noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from overlapbench.reading.source import Document, Fields, ResultError, harmless, load, short
from overlapbench.tune.search import Estimate, Race
from overlapbench.tune.space import Grid, Point

SCHEMA = "1"  # of the tuner's JSON


@dataclass(frozen=True)
class Recorded:
    """A row's whole grid as measured. `known` omits points without a comparable time."""

    name: str
    grid: Grid
    known: Mapping[Point, Estimate]
    gap_then: float | None = None  # of the search that was run on the machine


@dataclass(frozen=True)
class Replayed:
    """What a search found on a recorded grid."""

    recorded: Recorded
    choice: Point | None  # None if the search met no measured setting
    best: Point
    evaluations: int

    @property
    def gap(self) -> float:
        """How much longer the choice takes than the best of all; 0 if it is the best."""
        if self.choice is None:
            return math.inf
        known = self.recorded.known
        return known[self.choice].ms / known[self.best].ms - 1


def replay(recorded: Recorded) -> Replayed:
    known = recorded.known
    race = Race(recorded.grid, lambda _, points, __: {p: known[p] for p in points if p in known})
    choice = race.run()
    return Replayed(recorded, choice, min(known, key=lambda point: known[point].ms), race.spent)


def record(grid: Grid, known: Mapping[Point, Estimate]) -> dict[str, object]:
    """Return a whole grid in the form that read_recorded reads."""
    return {
        "multiprocessors": grid.sms,
        "ladder": {knob: list(values) for knob, values in grid.ladder.items()},
        "settings": [measurement(name, known.get(point)) for point, name in grid.names.items()],
    }


def measurement(name: str, found: Estimate | None) -> dict[str, object]:
    """Return one setting as written, without times if it has none or no upper bound."""
    if found is None:
        return {"name": name}
    high = {"high_ms": found.high} if math.isfinite(found.high) else {}
    return {"name": name, "overlap_ms": found.ms, "low_ms": found.low, **high}


def read_recorded(path: str) -> list[Recorded]:
    """Read the whole grids of a file; ResultError names an unusable field."""
    document = Document.parse(path, load(path), "pairs")
    if document.values.get("tune_schema") != SCHEMA:
        raise ResultError(f"{path}: tune_schema: not {SCHEMA!r}: not a result of the tuner")
    entries = [document.fields(i) for i in range(len(document.entries))]
    whole = [_recorded(fields) for fields in entries if "whole_grid" in fields.values]
    if not whole:
        raise ResultError(f"{path}: no pair has a whole_grid: tune with --exhaustive --output")
    return whole


def _recorded(fields: Fields) -> Recorded:
    whole = fields.inner("whole_grid")
    settings = [_setting(whole, i, one) for i, one in enumerate(_list(whole, "settings"))]
    names = {setting.printable("name"): setting for setting in settings}
    ladder, sms = _ladder(whole), int(whole.number("multiprocessors"))
    try:
        grid = Grid.of(ladder, names, sms)
    except ValueError as error:  # of a name
        raise whole.error("settings", harmless(str(error))) from None
    if len(grid) != len(settings) or grid.ladder != ladder or grid.default not in grid.names:
        raise whole.error("settings", "must contain each setting of the ladder once")
    times = {point: names[name] for point, name in grid.names.items()}
    known = {p: _estimate(one) for p, one in times.items() if "overlap_ms" in one.values}
    if not known:
        raise whole.error("settings", "none has a time")
    then = fields.inner("exhaustive").number("gap") if "exhaustive" in fields.values else None
    return Recorded(fields.printable("name"), grid, known, then)


def _ladder(whole: Fields) -> dict[str, Sequence[str]]:
    ladder = whole.inner("ladder")
    values: dict[str, Sequence[str]] = {}
    for knob in ladder.values:
        texts = _list(ladder, knob)
        if not texts or not all(isinstance(text, str) and text.isprintable() for text in texts):
            raise ladder.error(knob, f"{short(texts)} is not a list of values")
        values[harmless(knob)] = [str(text) for text in texts]
    return values


def _setting(whole: Fields, number: int, one: object) -> Fields:
    if not isinstance(one, dict):
        raise whole.error("settings", f"{short(one)} is not an object")
    return Fields(whole.document, whole.index, one, f"{whole.inside}.settings[{number}]")


def _estimate(setting: Fields) -> Estimate:
    ms = setting.number("overlap_ms")
    low = setting.number("low_ms")
    high = setting.number("high_ms") if "high_ms" in setting.values else math.inf
    if not 0 <= low <= ms <= high or ms == 0:
        raise setting.error("overlap_ms", f"{ms:g} is not a time within {low:g} to {high:g}")
    return Estimate(ms, low, high)


def _list(fields: Fields, key: str) -> Sequence[object]:
    value = fields.values.get(key)
    if not isinstance(value, list):
        raise fields.error(key, f"{short(value)} is not a list")
    return value
