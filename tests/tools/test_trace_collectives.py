"""Communication divided into waiting for the last rank and moving data; two traces compared."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from overlapbench.cli import trace
from overlapbench.traces.breakdown import Breakdown, break_down
from overlapbench.traces.collectives import Waiting
from overlapbench.traces.files import read_traces
from overlapbench.traces.intervals import union
from overlapbench.traces.model import Class, Span, Trace
from overlapbench.traces.rules import Rules
from traces import GEMM, NCCL, Json, done, kineto, recorded, step, work

GATHER = "ncclDevKernel_AllGather_RING_LL(args)"
US = 1000
Times = Sequence[tuple[float, float]]  # begin and end in microseconds


def collective(
    begin: float, end: float, name: str = NCCL, stream: int = 20, group: str = ""
) -> Json:
    stated = {"Process Group Name": group, "Process Group Ranks": "[0, 1]"} if group else {}
    return work(name, begin, end - begin, stream, **stated)


def run(folder: Path, *ranks: Sequence[Json], base: int | None = 10**18) -> list[Breakdown]:
    for rank, events in enumerate(ranks):
        traces.write(folder / f"rank{rank}.json", kineto(events, rank, base))
    files = [str(folder / f"rank{rank}.json") for rank in range(len(ranks))]
    return break_down(read_traces(files, Rules()))


def in_us(one: Breakdown) -> tuple[float, ...]:
    """Return all, waiting, moving; then how often it was last, and for how long others waited."""
    found = one.waiting
    assert found
    times = (found.total_ns, found.waiting_ns, found.moving_ns)
    return (*(ns / US for ns in times), found.last, found.awaited_ns / US)


def counted(one: Breakdown) -> int:
    assert one.waiting
    return one.waiting.collectives


@pytest.mark.parametrize(("base", "at"), [(10**18, 0), (None, 1615207264505000)])
def test_a_collective_waits_for_the_last_rank(base: int | None, at: float, tmp_path: Path) -> None:
    early = [collective(at + 10, at + 100), collective(at + 200, at + 250)]
    late = [collective(at + 90, at + 100), collective(at + 190, at + 250)]
    middle = [collective(at + 50, at + 100), collective(at + 230, at + 250)]
    first, second, third = run(tmp_path, early, late, middle, base=base)
    assert in_us(first) == (140, 80 + 30, 10 + 20, 0, 0)
    assert in_us(second) == (70, 40, 30, 1, 80 + 40)
    assert in_us(third) == (70, 40, 30, 1, 30 + 40)
    assert counted(first) == 2


def test_without_a_common_clock_or_other_ranks_nothing_is_divided(tmp_path: Path) -> None:
    events = [collective(10, 100)]
    assert [one.waiting for one in run(tmp_path, events, events, base=None)] == [None, None]
    assert run(tmp_path, events)[0].waiting is None
    assert run(tmp_path, [work(GEMM, 1, 9)], [work(GEMM, 1, 9)])[0].waiting is None


def test_communicators_are_matched_each_for_itself(tmp_path: Path) -> None:
    """They may use one stream: what is at the same time need not be one collective."""
    first = [collective(0, 100, group="0"), collective(110, 150, group="1")]
    second = [collective(30, 100, group="1"), collective(120, 160, group="0")]
    assert run(tmp_path, first, second)[0].waiting is None
    second = [collective(30, 100, group="0"), collective(120, 160, group="1")]
    assert in_us(run(tmp_path, first, second)[0])[:3] == (140, 40, 100)


def test_streams_stand_for_communicators_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """The first waits from 0 to 60, but the second moves data from 20 to 40."""
    first = [collective(0, 100, stream=9), collective(20, 40, stream=24)]
    second = [collective(10, 40, stream=31), collective(60, 100, stream=22)]
    one, other = run(tmp_path, first, second)
    assert in_us(one) == (100, 40, 60, 1, 10)
    assert in_us(other) == (70, 10, 60, 1, 60)


def test_collectives_of_other_kinds_or_before_the_recording_are_passed_over(tmp_path: Path) -> None:
    first = [collective(0, 5), collective(10, 100), collective(110, 150, GATHER)]
    second = [collective(60, 100), collective(110, 150, GATHER)]
    one, other = run(tmp_path, first, second)
    assert in_us(one) == (5 + 90 + 40, 50, 40 + 40, 0, 0)
    assert in_us(other) == (80, 0, 80, 1, 50)
    shifted = [collective(0, 5), collective(10, 100)], [collective(60, 100), collective(120, 130)]
    one, other = run(tmp_path, *shifted)
    assert in_us(one)[:3] == (95, 50, 40)
    assert in_us(other)[:3] == (50, 0, 40)


def test_what_shares_no_moment_is_not_divided(tmp_path: Path) -> None:
    first = [collective(0, 10), collective(100, 150), collective(200, 210)]
    second = [collective(20, 30), collective(120, 150), collective(200, 210)]
    one, other = run(tmp_path, first, second)
    assert in_us(one) == (70, 20, 40, 0, 0)
    assert in_us(other) == (50, 0, 40, 1, 20)


def test_the_order_counts_unless_more_share_a_moment_otherwise(tmp_path: Path) -> None:
    """The second of each rank are one collective, although the first of a rank is nearer."""
    first = [collective(0, 10), collective(25, 60), collective(70, 80)]
    second = [collective(20, 30), collective(50, 60), collective(70, 80)]
    one, other = run(tmp_path, first, second)
    assert in_us(one) == (55, 25, 20, 0, 0)
    assert in_us(other) == (30, 0, 20, 1, 25)


def test_only_the_windows_count(tmp_path: Path) -> None:
    ranks = []
    for late in (0, 30):
        events = [step(1, 0, 1), step(2, 100, 1)]
        for number, ts in ((1, 0), (2, 100)):
            events += [traces.call(ts + 0.1, 0.1, number)]
            events += [work(NCCL, ts + 10 + late, 60 - late, 20, correlation=number)]
        ranks.append(events)
    for rank, events in enumerate(ranks):
        traces.write(tmp_path / f"rank{rank}.json", kineto(events, rank))
    both = read_traces([str(tmp_path)], Rules())
    first, second = break_down(both, step=2)
    assert in_us(first) == (60, 30, 30, 0, 0)
    assert (counted(first), in_us(second)[3:]) == (1, (1, 30))
    assert in_us(break_down(both)[1])[3:] == (2, 60)


def test_samples_of_our_own_state_their_communications(tmp_path: Path) -> None:
    for rank, late in ((0, 0.0), (1, 1.0)):
        made = [done("comm", "COMM", "comm", late, 4 - late, communication=7)]
        made += [done("comp", "COMP", "comp", 0, 4)]
        traces.write(tmp_path / f"row.rank{rank}.json", recorded(made, made, rank=rank))
    first, second = break_down(read_traces([str(tmp_path)], Rules()))
    assert in_us(first) == (8000, 2000, 6000, 0, 0)
    assert in_us(second) == (6000, 0, 6000, 2, 2000)


def test_samples_are_matched_each_for_itself(tmp_path: Path) -> None:
    for rank, samples in ((0, 2), (1, 1)):
        made = [done("comm", "COMM", "comm", rank, 4 - rank, communication=7)]
        document = recorded(*[made] * samples, rank=rank)
        traces.write(tmp_path / f"row.rank{rank}.json", document)
    first, _ = break_down(read_traces([str(tmp_path)], Rules()))
    assert in_us(first) == (8000, 1000, 3000, 0, 0)


def test_doubts_are_told(tmp_path: Path) -> None:
    stated = [[collective(late, 100, group="0")] for late in (0, 50)]
    assert run(tmp_path, *stated)[0].notes == ()
    unstated = [[collective(late, 100)] for late in (0, 50, 50)]
    assert run(tmp_path, *unstated)[0].notes[0].startswith("the traces state no communicators")


_ranks = st.lists(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=3, max_size=3),
    min_size=2,
    max_size=4,
)


@given(_ranks)
@settings(max_examples=100, deadline=None)
def test_the_parts_are_those_of_counting_every_nanosecond(
    ranks: list[list[tuple[int, int]]],
) -> None:
    """Collectives of equal ends, in sequence; a rank begins each some time before its end."""
    ends = [100 * number + 99 for number in range(3)]
    spans = [
        [Span(NCCL, Class.COMM, end - b, end, "20") for end, (b, _) in zip(ends, rank, strict=True)]
        for rank in ranks
    ]
    made = [Trace("made", n, tuple(one), common_clock=True) for n, one in enumerate(spans)]
    for rank, one in enumerate(break_down(made)):
        waits = [
            (spans[rank][n].begin_ns, max(other[n].begin_ns for other in spans)) for n in range(3)
        ]
        waiting = sum(end - begin for begin, end in union(waits))
        total = sum(span.end_ns - span.begin_ns for span in spans[rank])
        assert isinstance(one.waiting, Waiting)
        assert (one.waiting.waiting_ns, one.waiting.total_ns) == (waiting, total)
        assert one.waiting.waiting_ns + one.waiting.moving_ns == total


def test_the_late_rank_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, [collective(10, 100), work(GEMM, 0, 5)], [collective(90, 100), work(GEMM, 0, 80)])
    assert trace.main([str(tmp_path), "-o", str(tmp_path / "out.json")]) == 0
    told = capsys.readouterr().out
    assert "\n0     0.090    0.080   0.010      0.000  0 of 1        0.000\n" in told
    assert "Verdict: communication is exposed for 90.0 % of T on rank 0. Hiding all of it" in told
    assert "is the last in" not in told  # once may be chance
    assert "For 80.0 % of T it waits, in collectives, for the last rank to arrive." in told
    record = json.loads((tmp_path / "out.json").read_text())["ranks"][1]["communication"]
    assert record == {
        "ms": 0.01,
        "waiting_ms": 0,
        "moving_ms": 0.01,
        "collectives": 1,
        "last": 1,
        "others_waited_ms": 0.08,
    }


def test_two_traces_are_compared_in_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def steps(count: int, gemm_us: float, name: str) -> list[Json]:
        events = []
        for n in range(count):
            at = 1000 * n
            events += [step(n, at, 900), traces.call(at, 1, 2 * n), traces.call(at, 1, 2 * n + 1)]
            events += [work(GEMM, at + 10, gemm_us, 7, correlation=2 * n)]
            events += [work(name, at + 600, 200, 20, correlation=2 * n + 1)]
        return events

    old = traces.write(tmp_path / "old.json", kineto(steps(3, 500, NCCL)))
    new = traces.write(tmp_path / "new.json", kineto(steps(2, 400, NCCL)))
    out = tmp_path / "out.json"
    assert trace.main([str(new), "--compare", str(old), "-o", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "before: ProfilerStep#0 to ProfilerStep#2, 3 in all, 1 rank",
        "after: ProfilerStep#0 to ProfilerStep#1, 2 in all, 1 rank",
    ]
    found = {" ".join(line.split()[:-3]): line.split()[-3:] for line in lines[4:]}
    assert found["T"] == ["0.930", "0.895", "-0.035"]
    assert found["COMP only"] == ["0.500", "0.400", "-0.100"]
    assert found["COMM only"] == ["0.200", "0.200", "+0.000"]
    assert found[f"COMP {GEMM}"] == ["0.500", "0.400", "-0.100"]
    assert f"COMM {NCCL}" not in found  # unchanged
    changes = {one["name"]: one["change_ms"] for one in json.loads(out.read_text())["changes"]}
    assert changes["COMP only"] == pytest.approx(-0.1)
    assert trace.main([str(new), "--compare", str(tmp_path / "none.json")]) == 2
