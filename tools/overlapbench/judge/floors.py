"""Floors: how large a change must be to count, as a TOML file may set it.

    [[floor]]                      # the last matching entry wins
    pattern = "^Overlap/"          # of names, as for --benchmark_filter
    metric = "time"                # optional; default: all metrics
    percent = 5

A floor replaces the least floor, statistics.LEAST_FLOOR. The compared results define the metrics:
call `require_known` once they have been read.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from overlapbench.output import ResultError
from overlapbench.reading.counters import Table, stored_table
from overlapbench.reading.names import chooser
from overlapbench.reading.source import LARGEST, read_bytes


@dataclass(frozen=True)
class SetFloor:
    """One [[floor]]; `floor` is relative, not in percent."""

    pattern: str
    metric: str  # "" for all
    floor: float


@dataclass(frozen=True)
class Floors:
    """A floors file."""

    floors: tuple[SetFloor, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)  # by metric: its first place

    def require_known(self, table: Table) -> None:
        """Refuse a metric that neither the compared results nor older ones judge."""
        known = dict.fromkeys((*table.judged, *stored_table().judged))
        for metric, place in self.places.items():
            if metric not in known:
                raise ResultError(
                    f"{place}: {metric!r} is not one of the metrics {', '.join(known)}"
                )

    def set_for(self, name: str, metric: str) -> SetFloor | None:
        """Return the entry that sets a benchmark's floor, if one does."""
        for entry in reversed(self.floors):
            if entry.metric in ("", metric) and chooser(entry.pattern)(name):
                return entry
        return None


def read_floors(paths: Sequence[Path]) -> Floors:
    """Read floors files. Later files win; ResultError names an invalid entry."""
    read = [_read(path) for path in paths]
    places = {metric: place for floors in reversed(read) for metric, place in floors.places.items()}
    return Floors(tuple(floor for floors in read for floor in floors.floors), places)


def _read(path: Path) -> Floors:
    try:
        return parse_floors(str(path), read_bytes(path).decode("utf-8"))
    except UnicodeDecodeError:
        raise ResultError(f"{path}: not TOML: not UTF-8") from None


def parse_floors(source: str, text: str) -> Floors:
    """Read the text of a floors file."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # for example too many digits or brackets
        raise ResultError(f"{source}: not TOML: {error}") from None
    _require_known(source, document, {"floor"})
    entries = document.get("floor", [])
    if not isinstance(entries, list):
        raise ResultError(f"{source}: floor: write [[floor]] for each")
    floors = [_floor(f"{source}: floor[{i}]", entry) for i, entry in enumerate(entries)]
    named = [(f"{source}: floor[{i}].metric", one.metric) for i, one in enumerate(floors)]
    places = {metric: place for place, metric in reversed(named) if metric}
    return Floors(tuple(floors), places)


def _floor(place: str, entry: object) -> SetFloor:
    values = _table(place, entry)
    _require_known(place, values, {"pattern", "metric", "percent"})
    pattern, metric = values.get("pattern"), values.get("metric", "")
    if not isinstance(pattern, str):
        raise ResultError(f"{place}.pattern: missing, or not text")
    try:
        chooser(pattern)
    except ResultError as error:
        raise ResultError(f"{place}.pattern: {error}") from None
    if not isinstance(metric, str):
        raise ResultError(f"{place}.metric: {metric!r} is not the name of a metric")
    return SetFloor(pattern, metric, _percent(f"{place}.percent", values.get("percent")))


def _table(place: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ResultError(f"{place}: {value!r} is not a table")
    return value


def _require_known(place: str, values: Mapping[str, object], known: set[str]) -> None:
    for key in values:
        if key not in known:
            raise ResultError(f"{place}: unknown key {key!r}: known are {', '.join(sorted(known))}")


def _percent(place: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value / 100
    raise ResultError(f"{place}: {value!r} is not a number of at least 0")
