"""Every format of a comparison as a whole: one row of each verdict, and nothing may be missing."""

import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from overlapbench.judge.judgements import Judgement, Verdict
from overlapbench.judge.side import Benchmark, Side
from overlapbench.judge.verdicts import OK, REGRESSION, UNDECIDED, Comparison, Row
from overlapbench.reading.counters import stored_table
from overlapbench.view.comparison import (
    format_github,
    format_json,
    format_junit,
    format_markdown,
    format_table,
)
from overlapbench.view.console import Entry, Screen, table

TABLE = stored_table()
SLOW = Judgement(
    "time", TABLE.counters["time"], base=2.0, new=2.2, change=math.log(1.1), reach=math.log(1.05),
    error=0.0125, freedom=8.0, floor=0.05, floor_reason="the spread of runs",
    detectable=(0.06, 0.07), limit=0.1,
)  # fmt: skip
RATE = replace(
    SLOW, metric="busbw_GBps", counter=TABLE.counters["busbw_GBps"], base=300.0, new=330.0,
    change=-math.log(1.1), detectable=(0.02, 0.08), floor_reason="the least floor",
)  # fmt: skip
SAME = replace(SLOW, new=2.0, change=0.0, detectable=(0.04, 0.05))
UNCLEAR = replace(SLOW, change=math.log(1.2), new=2.4, reach=math.inf, detectable=(math.inf,) * 2)
A, B, C = "Comm/AllReduce/bytes:67108864/cache:cold", "Compute/Gemm/n:1", "Compute/Gemm/n:2"
BASE = Side(
    ("b0.json", "b1.json"),
    {
        "ranks": frozenset({"2"}),
        "device": frozenset({"NVIDIA H200"}),
        "nccl_version": frozenset({"2.28.3"}),
        "driver_version": frozenset({""}),
        "hosts": frozenset({"here"}),
    },
    TABLE,
    {A: Benchmark(frozenset(), "", 2), B: Benchmark(frozenset(), "", 2)},
    {
        "time": np.array([[2.0, 2.5], [1.0, 1.0]]),
        "busbw_GBps": np.array([[300.0, np.nan], [np.nan, np.nan]]),
    },
    np.full((2, 2), np.nan),
    ("b1.json: ended early",),
    ("b2.json repeats b1.json: it counts once",),
)
NEW = replace(
    BASE, sources=("n\x1b0.json", "n1.json"), doubts=(), copies=(),
    values={"time": BASE.values["time"] * 1.1, "busbw_GBps": BASE.values["busbw_GBps"] * 1.1},
)  # fmt: skip
ROWS = (
    Row(A, Verdict.SLOWER, REGRESSION, "time +10.0 %, floor 5.0 %", (2, 2), (SLOW, RATE),
        (("slowdown", 1.25, 1.5),)),
    Row("Compute/Gemm/n:4", Verdict.MISSING, UNDECIDED, "not in the new results", (2, 0)),
    Row("Compute/Gemm/n:5", Verdict.INVALID, UNDECIDED, "invalid: it | is wrong", (2, 2)),
    Row("Compute/Gemm/n:3", Verdict.INCONCLUSIVE, UNDECIDED, "unknown", (2, 1), (UNCLEAR,)),
    Row("Compute/Gemm/n:6", Verdict.FASTER, OK, "busbw +10.0 %", (2, 2), (RATE,)),
    Row("Compute/Gemm/n:7", Verdict.NEW, OK, "not in the base results", (0, 2)),
    Row(B, Verdict.SAME, OK, "", (2, 2), (SAME,)),
    Row(C, Verdict.SAME, OK, "", (2, 2), (SAME,)),
)  # fmt: skip
ALL = Comparison(BASE, NEW, ROWS, ("driver: 580 / 590",), min_guarded=0.5)
GOOD = Comparison(NEW, NEW, ROWS[6:], ())


