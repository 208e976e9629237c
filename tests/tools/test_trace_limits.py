"""Patterns, arrows, matches, windows and shares at the limits of each rule, span by span."""

import io
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from overlapbench.output import ResultError
from overlapbench.traces import breakdown, files, packed
from overlapbench.traces.breakdown import PARTS, apportion
from overlapbench.traces.collectives import doubts, matched, split, stated
from overlapbench.traces.idle import Cause
from overlapbench.traces.intervals import Intervals
from overlapbench.traces.model import Category, Class, Span, Trace, Window
from overlapbench.traces.path import Arrows, longest_path, track_of
from overlapbench.traces.patterns import PATTERNS, Evidence, find_patterns
from overlapbench.traces.rules import Rules
from overlapbench.traces.windows import choose, number_of, place
from traces import kernel, nsys

US, MS = 1000, 1_000_000
NCCL = "ncclDevKernel_AllReduce"


def span(begin: int, end: int, lane: str = "7", kind: Class = Class.COMP, **about: Any) -> Span:
    known: dict[str, Any] = {"name": "gemm", "category": Category.KERNEL} | about
    return Span(kind=kind, begin_ns=begin, end_ns=end, lane=lane, **known)


def comm(begin: int, end: int, lane: str = "20", name: str = NCCL, **about: Any) -> Span:
    return span(begin, end, lane, Class.COMM, name=name, **about)


def trace(spans: Sequence[Span], rank: int = 0, **about: Any) -> Trace:
    return Trace("t.json", rank, tuple(spans), **({"common_clock": True} | about))


# ---- patterns


def shown(spans: Sequence[Span], when: dict[Any, Intervals], end: int) -> dict[str, float]:
    nothing: dict[Any, Intervals] = dict.fromkeys(PARTS, ())
    found = find_patterns(Evidence(spans, ((0, end),), nothing | when))
    assert all(one.advice for one in found)
    assert all(one.pct == 100 * one.ns / end for one in found)
    return {one.name: one.pct for one in found}


SHORT, LATE, TURN, STARVING = (pattern.name for pattern in PATTERNS)


def test_kernels_of_less_than_ten_microseconds_are_short() -> None:
    assert shown([span(0, 10 * US - 1)], {}, 100 * US - 10) == {SHORT: pytest.approx(10.0)}
    assert shown([span(0, 10 * US)], {}, 100 * US) == {}
    assert shown([span(0, 9 * US)], {}, 91 * US) == {}  # less than a tenth
    assert shown([span(0, 9 * US, category=Category.MEMCPY)], {}, 10 * US) == {}
    assert shown([span(-5 * US, 4 * US)], {}, 10 * US) == {SHORT: pytest.approx(40.0)}


