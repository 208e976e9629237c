"""The chart of all families without their own: which rows it takes, and the figures it holds."""

import samples
from samples import Json
from test_chart import axis, draw, records


def families(rows: list[Json]) -> list[Json]:
    return records(draw(samples.document(rows))["families"], "size")


def test_the_figure_stands_against_what_varies_most_beside_its_prediction() -> None:
    rows = samples.supplies()
    figures = ("batches_per_s", "predicted_batches_per_s")
    drawn = families(rows)
    assert {r["name"]: (r["size"], r["figure"], r["predicted"]) for r in drawn} == {
        row["name"]: (int(axis(row["name"], "workers")), *(row[key] for key in figures))
        for row in rows
    }
    assert {record["series"] for record in drawn} == {"prefetch 2", "prefetch 8"}
    assert {record["panel"] for record in drawn} == {
        "Supply/Batches: batches_per_s against workers"
    }


def test_each_kind_has_a_panel_and_curves_of_its_own() -> None:
    drawn = families([*samples.copy_shares(), *samples.fragments()])
    kinds = {record["panel"].partition(":")[0] for record in drawn}
    assert kinds == {"Gelu/Fused", "Softmax/Fused", "Softmax/Unfused", "Copy/Fragmented"}
    series = {r["series"] for r in drawn if r["panel"].startswith("Copy/Fragmented")}
    assert series == {"loop", "batch"}
    assert {r["figure"] for r in drawn if r["panel"].startswith("Gelu")} == {
        row["pct_of_copy"] for row in samples.copy_shares() if row["name"].startswith("Gelu")
    }


def test_a_new_family_is_drawn_and_one_point_is_not() -> None:
    document = samples.document(
        [samples.row(f"Mine/Work/n:{n}/m:8", TFLOPs=float(n)) for n in (2, 4)]
    )
    document["families"].append({"name": "Mine", "about": "", "lead": ["time", "TFLOPs"]})
    drawn = records(draw(document)["families"], "size")
    assert [(record["size"], record["figure"]) for record in drawn] == [(2, 2.0), (4, 4.0)]
    document["benchmarks"].pop()
    assert draw(document) == {}


def test_rows_of_other_charts_are_in_theirs_alone() -> None:
    charts = draw(samples.document(samples.full_run()))
    shown = {(row.file, row.name) for row in charts.pop("families").rows}
    assert shown
    assert not shown & {(row.file, row.name) for one in charts.values() for row in one.rows}
