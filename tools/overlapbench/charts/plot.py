"""A plot: what layers and panels are made of, quick to join; and the Vega-Lite of a whole drawing.

Altair copies a chart whole with every layer, panel or title around it, and what is in it with it:
for the 48 plots of one picture 2,400 times, which took most of the time of drawing. Nothing changes
what a plot holds, so copies of a plot share it.

Altair also checks each part of a drawing against the schema of Vega-Lite, and the whole again. That
takes three quarters of the time of drawing. Tests make that check, so that users need not.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import altair as alt
from altair.utils.schemapi import debug_mode

from overlapbench.charts.panels import Record
from overlapbench.theme import Drawing


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


def specification(draw: Callable[[], Drawing]) -> dict[str, Any]:
    """Return the Vega-Lite of what is drawn, unchecked."""
    with debug_mode(False):
        made: dict[str, Any] = draw().to_dict(validate=False)
    return made
