"""What trace viewers (Perfetto, chrome://tracing) and HTA need of the events of --trace_out.

The phases are those of Chrome's trace format that they read: spans (`X`), names of tracks (`M`),
arrows (`s` and `f`) and, in traces of the cuda backend, counters (`C`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any

WORK = {"kernel", "gpu_memcpy", "gpu_memset"}
CATEGORIES = WORK | {"cuda_runtime", "user_annotation", "gpu_user_annotation"}
COUNTERS = {"sm_clock_MHz", "power_W", "nvlink_sent_GBps", "nvlink_received_GBps"}
_PHASES = "XMsfC"
ROUNDED_NS = 1  # a file's begins and durations are each rounded to a nanosecond


def broken_rules(trace: Mapping[str, Any]) -> list[str]:
    """Return what viewers would refuse, or show wrongly; a line an event."""
    events = trace["traceEvents"]
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    broken = [f"{what}: {event}" for event in events for what in _broken_by(event, trace, named)]
    starts = Counter(event["id"] for event in events if event["ph"] == "s")
    if starts != Counter(event["id"] for event in events if event["ph"] == "f"):
        broken.append("an arrow lacks an end")
    if not set(starts.values()) <= {1}:
        broken.append("two arrows have one id")
    return [*broken, *_not_nested(events)]


def _not_nested(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Tell of spans of one track that overlap, and neither is within the other.

    Viewers draw a track as a stack: they cut such spans, or leave them out.
    """
    tracks: dict[tuple[int, int], list[tuple[int, int, Mapping[str, Any]]]] = {}
    for event in events:
        if event["ph"] == "X":
            begin, duration = round(1000 * event["ts"]), round(1000 * event["dur"])
            track = tracks.setdefault((event["pid"], event["tid"]), [])
            track.append((begin, begin + duration, event))
    for spans in tracks.values():
        around: list[int] = []  # the ends of the spans that the next one may be within
        for begin, end, event in sorted(spans, key=lambda span: (span[0], -span[1])):
            while around and around[-1] <= begin + ROUNDED_NS:
                around.pop()
            if around and end > around[-1] + ROUNDED_NS:
                yield f"spans that do not nest: {event}"
            around.append(end)


def _broken_by(
    event: Mapping[str, Any], trace: Mapping[str, Any], named: set[tuple[int, int]]
) -> Iterator[str]:
    phase = event["ph"]
    if phase not in _PHASES:
        yield "an unknown phase"
    if (event["pid"], event["tid"]) not in named:
        yield "a track without a name"
    if phase != "M" and not event.get("ts", 0) > 0:
        yield "no time"
    if phase == "X":
        if not event["dur"] >= 0:
            yield "a negative duration"
        if event["cat"] not in CATEGORIES:
            yield "an unknown category"
        if event["args"]["row"] != trace["overlapbench"]["row"]:
            yield "another row"
    if phase == "C":
        if trace["overlapbench"]["backend"] != "cuda":
            yield "a counter of the host backend"
        if event["name"] not in COUNTERS:
            yield "an unknown counter"
        # Every argument is a series of the track.
        values = list(event.get("args", {}).values())
        if len(values) != 1 or not all(_is_number(value) for value in values):
            yield "a counter must have one number"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
