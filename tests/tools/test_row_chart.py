"""The picture of one row: every time has its bar, with its interval, and a bad row is hollow."""

import json
import sys

import altair as alt
import pytest

import samples
from overlapbench.packages import PackageError
from overlapbench.reading.result import parse_result
from overlapbench.reading.rows import Row
from overlapbench.view.row_chart import plot, specification, to_svg
from samples import Json


def row_of(row: Json, spread: float = 0.01) -> Row:
    document = samples.with_intervals(samples.document([row]), spread)
    return parse_result("run.json", json.dumps(document)).rows[0]


def test_each_time_is_a_bar_with_its_interval() -> None:
    row = row_of(samples.overlap("AllToAll+Gemm/n:64", 1.25, comp=0.4, comm=0.2, p95_ms=0.6))
    bars = specification(row)["data"]["values"]
    assert [(bar["what"], bar["ms"], bar["text"]) for bar in bars] == [
        ("C", 0.4, "0.4000 ms"),
        ("M", 0.2, "0.2000 ms"),
        ("T", 0.5, "0.5000 ms"),
    ]
    assert all(bar["ms_low"] < bar["ms"] < bar["ms_high"] == bar["reach"] for bar in bars)


def test_a_row_of_one_run_shows_its_own_time() -> None:
    (bar,) = specification(row_of(samples.row("Comm/AllReduce/bytes:1024", real_time=2.0)))["data"][
        "values"
    ]
    assert (bar["what"], bar["ms"]) == ("T", 2.0)


def test_it_is_an_altair_chart_of_the_name_and_the_ratios() -> None:
    chart = plot(row_of(samples.overlap("AllToAll+Gemm/n:64", 1.25)))
    assert isinstance(chart, alt.LayerChart)  # and so valid Vega-Lite
    title = chart.to_dict()["title"]
    assert title["text"] == ["Overlap/AllToAll+Gemm/n:64"]
    assert title["subtitle"] == ["slowdown 1.25 ±0.01"]
    assert ">0.3750 ms<" in to_svg(row_of(samples.overlap("AllToAll+Gemm/n:64", 1.25)))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (samples.overlap("A+B/n:1") | {"valid": 0.0, "label": "throttled"}, "invalid: throttled"),
        (samples.row("A/B", error_occurred=True, error_message="no memory"), "no memory"),
    ],
)
def test_a_bad_row_says_why(row: Json, problem: str) -> None:
    made = specification(parse_result("run.json", json.dumps(samples.document([row]))).rows[0])
    assert problem in made["title"]["subtitle"][0]
    assert not any(bar["trusted"] for bar in made.get("data", {"values": []})["values"])
    alt.Root.validate(made)


def test_without_the_extra_one_line_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(PackageError, match=r"pip install 'overlapbench\[charts\]'$"):
        plot(row_of(samples.overlap("A+B/n:1")))
