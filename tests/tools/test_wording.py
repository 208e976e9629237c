"""How figures, changes and intervals of a comparison are written, and what its sentences say."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from overlapbench.judge import wording
from overlapbench.judge.judgements import Judgement, Verdict
from overlapbench.judge.side import Side, figure_of, natural
from overlapbench.judge.verdicts import Comparison, Row
from overlapbench.reading.counters import Counter, stored_table

TIME, RATE = (stored_table().counters[name] for name in ("time", "busbw_GBps"))
FOUND = Judgement(
    "time", TIME, base=2.0, new=2.2, change=math.log(1.1), reach=math.log(1.05), error=0.01,
    freedom=8.0, floor=0.05, floor_reason="the spread of runs", detectable=(0.06, 0.07),
    limit=0.1,
)  # fmt: skip
SAME = replace(FOUND, new=2.0, change=0.0, floor=0.02, detectable=(0.04, 0.09))
UNCLEAR = replace(FOUND, change=math.log(1.04), reach=0.2)


@pytest.mark.parametrize(
    ("change", "text"),
    [(0.1234, "+12.3 %"), (-0.05, "-5.0 %"), (0.0, "+0.0 %"), (20.0, "+2000.0 %"), (math.nan, "")],
)
def test_a_change_has_a_sign_and_a_decimal(change: float, text: str) -> None:
    assert wording.percent(change) == text


@pytest.mark.parametrize(
    ("change", "text"),
    [(9.99, "+999.0 %"), (10.0, "+1000 %"), (9999.0, "+999900 %"), (10_000.0, "+1e+06 %")],
)
def test_a_vast_change_is_short(change: float, text: str) -> None:
    assert wording.cells(replace(FOUND, change=math.log1p(change)))[3] == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "+4.8 to +15.5 %"),
        ({"counter": RATE}, "-13.4 to -4.5 %"),
        ({"change": math.log(1.9), "reach": math.log(1.0625)}, "+78.8 to +102 %"),
        ({"change": math.log(2.0), "reach": 0.0}, "+100 to +100 %"),
        ({"change": math.log(11), "reach": math.log(1.01)}, "+989 to >1000 %"),
        ({"change": math.log(1.5), "reach": math.log(20)}, "-92.5 to >1000 %"),
        ({"reach": math.inf}, "unknown"),
        ({"change": math.nan}, ""),
    ],
)
def test_an_interval_is_written_low_end_first(changes: dict[str, float], text: str) -> None:
    assert wording.interval(replace(FOUND, **changes)) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("floor", "text"),
    [(0.05, "5.0 %"), (9.99, "999.0 %"), (10.0, "vast"), (20.0, "vast"), (math.inf, "unknown")],
)
def test_a_finding_in_cells(floor: float, text: str) -> None:
    cells = wording.cells(replace(FOUND, floor=floor))
    assert cells == ("time ms", "2.000", "2.200", "+10.0 %", "+4.8 to +15.5 %", text)


def test_the_changes_that_are_found_have_their_probability() -> None:
    assert wording.power((0.06, 10.0)) == "6.0 % in 80 %, >1000 % in 95 % of cases or more"
    assert wording.power((0.06, math.inf)).startswith("6.0 % in 80 %, unknown in 95 %")


@pytest.mark.parametrize("counter", [TIME, RATE])
def test_what_is_gone_has_no_figure_and_no_change(counter: Counter) -> None:
    gone = replace(FOUND, counter=counter, new=math.nan, change=math.nan, reach=math.inf)
    assert wording.cells(gone)[2:5] == ("", "", "")
    assert all(math.isnan(found) for found in (figure_of(counter, math.nan), gone.relative))
    assert natural(counter, math.inf) > 1e300 or natural(counter, -math.inf) > 1e300


def row(name: str, *judgements: Judgement, reason: str = "") -> Row:
    return Row(name, judgements[0].verdict, 0, reason, (5, 5), judgements)


def compared(*rows: Row, runs: int = 5, **about: object) -> Comparison:
    sources = tuple(f"{i}.json" for i in range(runs))
    side = Side(sources, {}, stored_table(), {}, {}, np.zeros((0, 0)), ())
    return Comparison(side, side, rows, (), **about)  # type: ignore[arg-type]


def test_unchanged_rows_are_left_out_unless_they_have_a_reason_or_all_are_wanted() -> None:
    rows = row("A", FOUND), row("B", SAME), row("C", SAME, reason="in base: noisy")
    assert [r.name for r in wording.listed(compared(*rows))] == ["A", "C"]
    assert [r.name for r in wording.listed(compared(*rows), every=True)] == ["A", "B", "C"]


def test_a_row_shows_its_changed_findings_or_else_all() -> None:
    assert wording.shown(row("A", FOUND, SAME)) == [FOUND]
    assert wording.shown(row("A", FOUND, SAME), every=True) == [FOUND, SAME]
    assert wording.shown(row("A", SAME, SAME)) == [SAME, SAME]


def test_a_row_is_named_once_and_has_a_line_without_findings() -> None:
    gone = Row("B", Verdict.MISSING, 3, "gone", (5, 0))
    lines = list(wording.lines(compared(row("A", FOUND, UNCLEAR, reason="why"), gone)))
    assert [line[:3] for line in lines] == [
        ("slower", "A", "why"),
        ("", "", ""),
        ("missing", "B", "gone"),
    ]
    assert [line[3:] for line in lines] == [
        wording.cells(FOUND),
        wording.cells(UNCLEAR),
        ("",) * 6,
    ]


@pytest.mark.parametrize(
    ("comparison", "sentences"),
    [
        (
            compared(row("A", FOUND), row("B", SAME), min_guarded=1.0),
            [
                "2 benchmarks: 1 slower, 1 same",
                "guards 2 of 2 rows; found in any of them: 6.0 % in 80 %, 9.0 % in 95 % of cases"
                " or more",
                "geometric mean of the times, new / base: 1.0488",
            ],
        ),
        (
            compared(row("A", UNCLEAR), min_guarded=0.9),
            [
                "1 benchmark: 1 inconclusive",
                "nothing was decided: no row can be judged, or all are inconclusive",
                "guards 0 of 1 rows",
                "guards too little: at least 90 % are required",
                "geometric mean of the times, new / base: 1.0400",
            ],
        ),
        (
            compared(Row("A", Verdict.NEW, 0, "", (0, 1)), runs=1),
            [
                "1 benchmark: 1 new",
                "nothing matched: no benchmark is in both",
                "guards 0 of 1 rows",
                "one run per side: 5 per side detect smaller changes",
            ],
        ),
    ],
)
def test_a_comparison_in_sentences(comparison: Comparison, sentences: Sequence[str]) -> None:
    assert wording.summary(comparison) == sentences


def test_doubts_copies_and_differences_are_told() -> None:
    plain = compared(row("A", FOUND))
    base, new = (replace(plain.base, doubts=(f"doubt {i}",), copies=(f"copy {i}",)) for i in (1, 2))
    told = wording.summary(replace(plain, base=base, new=new, differences=("GPU: a / b", "c")))
    assert told[1:6] == [
        "doubt 1",
        "doubt 2",
        "copy 1",
        "copy 2",
        "base / new differ in GPU: a / b; c",
    ]


def test_a_notebooks_table_has_a_head_and_escapes() -> None:
    found = compared(row("A<B", FOUND, UNCLEAR, reason="a & b"))
    told = wording.html_of(found)
    assert told.startswith("<p>1 benchmark: 1 slower<br>guards 1 of 1 rows; found")
    heads = ("verdict", "benchmark", "reason", *wording.HEADS)
    cells = ("slower", "A&lt;B", "a &amp; b", *wording.cells(FOUND))
    table = "".join(
        f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in line)}</tr>"
        for tag, line in (("th", heads), ("td", cells), ("td", ("",) * 3 + wording.cells(UNCLEAR)))
    )
    assert told.endswith(f"</p><table>{table}</table>")
    assert "<table>" not in wording.html_of(compared(row("A", SAME)))
