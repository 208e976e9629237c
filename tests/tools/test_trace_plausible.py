"""Which spans cannot have been, at the limits of each rule; and calls and devices of processes."""

from collections.abc import Sequence
from typing import Any

import pytest

from overlapbench.traces.model import Category, Class, Span
from overlapbench.traces.plausible import Fault, Omitted, plausible
from overlapbench.traces.processes import Call, Calls, Device, name_of, ranks_among

DAY = 86_400 * 10**9
SECOND = 10**9


def span(begin: int, end: int, lane: str = "7", name: str = "gemm", **about: Any) -> Span:
    return Span(name, Class.COMP, begin, end, lane, Category.KERNEL, **about)


def left_out(
    spans: Sequence[Span], host: tuple[int, int] | None = None
) -> tuple[list[tuple[int, int]], dict[str, list[str]]]:
    """Return what is kept, and the names of what is left out."""
    omitted = Omitted()
    kept = [one.interval for one in plausible(spans, host, omitted)]
    return kept, {fault.value: names for fault, names in omitted.names.items()}


def test_spans_are_ordered_by_their_begins() -> None:
    assert left_out([span(5, 9), span(1, 2), span(1, 3)]) == ([(1, 2), (1, 3), (5, 9)], {})
    assert left_out([]) == ([], {})


@pytest.mark.parametrize("sign", [1, -1])
def test_more_than_a_day_away_is_too_far(sign: int) -> None:
    """The middle is the lower median of all begins."""
    rest = [span(10 * DAY, 10 * DAY + 5), span(10 * DAY, 10 * DAY + 6)]
    at = (10 + sign) * DAY
    assert left_out([*rest, span(at, at + 1)])[1] == {}
    far, told = left_out([*rest, span(at + sign, at + sign + 1, name="far")])
    assert told == {"more than a day away from the rest": ["far"]}
    assert len(far) == 2
    assert left_out([span(0, 1), span(DAY + 1, DAY + 2, name="second")])[1] == {
        "more than a day away from the rest": ["second"]
    }


def test_longer_than_a_day_is_too_long() -> None:
    assert left_out([span(0, DAY)])[1] == {}
    assert left_out([span(0, DAY + 1)]) == (
        [],
        {"longer than the rest of the recording": ["86400000.000 ms of gemm"]},
    )


def test_a_span_over_a_later_one_of_its_stream_is_longer_than_all_of_the_rest() -> None:
    long, rest = span(0, 2000, name="long"), [span(10, 20), span(1000, 1010)]
    told = {"longer than the rest of the recording": ["0.002 ms of long"]}
    assert left_out([long, *rest]) == ([(10, 20), (1000, 1010)], told)
    # It must end after all others, and last longer than them together with the time between.
    assert left_out([span(0, 1010), *rest])[1] == {}
    assert left_out([span(11, 1011), span(12, 20), span(0, 5, "8"), span(1000, 1010)])[1] == {}
    # On another stream, or launched by the same call, it may have been.
    assert left_out([span(0, 2000, "8"), *rest])[1] == {}
    by_one: dict[str, Any] = {"launched_ns": 3}
    assert (
        left_out([span(0, 2000, **by_one), *(span(*r.interval, **by_one) for r in rest)])[1] == {}
    )
    other = [span(*r.interval, launched_ns=4) for r in rest]
    assert left_out([span(0, 2000, **by_one), *other])[1] != {}


def test_the_host_counts_as_the_rest() -> None:
    long, rest = span(0, 2000, name="long"), [span(10, 20), span(1000, 1010)]
    assert left_out([long, *rest], (0, 2000))[1] == {}
    assert left_out([long, *rest], (1, 1999))[1] != {}
    assert left_out([long, *rest], (500, 2500))[1] == {}