def test_json_has_every_figure() -> None:
    found = json.loads(format_json(ALL))
    assert format_json(ALL).startswith('{\n  "overlapbench_comparison_schema": "3",\n')
    rows = found.pop("rows")
    assert found.pop("geometric_mean") == pytest.approx((1.1 * 1.2) ** (1 / 4))
    assert found == {
        "overlapbench_comparison_schema": "3",
        "status": 1,
        "base": ["b0.json", "b1.json"],
        "new": ["n\N{REPLACEMENT CHARACTER}0.json", "n1.json"],
        "doubts": ["b1.json: ended early"],
        "copies": ["b2.json repeats b1.json: it counts once"],
        "differences": ["driver: 580 / 590"],
        "counts": {
            "slower": 1, "missing": 1, "invalid": 1, "incomparable": 0, "inconclusive": 1,
            "faster": 1, "new": 1, "same": 2,
        },
        "matched": 6,
        "guarded": 4,
        "detectable": {"0.80": 0.06, "0.95": 0.08},
    }  # fmt: skip
    judgements = [row.pop("findings") for row in rows]
    assert rows[0] == {
        "name": A,
        "verdict": "slower",
        "fails": True,
        "reason": "time +10.0 %, floor 5.0 %",
        "launches": [2, 2],
        "not_judged": {"slowdown": {"base": 1.25, "new": 1.5}},
    }
    assert [row["fails"] for row in rows] == [True] * 4 + [False] * 4
    time, rate = judgements[0]
    for key, value in (("change", 0.1), ("low", 1.1 / 1.05 - 1), ("high", 1.1 * 1.05 - 1)):
        assert time.pop(key) == pytest.approx(value)
    assert time == {
        "metric": "time",
        "unit": "ms",
        "better": "lower",
        "verdict": "slower",
        "floor_reason": "the spread of runs",
        "base": 2.0,
        "new": 2.2,
        "floor": 0.05,
        "detectable": {"0.80": 0.06, "0.95": 0.07},
        "limit": 0.1,
        "error": 0.0125,
        "freedom": 8.0,
    }
    assert (rate["metric"], rate["better"], rate["verdict"]) == ("busbw_GBps", "higher", "faster")
    assert rate["change"] == pytest.approx(0.1)
    (unclear,) = judgements[3]
    assert (unclear["low"], unclear["high"]) == (None, None)  # unknown
    assert unclear["detectable"] == {"0.80": None, "0.95": None}


def test_junit_has_a_case_for_every_row_and_doubt() -> None:
    text = format_junit(ALL)
    assert text.startswith("<?xml version=")
    assert text.endswith("</testsuite>\n")
    assert '\n  <testcase name="doubt"' in text
    suite = ElementTree.fromstring(text)
    assert suite.tag == "testsuite"
    assert suite.attrib == {"name": "overlapbench", "tests": "9", "failures": "5", "skipped": "1"}
    told = [
        (
            case.tag,
            case.attrib,
            [(inside.tag, inside.attrib) for inside in case],
        )
        for case in suite
    ]
    assert told == [
        (
            "testcase",
            {"name": "doubt", "classname": "launches"},
            [("failure", {"type": "doubt", "message": "b1.json: ended early"})],
        ),
        *(
            (
                "testcase",
                {"name": row.name, "classname": row.name.split("/")[0]},
                [("failure", {"type": row.verdict.value, "message": row.reason})],
            )
            for row in ROWS[:4]
        ),
        ("testcase", {"name": "Compute/Gemm/n:6", "classname": "Compute"}, []),
        (
            "testcase",
            {"name": "Compute/Gemm/n:7", "classname": "Compute"},
            [("skipped", {"message": "new: not in the base results"})],
        ),
        ("testcase", {"name": B, "classname": "Compute"}, []),
        ("testcase", {"name": C, "classname": "Compute"}, []),
    ]


def test_github_is_told_of_failures_and_of_what_changed() -> None:
    lines = format_github(ALL).splitlines()
    assert lines[:5] == [
        f"::error title=slower::{A}: time +10.0 %25, floor 5.0 %25",
        "::error title=missing::Compute/Gemm/n:4: not in the new results",
        "::error title=invalid::Compute/Gemm/n:5: invalid: it | is wrong",
        "::error title=inconclusive::Compute/Gemm/n:3: unknown",
        "::notice title=faster::Compute/Gemm/n:6: busbw +10.0 %25",
    ]
    assert len(lines) == 6
    assert lines[5].startswith("::error title=overlapbench::8 benchmarks: 1 slower, 1 invalid, ")
    assert "; compared across driver: 580 / 590; " in lines[5] or "driver: 580 / 590" in lines[5]
    (told,) = format_github(GOOD).splitlines()
    assert told.startswith("::notice title=overlapbench::2 benchmarks: 2 same; ")


def test_a_title_of_github_cannot_end_early() -> None:
    odd = Row("a,b:c\r\nd%", Verdict.INVALID, UNDECIDED, "x:y", (1, 1))
    first = format_github(replace(ALL, rows=(odd,))).splitlines()[0]
    assert first == "::error title=invalid::a,b:c%0D%0Ad%25: x:y"


