"""The charts of training steps: layers against tokens, and what steps expose."""

import json
from collections.abc import Sequence

import pytest

import samples
from overlapbench.reading.result import parse_result
from overlapbench.view.chart import draw_charts
from samples import Json
from test_chart import axis, draw, records, texts


def bars_of(rows: Sequence[Json]) -> list[Json]:
    drawn = records(draw(samples.document(rows))["steps"], "reach")
    return [record for record in drawn if "part" not in record]


def parts_of(rows: Sequence[Json]) -> dict[str, dict[str, Json]]:
    parts: dict[str, dict[str, Json]] = {}
    for part in records(draw(samples.document(rows))["steps"], "part"):
        parts.setdefault(part["name"], {})[part["part"]] = part
    return parts


def test_parts_add_up_to_the_exposed_time() -> None:
    rows = samples.steps()
    parts = parts_of(rows)
    for row in rows:  # whose computation takes 10 ms
        mine = parts[row["name"]]
        assert sum(part["adds"] for part in mine.values()) == pytest.approx(
            10 * row["exposed_comm_ms"]
        )
        assert mine["cutting"]["adds"] == pytest.approx(10 * row["chunking_cost_ms"])
        assert mine["interference"]["adds"] == pytest.approx(10 * row["interference_ms"])
    cut = parts[rows[3]["name"]]["cutting"]
    assert cut["adds"] == pytest.approx(-2), "cutting made it faster"


def test_the_tick_is_where_the_plain_form_ends() -> None:
    bars = bars_of(samples.steps()[:4])
    assert [bar["tick"] for bar in bars] == pytest.approx([60, 60, 50, 20])
    assert [bar["text"] for bar in bars] == ["40 %", "20 %", "5.0 %", "10 %"]


def test_a_text_stands_at_its_bar_unless_the_tick_is_near() -> None:
    bars = bars_of(samples.steps()[:4])
    assert [bar["reach"] for bar in bars] == pytest.approx([40, 20, 5, 12])
    near = [row | {"sequential_ms": row["real_time"] + 0.3} for row in samples.steps()[:4]]
    assert [bar["reach"] for bar in bars_of(near)] == [bar["tick"] for bar in bars_of(near)]


def test_steps_are_named_by_differing_axes() -> None:
    assert [bar["bar"] for bar in bars_of(samples.steps()[:4])] == [
        "nccl · prefetch 0",
        "nccl · prefetch 1",
        "copy · prefetch 1",
        "Forward",
    ]


def test_a_step_not_to_be_trusted_has_no_parts_and_no_tick() -> None:
    rows = samples.steps()
    rows[1] |= {"valid": 0.0, "label": "invalid: throttled"}
    assert rows[1]["name"] not in parts_of(rows)
    bar = bars_of(rows)[1]
    assert (bar["tick"], bar["text"]) == (pytest.approx(20), "20 % · invalid")


def test_layers_and_pipelines_have_charts_of_their_own() -> None:
    rows = samples.steps()
    shown = len(rows)
    for name in ("Tp/ColumnParallel", "Pp/GPipe/Delay", "Prefetch/Batches", "Ddp/Batch/AllReduce"):
        full_name = f"{name}/tokens:1/cache:cold"
        rows.append(rows[0] | {"name": full_name, "run_name": full_name})
    assert len(bars_of(rows)) == shown


def test_of_several_numbers_of_chunks_the_fastest_is_drawn() -> None:
    rows = samples.layers()
    rows[0] |= {"valid": 0.0, "label": "throttled"}  # two chunks of 256 tokens, the faster ones
    drawn = records(draw(samples.document(rows))["tokens"], "time_ms")
    assert {record["panel"] for record in drawn} == {
        f"{operation} · {model}"
        for operation in ("ColumnParallel", "RowParallel")
        for model in ("llama8b", "llama70b")
    }
    part = [record for record in drawn if record["panel"] == "ColumnParallel · llama8b"]
    wanted = [rows[place] for place in (0, 1, 3, 5)]
    assert [(r["name"], r["tokens"], r["time_ms"], r["trusted"]) for r in part] == [
        (row["name"], int(axis(row["name"], "tokens")), row["real_time"], row["valid"] == 1)
        for row in wanted
    ]
    assert all(
        record[key] == row[key]
        for record, row in zip(part, wanted, strict=True)
        for key in ("sequential_ms", "bound_ms", "speedup")
    )
    assert [record["label"] for record in part] == ["2: 1.10×", *["4: 1.10×"] * 3]


