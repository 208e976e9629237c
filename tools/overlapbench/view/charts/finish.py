"""What charts of curves find: knees, the fastest points.

A finding is told in the legend, after the name of its curve; a ring marks its point.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from overlapbench.grouping import grouped
from overlapbench.view.vega import Record

KNEE_RISE = 1.10
KNEE_MEANING = (
    "the first grid with a slowdown above 1.0 and at least"
    f" {KNEE_RISE - 1:.0%} above the lowest of the smaller grids"
)
KNEE_SHARE = 0.95  # of a plateau
RATIOS = ("ratio", "ratio_low", "ratio_high", "plain", "bound")  # fields of `fastest`
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


def fastest(records: list[Record]) -> list[Record]:
    """Drop points that are slower than another of their place; untrusted ones stay.

    RATIOS are times, and become ratios to the fastest of all curves at the place.
    """
    trusted = [record for record in records if record["trusted"]]
    places = grouped(trusted, lambda one: (one["panel"], one["series"], one["tokens"]))
    kept = {id(min(same, key=_ms)) for same in places.values()}
    found = [record for record in records if not record["trusted"] or id(record) in kept]
    for same in grouped(found, lambda one: (one["panel"], one["tokens"])).values():
        least = min((one for one in same if one["trusted"]), key=_ms, default=same[0])["time_ms"]
        for one in same:
            one |= {ratio: one[ratio] / least for ratio in RATIOS if one.get(ratio)}
    return found


def _ms(record: Record) -> float:
    return float(record["time_ms"])
