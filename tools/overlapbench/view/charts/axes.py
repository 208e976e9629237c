"""The axes of curves: the places of numbers on x, and the scales of figures on y.

An x axis is made from the values in all panels and the number of panels side by side, a y scale
from the values that it must contain.
"""

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from overlapbench.view.series import binary_count, binary_size
from overlapbench.view.vega import Spec

_MARGIN = 0.08  # on each side, as a share of a logarithmic axis
_LEAST_MARGIN = 1.1  # a factor
_LEVEL_LABELS = 14  # labels as wide as `256×256` that fit side by side into a picture
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


def close_axis(values: Sequence[Any], columns: int) -> tuple[str, Spec]:
    """Place whole numbers by their value, without 0."""
    return "Q", {"axis": {"tickMinStep": 1}, "scale": {"zero": False}}


def log_axis(values: Sequence[Any], columns: int, write: Callable[[int], str]) -> tuple[str, Spec]:
    """Place whole numbers by their logarithm, and label them as `write` does."""
    ticks = sorted(set(values))
    labels = json.dumps({value: write(value) for value in ticks}, ensure_ascii=False)
    shown = {"values": ticks, "labelExpr": f"({labels})[datum.value]", "labelOverlap": True}
    return "Q", {"scale": log_scale(ticks), "axis": shown}


def smooth_axis(values: Sequence[Any], columns: int) -> tuple[str, Spec]:
    """Place any numbers above 0 by their logarithm."""
    return "Q", {"scale": log_scale(values), "axis": {"format": "~g", "tickCount": 6}}


count_axis = partial(log_axis, write=str)  # whole numbers from 1 on
elements_axis = partial(log_axis, write=binary_count)  # `64 Mi` or `50257`
size_axis = partial(log_axis, write=binary_size)  # as people write sizes


def log_scale(values: Collection[float]) -> Spec:
    """Contain all values, and a margin for the points at both ends."""
    low, high = min(values), max(values)
    margin = max((high / low) ** _MARGIN, _LEAST_MARGIN)
    return {"type": "log", "domain": [low / margin, high * margin], "nice": False}


def nice_log_scale(values: Collection[float]) -> Spec:
    """End at powers of ten."""
    return {"type": "log", "domain": [min(values), max(values)], "nice": True}


def ratio_log_scale(values: Collection[float]) -> Spec:
    """Contain 1, too."""
    return log_scale([1.0, *values])


def zero_scale(_: Collection[float]) -> Spec:
    """Begin at 0, and end at a round number."""
    return {"zero": True}


def plain_scale(_: Collection[float]) -> Spec:
    return {}


def room_scale(values: Collection[float]) -> Spec:
    """Begin at 0, and leave room above the highest value."""
    return {"domain": [0, 1.08 * max(values)], "nice": False}


def share_scale(values: Collection[float]) -> Spec:
    """Contain all shares from 0 to 1, and those that noise makes negative."""
    return {"domain": [min(0.0, *values), 1.0], "nice": False}


def percent_scale(values: Collection[float]) -> Spec:
    """Contain 0 and 100 %, and all values, and end at a round number."""
    return {"domain": [0, max(105.0, *values)], "nice": True}


def difference_scale(values: Collection[float]) -> Spec:
    """Contain 0 and all values, including negative ones."""
    return {"domain": [min(0.0, *values), 1.1 * max(0.001, *values)], "nice": False}


def ratio_scale(values: Collection[float]) -> Spec:
    """Contain 1 and all values, and a label below the lowest."""
    low, high = min(1.0, *values), max(1.0, *values)
    margin = max(high - low, 0.1)
    domain = [low - 0.15 * margin, high + 0.08 * margin]
    return {"domain": domain, "nice": False, "zero": False}


def slowdown_scale(values: Collection[float]) -> Spec:
    """Contain 1 and all values, and a margin."""
    low, high = min(0.95, *values), max(1.1, *values)
    margin = 0.05 * (high - low)
    return {"domain": [low - margin, high + margin], "nice": False, "zero": False}
