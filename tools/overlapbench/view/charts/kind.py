"""What all charts have: a name, how to read them, the rows that they show, and a drawing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from overlapbench.reading.result import Row
from overlapbench.view.vega import Spec


@dataclass(frozen=True, kw_only=True)
class ChartKind:
    """One entry of the table of charts."""

    wide: ClassVar[bool] = False  # cannot be drawn narrower on a narrow screen
    name: str = ""
    title: str = ""
    reading: str = ""

    def select(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that the chart shows; if there are none, it is not drawn."""
        raise NotImplementedError

    def draw(self, rows: Sequence[Row]) -> Spec:
        """Draw those rows."""
        raise NotImplementedError
