"""A plot: what layers and panels are made of, quick to join.

Altair copies a chart whole with every layer, panel or title around it, and what is in it with it:
for the 48 plots of one picture 2,400 times, which took most of the time of drawing. Nothing changes
what a plot holds, so copies of a plot share it.
"""

from collections.abc import Iterable, Sequence
from typing import Self

import altair as alt

from overlapbench.charts.panels import Record


class Plot(alt.Chart):
    """One kind of mark, as Altair's Chart; of the given records, or of those of a chart around."""

    def __deepcopy__(self, memo: object) -> Self:
        """Altair's hook for whoever knows better how to be copied."""
        return self.copy(deep=False)


def plot(records: Sequence[Record]) -> Plot:
    """Return a plot of the records, without a mark yet."""
    return Plot(alt.InlineData(values=list(records)))


def tooltip(fields: Iterable[str]) -> list[alt.Tooltip]:
    """Return what is told of a mark; Altair would take a hundred times as long to make the same."""
    return [alt.Tooltip(field) for field in fields]
