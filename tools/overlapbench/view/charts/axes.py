"""The axes of curves: the places of numbers on x, and the scales of figures on y.

An x axis is made from the values in all panels and the number of panels side by side. A y scale
contains what is drawn, and more if it says so.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from overlapbench.reading.names import binary_count
from overlapbench.view.vega import Spec

_LEVEL_LABELS = 14  # labels as wide as `256×256` that fit side by side into a picture
# The type of the field, and the rest of its encoding.
Place = Callable[[Sequence[Any], int], tuple[str, Spec]]

_LOG: Spec = {"type": "log", "nice": False, "padding": 24}  # pixels, for the points at both ends
FROM_ZERO: Spec = {"zero": True}
CLOSE: Spec = {"zero": False, "nice": False, "padding": 8}


def level_axis(values: Sequence[Any], columns: int) -> tuple[str, Spec]:
    """Place whole numbers at equal distances."""
    return "O", {"scale": {"domain": sorted(set(values))}, "axis": {"labelAngle": 0}}


def grid_axis(values: Sequence[Any], columns: int) -> tuple[str, Spec]:
    """Place grids side by side in their order, as tables of sweeps do."""
    grids = list(dict.fromkeys(values))
    angle = 0 if columns * len(grids) <= _LEVEL_LABELS else -45
    return "O", {"scale": {"domain": grids}, "axis": {"labelAngle": angle, "grid": True}}


def linear_axis(values: Sequence[Any], columns: int) -> tuple[str, Spec]:
    """Place whole numbers from 0 on by their value."""
    return "Q", {"axis": {"values": sorted(set(values)), "format": "d"}}


def log_axis(values: Sequence[Any], columns: int, write: Callable[[int], str]) -> tuple[str, Spec]:
    """Place whole numbers by their logarithm, and label them as `write` does."""
    ticks = sorted(set(values))
    labels = json.dumps({value: write(value) for value in ticks}, ensure_ascii=False)
    shown = {"values": ticks, "labelExpr": f"({labels})[datum.value]", "labelOverlap": True}
    return "Q", {"scale": _LOG, "axis": shown}


count_axis = partial(log_axis, write=str)  # whole numbers from 1 on
elements_axis = partial(log_axis, write=binary_count)  # `64 Mi` or `50257`