MARKDOWN = r"""
| verdict | benchmark | metric | base | new | change | interval | floor |
|---|---|---|--:|--:|--:|--:|--:|
| **slower** | Comm/AllReduce/bytes:67108864/cache:cold<br>time +10.0 %, floor 5.0 % | time ms | 2.000 | 2.200 | +10.0 % | +4.8 to +15.5 % | 5.0 % |
|  |  | busbw\_GBps | 300.0 | 330.0 | +10.0 % | +4.8 to +15.5 % | 5.0 % |
| **missing** | Compute/Gemm/n:4<br>not in the new results |  |  |  |  |  |  |
| **invalid** | Compute/Gemm/n:5<br>invalid: it \| is wrong |  |  |  |  |  |  |
| **inconclusive** | Compute/Gemm/n:3<br>unknown | time ms | 2.000 | 2.400 | +20.0 % | unknown | 5.0 % |
| **faster** | Compute/Gemm/n:6<br>busbw +10.0 % | busbw\_GBps | 300.0 | 330.0 | +10.0 % | +4.8 to +15.5 % | 5.0 % |
| **new** | Compute/Gemm/n:7<br>not in the base results |  |  |  |  |  |  |
"""  # noqa: E501


def test_markdown_has_a_line_for_every_row_that_is_not_the_same() -> None:
    text = format_markdown(ALL)
    title, sentences, rows = text.split("\n\n")
    assert (
        title == "## overlapbench: 1 slower, 1 invalid, 1 missing, 1 inconclusive of 8 benchmarks"
    )
    assert "\n" + rows == MARKDOWN
    assert all(line.startswith("- ") for line in sentences.splitlines())
    assert sentences.startswith(
        "- on 2 × NVIDIA H200, NCCL 2.28.3, here\n- 8 benchmarks: 1 slower, 1 invalid, 1 missing, "
    )
    every = format_markdown(ALL, every=True).splitlines()
    same = "time ms | 2.000 | 2.000 | +0.0 % | -4.8 to +5.0 % | 5.0 % |"
    assert every[-1] == f"| **same** | {C}<br> | {same}"
    assert len(every) == len(text.splitlines()) + 2
    assert "|" not in format_markdown(GOOD)


def test_markdown_leaves_out_what_is_too_noisy_and_does_not_fail() -> None:
    """Hundreds of such lines would hide the one that matters."""
    noisy = [replace(row, fails=0) for row in ALL.rows if row.verdict is Verdict.INCONCLUSIVE]
    comparison = replace(GOOD, rows=(*GOOD.rows, *noisy), title="a\\b")
    text = format_markdown(comparison)
    assert text.startswith("## a\\\\b: nothing is worse\n\n- ")
    assert "1 inconclusive" in text
    assert "|" not in text
    assert "**inconclusive**" in format_markdown(comparison, every=True)


def test_a_title_says_why_nothing_passes() -> None:
    assert "## overlapbench: too little can be told\n" in format_markdown(replace(GOOD, rows=()))
    doubtful = replace(GOOD, new=replace(GOOD.new, doubts=("x.json: incomplete",)))
    assert ": a run is incomplete, or not to be trusted\n" in format_markdown(doubtful)


def test_a_table_folds_rows_that_are_the_same() -> None:
    text = format_table(ALL, Screen(200))
    lines = text.splitlines()
    assert lines[0].split() == [
        *("benchmark", "verdict", "metric", "base", "new", "change", "interval", "floor")
    ]
    assert "  missing: not in the new results" in lines
    assert "  invalid: it | is wrong" in lines  # without its state twice
    assert "  inconclusive: unknown" in lines
    assert "floor 5.0 %" not in text  # figures say it
    assert "2 rows are the same (--all lists)\n" in text
    assert C not in text
    every = format_table(ALL, Screen(200), every=True)
    assert C in every
    assert "--all" not in every
    assert "1 row is the same (--all lists)\n" in format_table(replace(ALL, rows=ROWS[:7]))


def test_a_table_gives_up_its_indent_before_it_breaks_a_figure() -> None:
    entry = Entry("a long title", [("1234", "5678")])
    lines = table(Screen(10), ("a", "b"), [entry], words=0).splitlines()
    assert (lines[0], lines[-1]) == ("    a    b", " 1234 5678")
