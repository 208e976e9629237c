"""A replacement for triton.testing.do_bench, measured as the suite measures its rows."""

import functools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from overlapbench.measurement.callables import Work
from overlapbench.measurement.interface import MeasureError
from overlapbench.measurement.measuring import measure_alone

_SUMMARIES: dict[str, Callable[[Sequence[float]], Any]] = {
    "median": statistics.median,
    "mean": statistics.fmean,
    "min": min,
    "max": max,
    "all": list,
}


def do_bench(
    fn: Callable[..., object] | Work,
    warmup: int | None = None,
    rep: int | None = None,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "median",
    *,
    name: str = "mine",
    **settings: Any,
) -> Any:
    """Return the time of a callable in milliseconds, cold and behind the start gate.

    Takes the place of triton.testing.do_bench, also as `do_bench=` of Triton's autotuner. A sample
    is one call. `measure_alone` also returns the interval of the median.

    fn            a callable that enqueues the work, or a Work
    warmup        least warm-up, in ms; the suite warms up until times settle in any case
    rep           time to measure for, in ms; omitted: as `configure` says, and no longer than the
                  precision needs
    grad_to_none  tensors whose `grad` becomes None before each call
    quantiles     return these quantiles of the samples, from 0 to 1, instead; one alone is a number
    return_mode   "median" (Triton's default is "mean"), "mean", "min", "max", or "all": the list of
                  all samples
    name          as in `measure`
    settings      those of `measure_alone`

    ValueError    a quantile or return_mode is invalid, or as `measure`
    TypeError     `fn` is not callable
    MeasureError  the row is `invalid` or an `error`; __cause__ is what the callable raised; or as
                  `measure`
    """
    if return_mode not in _SUMMARIES:
        raise ValueError(f"return_mode is {return_mode!r}, must be one of {', '.join(_SUMMARIES)}")
    for quantile in quantiles or ():
        if not 0 <= quantile <= 1:
            raise ValueError(f"a quantile is {quantile}, must be from 0 to 1")
    work = fn if isinstance(fn, Work) else Work(fn)
    if grad_to_none is not None:
        work = replace(work, run=_without_gradients(work.run, list(grad_to_none)))
    if rep is not None:
        settings = {"budget_ms": max(1, math.ceil(rep)), "precision": 0} | settings
    row = measure_alone(work, name=name, warmup_ms=warmup, **settings)
    if not row.state.comparable:
        raise MeasureError(f"{row.name}: {row.reason}") from row.exception
    if quantiles is None:
        return _SUMMARIES[return_mode](row.samples_ms)
    chosen = np.quantile(row.samples_ms, quantiles).tolist()
    return chosen[0] if len(chosen) == 1 else chosen


def _without_gradients(run: Callable[..., object], tensors: Sequence[Any]) -> Callable[..., object]:
    @functools.wraps(run)  # with its parameter `stream`, if it has one
    def forget_and_run(*given: Any, **named: Any) -> object:
        for tensor in tensors:
            tensor.grad = None
        return run(*given, **named)

    return forget_and_run
