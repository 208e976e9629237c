"""Timelines: what of a trace is drawn, the longest path through it, and which sample it is."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import traces
from overlapbench.output import ResultError
from overlapbench.traces.files import read_rows, read_traces
from overlapbench.traces.model import Class
from overlapbench.traces.rules import Rules
from overlapbench.view.timeline import (
    FOR_SMS,
    MOST_ROWS,
    Timeline,
    make_timeline,
    make_timelines,
    path_parts,
)
from traces import COPY, GEMM, NCCL, ROW, Json, arrow, done, kernel, kineto, recorded, step, waits
from traces import work as kernel_of


def of(folder: Path, *documents: Json, step: int | None = None) -> Timeline:
    """Write the files of the ranks, and make their timeline."""
    paths = [str(traces.write(folder / f"{i}.json", d)) for i, d in enumerate(documents)]
    return make_timeline(read_traces(paths, Rules()), step)


def chain(timeline: Timeline) -> list[str]:
    return [f"{bar.lane.rank} {bar.span.step}" for bar in timeline.path]


# Two products; a sum waits for the first, and the last product for the second and the sum.
STEP = [
    done("one", "COMP", "comp", 0, 2),
    done("two", "COMP", "comp", 2, 1),
    done("sum", "COMM", "comm", 2.5, 4),
    done("three", "COMP", "comp", 6.75, 1),
    waits("comm", 0, 2),
    waits("comp", 3, 3.5),
    *arrow(1, "comp", 2, "comm", 2.5),
    *arrow(2, "comm", 6.5, "comp", 6.75),
    *arrow(3, "comp", 2, "comp", 2),
]


def test_the_longest_path_follows_the_prerequisite_that_ended_last(tmp_path: Path) -> None:
    timeline = of(tmp_path, recorded(STEP))
    assert chain(timeline) == ["0 one", "0 sum", "0 three"]
    assert path_parts(timeline) == {
        Class.COMP: 3_000_000,
        Class.COMM: 4_000_000,
        None: 750_000,
    }
    links = [
        (link.source.span.step, link.target.span.step, link.on_path) for link in timeline.links
    ]
    assert links == [("one", "sum", True), ("sum", "three", True)]
    late = [done("two", "COMP", "comp", 2, 4.6) if e["name"] == "two" else e for e in STEP]
    assert chain(of(tmp_path, recorded(late))) == ["0 one", "0 two", "0 three"]


# A product whose last blocks leave SMs to a sum.
ON_SMS = {"engine": "SM", "blocks": 256}
HELD = [
    done("product", "COMP", "comp", 0, 6, **ON_SMS),
    done("sum", "COMM", "comm", 5, 4, **ON_SMS),
]


def test_what_waited_for_sms_has_their_holder_before_it_on_the_path(tmp_path: Path) -> None:
    timeline = of(tmp_path, recorded(HELD))
    assert chain(timeline) == ["0 product", "0 sum"]
    assert path_parts(timeline) == {
        FOR_SMS: 5_000_000,
        Class.COMP: 1_000_000,
        Class.COMM: 3_000_000,
        None: 0,
    }
    (wait,) = (bar for bar in timeline.bars if bar.is_wait)
    assert (wait.begin_ns, wait.end_ns, wait.lane.name) == (0, 5_000_000, "comm")


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": "copy"},  # needs no SMs
        {"ts": 7000},  # the product had ended long before
        {"ts": 2000},  # the product ran on for long
        {"ts": 1006},  # hardly later than it could
    ],
)
def test_what_did_not_wait_for_sms_is_not_called_so(tmp_path: Path, changed: Json) -> None:
    product, late = HELD
    args = late["args"] | {key: value for key, value in changed.items() if key == "engine"}
    moved = late | {"args": args} | {"ts": changed.get("ts", late["ts"])}
    begins = done("before", "MEM", "comm", 0, 1) if changed.get("ts") == 1006 else None
    document = recorded([product, moved, *([begins] if begins else [])])
    assert not any(bar.is_wait for bar in of(tmp_path, document).bars)


@pytest.mark.parametrize("key", ["launched", "dependency", "few blocks"])
def test_what_something_else_held_back_did_not_wait_for_sms(tmp_path: Path, key: str) -> None:
    product, late = HELD
    held = [product, late]
    if key == "dependency":
        held += [done("first", "MEM", "copy", 0, 4.995), *arrow(1, "copy", 4.995, "comm", 5)]
    if key == "few blocks":
        held[0] = product | {"args": product["args"] | {"blocks": 32}}
    if key == "launched":
        held[1] = late | {"args": late["args"] | {"correlation": 5}}
        held.append(traces.event("cuda_runtime", "launch", 4000, 995, correlation=5))
    assert not any(bar.is_wait for bar in of(tmp_path, recorded(held)).bars)


def test_the_path_goes_through_all_streams_of_a_step(tmp_path: Path) -> None:
    # A sum by copy engine sends on one stream, adds on another, and sends back on a third.
    def sum_at(ms: float, operation: int) -> list[Json]:
        lanes = ("comm", "comm, stream 2", "comm, stream 3")
        return [
            done(f"sum {operation}", "COMM", lane, ms + i, 0.75, **{"External id": operation})
            for i, lane in enumerate(lanes)
        ]

    events = [
        done("first", "COMP", "comp", 0, 2, **{"External id": 1}),
        *sum_at(2, 2),
        done("second", "COMP", "comp", 2, 4, **{"External id": 3}),
        *sum_at(6, 4),
        done("last", "COMP", "comp", 9, 1, **{"External id": 5}),
        *arrow(1, "comp", 2, "comm", 2),
        *arrow(2, "comp", 6, "comm", 6),
        *arrow(3, "comm, stream 3", 8.75, "comp", 9),
    ]
    timeline = of(tmp_path, recorded(events))
    assert chain(timeline) == ["0 first", "0 second", *3 * ["0 sum 4"], "0 last"]
    assert path_parts(timeline) == {Class.COMP: 7_000_000, Class.COMM: 2_250_000, None: 750_000}


def joint(second_ms: float, rank: int, **args: object) -> Json:
    """A product, then a sum that begins when the rank comes to it and ends on all at 9 ms."""
    product = done("product", "COMP", "comp", 0, second_ms)
    stated = {"communication": 1, **args}
    own = done("sum", "COMM", "comm", second_ms, 9 - second_ms, **stated)
    return recorded([product, own, *arrow(1, "comp", second_ms, "comm", second_ms)], rank=rank)


def test_works_that_are_not_one_communication_are_each_rank_s_own(tmp_path: Path) -> None:
    own = [joint(7 - rank, rank, communication=rank) for rank in range(3)]
    assert chain(of(tmp_path, *own)) == ["2 product", "2 sum"]
    assert chain(of(tmp_path, joint(2, 0, communication=None), joint(7, 1)))[-1] == "1 sum"
    copies = [joint(2, 1), joint(7, 0)]
    for document in copies:
        for event in document["traceEvents"]:
            if event["name"] == "sum":
                event["cat"] = "gpu_memcpy"
    assert chain(of(tmp_path, *copies)) == ["1 product", "1 sum"]
    sums = [done("sum", "COMM", "comm", t, 1, communication=1) for t in (0, 8)]
    timeline = of(tmp_path, joint(2, 0), recorded(sums, rank=1))
    assert chain(timeline)[-1] == "1 sum"  # the last to end, of equals
    assert "0 product" not in chain(timeline)
    assert between_ranks(timeline) == []


def pipeline(rank: int, *works: Json, arrows: Sequence[Json] = ()) -> Json:
    """One rank of a schedule in which each rank has lanes, and so steps, of its own."""
    for place, work in enumerate(works):
        work["args"]["External id"] = 100 * rank + place
    return recorded([*works, *arrows], rank=rank)


def test_a_receive_waits_for_the_rank_that_sends_to_it(tmp_path: Path) -> None:
    # Two pairs communicate at once, by steps of one name, and then rank 1 sends on to rank 2.
    first, second, on = ({"communication": number} for number in (1, 3, 5))
    files = [
        pipeline(
            0,
            done("make", "COMP", "comp", 0, 2),
            done("send", "COMM", "out", 2, 1, **first),
            arrows=arrow(1, "comp", 2, "out", 2),
        ),
        pipeline(
            1,
            done("send", "COMM", "in", 0, 3, **first),
            done("use", "COMP", "comp", 3, 3),
            done("send", "COMM", "out", 6, 1, **on),
            arrows=[*arrow(1, "in", 3, "comp", 3), *arrow(2, "comp", 6, "out", 6)],
        ),
        pipeline(
            2,
            done("make", "COMP", "comp", 0, 1),
            done("send", "COMM", "out", 1, 1, **second),
            done("send", "COMM", "in", 2, 5, **on),
            done("use", "COMP", "comp", 7, 2),
            arrows=[*arrow(1, "comp", 1, "out", 1), *arrow(2, "in", 7, "comp", 7)],
        ),
        pipeline(3, done("send", "COMM", "in", 0, 2, **second)),
    ]
    timeline = of(tmp_path, *files)
    assert chain(timeline) == ["0 make", "0 send", "1 use", "1 send", "2 use"]
    assert between_ranks(timeline) == [
        ("0 out", "1 in", 2_000_000),
        ("1 out", "2 in", 6_000_000),
        ("2 out", "3 in", 1_000_000),
    ]
    assert path_parts(timeline) == {Class.COMP: 7_000_000, Class.COMM: 2_000_000, None: 0}


def between_ranks(timeline: Timeline) -> list[tuple[str, str, int]]:
    """Return the arrows between the parts of communications, by their targets, and when."""
    links = [link for link in timeline.links if link.in_communication]
    assert all(link.leaves_ns == link.reaches_ns for link in links)
    return [
        (
            f"{link.source.lane.rank} {link.source.lane.name}",
            f"{link.target.lane.rank} {link.target.lane.name}",
            link.reaches_ns,
        )
        for link in links
    ]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_collective_waits_for_the_last_rank_to_come(tmp_path: Path, ranks: int) -> None:
    for last in range(ranks):
        came_ms = [8.0 if rank == last else 2.0 + rank for rank in range(ranks)]
        files = [joint(ms, rank, communication=7) for rank, ms in enumerate(came_ms)]
        timeline = of(tmp_path, *files)
        assert chain(timeline) == [f"{last} product", f"{last} sum"]
        assert path_parts(timeline) == {Class.COMP: 8_000_000, Class.COMM: 1_000_000, None: 0}
        others = [rank for rank in range(ranks) if rank != last]
        assert between_ranks(timeline) == [
            (f"{last} comm", f"{rank} comm", 8_000_000) for rank in others
        ]


def test_ranks_that_come_within_a_hand_over_have_not_waited(tmp_path: Path) -> None:
    for late_ms, waited in ((0.01, []), (0.011, [("1 comm", "0 comm", 2_011_000)])):
        files = [joint(ms, rank, communication=7) for rank, ms in enumerate((2, 2 + late_ms))]
        assert between_ranks(of(tmp_path, *files)) == waited


def test_a_send_that_was_over_did_not_wait_for_its_receiver(tmp_path: Path) -> None:
    send = [done("send", "COMM", "comm", 0, 1), done("next", "COMP", "comp", 1, 8)]
    ranks = [*send, *arrow(1, "comm", 1, "comp", 1)], [done("send", "COMM", "comm", 5, 1)]
    files = [recorded(events, rank=rank) for rank, events in enumerate(ranks)]
    assert chain(of(tmp_path, *files)) == ["0 send", "0 next"]


def test_parts_of_the_path_at_one_time_are_counted_once(tmp_path: Path) -> None:
    first = [
        done("make", "COMP", "comp", 0, 2),
        done("send", "COMM", "comm", 2, 2, communication=1),
    ]
    second = [
        done("send", "COMM", "comm", 0, 3, communication=1),
        done("use", "COMP", "comp", 3, 3),
    ]
    ranks = [*first, *arrow(1, "comp", 2, "comm", 2)], [*second, *arrow(1, "comm", 3, "comp", 3)]
    files = [recorded(events, rank=rank) for rank, events in enumerate(ranks)]
    timeline = of(tmp_path, *files)
    assert chain(timeline) == ["0 make", "0 send", "1 use"]
    assert path_parts(timeline) == {Class.COMP: 4_000_000, Class.COMM: 2_000_000, None: 0}


def test_communications_are_matched_in_their_order(tmp_path: Path) -> None:
    def sends(rank: int, times: Sequence[tuple[float, float]]) -> Json:
        works = [done("send", "COMM", "comm", *time, communication=1) for time in times]
        return recorded([done("make", "COMP", "comp", 0, 1), *works], rank=rank)

    # Rank 1's first overlaps rank 0's second, which did not hold it up.
    ranks = sends(0, [(1, 1), (2, 4)]), sends(1, [(1.5, 3), (4.5, 3)])
    assert chain(of(tmp_path, *ranks)) == ["1 send", "1 send"]


def test_only_the_sample_is_drawn(tmp_path: Path) -> None:
    timeline = of(tmp_path, recorded(STEP, backend="cuda"))
    assert (timeline.row, timeline.window, timeline.backend) == (ROW, "sample 0", "cuda")
    assert (timeline.total_ns, timeline.length_ns, timeline.ranks) == (7_750_000, 7_750_000, 1)
    assert [lane.name for lane in timeline.lanes] == ["comm", "comp"]  # not that of the fork
    drawn = [
        (bar.lane.name, bar.span.kind.value, bar.begin_ns, bar.end_ns) for bar in timeline.bars
    ]
    assert drawn == [
        ("comm", "WAIT", 0, 2_000_000),  # that for the gate was before
        ("comm", "COMM", 2_500_000, 6_500_000),
        ("comp", "COMP", 0, 2_000_000),
        ("comp", "COMP", 2_000_000, 3_000_000),
        ("comp", "WAIT", 3_000_000, 6_500_000),
        ("comp", "COMP", 6_750_000, 7_750_000),
    ]
    (breakdown,) = timeline.breakdowns
    assert breakdown.total_ns == 7_750_000
    assert traces.percent(breakdown)["COMM"] == 45.2


def test_works_at_the_edges_are_cut_and_say_when_they_began(tmp_path: Path) -> None:
    events = [kernel_of(GEMM, 5, 20), kernel_of(NCCL, 22, 0, 20), kernel_of(COPY, 40, 30, 9)]
    events += [kernel_of(NCCL, 15, 0, 20), kernel_of(NCCL, 14, 1, 20), kernel_of(NCCL, 45, 1, 20)]
    events += [traces.event("gpu_user_annotation", "forward", 15, 30)]
    path = str(traces.write(tmp_path / "a.json", kineto(events)))
    timeline = make_timeline(read_traces([path], Rules()), pattern="forward")
    assert [lane.name for lane in timeline.lanes] == ["stream 7", "stream 9", "stream 20"]
    bars = [(b.since_ns, b.begin_ns, b.end_ns, b.busy_ns) for b in timeline.bars]
    assert bars == [
        (-10_000, 0, 10_000, 20_000),
        (25_000, 25_000, 30_000, 30_000),
        (0, 0, 0, 0),
        (7_000, 7_000, 7_000, 0),
    ]


def lengths(*lengths_ms: float, rank: int = 0) -> Json:
    samples = [[done("comp", "COMP", "COMP", 0, length)] for length in lengths_ms]
    return recorded(*samples, rank=rank)


def test_the_sample_of_median_length_is_drawn(tmp_path: Path) -> None:
    three = of(tmp_path, lengths(4, 9, 5))
    assert (three.window, three.total_ns) == ("sample 2, the median of 3", 5_000_000)
    two = of(tmp_path, lengths(5, 4))
    assert (two.window, two.total_ns) == ("sample 1, the median of 2", 4_000_000)
    # A sample is as long as on the rank where it takes longest.
    ranks = of(tmp_path, lengths(4, 9, 5), lengths(12, 1, 5, rank=1))
    assert (ranks.window, ranks.total_ns) == ("sample 1, the median of 3", 9_000_000)
    chosen = of(tmp_path, lengths(4, 9, 5), step=1)
    assert (chosen.window, chosen.total_ns) == ("sample 1", 9_000_000)
    with pytest.raises(ResultError, match=r"no step 7: the steps are 0$"):
        of(tmp_path, lengths(4), step=7)


def test_ranks_without_a_clock_in_common_begin_at_0(tmp_path: Path) -> None:
    ranks = [
        kineto([kernel_of(GEMM, ts, 10), step(3, ts, 10), step(4 + rank, ts + 20, 5)], rank, None)
        for rank, ts in enumerate((0, 5000))
    ]
    timeline = of(tmp_path, *ranks)
    assert (timeline.window, timeline.length_ns, timeline.row) == (
        "ProfilerStep#3",
        20_000,
        "0.json to 1.json",
    )
    assert timeline.notes == [
        "The ranks' files share no clock: each rank begins at 0.",
        "The trace records no dependencies, so there is no longest path.",
    ]
    assert timeline.path == []
    for document in ranks:
        document["baseTimeNanoseconds"] = 10**18
    assert of(tmp_path, *ranks).length_ns == 5_020_000
    apart = [kineto([kernel_of(GEMM, 0, 10), step(3 + rank, 0, 10)], rank) for rank in range(2)]
    with pytest.raises(ResultError, match=r"0.json: the ranks have no step in common$"):
        of(tmp_path, *apart)


def test_streams_of_nsys_are_lanes(tmp_path: Path) -> None:
    path = traces.nsys(tmp_path / "r.sqlite", [kernel(1, 0, 30), kernel(2, 20, 50, stream=20)])
    timeline = make_timeline(read_traces([str(path)], Rules()))
    assert [(bar.lane.name, bar.span.kind.value) for bar in timeline.bars] == [
        ("stream 7", "COMP"),
        ("stream 20", "COMM"),
    ]
    assert (timeline.window, timeline.total_ns, timeline.row) == ("the whole trace", 50, "r.sqlite")


def test_a_window_without_work_is_refused(tmp_path: Path) -> None:
    events = [kernel_of(GEMM, 0, 1), traces.event("user_annotation", "idle", 5, 1)]
    path = str(traces.write(tmp_path / "a.json", kineto(events)))
    with pytest.raises(ResultError, match=r"a.json: idle: no device work$"):
        make_timeline(read_traces([path], Rules()), pattern="idle")


def test_of_many_rows_the_first_are_drawn_and_the_others_named(tmp_path: Path) -> None:
    for place in range(MOST_ROWS + 2):
        document = recorded([done("c", "COMP", "C", 0, 1)], row=f"Row/{place:02}")
        traces.write(tmp_path / f"{place:02}.json", document)
    timelines, left_out = make_timelines(read_rows([str(tmp_path)], Rules()))
    assert [one.row for one in timelines] == [f"Row/{place:02}" for place in range(MOST_ROWS)]
    assert left_out == ["Row/12", "Row/13"]


def test_a_step_on_two_streams_waits_as_a_whole_and_ends_with_the_later(tmp_path: Path) -> None:
    document = recorded(STEP)
    events = document["traceEvents"]
    for event in events:
        if event["name"] in ("one", "two", "sum", "three"):
            event["args"]["External id"] = ("one", "two", "sum", "three").index(event["name"])
    (longer,) = [event for event in events if event["name"] == "sum"]
    events.append(longer | {"tid": 9})
    longer["dur"] = 3000.0
    track = {"ph": "M", "name": "thread_name", "pid": 0, "tid": 9}
    events.append(track | {"args": {"name": "comm, stream 4"}})
    timeline = of(tmp_path, document)
    assert [lane.name for lane in timeline.lanes] == ["comm", "comm, stream 4", "comp"]
    assert [(bar.lane.name, bar.span.step) for bar in timeline.path] == [
        ("comp", "one"),
        ("comm, stream 4", "sum"),
        ("comp", "three"),
    ]
    longer |= {"dur": 4000.0}
    events[-2] |= {"ts": longer["ts"] + 100, "dur": 1000.0}  # the second stream ends first
    timeline = of(tmp_path, document)
    assert [bar.lane.name for bar in timeline.path] == ["comp", "comm", "comp"]
