"""The specifications: every figure in a chart is the figure of a row, and bad rows stay apart."""

import json
from collections.abc import Sequence

import pytest

import samples
from overlapbench.chart import CHARTS, Chart, draw_charts
from overlapbench.result import parse_result
from samples import Json

PAIR = "AllToAll+Gemm/bytes:67108864/n:4096"


def draw(*documents: Json, title: str = "") -> dict[str, Chart]:
    """Draw documents as files named run0, run1, ..., and return the charts by name."""
    results = [
        parse_result(f"run{index}.json", json.dumps(document))
        for index, document in enumerate(documents)
    ]
    return {chart.kind.name: chart for chart in draw_charts(results, title)}


def records(chart: Chart, with_key: str) -> list[Json]:
    """Return the distinct data of a specification that have a key."""
    data = [record for values in chart.spec["datasets"].values() for record in values]
    unique = {json.dumps(record, sort_keys=True): record for record in data if with_key in record}
    return list(unique.values())


def subtitle(chart: Chart) -> str:
    lines = chart.spec["title"]["subtitle"]
    assert isinstance(lines, list)
    return "\n".join(lines)


def texts(node: object, key: str) -> set[str]:
    """Collect the text values of a key anywhere in a specification."""
    if isinstance(node, dict):
        here = {node[key]} if isinstance(node.get(key), str) else set()
        return here.union(*(texts(child, key) for child in node.values()))
    if isinstance(node, list):
        return set().union(*(texts(child, key) for child in node))
    return set()


def test_slowdown_holds_the_figures_of_the_rows() -> None:
    rows = samples.sweep("tile") + samples.sweep("full")
    chart = draw(samples.document(rows))["slowdown"]
    drawn = {record["name"]: record["slowdown"] for record in records(chart, "grid_blocks")}
    assert drawn == {row["name"]: row["slowdown"] for row in rows}
    assert {r["series"] for r in records(chart, "grid_blocks")} == {
        "AllToAll+Gemm · work tile",
        "AllToAll+Gemm · work full",
    }
    assert {"slowdown T / max(C, M)", "grid of the compute kernel (gx × gy thread blocks)"} <= (
        texts(chart.spec, "title")
    )


def test_grids_stand_in_the_order_of_their_blocks() -> None:
    rows = [samples.overlap(f"{PAIR}/grid:{grid}") for grid in ("32x32", "2x64", "1x1", "4x4")]
    chart = draw(samples.document(rows))["slowdown"]
    grids = [record["grid"] for record in records(chart, "grid_blocks")]
    assert grids == ["1×1", "4×4", "2×64", "32×32"]
    assert json.dumps(grids) in json.dumps(
        chart.spec["layer" if "layer" in chart.spec else "concat"]
    )


def test_the_knees_are_marked_at_their_grid() -> None:
    rows = samples.sweep("tile") + samples.sweep("full")
    knees = records(draw(samples.document(rows))["slowdown"], "label_at")
    assert {(knee["series"], knee["grid"], knee["slowdown"], knee["label"]) for knee in knees} == {
        ("AllToAll+Gemm · work full", "16×16", 1.29, "knee 1.29"),
        ("AllToAll+Gemm · work tile", "16×16", 1.41, "knee 1.41"),
    }
    assert all(knee["label_at"] > knee["slowdown"] for knee in knees)


def test_labels_of_equal_knees_do_not_overlap() -> None:
    rows = [row for factor in (1.0, 1.0) for row in samples.sweep("tile", factor)]
    documents = [samples.document(rows[:7]), samples.document(rows[7:])]
    low, high = sorted(
        knee["label_at"] for knee in records(draw(*documents)["slowdown"], "label_at")
    )
    assert high - low > 0.01


def test_an_invalid_row_is_no_knee_and_has_its_problem() -> None:
    rows = samples.sweep("tile")
    rows[2] |= {"valid": 0.0, "label": "throttled"}
    chart = draw(samples.document(rows))["slowdown"]
    bad = [record for record in records(chart, "grid_blocks") if record["problem"]]
    assert [(record["grid"], record["problem"]) for record in bad] == [("16×16", "throttled")]
    assert [knee["grid"] for knee in records(chart, "label_at")] == ["32×32"]
    assert "Invalid or failed: 1 of 7 rows" in subtitle(chart)


def test_an_invalid_sweep_is_drawn_without_any_knee() -> None:
    rows = [row | {"valid": 0.0} for row in samples.sweep("tile")]
    chart = draw(samples.document(rows))["slowdown"]
    assert len(records(chart, "grid_blocks")) == len(rows)
    assert records(chart, "label_at") == []
    assert chart.pictures()["slowdown.png"].startswith(b"\x89PNG\r\n\x1a\n")


