"""The axes of curves: the places of numbers on x, and the scales of figures on y.

An x axis is made from the values in all panels and the number of panels side by side, a y scale
from the values that it must contain.
"""

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from overlapbench.reading.names import binary_count
from overlapbench.view.vega import Spec

_MARGIN = 0.08  # on each side, as a share of a logarithmic axis
_LEAST_MARGIN = 1.1  # a factor
_LEAST_SPAN = 0.001  # of a scale
_LEVEL_LABELS = 14  # labels as wide as `256×256` that fit side by side into a picture
Scale = Callable[[Collection[float]], Spec]
# The type of the field, and the rest of its encoding.
Place = Callable[[Sequence[Any], int], tuple[str, Spec]]


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
    return "Q", {"scale": log_scale(ticks), "axis": shown}


count_axis = partial(log_axis, write=str)  # whole numbers from 1 on
elements_axis = partial(log_axis, write=binary_count)  # `64 Mi` or `50257`


def log_scale(values: Collection[float]) -> Spec:
    """Contain all values, and a margin for the points at both ends."""
    low, high = min(values), max(values)
    margin = max((high / low) ** _MARGIN, _LEAST_MARGIN)
    return {"type": "log", "domain": [low / margin, high * margin], "nice": False}


def nice_log_scale(values: Collection[float]) -> Spec:
    """End at powers of ten."""
    return {"type": "log", "domain": [min(values), max(values)], "nice": True}


def zero_scale(values: Collection[float]) -> Spec:
    """Contain 0, and end at a round number."""
    return {"zero": True}


def holding(*always: float, below: float = 0.0, above: float = 0.0) -> Scale:
    """Return a scale that contains these values and all others, and margins, as shares of it."""

    def scale(values: Collection[float]) -> Spec:
        low, high = min(*always, *values), max(*always, *values)
        margin = max(high - low, _LEAST_SPAN)
        domain = [low - below * margin, high + above * margin]
        return {"domain": domain, "nice": False, "zero": False}

    return scale


slowdown_scale = holding(0.95, 1.1, below=0.05, above=0.05)
room_scale = holding(0.0, 0.0, above=0.08)
