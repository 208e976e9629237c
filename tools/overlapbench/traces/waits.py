"""Streams that wait for events, as PyTorch's profiler records them with enable_cuda_sync_events.

An event `Stream Wait Event` of the category `cuda_sync` names the stream that waits, the stream
awaited, and the call that recorded the awaited event. What was launched on the waiting stream after
the wait waits for what was launched on the other one before the record.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from overlapbench.grouping import grouped
from overlapbench.traces.model import Arrow, Span
from overlapbench.traces.processes import Calls, Process

CATEGORY = "cuda_sync"
_RECORD = "wait_on_cuda_event_record_corr_id"


class Wait(NamedTuple):
    event: int  # its place in the file
    device: str
    process: Process  # the device's
    stream: str
    awaited: str
    correlations: tuple[int, int]  # of the calls that record, and that wait


def read_wait(number: int, process: Process, args: Mapping[str, Any]) -> Wait | None:
    """Return the wait of an event of the category; None if it is of another kind."""
    numbers = [args.get(key) for key in ("stream", "wait_on_stream", _RECORD, "correlation")]
    if not all(isinstance(one, int) and one >= 0 for one in numbers):
        return None
    stream, awaited, record, wait = numbers
    return Wait(number, str(args.get("device", "")), process, str(stream), str(awaited),
                (int(record or 0), int(wait or 0)))  # fmt: skip


def arrows_of(
    waits: Sequence[Wait], spans: Sequence[Span], calls: Calls, base_ns: int
) -> tuple[Arrow, ...] | None:
    """Return which span of a device waited for which; None if the file states no waits."""
    lanes = {
        lane: sorted(found)
        for lane, found in grouped(
            ((span.launched_ns, place) for place, span in enumerate(spans) if span.launched_ns),
            lambda one: spans[one[1]].lane,
        ).items()
    }
    found = set()
    for wait in waits:
        record, call = (calls.launch_of(c, wait.process, wait.event) for c in wait.correlations)
        awaited, waiting = lanes.get(wait.awaited, []), lanes.get(wait.stream, [])
        if not record or not call or wait.stream == wait.awaited:
            continue
        last = bisect_right(awaited, (base_ns + record.returned_ns, len(spans))) - 1
        first = bisect_left(waiting, (base_ns + call.returned_ns, -1))
        if last >= 0 and first < len(waiting):
            found.add((awaited[last][1], waiting[first][1]))
    return tuple(sorted(found)) if waits else None
