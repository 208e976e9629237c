"""What the settings of docs/apply.md save, from rows that measure_apply.py has measured.

The interval of what a setting saves is the widest that those of both times allow, because the two
rows were not sampled in turn.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from overlapbench import Row

DEFAULT, SET = "default", "set"  # of the label `variant`


@dataclass(frozen=True)
class Gain:
    """A setting's two rows; either may be missing or not comparable."""

    setting: str
    rows: Mapping[str, Row]  # by variant

    @property
    def saved(self) -> tuple[float, float] | None:
        """The interval of the share of the default's time that the setting saves."""
        ends = [_interval(self.rows[one]) for one in (DEFAULT, SET) if one in self.rows]
        if len(ends) < 2 or not all(row.state.comparable for row in self.rows.values()):
            return None
        (low, high), (least, most) = ends
        return 1 - most / low, 1 - least / high

    @property
    def times(self) -> str:
        told = [_time(self.rows[one]) for one in (DEFAULT, SET) if one in self.rows]
        return " → ".join(told).replace(" ms →", " →")

    @property
    def verdict(self) -> str:
        if self.saved is None:
            return ""
        low, high = (100 * end for end in self.saved)
        if low > 0:
            return f"saves {low:.1f} to {high:.1f} %"
        if high < 0:
            return f"costs {-high:.1f} to {-low:.1f} %"
        return f"no difference seen ({low:.1f} to {high:.1f} %)"


def gains_of(rows: Iterable[Row]) -> list[Gain]:
    """Pair the rows of each setting, in the order of the rows."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        setting, variant = (str(row.name.axis(label)) for label in ("setting", "variant"))
        found.setdefault(setting, {})[variant] = row
    return [Gain(setting, pair) for setting, pair in found.items()]


def _interval(row: Row) -> tuple[float, float]:
    return row.intervals.get("time") or (row.time_ms, row.time_ms)


def _time(row: Row) -> str:
    if not row.state.comparable:
        return f"{row.state.value}: {row.reason}"
    low, high = _interval(row)
    return f"{row.time_ms:.3f} ±{(high - low) / 2:.3f} ms"