def test_a_giant_out_of_all_proportion_is_left_out_if_there_is_much_beside_it() -> None:
    """More than a second, and more than a hundred times the rest."""

    def found(length: int, count: int, reach: int = SECOND // 50) -> dict[str, list[str]]:
        step = reach // (count - 1)
        rest = [span(i * step, i * step + (reach - (count - 1) * step), "8") for i in range(count)]
        return left_out([span(0, length), *rest])[1]

    reach = SECOND // 50 - SECOND // 50 % 9 + 5
    assert found(100 * reach + 1, 10, reach) != {}
    assert found(100 * reach, 10, reach) == {}
    assert found(100 * reach + 1, 9, reach - reach % 8 + 5) == {}  # too few
    small = SECOND // 1000 - SECOND // 1000 % 9 + 5
    assert found(SECOND, 10, small) == {}
    assert found(SECOND + 1, 10, small) != {}


def test_notes_name_three_and_count_all() -> None:
    omitted = Omitted()
    for name in ("a" * 80, "b\x1b", "c", "d"):
        omitted.add(Fault.NO_TIME, name)
    omitted.add(Fault.BACKWARD, "e")
    first, second = omitted.notes()
    assert first.startswith(f"left out 4 spans without a valid time: {'a' * 70}, b")
    assert "\x1b" not in first
    assert ", d" not in first
    assert second == "left out 1 span ending before it begins: e"


# ---- calls


def test_pids_with_one_name_are_of_one_process() -> None:
    assert name_of("[TP01] 100") == name_of("[TP01] 7") == "[TP01]"
    assert name_of(7) == name_of(8) == ""
    assert name_of(None) is None
    assert name_of("4711") == ""


def test_a_span_is_launched_by_the_last_call_before_it_in_the_file() -> None:
    calls = Calls()
    first, second, third = Call(10, 100, "a 1"), Call(20, 200, "b 2"), Call(30, 300, "c 3")
    for call in (first, second, third):
        calls.add(5, call)
    assert calls.launch_of(5, 0, 25) is second
    assert calls.launch_of(5, 0, 31) is third
    assert calls.launch_of(5, 0, 5) is third  # all come after it
    assert calls.launch_of(5, "a 9", 25) is first  # of the device's name
    assert calls.launch_of(6, 0, 25) is None
    assert calls.launch_of(None, 0, 25) is None
    assert calls.hull() == [(100, 300)]
    assert Calls().hull() == []


def test_later_calls_of_a_process_replace_earlier_ones() -> None:
    calls = Calls()
    calls.add(5, Call(1, 10, 1))
    calls.add(5, Call(2, 20, 1))
    found = calls.launch_of(5, 0, 9)
    assert found is not None
    assert found.returned_ns == 20


@pytest.mark.parametrize(
    ("processes", "device", "only"),
    [
        ([1], 0, 1),
        ([1, 2], 0, None),
        (["a 1", "b 2"], "b 0", "b 2"),
        (["a 1", "a 2"], "a 0", None),
        (["a 1"], 0, "a 1"),
        (["a 1", "b 2"], 0, None),
        ([], 0, None),
    ],
)
def test_the_only_process_that_may_have_launched(
    processes: list[Any], device: Any, only: Any
) -> None:
    calls = Calls()
    for place, process in enumerate(processes):
        calls.add(place, Call(place, 10, process))
    assert calls.only_process(device) == only


# ---- devices


def device(name: str, busy: int, process: object = 1, kernel: bool = True, **about: Any) -> Device:
    category = Category.KERNEL if kernel else Category.MEMSET
    made = Span("x", Class.COMP, 0, busy, "7", category)
    return Device(process, name, [made], **about)


@pytest.mark.parametrize(
    ("busy", "kernel", "is_rank"),
    [(10, True, True), (9, True, False), (1000, False, False), (900, True, True)],
)
def test_a_device_is_a_rank_if_it_ran_kernels_for_a_hundredth(
    busy: int, kernel: bool, is_rank: bool
) -> None:
    main, other = device("0", 1000), device("1", busy, kernel=kernel)
    ranks = ranks_among([other, main], 3)
    assert [one.name for one in ranks] == (["1", "0"] if is_rank else ["0"])
    assert main.rank == 3  # the busiest one
    assert other.rank is None
    told = "left out 1 stray span on device 1: the process works on 0"
    assert main.notes == (() if is_rank else (told,))


def test_a_stated_rank_is_that_of_an_only_process_without_its_own() -> None:
    (own,) = ranks_among([device("0", 5, rank=7)], 3)
    assert own.rank == 7
    both = ranks_among([device("0", 5, 1), device("0", 5, 2)], 3)
    assert [one.rank for one in both] == [None, None]
    assert ranks_among([], 3) == []


def test_kernels_count_more_than_a_longer_memset() -> None:
    stray, main = device("1", 1000, kernel=False), device("0", 10)
    assert ranks_among([stray, main], 0) == [main]
    assert main.rank == 0