@pytest.mark.parametrize(
    ("gaps", "end", "found"),
    [
        ([(0, MS // 2 - 1)], MS, {LATE: 49.9999}),
        ([(0, MS // 2)], MS, {STARVING: 50.0}),
        ([(0, MS // 2), (MS, MS + MS // 10)], 2 * MS, {LATE: 5.0, STARVING: 25.0}),
        ([(0, 49 * US)], MS, {}),
        ([(0, 50 * US)], MS, {LATE: 5.0}),
    ],
)
def test_half_a_millisecond_tells_a_late_launch_from_a_starving_device(
    gaps: Intervals, end: int, found: dict[str, float]
) -> None:
    assert shown([], {Cause.HOST: gaps}, end) == pytest.approx(found)


def test_copies_of_their_own_streams_that_overlap_little_run_in_turn() -> None:
    def copies(hidden: int, lane: str = "3") -> dict[str, float]:
        spans = [span(0, 90, lane, Class.MEM, category=Category.MEMCPY), span(90, 200)]
        when: dict[Any, Intervals] = {(Class.MEM,): ((0, 90),)}
        return shown(spans, when | {(Class.COMP, Class.MEM): ((100, 100 + hidden),)}, 200 * US)

    assert copies(0) == {}  # less than 5 % of the window
    spans = [span(0, 90, "3", Class.MEM, category=Category.MEMCPY), span(90, 20_000)]
    alone: dict[Any, Intervals] = {(Class.MEM,): ((0, 90 * US),)}
    mixed = (Class.COMM, Class.MEM)
    long = [*spans, span(0, 20 * US)]
    assert shown(long, alone, 200 * US) == {TURN: 45.0}
    assert shown(long, alone | {mixed: ((0, 10 * US - 1),)}, 200 * US) == {TURN: 45.0}
    assert shown(long, alone | {mixed: ((0, 10 * US),)}, 200 * US) == {}  # a tenth
    same = [span(0, 90, "7", Class.MEM, category=Category.MEMCPY), span(90, 20_000, "7")]
    assert shown(same, alone, 200 * US) == {}
    assert shown(spans[:1], alone, 200 * US) == {}  # nothing to run beside


# ---- arrows


@pytest.mark.parametrize(
    ("event", "track"),
    [
        ({"pid": 1, "tid": 2}, (1, 2)),
        ({"pid": 0, "tid": 0}, (0, 0)),
        ({"pid": "1", "tid": 2}, None),
        ({"pid": 1, "tid": None}, None),
        ({}, None),
    ],
)
def test_a_track_is_two_numbers(event: dict[str, object], track: object) -> None:
    assert track_of(event) == track


@pytest.mark.parametrize(
    ("off", "found"), [(0, True), (1, True), (-1, True), (2, False), (-2, False)]
)
@pytest.mark.parametrize("end", ["source", "target"])
def test_an_arrow_joins_an_end_and_a_begin_but_for_a_nanosecond(
    end: str, off: int, found: bool
) -> None:
    spans = [span(1000, 2000, "a"), span(2500, 3000, "b"), span(2500, 3000, "b", Class.WAIT)]
    ends = {"source": 1999, "target": 2500}
    ends[end] += off
    arrows = Arrows(
        {(0, 1): "a", (0, 2): "b"}, {5: ((0, 1), ends["source"])}, {5: ((0, 2), ends["target"])}
    )
    assert arrows.between(spans, ["a", "b", "b"]) == (((0, 1),) if found else ())
    late = [span(one.begin_ns + 7, one.end_ns + 7, one.lane, one.kind) for one in spans]
    assert arrows.between(late, ["a", "b", "b"], 7) == (((0, 1),) if found else ())
    assert arrows.between(spans, ["b", "a", "a"]) == ()


def test_arrows_without_both_ends_or_to_themselves_are_none() -> None:
    names: dict[Any, str] = {(0, 1): "a"}
    for number in (1, 2):
        arrows = Arrows(names, {1: ((0, 1), 9)}, {number: ((0, 1), 10)})
        assert arrows.between([span(10, 10, "a")], ["a"]) == ()


# ---- paths


def path_of(spans: Sequence[Span], arrows: Any = ()) -> list[int]:
    one = trace(spans, arrows=arrows)
    works = {(0, place): each for place, each in enumerate(spans)}
    return [place for _, place in longest_path([one], works)]


def test_the_path_goes_back_along_lanes_and_arrows() -> None:
    spans = [span(0, 5, "a"), span(0, 8, "b"), span(9, 20, "a")]
    assert path_of(spans) == [0, 2]
    assert path_of(spans, ((1, 2),)) == [1, 2]
    assert path_of([span(0, 9, "a"), span(0, 8, "b"), span(9, 20, "a")], ((1, 2),)) == [0, 2]
    assert path_of(spans, None) == []
    # Of works of a lane, the one that ends last is before the next.
    assert path_of([span(0, 9, "a"), span(1, 5, "a"), span(9, 20, "a")]) == [0, 2]


def test_works_of_a_step_wait_for_earlier_ones_on_any_lane() -> None:
    step: dict[str, Any] = {"operation": 3, "step": "s"}
    spans = [span(0, 5, "a", **step), span(5, 9, "b", **step)]
    assert path_of(spans) == [0, 1]
    assert path_of([span(0, 6, "a", **step), span(5, 9, "b", **step)]) == [1]  # at once
    assert path_of([span(0, 5, "a", operation=2, step="s"), spans[1]]) == [1]
    # What the first work of a step waited for, others did, too.
    spans = [span(0, 4, "c"), span(5, 7, "a", **step), span(5, 9, "b", **step)]
    assert path_of(spans, ((0, 1),)) == [0, 2]


# ---- collectives


def test_collectives_of_our_own_files_are_matched_by_number_and_sample() -> None:
    spans = {
        (0, 0): comm(0, 5, communication=1, sample=0),
        (1, 0): comm(0, 5, communication=1, sample=0),
        (0, 1): comm(5, 9, communication=1, sample=1),
        (1, 1): comm(5, 9, communication=2, sample=1),
        (0, 2): comm(9, 12, communication=1, sample=0),  # its second use
        (1, 2): comm(9, 12, communication=1, sample=0),
        (0, 3): comm(9, 12, communication=1, sample=0, category=Category.PEER),
    }
    found = stated(spans)
    assert found[0, 0] == ((0, 0), (1, 0))
    assert found[1, 2] == ((0, 2), (1, 2))
    assert found[0, 1] == ((0, 1),)
    assert (0, 3) not in found
    del spans[1, 2]
    assert (0, 0) not in stated(spans)  # unequal numbers of uses


def test_a_waiting_is_divided_and_its_rank_is_named() -> None:
    ranks = [
        trace([comm(0, 100), comm(200, 260)], 0),
        trace([comm(60, 100), comm(240, 260)], 1),
        trace([comm(90, 100), comm(200, 260)], 2),
    ]
    found = split(ranks, [((0, 1000),)] * 3)
    assert found is not None
    first, second, third = found
    assert (first.total_ns, first.waiting_ns, first.moving_ns) == (160, 90 + 40, 10 + 20)
    assert (second.total_ns, second.waiting_ns, second.moving_ns) == (60, 30, 30)
    assert (third.total_ns, third.waiting_ns, third.moving_ns) == (70, 40, 30)
    assert [one.collectives for one in found] == [2, 2, 2]
    assert [one.last for one in found] == [0, 1, 1]
    assert [one.awaited_ns for one in found] == [0, 80, 90 + 30]
    half = split(ranks, [((0, 100),)] * 3)
    assert half is not None
    assert [one.collectives for one in half] == [1, 1, 1]
    assert split([trace([comm(0, 5)], 0), trace([comm(5, 9)], 1)], [((0, 10),)] * 2) is None
    assert split(ranks, [((300, 400),)] * 3) is None


@pytest.mark.parametrize(
    ("name", "other", "count"),
    [
        ("ncclAllReduce", "nccl_all_reduce", 1),
        ("ncclAllReduce", "ncclAllGather", 0),
        ("ncclSend", "ncclRecv", 0),
        ("ncclDevKernel_Generic", "ncclDevKernel_Generic", 1),
        ("ncclReduceScatter", "nccl_reduce_scatter", 1),
        ("ncclReduce", "ncclReduceScatter", 0),
    ],
)
def test_only_the_same_operation_is_one_collective(name: str, other: str, count: int) -> None:
    ranks = [trace([comm(0, 9, name=name)], 0), trace([comm(1, 9, name=other)], 1)]
    assert len(list(matched(ranks))) == count
    stated_by = [
        trace([comm(0, 9, name="nccl", collective=name)], 0),
        trace([comm(1, 9, name="nccl", collective=other)], 1),
    ]
    assert len(list(matched(stated_by))) == count


@pytest.mark.parametrize(
    ("groups", "ranks", "world", "told"),
    [
        ("0 [0, 1]", 2, None, []),
        ("0 [0, 1, 2]", 2, None, ["absent"]),
        ("0", 2, 3, ["absent"]),
        ("0", 2, 2, []),
        ("", 2, None, []),
        ("", 3, None, ["no groups"]),
        ("", 3, 4, ["no groups", "absent"]),
    ],
)
def test_doubts_about_matches_are_told(
    groups: str, ranks: int, world: int | None, told: list[str]
) -> None:
    lines = doubts([trace([comm(0, 9, group=groups)], rank, world=world) for rank in range(ranks)])
    starts = {
        "absent": "some ranks of a communicator have no",
        "no groups": "the traces state no c",
    }
    assert [line[: len(starts[one])] for line, one in zip(lines, told, strict=True)] == [
        starts[one] for one in told
    ]


# ---- windows


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ProfilerStep#12", 12),
        ("step 3", 3),
        ("Iteration_4", 4),
        ("iter:5", 5),
        ("step7", 7),
        ("my step 3", None),
        ("step 3 of 4", None),
        ("step", None),
        ("step 1234567890123456", None),
    ],
)
def test_a_steps_name_has_a_number(name: str, number: int | None) -> None:
    assert number_of(name) == number


def test_a_step_ends_where_the_next_of_its_name_begins() -> None:
    windows = [
        Window("step 1", 0, 5, 1),
        Window("step 2", 10, 18, 2),
        Window("iter 1", 3, 4, 1),
        Window("other", 1, 2, None),
    ]
    assert place([], windows, []) == (
        Window("step 1", 0, 10, 1),
        Window("other", 1, 2, None),
        Window("iter 1", 3, 4, 1),
        Window("step 2", 10, 18, 2),
    )
    parts = [Window("step 1", 0, 5, 1), Window("step 1", 7, 9, 1)]
    assert place([], [], parts) == (Window("step 1", 0, 9, 1),)
    alone = [Window("a", 0, 5, None), Window("a", 7, 9, None)]
    assert place([], [], alone) == tuple(alone)


def chosen(
    names: Sequence[str], step: int | None = None, pattern: str | None = None, length: int = 5
) -> tuple[str, int]:
    windows = tuple(
        Window(name, 10 * i, 10 * i + length, number_of(name)) for i, name in enumerate(names)
    )
    label, _, found = choose(trace([span(0, 99)], windows=windows), step, pattern)
    return label, len(found)


def test_the_choice_is_named() -> None:
    assert chosen([]) == ("the whole trace", 1)
    assert chosen(["a", "b"]) == ("the whole trace", 1)
    assert chosen(["step 4", "a"]) == ("step 4", 1)
    assert chosen(["step 4", "step 5"]) == ("step 4 to 5, 2 in all", 2)
    assert chosen(["row sample 1", "row sample 2"], pattern="sample") == (
        "row sample 1 to 2, 2 in all",
        2,
    )
    assert chosen(["row sample 1", "own sample 2"], pattern="sample")[0] == (
        "row sample 1 to own sample 2, 2 in all"
    )
    assert chosen(["a", "a", "ab"], pattern="a") == ("2 × a", 2)  # not `ab`
    assert chosen(["ab", "xab"], pattern="a") == ("ab to xab, 2 in all", 2)
    assert chosen(["step 4", "step 5"], step=5) == ("step 5", 1)
    assert chosen(["step 4", "iter 4"], step=4, pattern="it*") == ("iter 4", 1)


@pytest.mark.parametrize(
    ("names", "step", "pattern", "complaint"),
    [
        (["step 1"], 2, None, "no step 2: the steps are 1"),
        (["step 1", "step 2", "step 3", "step 7"], 5, None, "no step 5: the steps are 1, 2, 3, 7"),
        (["step 1", "step 3"], 2, None, "no step 2: the steps are 1, 3"),
        (["a"], 2, None, "no step 2: there are a"),
        ([], 2, None, "no step 2: there are no windows in it"),
        (["a", "b"], None, "c", "no window c: there are a, b"),
        (["step 1", "a"], 1, "b", "no step 1 window b: there are step 1, a"),
    ],
)
def test_a_choice_that_is_not_there_names_what_is(
    names: list[str], step: int | None, pattern: str | None, complaint: str
) -> None:
    with pytest.raises(ResultError) as raised:
        chosen(names, step, pattern)
    assert str(raised.value) == f"t.json: {complaint}"


def test_a_window_without_time_is_refused() -> None:
    with pytest.raises(ResultError, match=r"^t\.json: a takes no time$"):
        chosen(["a"], pattern="a", length=0)


# ---- idle


# ---- shares


@pytest.mark.parametrize(
    ("parts", "units", "shares"),
    [
        ([1, 1, 1], 100, [34, 33, 33]),
        ([1, 1, 4], 100, [17, 17, 66]),
        ([0, 5, 0], 7, [0, 7, 0]),
        ([2, 1], 1, [1, 0]),
    ],
)
def test_the_first_of_equal_remainders_is_rounded_up(
    parts: list[int], units: int, shares: list[int]
) -> None:
    assert apportion(parts, units) == shares


# ---- files


@pytest.mark.parametrize(("overlap", "count"), [(1000, 0), (1001, 1), (5000, 1)])
def test_overlaps_of_a_microsecond_are_rounding(overlap: int, count: int) -> None:
    spans = [span(0, 10_000), span(10_000 - overlap, 20_000), span(0, 20_000, "8")]
    told = files._overlaps(trace(spans))
    assert len(told) == count
    if count:
        assert told[0] == (
            "spans that overlap an earlier one of their stream: 1, by up to"
            f" {overlap / 1000:.1f} us (programmatic launches, graphs, or a wrong trace)"
        )


def test_an_overlap_is_as_long_as_the_shorter_span_and_each_is_counted() -> None:
    spans = [span(0, 50_000), span(1_000, 9_000), span(20_000, 60_000), span(55_000, 70_000)]
    (told,) = files._overlaps(trace(spans))
    assert ": 3, by up to 30.0 us" in told


def test_a_clock_problem_is_told_and_nothing_is_compared() -> None:
    one, far = trace([span(0, 10)], 0), trace([span(10, 20)], 1)
    assert breakdown._clock_problem([one]) == ""
    assert breakdown._clock_problem([one, trace([span(9, 20)], 1)]) == ""
    assert "no moment in common" in breakdown._clock_problem([one, far])
    assert "share no clock" in breakdown._clock_problem(
        [one, trace([span(5, 9)], 1, common_clock=False)]
    )


def test_unpacked_text_may_have_the_limit_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"x" * 10)
    monkeypatch.setattr(packed, "LARGEST_TEXT_BYTES", 10)
    with file.open("rb") as stream:
        text = packed.Text("a.json", stream, "")
        assert text.read(100) == b"x" * 10
    monkeypatch.setattr(packed, "LARGEST_TEXT_BYTES", 9)
    with file.open("rb") as stream, pytest.raises(ResultError, match=r"^a\.json: above 0 MiB when"):
        packed.Text("a.json", stream, "").read(100)


def test_an_archive_is_read_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("rank0.json", "text")
        made.writestr("notes.txt", "no trace")
    reader, writer = os.pipe()
    os.write(writer, archive.getvalue())
    os.close(writer)
    with open(reader, encoding="utf-8") as stdin:  # noqa: PTH123 a number, and no path
        monkeypatch.setattr(sys, "stdin", stdin)
        read = [(text.source, text.read(100)) for text in packed.opened("-")]
    assert read == [("-/rank0.json", b"text")]


def test_calls_of_an_export_count_as_the_rest(tmp_path: Path) -> None:
    """A span over a later one of its stream stays if the host was recorded until it was over."""

    def spans(last_call: int) -> int:
        calls = [
            f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({at}, {at + 1}, 1, {9000 + at}, 1)"
            for at in (1, last_call)
        ]
        kernels = [kernel(1, 10, 5000), kernel(1, 20, 30), kernel(1, 900, 1000)]
        path = nsys(tmp_path / f"{last_call}.sqlite", [*kernels, *calls])
        (one,) = files.read_traces([str(path)], Rules())
        return len(one.spans)

    assert spans(6000) == 3
    assert spans(1100) == 2
