"""The table of charts, in the order in which they are shown.

A new chart is one entry: its name (also of its files), its title, how to read it, the rows it
takes, and how they are drawn. It is Curves (curves.py), a heat map of Cells (cells.py), or Bars
(bars.py).
"""

from overlapbench.view.charts import kernels, laboratory, pairs, training, transfers
from overlapbench.view.charts.kind import ChartKind

CHARTS: tuple[ChartKind, ...] = (
    *pairs.CHARTS,
    *transfers.CHARTS,
    *kernels.CHARTS,
    *training.CHARTS,
    *laboratory.CHARTS,
)
