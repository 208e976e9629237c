"""What charts of curves add to their records: knees, fitted lines, the fastest points."""

from overlapbench.grouping import grouped
from overlapbench.statistics.fit import fit_line
from overlapbench.view.charts.axes import slowdown_scale
from overlapbench.view.series import knee
from overlapbench.view.vega import Record, Spec, ring_area, split

KNEE_SHARE = 0.95  # of a plateau
_LABEL_HEIGHT = 0.05  # of a knee's label, as a share of the plot
_MICROSECONDS = 1e3  # in a millisecond


def _ends(scale: Spec) -> tuple[float, float]:
    low, high = scale["domain"]
    return low, high


def mark_knees(records: list[Record]) -> list[Record]:
    """Mark the knee of each curve of slowdowns; labels over one grid do not overlap."""
    low, high = _ends(slowdown_scale([record["slowdown"] for record in records]))
    gap = _LABEL_HEIGHT * (high - low)
    found = []
    for curve in grouped(records, lambda one: (one.get("panel"), one["series"])).values():
        good = [record for record in curve if record["trusted"]]
        index = knee([record["slowdown"] for record in good])
        found += [] if index is None else [good[index]]
    for marks in grouped(found, lambda one: (one.get("panel"), one["grid"])).values():
        lowest_free, inside = 0.0, list[Record]()
        for mark in sorted(marks, key=lambda mark: float(mark["slowdown"])):
            around = sum(mark["slowdown"] - one["slowdown"] < gap for one in inside)
            above = float(mark.get("slowdown_high") or mark["slowdown"])
            at = max(above + 0.8 * gap, lowest_free)
            mark |= {"ring": ring_area(around), "note": f"knee {mark['slowdown']:.2f}"}
            mark |= {"note_at": at, "note_top": at + gap}
            lowest_free = at + gap
            inside.append(mark)
    return records


def mark_plateaus(records: list[Record]) -> list[Record]:
    """Mark the knee of each curve of bandwidths: the fewest SMs close to its highest point."""
    curves = grouped(records, lambda one: (one["panel"], one["series"]))
    for curve in curves.values():
        good = [record for record in curve if record["trusted"]]
        if len({record["sms"] for record in good}) < 2:
            continue
        plateau = max(record["GBps"] for record in good)
        reached = [record for record in good if record["GBps"] >= KNEE_SHARE * plateau]
        knee_of_curve = min(reached, key=lambda record: int(record["sms"]))
        knee_of_curve |= {"plateau": plateau, "ring": ring_area(0)}
    return records


def fit_lines(records: list[Record]) -> list[Record]:
    """Fit a line to the trusted points of each curve, and tell it in the legend."""
    for panel in split(records, "panel").values():
        curves = split(panel, "series")
        for series, curve in curves.items():
            points = [(float(r["count"]), float(r["train_ms"])) for r in curve if r["trusted"]]
            line = fit_line(points)
            slope, fixed, residual = (
                value * _MICROSECONDS for value in (line.slope, line.intercept, line.residual)
            )
            told = f"{slope:.1f} µs per {curve[0]['x_axis'].removesuffix('s')}"
            told += f" {'+' if fixed >= 0 else '-'} {abs(fixed):.1f} µs, residual {residual:.1f} µs"
            for record in curve:
                record["fitted_ms"] = line.at(record["count"])
                record["series"] = f"{series}: {told}" if len(curves) > 1 else told
    return records


def keep_fastest(records: list[Record]) -> list[Record]:
    """Drop points that are slower than another of their place; untrusted ones stay."""
    trusted = [record for record in records if record["trusted"]]
    places = grouped(trusted, lambda one: (one["panel"], one["series"], one["tokens"]))
    kept = {id(min(same, key=lambda one: float(one["time_ms"]))) for same in places.values()}
    return [record for record in records if not record["trusted"] or id(record) in kept]


def tell_domination(records: list[Record]) -> list[Record]:
    """Tell the length below which launches dominate, by the shortest trusted kernels."""
    for series, curve in split(records, "series").items():
        good = [record for record in curve if not record["problem"]]
        shortest = min(good, key=lambda record: float(record["kernel_us"]), default=None)
        for record in curve if shortest else ():
            length_us = shortest["dominated_below_us"]
            record["series"] = f"{series}: launches dominate below {length_us:.2g} µs"
    return records
