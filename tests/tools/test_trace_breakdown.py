"""Breakdowns that are known by hand, and what holds for any: they add up, in any order."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import samples
import traces
from overlapbench.traces.breakdown import (
    MIXES,
    apportion,
    break_down,
    half_width,
    worst_of,
)
from overlapbench.traces.model import BUSY, Class
from traces import COPY, GEMM, NCCL, PEER, broken_down, call, ours, percent, work

_span = st.tuples(st.sampled_from(list(Class)), st.integers(0, 60), st.integers(1, 60)).map(
    lambda made: (made[0], made[1], made[1] + made[2])
)
_spans = st.lists(_span, min_size=1, max_size=10)
_ranks = st.lists(_spans, min_size=1, max_size=3)


def test_two_delays_on_two_streams(tmp_path: Path) -> None:
    events = [ours("COMP", 100, 4000), ours("COMM", 100, 2000)]
    one = broken_down(events, tmp_path / "trace.json")
    assert percent(one) == {"COMP": 50.0, "COMP+COMM": 50.0}
    assert one.total_ns == 4_000_000
    assert one.overlap_pct == 100


def test_two_delays_on_one_stream(tmp_path: Path) -> None:
    events = [ours("COMP", 100, 4000), ours("COMM", 4100, 2000)]
    one = broken_down(events, tmp_path / "trace.json")
    assert percent(one) == {"COMP": 66.7, "COMM": 33.3}
    assert one.overlap_pct == 0


def test_every_mix_is_told_apart(tmp_path: Path) -> None:
    events = [work(GEMM, 0, 4, 1), work(NCCL, 2, 4, 2), work(COPY, 3, 2, 3), work(COPY, 7, 1, 3)]
    events += [work(GEMM, 8, 1, 1), work(COPY, 8, 1, 3)]
    one = broken_down(events, tmp_path / "trace.json")
    # 0-2 COMP, 2-3 both, 3-4 all, 4-5 COMM and MEM, 5-6 COMM, 6-7 idle, 7-8 MEM, 8-9 COMP and MEM
    assert one.parts_ns == dict.fromkeys(one.parts_ns, 0) | {
        (Class.COMP,): 2000,
        (Class.COMM,): 1000,
        (Class.MEM,): 1000,
        (Class.COMP, Class.COMM): 1000,
        (Class.COMP, Class.MEM): 1000,
        (Class.COMM, Class.MEM): 1000,
        (Class.COMP, Class.COMM, Class.MEM): 1000,
        "unknown": 1000,
    }
    assert one.overlap_pct == 50
    assert sum(percent(one).values()) == pytest.approx(100)


def test_tools_that_go_by_names_miss_copies_and_kernels_of_other_libraries(tmp_path: Path) -> None:
    events = [work(GEMM, 0, 10, 1), work(PEER, 0, 4, 2), work("one_shot_all_reduce", 10, 4, 1)]
    events += [work(NCCL, 14, 2, 1), work(PEER, 16, 1, 1), work(COPY, 17, 1, 1)]
    one = broken_down(events, tmp_path / "trace.json")
    assert one.overlap_pct == pytest.approx(100 * 4 / 11)
    assert one.named_overlap_pct == 0
    assert [(d.name, d.kind, d.named, d.count, d.total_ns) for d in one.differences] == [
        (PEER, "COMM", "MEM", 2, 5000),
        ("one_shot_all_reduce", "COMM", "COMP", 1, 4000),
    ]


def test_work_outside_the_window_is_not_counted(tmp_path: Path) -> None:
    events = [
        *(work(name, 10 * i, 10, 1, correlation=i) for i, name in enumerate([PEER, GEMM, PEER])),
        *(call(i, 0.5, i) for i in range(3)),
        traces.step(0, 0, 1),
        traces.step(1, 1, 1),
        traces.step(2, 2, 1),
    ]
    one = broken_down(events, tmp_path / "trace.json", step=1)
    assert (one.window, percent(one), one.overlap_pct) == ("ProfilerStep#1", {"COMP": 100.0}, None)
    assert one.differences == []


def _steps(comp_us: Sequence[float]) -> list[dict[str, Any]]:
    """Steps of 10 µs, each with computation at its begin and a communication of 1 µs at its end."""
    events = []
    for i, busy in enumerate(comp_us):
        events += [work(GEMM, 10 * i, busy, 1, correlation=2 * i), call(i, 0.1, 2 * i)]
        events += [work(NCCL, 10 * i + 9, 1, 2, correlation=2 * i + 1)]
        events += [call(i + 0.2, 0.1, 2 * i + 1), traces.step(i, i, 0.9)]
    return events


def test_shares_of_several_windows_have_a_margin(tmp_path: Path) -> None:
    """By hand: 50 % on average, a standard deviation of 10.95 points, and t(5) = 2.571."""
    one = broken_down(_steps([4, 6, 4, 6, 4, 6]), tmp_path / "trace.json")
    assert percent(one)["COMP"] == 50
    assert one.margin_pct([(Class.COMP,)]) == pytest.approx(2.571 * 10.954 / 6**0.5, rel=1e-3)
    assert one.margin_pct([(Class.COMM,)]) == 0
    assert one.margin_pct([(Class.COMP,), (Class.COMM,)]) == one.margin_pct([(Class.COMP,)])
    few = broken_down(_steps([4, 6, 4, 6, 4]), tmp_path / "few.json")
    assert few.margin_pct([(Class.COMP,)]) is None


def test_margins_need_no_package_of_charts(tmp_path: Path) -> None:
    read = (
        "import sys; sys.modules |= dict.fromkeys(('altair', 'orjson', 'scipy'));"
        "from overlapbench.cli.trace import main; sys.exit(main())"
    )
    trace = traces.write(tmp_path / "trace.json", traces.kineto(_steps([4, 6, 4, 6, 4, 6])))
    command = [sys.executable, "-c", read, str(trace)]
    run = subprocess.run(command, cwd=samples.TOOLS, check=True, stdout=subprocess.PIPE, text=True)
    assert "±  11.5" in run.stdout


@given(st.lists(st.integers(1, 99), min_size=6, max_size=30), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_margins_do_not_depend_on_units_or_other_parts(parts: list[int], factor: int) -> None:
    wholes = [100] * len(parts)
    margin = half_width(parts, wholes)
    assert margin is not None
    assert half_width([100 - part for part in parts], wholes) == pytest.approx(margin)
    scaled = half_width([factor * p for p in parts], [factor * w for w in wholes])
    assert scaled == pytest.approx(margin)
    assert (margin < 1e-12) == (len(set(parts)) == 1)
    assert half_width([0] * len(parts), [0] * len(parts)) is None


@given(_spans)
@settings(max_examples=200, deadline=None)
def test_shares_are_those_of_counting_every_nanosecond(
    spans: list[tuple[Class, int, int]],
) -> None:
    (one,) = break_down([traces.trace(spans)])
    begin, end = min(b for _, b, _ in spans), max(e for _, _, e in spans)
    counts = traces.brute(spans, begin, end)
    assert {frozenset(mix): one.parts_ns[mix] for mix in MIXES} == {
        frozenset(mix): counts.get(frozenset(mix), 0) for mix in MIXES
    }
    idle = sum(ns for part, ns in one.parts_ns.items() if part not in MIXES)
    assert idle == counts.get(frozenset(), 0)
    comm = sum(ns for mix, ns in counts.items() if Class.COMM in mix)
    both = sum(ns for mix, ns in counts.items() if {Class.COMM, Class.COMP} <= mix)
    assert one.overlap_pct == (100 * both / comm if comm else None)


@given(_ranks, st.booleans(), st.randoms())
@settings(max_examples=200, deadline=None)
def test_shares_add_up_in_any_order(
    ranks: list[list[tuple[Class, int, int]]], launched: bool, random: st.DataObject
) -> None:
    made = [traces.trace(spans, rank, launched) for rank, spans in enumerate(ranks)]
    found = break_down(made)
    for spans, one in zip(ranks, found, strict=True):
        assert one.total_ns == max(e for _, _, e in spans) - min(b for _, b, _ in spans)
        assert sum(one.tenths.values()) == 1000
        assert all(
            abs(n - 1000 * one.parts_ns[p] / one.total_ns) < 1 for p, n in one.tenths.items()
        )
    for spans in ranks:
        random.shuffle(spans)  # type: ignore[attr-defined]
    again = break_down([traces.trace(s, rank, launched) for rank, s in enumerate(ranks)][::-1])
    assert [one.parts_ns for one in again[::-1]] == [one.parts_ns for one in found]
    assert worst_of(again).rank == worst_of(found).rank


@given(st.lists(st.integers(0, 10**18), min_size=1, max_size=12).filter(any), st.integers(1, 1000))
def test_units_are_shared_out_whole(parts: list[int], units: int) -> None:
    shares = apportion(parts, units)
    assert sum(shares) == units
    total = sum(parts)
    assert all(abs(s * total - p * units) < total for s, p in zip(shares, parts, strict=True))
    assert all(not s for s, p in zip(shares, parts, strict=True) if not p)


def test_the_worst_rank_computes_the_smallest_share() -> None:
    spans = {0: 9, 1: 5, 2: 5}
    made = [traces.trace([(Class.COMP, 0, n), (Class.COMM, 0, 10)], r) for r, n in spans.items()]
    assert worst_of(break_down(made)).rank == 1
    assert {kind for mix in MIXES for kind in mix} == set(BUSY)


def test_a_fused_kernel_computes_and_communicates() -> None:
    kinds = (Class.FUSED, Class.COMP, Class.COMM, Class.MEM)
    one = traces.trace([(kind, 10 * place, 10 * place + 10) for place, kind in enumerate(kinds)])
    assert [one.of(kind) for kind in kinds] == [
        ((0, 10),),
        ((0, 20),),
        ((0, 10), (20, 30)),
        ((30, 40),),
    ]
