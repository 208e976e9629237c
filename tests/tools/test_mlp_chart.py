"""The chart of training: which rows it takes, the figures it holds, and the lines it fits."""

import json

import samples
from overlapbench.reading.result import Row, parse_result
from overlapbench.view.chart import draw_charts
from overlapbench.view.charts.training import MLP
from overlapbench.view.page import pictures
from samples import Json
from test_chart import draw, records


def sweeps(call: str = "loop") -> list[Json]:
    """Make the default rows of one form."""
    rows = samples.trainings()
    for row in rows:
        row["name"] = row["run_name"] = str(row["name"]).replace("call:loop", f"call:{call}")
    return rows


def selected(rows: list[Json]) -> list[Row]:
    return MLP.select(parse_result("run.json", json.dumps(samples.document(rows))).rows)


def test_rows_are_taken_when_three_make_a_curve() -> None:
    assert len(selected(sweeps())) == 7
    assert selected(sweeps()[:2]) == []
    assert selected([*sweeps()[:2], sweeps()[2] | {"valid": 0.0}]) == []


def test_the_figures_are_those_of_the_rows() -> None:
    rows = sweeps("loop") + sweeps("graph")
    chart = draw(samples.document(rows))["mlp"]
    drawn = {record["name"]: record["train_ms"] for record in records(chart, "train_ms")}
    assert drawn == {row["name"]: row["train_ms"] for row in rows}


def test_the_legends_hold_the_fits() -> None:
    chart = draw(samples.document(sweeps("loop") + sweeps("graph")))["mlp"]
    assert {record["series"] for record in records(chart, "train_ms")} == {
        f"{call}: {slope} µs per {unit} + 100.0 µs, residual 0.0 µs"
        for call in ("loop", "graph")
        for slope, unit in (("80.0", "step"), ("40.0", "layer"))
    }


def test_an_untrusted_row_is_drawn_but_not_fitted() -> None:
    rows = sweeps()
    rows[3] |= {"train_ms": 9.0, "valid": 0.0, "label": "throttled"}
    chart = draw(samples.document(rows))["mlp"]
    assert any("80.0 µs per step + 100.0 µs" in r["series"] for r in records(chart, "train_ms"))
    bad = [r["problem"] for r in records(chart, "train_ms") if not r["trusted"]]
    assert bad == ["invalid: throttled"]


def test_pictures_are_made() -> None:
    result = parse_result("run.json", json.dumps(samples.document(sweeps())))
    (chart,) = draw_charts([result], "")
    assert pictures(chart.name, chart.spec)["mlp.png"].startswith(b"\x89PNG\r\n\x1a\n")
