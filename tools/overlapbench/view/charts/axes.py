"""The axes of curves: the places of numbers on x, and the scales of figures on y.

Every x axis is made from a field, its values in all panels, and a title. Every y scale is made from
the values that it must contain.
"""

import json
from collections.abc import Callable, Collection
from functools import partial

import altair as alt

from overlapbench.view.series import binary_count, binary_size

_MARGIN = 0.08  # on each side, as a share of a logarithmic axis
_LEAST_MARGIN = 1.1  # a factor


def level_axis(field: str, counts: Collection[int], title: str) -> alt.X:
    """Place whole numbers at equal distances."""
    scale = alt.Scale(domain=sorted(set(counts)))
    return alt.X(f"{field}:O", title=title, scale=scale, axis=alt.Axis(labelAngle=0))


def linear_axis(field: str, counts: Collection[int], title: str) -> alt.X:
    """Place whole numbers from 0 on by their value."""
    ticks = alt.Axis(values=sorted(set(counts)), format="d")
    return alt.X(f"{field}:Q", title=title, axis=ticks)


def log_axis(field: str, values: Collection[int], title: str, write: Callable[[int], str]) -> alt.X:
    """Place whole numbers by their logarithm, and label them as `write` does."""
    ticks = sorted(set(values))
    labels = json.dumps({value: write(value) for value in ticks}, ensure_ascii=False)
    return alt.X(
        f"{field}:Q",
        title=title,
        scale=log_scale(ticks),
        axis=alt.Axis(values=ticks, labelExpr=f"({labels})[datum.value]", labelOverlap=True),
    )


count_axis = partial(log_axis, write=str)  # whole numbers from 1 on
elements_axis = partial(log_axis, write=binary_count)  # `64 Mi` or `50257`
size_axis = partial(log_axis, write=binary_size)  # as people write sizes


def log_scale(values: Collection[float]) -> alt.Scale:
    """Contain all values, and a margin for the points at both ends."""
    low, high = min(values), max(values)
    margin = max((high / low) ** _MARGIN, _LEAST_MARGIN)
    return alt.Scale(type="log", domain=[low / margin, high * margin], nice=False)


def zero_scale(_: Collection[float]) -> alt.Scale:
    """Begin at 0, and end at a round number."""
    return alt.Scale(zero=True)


def share_scale(values: Collection[float]) -> alt.Scale:
    """Contain all shares from 0 to 1, and those that noise makes negative."""
    return alt.Scale(domain=[min(0.0, *values), 1.0], nice=False)


def percent_scale(values: Collection[float]) -> alt.Scale:
    """Contain 0 and 100 %, and all values, and end at a round number."""
    return alt.Scale(domain=[0, max(105.0, *values)], nice=True)


def difference_scale(values: Collection[float]) -> alt.Scale:
    """Contain 0 and all values, including negative ones."""
    return alt.Scale(domain=[min(0.0, *values), 1.1 * max(0.001, *values)], nice=False)


def ratio_scale(values: Collection[float]) -> alt.Scale:
    """Contain 1 and all values, and a label below the lowest."""
    low, high = min(1.0, *values), max(1.0, *values)
    margin = max(high - low, 0.1)
    return alt.Scale(domain=[low - 0.15 * margin, high + 0.08 * margin], nice=False, zero=False)
