"""The picture of one row, for notebooks: its times side by side, with their 95 % intervals."""

import textwrap
from collections.abc import Sequence
from typing import Any

from overlapbench.output import Wrapper
from overlapbench.packages import packages
from overlapbench.reading.counters import TIME, stored_table
from overlapbench.reading.rows import Row
from overlapbench.statistics.intervals import digits, measured
from overlapbench.view import theme, vega
from overlapbench.view.charts.naming import joined
from overlapbench.view.charts.records import bounds, record_of
from overlapbench.view.vega import BAD, GOOD, Record, Spec

_WIDTH, _STEP, _LETTERS = 480, 24, 76
_BAR = {"band": 0.7}
_TEXT_ROOM = 1.35  # of the longest bar, for the text beside it
# Not times of a run: percentiles, differences, and what traces saw.
_NO_BARS = frozenset({"p05_ms", "p95_ms", "time_low_ms", "time_high_ms", "exposed_comm_ms"})
_SIGNED = ("_cost_ms", "interference_ms")


def plot(row: Row) -> Any:
    """Return the picture of a row as an Altair chart, which a notebook shows.

    row  of `measure` or of `read`

    PackageError  the packages of the extra `charts` are not installed
    """
    with packages():
        import altair as alt
    return alt.Chart.from_dict(specification(row))


def to_svg(row: Row) -> str:
    """Return the picture of a row as SVG; PackageError without the extra [charts]."""
    with packages():
        from overlapbench.view import page
    return page.to_svg(specification(row))


def specification(row: Row) -> Spec:
    """Return the picture as Vega-Lite."""
    notes = joined(*_ratios(row), row.problem or row.remark)
    drawn = draw_bars(_records(row), "ms", "time (ms)", str(row.name), notes)
    return drawn | {"config": theme.LIGHT}


def draw_bars(
    records: Sequence[Record], field: str, title: str, heading: str, notes: str, *levels: float
) -> Spec:
    """Draw a bar of each record's field, in its `colour`, beside `what` it is of.

    Its `text` is beyond its `reach`. Levels are marked.
    """
    names = [record["what"] for record in records]
    reach = max((float(record["reach"]) for record in records), default=1.0)
    scale = {"domain": [0, _TEXT_ROOM * reach], "nice": False}
    x = vega.field(f"{field}:Q", title=title, scale=scale, axis={"tickCount": 6})
    y = vega.field("what:N", title=None, scale={"domain": names}, axis=theme.CELL_AXIS)
    at: Spec = {"x": x, "y": y, "tooltip": vega.told("what:N", f"{field}:Q")}
    text = at | {"x": x | {"field": "reach"}, "text": vega.field("text:N")}
    marked = [{field: level} for level in levels]
    layers = [
        vega.mark("bar", at | {"color": vega.field("colour:N", scale=None)}, GOOD, height=_BAR),
        vega.mark("bar", at, BAD, height=_BAR, **theme.UNTRUSTED_BAR),
        *([vega.mark("rule", {"x": x}, "", marked, strokeDash=[4, 4])] if marked else []),
        *vega.intervals(records, at, "x"),
        vega.mark("text", text, align="left", dx=6),
    ]
    above: Spec = {"text": Wrapper(_LETTERS).wrap(heading), "fontSize": 13}
    if notes:
        above["subtitle"] = textwrap.wrap(notes, _LETTERS)
    drawn = vega.panel(layers, records, width=_WIDTH, height=_STEP * max(1, len(records)))
    return vega.whole(drawn, above)


def _records(row: Row) -> list[Record]:
    """Make a record of each time; the row's own comes last, unless a counter has it."""
    table = stored_table().counters
    known = (key for key in {**table, **row.counters} if key in row.counters)
    times = {key: row.counters[key] for key in known if _is_time(key)}
    if row.time_ms > 0 and "overlap_ms" not in times:
        times[TIME] = row.time_ms
    return [
        record_of(
            row,
            what=table[key].title if key in table and key != TIME else "T",
            ms=value,
            reach=row.intervals.get(key, (0.0, value))[1],
            text=f"{digits(value)} ms",
            colour=_colour(key),
        )
        | bounds(row, key, "ms")
        for key, value in times.items()
    ]


def _is_time(key: str) -> bool:
    return key.endswith("_ms") and key not in _NO_BARS and not key.endswith(_SIGNED)


def _colour(key: str) -> str:
    if key in (TIME, "overlap_ms"):
        return theme.VERMILION
    return {"comp": theme.COMPUTATION, "comm": theme.COMMUNICATION}.get(key[:4], theme.GREY)


def _ratios(row: Row) -> list[str]:
    """Write the ratios that sum a row up, with their intervals."""
    names = {"slowdown": "slowdown", "speedup": "speedup", "pct_of_bound": "% of the bound"}
    known = [(key, name) for key, name in names.items() if key in row.counters]
    return [
        f"{name} {measured(value, *ends) if ends else digits(value, 3)}"
        for key, name in known
        for value, ends in [(row.counters[key], row.intervals.get(key))]
    ]
