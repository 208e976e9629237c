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
from dataclasses import dataclass
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
    place: str = ""  # where it stands


@dataclass(frozen=True)
class Floors:
    """All entries; later ones win."""

    floors: tuple[SetFloor, ...] = ()

    def require_known(self, table: Table) -> None:
        """Refuse a metric that neither the compared results nor older ones judge."""
        known = dict.fromkeys((*table.judged, *stored_table().judged))
        for one in self.floors:
            if one.metric and one.metric not in known:
                told = f"{one.metric!r} is not one of the metrics {', '.join(known)}"
                raise ResultError(f"{one.place}.metric: {told}")

    def set_for(self, name: str, metric: str) -> SetFloor | None:
        """Return the entry that sets a benchmark's floor, if one does."""
        for entry in reversed(self.floors):
            if entry.metric in ("", metric) and chooser(entry.pattern)(name):
                return entry
        return None


def read_floors(paths: Sequence[Path]) -> Floors:
    """Read floors files. Later files win; ResultError names an invalid entry."""
    return Floors(tuple(floor for path in paths for floor in _read(path).floors))


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
    _require_keys(source, document, {"floor"})
    entries = document.get("floor", [])
    if not isinstance(entries, list):
        raise ResultError(f"{source}: floor: write [[floor]] for each")
    return Floors(tuple(_floor(f"{source}: floor[{i}]", entries[i]) for i in range(len(entries))))


def _floor(place: str, values: object) -> SetFloor:
    if not isinstance(values, dict):
        raise ResultError(f"{place}: {values!r} is not a table")
    _require_keys(place, values, {"pattern", "metric", "percent"})
    pattern, metric, percent = (
        values.get("pattern"),
        values.get("metric", ""),
        values.get("percent"),
    )
    if not isinstance(pattern, str):
        raise ResultError(f"{place}.pattern: missing, or not text")
    try:
        chooser(pattern)
    except ResultError as error:
        raise ResultError(f"{place}.pattern: {error}") from None
    if not isinstance(metric, str):
        raise ResultError(f"{place}.metric: {metric!r} is not the name of a metric")
    if (
        isinstance(percent, int | float)
        and not isinstance(percent, bool)
        and 0 <= percent <= LARGEST
    ):
        return SetFloor(pattern, metric, percent / 100, place)
    raise ResultError(f"{place}.percent: {percent!r} is not a number of at least 0")


def _require_keys(place: str, values: Mapping[str, object], known: set[str]) -> None:
    for key in values:
        if key not in known:
            raise ResultError(f"{place}: unknown key {key!r}: known are {', '.join(sorted(known))}")
