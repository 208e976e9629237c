"""Floors: how large a change must be to count, as a TOML file may set it.

    [[floor]]                      # the last entry that fits wins
    pattern = "Overlap/*"          # of names, as a shell's
    metric = "time"                # optional: else all metrics
    percent = 5

    [spread."Compute/Gemm/n:4096"] # written by `perf_gate calibrate`
    time = 0.41                    # percent, between launches of one build

A floor replaces max(2 %, 3 x spread of A/A changes). A calibrated spread replaces the one that the
compared launches show themselves, if it is larger.
"""

import fnmatch
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from overlapbench.metrics import JUDGED
from overlapbench.source import LARGEST, ResultError, read_bytes


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
    spreads: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # relative

    def set_for(self, name: str, metric: str) -> SetFloor | None:
        """Return the entry that sets a benchmark's floor, if one does."""
        for entry in reversed(self.floors):
            if entry.metric in ("", metric) and fnmatch.fnmatchcase(name, entry.pattern):
                return entry
        return None

    def spread(self, name: str, metric: str) -> float:
        """Return the calibrated deviation between launches; NaN if there is none."""
        return self.spreads.get(name, {}).get(metric, math.nan)


def read_floors(path: Path) -> Floors:
    """Read a floors file; ResultError naming the entry that makes no sense."""
    try:
        return parse_floors(str(path), read_bytes(path).decode("utf-8"))
    except UnicodeDecodeError:
        raise ResultError(f"{path}: not TOML: not UTF-8") from None


def parse_floors(source: str, text: str) -> Floors:
    """Read the text of a floors file."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # as of many digits, or brackets
        raise ResultError(f"{source}: not TOML: {error}") from None
    _require_known(source, document, {"floor", "spread"})
    entries = document.get("floor", [])
    if not isinstance(entries, list):
        raise ResultError(f"{source}: floor: write [[floor]] for each")
    spreads = _table(f"{source}: spread", document.get("spread", {}))
    return Floors(
        tuple(_floor(f"{source}: floor[{i}]", entry) for i, entry in enumerate(entries)),
        {
            name: {
                _metric(f"{source}: spread.{name}", metric): _percent(
                    f"{source}: spread.{name}.{metric}", value
                )
                for metric, value in _table(f"{source}: spread.{name}", metrics).items()
            }
            for name, metrics in spreads.items()
        },
    )


def format_spreads(spreads: Mapping[str, Mapping[str, float]]) -> str:
    """Write what calibration measured; names are printable, as the reader has checked."""
    lines = ["# Standard deviation between launches of one build, in percent: perf_gate calibrate."]
    for name, metrics in spreads.items():
        lines.append(f"\n[spread.{_quoted(name)}]")
        lines += [f"{metric} = {100 * value:.4f}" for metric, value in metrics.items()]
    return "\n".join(lines) + "\n"


def _floor(place: str, entry: object) -> SetFloor:
    values = _table(place, entry)
    _require_known(place, values, {"pattern", "metric", "percent"})
    pattern = values.get("pattern")
    if not isinstance(pattern, str):
        raise ResultError(f"{place}.pattern: missing, or not text")
    metric = _metric(f"{place}.metric", values["metric"]) if "metric" in values else ""
    return SetFloor(pattern, metric, _percent(f"{place}.percent", values.get("percent")))


def _table(place: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ResultError(f"{place}: {value!r} is not a table")
    return value


def _require_known(place: str, values: Mapping[str, object], known: set[str]) -> None:
    for key in values:
        if key not in known:
            raise ResultError(f"{place}: unknown key {key!r}: known are {', '.join(sorted(known))}")


def _metric(place: str, value: object) -> str:
    if value not in JUDGED:
        raise ResultError(f"{place}: {value!r} is none of the metrics {', '.join(JUDGED)}")
    return str(value)


def _percent(place: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value / 100
    raise ResultError(f"{place}: {value!r} is not a number from 0 on")


def _quoted(text: str) -> str:
    """Write a basic string of TOML."""
    special = {'"': '\\"', "\\": "\\\\"}
    return f'"{"".join(special.get(c, c) for c in text)}"'
