"""The bucket size that a data-parallel step should use, predicted from its parts.

A sweep is the rows of `Ddp/Buckets` that differ only in `bucket_bytes`. A row's bound is computed
from its parts, each measured alone. The prediction is the size with the smallest bound: its step
should be the fastest. The measured time of the step is not used.

Bounds whose 95 % intervals overlap that of the smallest are indistinguishable; the prediction is
then the largest of these sizes. Every bucket starts another collective, which takes SMs or memory
bandwidth from the concurrent backward pass. The parts alone do not show that, and the largest
buckets start the fewest collectives.

`loss_pct` is how much longer the step takes with the predicted size than with the fastest one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from overlapbench.reading.result import Row
from overlapbench.statistics.intervals import Interval
from overlapbench.view.series import binary_size, curves_along, file_names, label

_SIZE = "bucket_bytes"
_BOUND = "bound_ms"
_UNTOLD = frozenset({_SIZE, "cache", "cadence"})  # axes that the name of a sweep omits


@dataclass(frozen=True)
class Prediction:
    """The predicted row of a sweep, and the fastest one."""

    sweep: str
    predicted: Row
    best: Row

    @property
    def loss_pct(self) -> float:
        return 100 * (self.predicted.time_ms / self.best.time_ms - 1)

    @property
    def sentence(self) -> str:
        return (
            f"{self.sweep}: the parts predict buckets of {binary_size(_size(self.predicted))},"
            f" {self.predicted.time_ms:.4g} ms; the fastest are of"
            f" {binary_size(_size(self.best))}, {self.best.time_ms:.4g} ms;"
            f" the prediction loses {self.loss_pct:.1f} %"
        )


def predict_bucket_sizes(rows: Sequence[Row]) -> list[Prediction]:
    """Return a prediction for each sweep of at least two sizes, from trusted rows."""
    return [
        Prediction(sweep, predict(of_sweep), min(of_sweep, key=lambda row: row.time_ms))
        for sweep, of_sweep in _sweeps(rows)
    ]


def predict(sweep: Sequence[Row]) -> Row:
    """Return the row of the smallest bound; of several indistinguishable ones, the largest size."""
    _, least_high = _bound(min(sweep, key=lambda row: row.counters[_BOUND]))
    return max((row for row in sweep if _bound(row)[0] <= least_high), key=_size)


def _sweeps(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    file = file_names(rows)
    for of_sweep in curves_along([row for row in rows if _is_of_sweep(row)], _SIZE):
        if len(of_sweep) > 1:
            first = of_sweep[0]
            yield label("Ddp/Buckets", dict(first.name.axes), _UNTOLD, file(first)), of_sweep


def _is_of_sweep(row: Row) -> bool:
    is_bucketed = row.name.family == "Ddp" and row.name.workloads == ("Buckets",)
    has_size = (row.name.axis(_SIZE) or "").isdecimal()
    return is_bucketed and has_size and row.trusted and _BOUND in row.counters


def _size(row: Row) -> int:
    return int(row.name.axis(_SIZE) or 0)


def _bound(row: Row) -> Interval:
    bound_ms = row.counters[_BOUND]
    return row.intervals.get(_BOUND, (bound_ms, bound_ms))
