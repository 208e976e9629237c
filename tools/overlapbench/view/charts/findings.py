"""What charts find, as their titles say it: a sentence with a figure and its 95 % interval.

A sentence is about the most striking of many rows, so its interval is wide enough for all of them.
It is told only if that interval excludes that there is nothing to tell.
"""

from collections.abc import Sequence

from overlapbench.findings.finding import LEAST
from overlapbench.findings.rules import described
from overlapbench.grouping import grouped
from overlapbench.reading.rows import Row
from overlapbench.statistics.intervals import measured, widened
from overlapbench.view.charts.naming import describe, file_names, joined, transport_names
from overlapbench.view.charts.records import Finding

Figure = tuple[float, float, float]  # and the ends of its interval
_ANY = 1 + LEAST  # a ratio of times that is worth a title


def known(rows: Sequence[Row], counter: str) -> dict[int, Figure]:
    """Return a counter of rows by the rows' identities, widened as that of one among many."""
    found = [row for row in rows if counter in row.intervals]
    return {
        id(row): (value, *widened(row.intervals[counter], value, len(found)))
        for row in found
        for value in [row.counters[counter]]
    }


def up_to(sentence: str, counter: str) -> Finding:
    """Tell the highest ratio, of {what} and at {grid}, if it surely costs or gains something."""

    def find(rows: Sequence[Row]) -> str:
        figure = known(rows, counter)
        sure = [row for row in rows if id(row) in figure and figure[id(row)][1] > _ANY]
        if not sure:
            return ""
        row = max(sure, key=lambda one: figure[id(one)])
        grid = (row.name.axis("grid") or "").replace("x", "×")
        what = joined(described(row), transport_names(rows)(row), file_names(rows)(row))
        return sentence.format(figure=measured(*figure[id(row)]), what=what, grid=grid)

    return find


def instead(sentence: str, counter: str, *settings: str) -> Finding:
    """Tell where other settings lower a figure by the largest factor from that of their defaults.

    {what} has the figure {best} by the settings {to}, and {base} by {was}.
    """

    def find(rows: Sequence[Row]) -> str:
        figure = known(rows, counter)
        shown = [row for row in rows if id(row) in figure]
        pairs = [
            (figure[id(better)], figure[id(base)], better, base)
            for group in grouped(
                shown, lambda row: (row.file, row.name.but_for(*settings))
            ).values()
            for base in group
            if not any(base.name.axis(axis) for axis in settings)
            for better in group
            if figure[id(better)][2] < figure[id(base)][1]
        ]
        if not pairs:
            return ""
        best, usual, better, base = min(pairs, key=lambda pair: pair[0][0] / pair[1][0])
        what = joined(described(base), file_names(rows)(base))
        to, was = (_settings(rows, row, settings) for row in (better, base))
        return sentence.format(
            what=what, to=to, was=was, best=measured(*best), base=measured(*usual)
        )

    return find


def _settings(rows: Sequence[Row], row: Row, settings: Sequence[str]) -> str:
    """Name the settings of a row: `copy · comp sms 120`."""
    others = (a for a in row.name.axes if a[0] in settings and a[0] != "transport")
    return joined(transport_names(rows)(row), *(describe(*axis) for axis in others))
