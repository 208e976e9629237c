"""Findings of traces: the verdict on exposed communication, the last rank, and patterns."""

import dataclasses
from collections.abc import Sequence

import pytest

import traces
from overlapbench.findings import steps
from overlapbench.findings.finding import Finding, Saving
from overlapbench.traces.breakdown import MIXES, PARTS, Breakdown, break_down
from overlapbench.traces.collectives import Waiting
from overlapbench.traces.model import Class
from overlapbench.traces.patterns import Shown


def test_the_verdict_is_what_the_slowest_rank_could_save() -> None:
    one, other = traces_of(
        [(0, 10**8, Class.COMP), (10**8, 15 * 10**7, Class.COMM)],
        [(0, 14 * 10**7, Class.COMP), (14 * 10**7, 16 * 10**7, Class.COMM)],
    )
    assert steps.verdict([one, other]) == (
        "Verdict: communication is exposed for 33.3 % of T on rank 0."
        " Hiding all of it saves at most 12.5 % (20.000 ms)."
    )
    assert steps.verdict([other]) == (
        "Verdict: communication is exposed for 12.5 % of T."
        " Hiding all of it saves at most 12.5 % (20.000 ms)."
    )
    hidden = traces_of([(0, 100, Class.COMP), (50, 100, Class.COMM)])
    assert steps.verdict(hidden).startswith("Verdict: communication is exposed for 0.0 % of T. ")
    copies = traces_of([(0, 50, Class.MEM), (20, 100, Class.COMM)])  # a copy hides nothing
    assert steps.verdict(copies).startswith("Verdict: communication is exposed for 80.0 % of T. ")
    assert steps.verdict(traces_of([(0, 100, Class.COMP)])) == ""


def test_the_share_of_several_windows_has_a_margin() -> None:
    (one,) = traces_of([(0, 50, Class.COMP), (50, 100, Class.COMM)])
    each = [dict.fromkeys(PARTS, 0) | {MIXES[0]: 50 + n, MIXES[1]: 50 - n} for n in range(-4, 4)]
    total = {part: sum(window[part] for window in each) for part in PARTS}
    several = dataclasses.replace(one, parts_ns=total, each_ns=each)
    assert steps.verdict([several]).startswith(
        "Verdict: communication is exposed for 50.5 ±2.0 % of T. "
    )


def traces_of(*ranks: Sequence[tuple[int, int, Class]]) -> list[Breakdown]:
    return break_down(
        [traces.trace([(kind, b, e) for b, e, kind in one], n) for n, one in enumerate(ranks)]
    )


def test_a_pattern_is_a_finding_of_the_rank_that_computes_least() -> None:
    (one,) = traces_of([(0, 100, Class.COMP)])
    shown = Shown("many short kernels", 30, 30.04, "Fuse them.")
    share = Saving(0.3, 0.3, 0.3, at_most=True)
    sentence = "many short kernels: 30.0 % of T"
    assert steps.find([dataclasses.replace(one, rank=3, patterns=[shown])]) == [
        Finding("many short kernels", sentence, "rank 3", "Fuse them.", share)
    ]


@pytest.mark.parametrize(("last", "found"), [(40, True), (26, False), (0, False)])
def test_the_last_rank_is_told_if_it_is_no_chance(last: int, found: bool) -> None:
    ranks = traces_of(*2 * [[(0, 100_000, Class.COMP), (100_000, 200_000, Class.COMM)]])
    first = Waiting(100_000, 90_000, 10_000, 48, 48 - last, 1000)
    late = Waiting(100_000, 1000, 99_000, 48, last, 90_000)
    ranks = [dataclasses.replace(r, waiting=w) for r, w in zip(ranks, (first, late), strict=True)]
    told = [one for one in steps.find(ranks) if one.rule == "last rank"]
    assert bool(told) is found
    if found:
        share = 0.45  # of rank 0, whose waiting is 90 of 200 us
        assert told == [
            Finding(
                "last rank",
                "Rank 1 is the last in 40 of 48 collectives (70 to 91 %): the others wait for it"
                " for 0.090 of 0.091 ms in all",
                "waiting in collectives is up to 45.0 % of T on another rank",
                "See what rank 1 does before: its idle time, its load, its clocks.",
                Saving(share, share, share, at_most=True),
                "rank 1",
            )
        ]
    assert steps.find(ranks[1:]) == steps.find(
        [ranks[0], dataclasses.replace(ranks[1], waiting=None)]
    )
