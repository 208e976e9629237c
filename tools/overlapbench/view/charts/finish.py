"""What charts of curves find: knees, fitted lines, the fastest points.

A finding is told in the legend, after the name of its curve; a ring marks its point.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from overlapbench.grouping import grouped
from overlapbench.statistics.fit import fit_line
from overlapbench.view.vega import Record

KNEE_RISE = 1.10
KNEE_MEANING = (
    "the first grid with a slowdown above 1.0 and at least"
    f" {KNEE_RISE - 1:.0%} above the lowest of the smaller grids"
)
KNEE_SHARE = 0.95  # of a plateau
_MICROSECONDS = 1e3  # in a millisecond
Found = tuple[str, Record] | None  # the text, and the point that it is about


def telling(find: Callable[[list[Record]], Found]) -> Callable[[list[Record]], list[Record]]:
    """Return a function that tells what is found in the trusted points of each curve."""

    def tell(records: list[Record]) -> list[Record]:
        curves = grouped(records, lambda one: (one.get("panel"), one["series"]))
        rings: Counter[object] = Counter()
        for (panel, _), curve in curves.items():
            found = find([record for record in curve if record["trusted"]])
            if not found:
                continue
            text, point = found
            # Rings round the same point are one round the other. This is an area in square pixels.
            point["ring"] = (15 + 5 * rings[panel]) ** 2
            rings[panel] += 1
            for record in curve:
                record["series"] += f": {text}"
        return records

    return tell


def knee(slowdowns: Sequence[float]) -> int | None:
    """Return the index of the knee of a curve ordered by grid, or None if it has none.

    KNEE_MEANING defines it: the first point where overlap has a cost, clearly higher than before,
    because blocks begin to compete with the communication for SMs. The curve may rise further.
    """
    lowest = float("inf")
    for index, slowdown in enumerate(slowdowns):
        if slowdown > 1.0 and slowdown >= KNEE_RISE * lowest:
            return index
        lowest = min(lowest, slowdown)
    return None


def knee_of(curve: list[Record]) -> Found:
    """Find the knee of a curve of slowdowns."""
    index = knee([record["slowdown"] for record in curve])
    if index is None:
        return None
    point = curve[index]
    return f"knee {point['slowdown']:.2f} at {point['grid']}", point


def plateau_of(curve: list[Record]) -> Found:
    """Find the fewest SMs whose bandwidth is close to the curve's highest."""
    if len({record["sms"] for record in curve}) < 2:
        return None
    plateau = max(record["GBps"] for record in curve)
    reached = [record for record in curve if record["GBps"] >= KNEE_SHARE * plateau]
    point = min(reached, key=lambda record: int(record["sms"]))
    return f"knee at {point['sms']}, plateau {plateau:.0f} GB/s", point


def fit(curve: list[Record]) -> Found:
    """Fit a line to times."""
    line = fit_line([(float(one["count"]), float(one["train_ms"])) for one in curve])
    for record in curve:
        record["fitted_ms"] = line.at(record["count"])
    slope, fixed, residual = (
        value * _MICROSECONDS for value in (line.slope, line.intercept, line.residual)
    )
    told = f"{slope:.1f} µs per {curve[0]['x_axis'].removesuffix('s')}"
    told += f" {'+' if fixed >= 0 else '-'} {abs(fixed):.1f} µs, residual {residual:.1f} µs"
    return told, {}


def domination(curve: list[Record]) -> Found:
    """Find the length below which launches dominate, by the shortest kernels."""
    shortest = min(curve, key=lambda record: float(record["kernel_us"]), default=None)
    if not shortest:
        return None
    return f"launches dominate below {shortest['dominated_below_us']:.2g} µs", {}


def keep_fastest(records: list[Record]) -> list[Record]:
    """Drop points that are slower than another of their place; untrusted ones stay."""
    trusted = [record for record in records if record["trusted"]]
    places = grouped(trusted, lambda one: (one["panel"], one["series"], one["tokens"]))
    kept = {id(min(same, key=lambda one: float(one["time_ms"]))) for same in places.values()}
    return [record for record in records if not record["trusted"] or id(record) in kept]
