"""Which span of a device waits for which, from the events that a profiler recorded."""

from collections.abc import Sequence
from typing import Any

import pytest

from overlapbench.traces.model import Class, Span
from overlapbench.traces.processes import Call, Calls
from overlapbench.traces.waits import Wait, arrows_of, read_wait

PROCESS = 7
ARGS = {
    "stream": 20,
    "wait_on_stream": 7,
    "wait_on_cuda_event_record_corr_id": 11,
    "correlation": 12,
    "device": 3,
}


@pytest.mark.parametrize("key", ["stream", "wait_on_stream", "correlation"])
@pytest.mark.parametrize("value", [None, -1, "20", 1.5])
def test_an_event_of_another_kind_is_no_wait(key: str, value: Any) -> None:
    assert read_wait(5, PROCESS, ARGS | {key: value}) is None


def test_a_wait_names_its_streams_and_calls() -> None:
    expected = Wait(5, "3", PROCESS, "20", "7", (11, 12))
    assert read_wait(5, PROCESS, ARGS) == expected
    assert read_wait(5, PROCESS, ARGS | {"wait_on_cuda_event_record_corr_id": -1}) is None
    zero = ARGS | dict.fromkeys(ARGS, 0)
    assert read_wait(5, PROCESS, zero) == Wait(5, "0", PROCESS, "0", "0", (0, 0))


def span(lane: str, launched_ns: int | None) -> Span:
    return Span("k", Class.COMP, 0, 1, lane, launched_ns=launched_ns)


# Two spans on each lane, launched at 110, 130 and 120, 140 after the base of 1000.
SPANS = [span("7", 1110), span("20", 1120), span("7", 1130), span("20", 1140), span("7", None)]


def arrows(
    returned_ns: Sequence[int],
    awaited: str = "7",
    stream: str = "20",
    known: Sequence[int] = (11, 12),
) -> object:
    """Return the arrows of one wait, whose calls returned then."""
    calls = Calls()
    for number, at in zip(known, returned_ns, strict=False):
        calls.add(number, Call(number, at, PROCESS))
    wait = Wait(50, "3", PROCESS, stream, awaited, (11, 12))
    return arrows_of([wait], SPANS, calls, 1000)


@pytest.mark.parametrize(
    ("returned_ns", "arrow"),
    [
        ((115, 115), (0, 1)),
        ((110, 120), (0, 1)),  # a span launched as the call returned is before the record ...
        ((129, 121), (0, 3)),  # ... and behind the wait
        ((130, 140), (2, 3)),
        ((999, 130), (2, 3)),
    ],
)
def test_what_is_launched_after_the_wait_waits_for_what_was_before_the_record(
    returned_ns: tuple[int, int], arrow: tuple[int, int]
) -> None:
    assert arrows(returned_ns) == (arrow,)


def test_a_wait_for_nothing_is_no_arrow() -> None:
    assert arrows((109, 115)) == ()  # nothing was launched before the record
    assert arrows((115, 141)) == ()  # nothing came after the wait
    assert arrows((130, 130), awaited="9") == ()
    assert arrows((130, 130), stream="9") == ()
    assert arrows((125, 125), awaited="20", stream="20") == ()
    assert arrows((115,), known=(11,)) == ()
    assert arrows((115,), known=(12,)) == ()


def test_arrows_are_in_order_and_each_once() -> None:
    calls = Calls()
    for number, at in enumerate((130, 130, 115, 115)):
        calls.add(number, Call(number, at, PROCESS))
    waits = [Wait(9, "3", PROCESS, "20", "7", pair) for pair in ((0, 1), (2, 3), (2, 3))]
    assert arrows_of(waits, SPANS, calls, 1000) == ((0, 1), (2, 3))
    assert arrows_of([], SPANS, calls, 1000) is None
