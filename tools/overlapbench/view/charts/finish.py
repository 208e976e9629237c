"""What charts of curves add to their records: knees, plateaus, fitted lines, the fastest points."""

from collections.abc import Sequence

from overlapbench.grouping import grouped
from overlapbench.statistics.fit import fit_line
from overlapbench.view import theme
from overlapbench.view.charts.axes import room_scale, slowdown_scale
from overlapbench.view.series import knee
from overlapbench.view.vega import Record, Spec, ring_area, split

KNEE_SHARE = 0.95  # of a plateau
_LABEL_HEIGHT = 0.05  # of a knee's label, as a share of the plot
_LABEL_GAP = 0.06  # between names of lines across, as a share of the axis
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
    """Mark the knee of each curve of bandwidths, and name lines across.

    A knee is the fewest SMs that reach KNEE_SHARE of the curve's plateau, its highest point. The
    name of the highest line is above it, others are below theirs.
    """
    reach = [float(record.get("GBps_high") or record["GBps"]) for record in records]
    _, top = _ends(room_scale(reach))
    colours = theme.SERIES_COLOURS
    styles = list(split(records, "series"))
    for record in records:
        record["style"] = record["series"]
        record["colour"] = colours[styles.index(record["series"]) % len(colours)]
    for part in split(records, "panel").values():
        points = [record for record in part if record["sms"] is not None]
        found: list[Record] = []
        for series, curve in split(points, "series").items():
            good = [record for record in curve if record["trusted"]]
            if len({point["sms"] for point in good}) < 2:
                continue
            plateau = max(point["GBps"] for point in good)
            reached = [point for point in good if point["GBps"] >= KNEE_SHARE * plateau]
            mark = min(reached, key=lambda point: int(point["sms"]))
            near = [
                one["sms"] == mark["sms"] and abs(one["GBps"] - mark["GBps"]) < 0.03 * top
                for one in found
            ]
            mark |= {"plateau": plateau, "ring": ring_area(sum(near))}
            found.append(mark)
            told = f"{series}: knee at {mark['sms']}, plateau {plateau:.0f} GB/s"
            for record in curve:
                record["series"] = told
        _name_lines([record for record in part if record["sms"] is None], _LABEL_GAP * top)
    return records


def _name_lines(lines: Sequence[Record], gap: float) -> None:
    highest_free = float("inf")
    for place, line in enumerate(sorted(lines, key=lambda line: -float(line["GBps"]))):
        below = min(line["GBps"] - gap / 2, highest_free)
        line["note_at"] = below if place else line["GBps"] + gap / 2
        line["note"] = f"{line['series']}, no SMs: {line['GBps']:.0f} GB/s"
        line["across"] = "GBps"
        highest_free = line["note_at"] - gap


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
                record |= {"fitted_ms": line.at(record["count"]), "style": series}
                record["series"] = f"{series}: {told}" if len(curves) > 1 else told
    return records


def keep_fastest(records: list[Record]) -> list[Record]:
    """Drop points that are slower than another of their place; untrusted ones stay."""
    trusted = [record for record in records if record["trusted"]]
    places = grouped(trusted, lambda one: (one["panel"], one["series"], one["tokens"]))
    kept = {id(min(same, key=lambda one: float(one["time_ms"]))) for same in places.values()}
    return [record for record in records if not record["trusted"] or id(record) in kept]


def mark_domination(records: list[Record]) -> list[Record]:
    """Mark the length below which launches dominate, told by the shortest trusted kernels."""
    for curve in split([one for one in records if not one["problem"]], "series").values():
        shortest = min(curve, key=lambda record: float(record["kernel_us"]))
        length_us = shortest["dominated_below_us"]
        note = f"launches dominate below {length_us:.2g} µs"
        shortest |= {"below": length_us, "below_note": note}
    return records
