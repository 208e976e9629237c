"""Alternating samples with a cold cache: the parts of a sample, and when it counts.

A sample enqueues: a sleep of the GPU, so that the host gets ahead; the work, untimed, so that SMs
have cached its code, as in a program that repeats it; a flush of L2, which reads twice its size
(writing would leave dirty lines, whose write-back would be timed); an event, the work, an event. If
the first event has passed before the host is done, the sample may include host time: it is
discarded and repeated.

The order is random but the same every time, since a sample may depend on the one before.
"""

import random
from collections.abc import Callable, Mapping

import torch

from overlapbench.reading.source import ResultError

_SLEEP_CYCLES = 1_000_000  # about half a millisecond
_MOST_TRIES = 4  # per sample


class ColdSampler:
    """Takes samples on the current stream."""

    def __init__(self) -> None:
        cache_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self._flushed = torch.ones(2 * cache_bytes // 4, device="cuda")

    def sample(self, work: Callable[[], object]) -> float | None:
        """Return the milliseconds of one run of `work`, or None if the host was too late."""
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(_SLEEP_CYCLES)
        work()
        self._flushed.sum()
        start.record()
        work()
        stop.record()
        late = start.query()
        torch.cuda.synchronize()
        return None if late else float(start.elapsed_time(stop))


def time_alternately(
    sampler: ColdSampler, works: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Sample every work once per round, in random order; the first round is warmup."""
    shuffle = random.Random(0).shuffle
    times: dict[str, list[float]] = {name: [] for name in works}
    for attempt in range(1 + rounds * _MOST_TRIES):
        order = list(works)
        shuffle(order)
        for name in order:
            time_ms = sampler.sample(works[name])
            if attempt and time_ms is not None and len(times[name]) < rounds:
                times[name].append(time_ms)
        if all(len(taken) == rounds for taken in times.values()):
            return times
    raise ResultError("the host is too slow or too busy to keep the GPU supplied")