def test_times_are_the_medians_of_the_rows() -> None:
    rows = samples.sweep("tile")
    chart = draw(samples.document(rows))["times"]
    drawn = {(r["name"], r["what"]): r["time_ms"] for r in records(chart, "time_ms")}
    kinds = {"C: computation alone": "comp_ms", "M: communication alone": "comm_ms"}
    kinds["T: both together"] = "overlap_ms"
    assert drawn == {(row["name"], what): row[key] for row in rows for what, key in kinds.items()}


def test_many_curves_get_a_panel_for_each_pair() -> None:
    rows = [
        samples.overlap(f"{collective}+Gemm/bytes:{size}/grid:{grid}x{grid}")
        for collective in samples.COLLECTIVES
        for size in (1 << 20, 64 << 20)
        for grid in (1, 16)
    ]
    panels = draw(samples.document(rows))["slowdown"].spec["concat"]
    assert [panel["title"]["text"] for panel in panels] == [
        [f"{collective}+Gemm"] for collective in samples.COLLECTIVES
    ]


def cells(documents: Sequence[Json]) -> dict[tuple[str, str], str]:
    drawn = records(draw(*documents)["pairs"], "communication")
    return {(r["communication"], r["computation"]): f"{r['text']} {r['grid']}" for r in drawn}


def test_pairs_stand_by_communication_and_computation() -> None:
    rows = [
        samples.overlap(
            "AllReduce+CublasGemm/bytes:1048576/n:8192/precision:bf16/cache:cold", 1.17
        ),
        samples.overlap("AllReduce+StreamKernel/bytes:1048576/blocks:132/cache:cold", 1.3),
        samples.overlap("HostToDevice+StreamKernel/bytes:67108864/blocks:132/cache:cold", 0.984),
    ]
    assert cells([samples.document(rows)]) == {
        ("AllReduce · 1 MiB", "CublasGemm · n 8192 · bf16"): "1.17 ",
        ("AllReduce · 1 MiB", "StreamKernel · blocks 132"): "1.30 ",
        ("HostToDevice · 64 MiB", "StreamKernel · blocks 132"): "0.98 ",
    }


def test_the_worst_trusted_grid_stands_for_a_sweep() -> None:
    rows = [
        samples.overlap(f"{PAIR}/grid:1x1", 1.1),
        samples.overlap(f"{PAIR}/grid:8x8", 9.0, valid=0.0),
        samples.overlap(f"{PAIR}/grid:16x16", 1.4),
        samples.overlap(f"{PAIR}/grid:32x32", 1.2),
    ]
    assert cells([samples.document(rows)]) == {("AllToAll", "Gemm"): "1.40 16×16"}


def test_cells_without_a_trusted_figure_say_why() -> None:
    rows = [
        samples.overlap("AllToAll+Gemm/n:64", 1.5, valid=0.0),
        samples.row("Overlap/AllToAll+StreamKernel", error_occurred=True, error_message="no"),
    ]
    assert cells([samples.document(rows)]) == {
        ("AllToAll", "Gemm · n 64"): "invalid ",
        ("AllToAll", "StreamKernel"): "error ",
    }


def test_bandwidth_holds_the_figures_of_the_rows() -> None:
    rows = samples.bandwidths()
    chart = draw(samples.document(rows))["bandwidth"]
    drawn = {r["name"]: (r["size_bytes"], r["busbw_GBps"]) for r in records(chart, "size_bytes")}
    assert drawn == {
        row["name"]: (int(row["name"].split("bytes:")[1].split("/")[0]), row["busbw_GBps"])
        for row in rows
    }


def test_several_files_are_series() -> None:
    gpu = samples.document(samples.full_run())
    host = samples.document(samples.full_run(), backend="host", device="")
    for name, chart in draw(gpu, host).items():
        labels = {"run0 (cuda, NVIDIA H200)", "run1 (backend: host)"}
        assert {record["file"] for record in records(chart, "file")} == labels, name
        assert all(label in subtitle(chart) for label in labels), name


def test_host_figures_are_labelled_in_every_chart() -> None:
    document = samples.document(samples.full_run(), backend="host", device="")
    charts = draw(document, title="A laptop")
    assert len(charts) == len(CHARTS)
    for name, chart in charts.items():
        assert "backend: host" in subtitle(chart), name
        assert subtitle(chart).startswith("A laptop"), name


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (samples.sweep(), ["slowdown", "times", "pairs"]),
        (samples.pairs(), ["pairs"]),
        (samples.sweep()[:1], ["pairs"]),
        (samples.bandwidths(), ["bandwidth"]),
        ([samples.row("Comm/AllReduce/bytes:1")], []),
        ([samples.row("Compute/Gemm/n:64", TFLOPs=1.0)], []),
    ],
)
def test_a_chart_is_drawn_when_its_rows_exist(rows: list[Json], names: list[str]) -> None:
    assert list(draw(samples.document(rows))) == names