def test_layers_are_drawn_by_ratios_to_the_fastest_curve() -> None:
    rows = [*samples.layers(), *peers_of_layers()]
    rows[0] |= {"time_low_ms": 0.99, "time_high_ms": 1.02}
    drawn = records(draw(samples.document(rows))["tokens"], "ratio")
    place = [r for r in drawn if (r["panel"], r["tokens"]) == ("RowParallel · llama70b", 1024)]
    least = min(record["time_ms"] for record in place)
    assert {r["series"]: r["ratio"] for r in place} == {
        r["series"]: pytest.approx(r["time_ms"] / least) for r in place
    }
    (own,) = [record for record in place if record["plain"]]
    assert own["plain"] == pytest.approx(own["sequential_ms"] / least)
    assert own["bound"] == pytest.approx(own["bound_ms"] / least)
    (known,) = [record for record in drawn if "ratio_low" in record]
    ends = known["ratio_low"], known["ratio_high"]
    assert ends == pytest.approx((0.99 / known["time_ms"], 1.02 / known["time_ms"]))


def test_a_layer_that_chose_its_chunks_is_labelled_with_them() -> None:
    row = samples.layers()[1]
    name = row["name"].replace("/chunks:4/", "/chunks:auto/")
    row |= {"name": name, "run_name": name, "chunks": 8.0}
    drawn = records(draw(samples.document([row]))["tokens"], "time_ms")
    assert [record["label"] for record in drawn] == ["8: 1.10×"]


def peers_of_layers() -> list[samples.Json]:
    """Make PyTorch's times of two of the layers, and of one that the suite has no row of."""
    return [
        samples.row(
            f"Comm/{operation}/peer:{peer}/model:{model}/tokens:1024/cache:cold", real_time=time_ms
        )
        for peer, time_ms in (("sequence", 1.25), ("fused", 1.0625))
        for operation, model in (
            ("ColumnParallel", "llama8b"),
            ("RowParallel", "llama70b"),
            ("RowParallel", "small"),
        )
    ]


def test_peers_of_layers_are_curves_beside_the_suites() -> None:
    rows = [*samples.layers(), *peers_of_layers()]
    chart = draw(samples.document(rows))["tokens"]
    drawn = records(chart, "time_ms")
    peers = [r for r in drawn if r["series"].startswith("PyTorch")]
    assert sorted((r["panel"], r["series"], r["tokens"], r["time_ms"]) for r in peers) == [
        ("ColumnParallel · llama8b", "PyTorch fused", 1024, 1.0625),
        ("ColumnParallel · llama8b", "PyTorch sequence", 1024, 1.25),
        ("RowParallel · llama70b", "PyTorch fused", 1024, 1.0625),
        ("RowParallel · llama70b", "PyTorch sequence", 1024, 1.25),
    ]
    assert {r["series"] for r in drawn if "bound_ms" in r} == {"copy"}
    assert "label" not in texts(chart.spec, "field")
    assert "tokens" not in draw(samples.document(peers_of_layers()))


def test_peers_stay_in_the_chart_of_their_family() -> None:
    rows = [*samples.layers(), *peers_of_layers(), *samples.steps()]
    result = parse_result("run.json", json.dumps(samples.document(rows)))
    charts = draw_charts([result], "", one_family_each=True)
    assert [chart.name for chart in charts] == [
        *("tokens", "steps-Fsdp", "steps-Tp-Block", "steps-Layers"),
    ]
    assert "PyTorch fused" in {record["series"] for record in records(charts[0], "time_ms")}


def test_transports_of_layers_are_curves_without_labels() -> None:
    rows = samples.layers()
    others = [row | {"name": row["name"].replace("/transport:copy", "")} for row in rows]
    others = [row | {"run_name": row["name"]} for row in others]
    chart = draw(samples.document([*rows, *others]))["tokens"]
    drawn = records(chart, "time_ms")
    assert {record["series"] for record in drawn} == {"copy", "nccl"}
    assert "label" not in texts(chart.spec, "field")
    assert "label" in texts(draw(samples.document(rows))["tokens"].spec, "field")
