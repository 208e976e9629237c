"""What judgements make of a row, and rows of a comparison, each by hand."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from overlapbench.judge import verdicts
from overlapbench.judge.judgements import Judgement, Verdict
from overlapbench.judge.side import Side
from overlapbench.judge.verdicts import OK, REGRESSION, UNDECIDED, Comparison, Row
from overlapbench.reading.counters import stored_table

FOUND = Judgement(
    "time", stored_table().counters["time"], base=2.0, new=2.2, change=math.log(1.1),
    reach=math.log(1.05), error=0.01, freedom=8.0, floor=0.05, floor_reason="", limit=0.2,
    detectable=(0.06, 0.07),
)  # fmt: skip
SIDE = Side(("a.json",), {}, stored_table(), {}, {}, np.zeros((0, 0)), ())


def judgement(change: float, **about: object) -> Judgement:
    """A judgement of a relative change."""
    return replace(FOUND, change=math.log1p(change), **about)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "verdict", "status"),
    [
        (judgement(0.1), Verdict.SLOWER, REGRESSION),
        (judgement(-0.1), Verdict.FASTER, OK),
        (judgement(0.04), Verdict.SAME, OK),  # below the floor
        (judgement(0.1, reach=0.1), Verdict.INCONCLUSIVE, OK),
        (judgement(0.21, reach=0.3), Verdict.INCONCLUSIVE, UNDECIDED),  # beyond the limit
        (judgement(0.19, reach=0.3), Verdict.INCONCLUSIVE, OK),
        (judgement(-0.3, reach=0.5), Verdict.INCONCLUSIVE, OK),
        (replace(FOUND, change=math.nan), Verdict.INVALID, UNDECIDED),
    ],
)
def test_a_judgements_verdict_and_status(one: Judgement, verdict: Verdict, status: int) -> None:
    assert (one.verdict, verdicts._fails(one)) == (verdict, status)
    assert verdict.decided == (verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME))


def test_a_finding_as_relative_figures() -> None:
    assert FOUND.relative == pytest.approx(0.1)
    assert FOUND.interval == pytest.approx((1.1 / 1.05 - 1, 1.1 * 1.05 - 1))
    rate = replace(FOUND, counter=stored_table().counters["busbw_GBps"])
    assert rate.relative == pytest.approx(1 / 1.1 - 1)
    assert rate.interval == pytest.approx((1 / (1.1 * 1.05) - 1, 1.05 / 1.1 - 1))
    assert not replace(FOUND, change=math.log1p(0.2)).beyond_limit
    assert judgement(0.2000001).beyond_limit


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (replace(FOUND, change=math.nan), "time: not in the new results"),
        (judgement(0.01), ""),
        (judgement(0.1), "time +10.0 %, floor 5.0 %"),
        (judgement(-0.25), "time -25.0 %, floor 5.0 %"),
        (
            judgement(0.1, reach=0.2),
            "time +10.0 %; a change beyond the limit of 20 % is not ruled out",
        ),
        (
            judgement(0.1, reach=math.inf),
            "time +10.0 %; the spread between runs is unknown: compare three or more per side",
        ),
    ],
)
def test_a_judgement_has_a_reason(one: Judgement, reason: str) -> None:
    assert verdicts._reason(one) == reason


def row(name: str, *judgements: Judgement, fails: int = OK, verdict: Verdict | None = None) -> Row:
    return Row(name, verdict or judgements[0].verdict, fails, "", (1, 1), judgements)


def compared(*rows: Row, **about: object) -> Comparison:
    return Comparison(SIDE, SIDE, rows, (), **about)  # type: ignore[arg-type]


def test_the_worst_finding_decides() -> None:
    worst = judgement(0.1)
    others = judgement(0.06), judgement(-0.1), judgement(0.01), judgement(0.1, reach=0.2)
    assert row("A", *others, worst).worst is worst
    gone = replace(FOUND, change=math.nan)
    assert row("A", gone, worst).worst is worst
    assert row("A", judgement(-0.1), gone).worst is gone
    assert Row("A", Verdict.NEW, OK, "", (0, 1)).worst is None


def test_failures_come_first_then_the_worst_verdict_the_largest_change_and_the_name() -> None:
    slower = [row(f"S{i}", judgement(0.1 * i), fails=REGRESSION) for i in (3, 2)]
    twin = replace(slower[1], name="S9")
    gone = Row("A", Verdict.MISSING, UNDECIDED, "", (1, 0))
    faster, same = row("B", judgement(-0.1)), row("A", judgement(0.0))
    ordered = sorted([same, faster, gone, twin, *slower[::-1]], key=verdicts._order)
    assert [r.name for r in ordered] == ["S3", "S2", "S9", "A", "B", "A"]
    assert ordered[3:] == [gone, faster, same]


@pytest.mark.parametrize(
    ("fails", "about", "status"),
    [
        ([OK, OK], {}, OK),
        ([OK, REGRESSION, UNDECIDED], {}, REGRESSION),
        ([OK, UNDECIDED], {}, UNDECIDED),
        ([OK] * 10, {"min_guarded": 1.0}, OK),
    ],
)
def test_the_status_is_that_of_the_worst_row(
    fails: list[int], about: Mapping[str, object], status: int
) -> None:
    found = compared(*(row("A", judgement(0.0), fails=one) for one in fails), **about)
    assert (found.status, found.ok) == (status, status == OK)


def test_a_doubt_on_either_side_and_too_few_guarded_rows_are_inconclusive() -> None:
    good, unclear = row("A", judgement(0.0)), row("B", judgement(0.0, reach=1.0))
    doubted = replace(SIDE, doubts=("ended early",))
    for sides in ((doubted, SIDE), (SIDE, doubted)):
        assert Comparison(*sides, (good,), ()).status == UNDECIDED
    assert compared(unclear).status == UNDECIDED  # nothing was decided
    assert compared(good, unclear).status == OK
    rows = [good] * 9 + [unclear]
    assert (compared(*rows, min_guarded=0.9).blind, compared(*rows, min_guarded=0.9).status) == (
        False,
        OK,
    )
    assert compared(*rows, min_guarded=0.91).blind
    assert compared(*rows, min_guarded=0.91).status == UNDECIDED


def test_a_comparison_counts_and_averages() -> None:
    other = judgement(1.0, metric="busbw_GBps", detectable=(0.5, 0.01))
    rows = (
        row("A", judgement(0.21), other),
        row("B", judgement(0.0)),
        row("C", judgement(0.0, reach=1.0)),
    )
    found = compared(*rows, replace(rows[2], name="D", runs=(1, 0), judgements=()))
    assert found.geometric_mean == pytest.approx(1.21 ** (1 / 3))
    assert found.matched == 3
    assert found.guarded == rows[:2]
    assert found.detectable == (0.5, 0.07)
    counts = {verdict.value: n for verdict, n in found.counts.items() if n}
    assert counts == {"slower": 1, "same": 1, "inconclusive": 2}
    assert math.isnan(compared().geometric_mean)
    assert compared(rows[2]).detectable == ()


def test_what_is_only_shown_is_a_geometric_mean() -> None:
    assert verdicts._typical(np.array([1.0, 4.0, math.nan, 0.0])) == pytest.approx(2.0)
    assert math.isnan(verdicts._typical(np.array([math.nan, 0.0])))


def test_the_documents_explain_every_verdict_from_worst_to_best() -> None:
    document = Path(__file__).parents[2] / "docs/comparing.md"
    table = document.read_text(encoding="utf-8").partition("| Verdict | Meaning |")[2]
    explained = re.findall(r"^\| `(\w+)` \| \S.* \| \d.* \|$", table.partition("\n\n")[0], re.M)
    assert explained == [verdict.value for verdict in Verdict]
