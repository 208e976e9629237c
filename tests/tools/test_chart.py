"""The specifications: every figure in a chart is the figure of a row, and bad rows stay apart."""

import functools
import json
from collections.abc import Callable, Iterator, Sequence

import altair as alt
import pytest

import samples
from overlapbench.reading.result import parse_result
from overlapbench.view import theme
from overlapbench.view.chart import CHARTS, MOST_ROWS, draw_charts
from overlapbench.view.page import pictures
from overlapbench.view.vega import Drawing
from samples import Json

CELLS = {
    "priority",
    "pairs",
    "partition",
    "matrix",
    "triple",
}  # charts of cells, which have no points and no lines
STACKS = {"attribution", "steps"}  # charts of bars, likewise without points and lines
PAIR = "AllToAll+Gemm/bytes:67108864/n:4096"


def draw(*documents: Json, title: str = "") -> dict[str, Drawing]:
    """Draw documents as files named run0, run1, ..., and return the charts by name."""
    results = [
        parse_result(f"run{index}.json", json.dumps(document))
        for index, document in enumerate(documents)
    ]
    return {chart.name: chart for chart in draw_charts(results, title)}


@functools.cache
def full_charts(intervals: bool = False) -> dict[str, Drawing]:
    """Draw a whole run, once."""
    document = samples.document(samples.full_run())
    return draw(samples.with_intervals(document) if intervals else document)


def records(chart: Drawing, with_key: str) -> list[Json]:
    """Return the distinct data of a specification that have a key."""
    unique = {
        json.dumps(one, sort_keys=True): one for one in data_of(chart.spec) if with_key in one
    }
    return list(unique.values())


def data_of(node: object) -> Iterator[Json]:
    """Yield the data of all marks of a specification."""
    if isinstance(node, list):
        for child in node:
            yield from data_of(child)
    if isinstance(node, dict):
        yield from node.get("data", {}).get("values", [])
        for key in ("layer", "concat", "vconcat"):
            yield from data_of(node.get(key))


def subtitle(chart: Drawing) -> str:
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


@pytest.mark.parametrize("intervals", [False, True])
@pytest.mark.parametrize("name", [kind.name for kind in CHARTS])
def test_a_specification_is_vega_lite(name: str, intervals: bool) -> None:
    alt.Root.validate(full_charts(intervals)[name].spec)


def test_slowdown_holds_the_figures_of_the_rows() -> None:
    rows = samples.sweep("tile") + samples.sweep("full")
    chart = draw(samples.document(rows))["slowdown"]
    drawn = {record["name"]: record["slowdown"] for record in records(chart, "grid")}
    assert drawn == {row["name"]: row["slowdown"] for row in rows}
    assert {r["series"] for r in records(chart, "grid")} == {
        "AllToAll+Gemm · work tile: knee 1.41 at 16×16",
        "AllToAll+Gemm · work full: knee 1.29 at 16×16",
    }
    assert {
        "slowdown T / max(C, M): 1 is perfect overlap",
        "grid of the compute kernel (gx × gy thread blocks)",
    } <= (texts(chart.spec, "title"))


def test_grids_stand_in_the_order_of_their_blocks() -> None:
    rows = [samples.overlap(f"{PAIR}/grid:{grid}") for grid in ("32x32", "2x64", "1x1", "4x4")]
    chart = draw(samples.document(rows))["slowdown"]
    grids = [record["grid"] for record in records(chart, "grid")]
    assert grids == ["1×1", "4×4", "2×64", "32×32"]
    assert json.dumps(grids) in json.dumps(
        chart.spec["layer" if "layer" in chart.spec else "concat"]
    )


def test_the_knees_are_marked_at_their_grid() -> None:
    rows = samples.sweep("tile") + samples.sweep("full")
    knees = records(draw(samples.document(rows))["slowdown"], "ring")
    assert {(knee["series"], knee["grid"], knee["slowdown"]) for knee in knees} == {
        ("AllToAll+Gemm · work full: knee 1.29 at 16×16", "16×16", 1.29),
        ("AllToAll+Gemm · work tile: knee 1.41 at 16×16", "16×16", 1.41),
    }


def test_an_invalid_row_is_no_knee_and_has_its_problem() -> None:
    rows = samples.sweep("tile")
    rows[2] |= {"valid": 0.0, "label": "throttled"}
    chart = draw(samples.document(rows))["slowdown"]
    bad = [record for record in records(chart, "grid") if not record["trusted"]]
    told = [(record["grid"], record["problem"]) for record in bad]
    assert told == [("16×16", "invalid: throttled")]
    assert [knee["grid"] for knee in records(chart, "ring")] == ["32×32"]
    assert "Not to be trusted: 1 invalid of 7 rows" in subtitle(chart)


def test_an_invalid_sweep_is_drawn_without_any_knee() -> None:
    rows = [row | {"valid": 0.0} for row in samples.sweep("tile")]
    chart = draw(samples.document(rows))["slowdown"]
    assert len(records(chart, "grid")) == len(rows)
    assert records(chart, "ring") == []
    assert pictures(chart.name, chart.spec)["slowdown.png"].startswith(b"\x89PNG\r\n\x1a\n")


def test_of_too_many_rows_the_first_are_drawn() -> None:
    rows = [samples.row(f"Comm/AllReduce/bytes:{n}", busbw_GBps=1.0) for n in range(1, 1100)]
    chart = draw(samples.document(rows))["families"]
    assert len(records(chart, "size")) == MOST_ROWS == len(chart.rows)
    assert "Shows the first 1000 of 1099 rows." in subtitle(chart)
    chart = draw(samples.document(rows[:MOST_ROWS]))["families"]
    assert len(chart.rows) == MOST_ROWS
    assert "Shows the first" not in subtitle(chart)


def test_curves_that_a_cut_leaves_incomplete_are_not_drawn() -> None:
    rows = [samples.overlap(f"A+B/n:{n}/grid:{g}x{g}") for n in range(502) for g in (1, 2)]
    first, last = (samples.overlap(f"A+B/n:999/grid:{grid}") for grid in ("1x1", "2x2"))
    chart = draw(samples.document([first, *rows, last]))["slowdown"]
    assert len(chart.rows) == MOST_ROWS - 2


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
    drawn = records(draw(*documents)["pairs"], "across")
    lines = ("line0", "line1", "line2")
    return {
        (r["across"], r["down"]): " ".join(r[k] for k in lines if k in r) or f"({r['problem']})"
        for r in drawn
    }


def test_pairs_stand_by_communication_and_computation() -> None:
    rows = [
        samples.overlap(
            "AllReduce+CublasGemm/bytes:1048576/n:8192/precision:bf16/cache:cold", 1.17
        ),
        samples.overlap("AllReduce+StreamKernel/bytes:1048576/blocks:132/cache:cold", 1.3),
        samples.overlap("HostToDevice+StreamKernel/bytes:67108864/blocks:132/cache:cold", 0.984),
    ]
    assert cells([samples.document(rows)]) == {
        ("AllReduce · 1 MiB", "CublasGemm · n 8192 · bf16"): "1.17",
        ("AllReduce · 1 MiB", "StreamKernel · blocks 132"): "1.30",
        ("HostToDevice · 64 MiB", "StreamKernel · blocks 132"): "0.98",
        ("HostToDevice · 64 MiB", "CublasGemm · n 8192 · bf16"): "(not measured)",
    }
    (panel,) = [draw(samples.document(rows))["pairs"].spec]
    (hatched,) = [one for one in panel["layer"] if "data" in one]
    assert hatched["mark"]["color"]["gradient"] == "linear"
    assert [one["problem"] for one in hatched["data"]["values"]] == ["not measured"]
    told = [one["field"] for one in hatched["encoding"]["tooltip"]]
    assert told == ["across", "down", "problem"], "no figures"


def test_files_have_the_places_of_their_own_pairs() -> None:
    def places(*sizes: range) -> list[tuple[list[str], list[str]]]:
        documents = [
            samples.document(
                [samples.overlap(f"AllGather+Gemm/bytes:{n << 20}/n:{n}", 1.2, 1, 1) for n in some]
            )
            for some in sizes
        ]
        panels = draw(*documents)["pairs"].spec["concat"]
        assert all(panel["height"] == 36 * len(panel_places(panel, "y")) for panel in panels)
        return [(panel_places(panel, "x"), panel_places(panel, "y")) for panel in panels]

    def panel_places(panel: Json, axis: str) -> list[str]:
        return list(panel["layer"][0]["encoding"][axis]["scale"]["domain"])

    def expected(sizes: range) -> tuple[list[str], list[str]]:
        return [f"AllGather · {n} MiB" for n in sizes], [f"Gemm · n {n}" for n in sizes]

    many, few = range(1, 12), range(20, 22)
    assert places(many, few) == [expected(many), expected(few)]
    beside = places(range(1, 3), few)  # side by side, which share their places
    assert beside[0] == beside[1]


def test_figures_in_tooltips_keep_the_zeros_at_their_ends() -> None:
    formats = {
        one["field"]: one.get("format")
        for layer in draw(samples.document(samples.links()))["link"].spec["concat"][0]["layer"]
        for one in layer["encoding"].get("tooltip", [])
    }
    assert formats["GBps"] == ".4r"
    assert formats["sms"] is None, "a count"


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
        ("AllToAll", "Gemm · n 64"): "invalid",
        ("AllToAll", "StreamKernel"): "error",
    }


def axis(name: str, wanted: str) -> str:
    """Return the value of an axis of a row's name."""
    return dict(part.split(":") for part in name.split("/") if ":" in part)[wanted]


def test_priority_shows_the_slowdown_the_latency_and_the_gain() -> None:
    rows = samples.priorities()
    cells = records(draw(samples.document(rows))["priority"], "across")
    for cell, row in zip(cells, rows, strict=True):
        assert cell["across"] == f"{axis(row['name'], 'priority')} priority"
        lines = f"{row['work_slowdown']:.2f}", f"{row['latency_ms']:#.3g} ms"
        shown = tuple(cell[f"line{number}"] for number in range(3))
        assert shown == (*lines, f"gain {row['gain']:.2f}")


def test_a_gain_that_is_not_to_be_trusted_is_not_written() -> None:
    rows = [row | {"valid": 0.0, "label": "throttled"} for row in samples.priorities()]
    cells = records(draw(samples.document(rows))["priority"], "across")
    assert [(cell["line0"], cell["lines"]) for cell in cells] == [("invalid", 1)] * len(rows)


def marks(node: object, filters: tuple[str, ...] = ()) -> list[tuple[Json, tuple[str, ...]]]:
    """Collect every mark of a specification with the filters that hold for it."""
    if isinstance(node, list):
        return [mark for child in node for mark in marks(child, filters)]
    if not isinstance(node, dict):
        return []
    filters += tuple(step["filter"] for step in node.get("transform", []))
    here = [(node["mark"], filters)] if isinstance(node.get("mark"), dict) else []
    below = [node[key] for key in ("layer", "concat", "hconcat", "vconcat", "spec") if key in node]
    return here + marks(below, filters)


@pytest.mark.parametrize("name", [kind.name for kind in CHARTS if kind.name not in CELLS | STACKS])
def test_a_bad_row_is_a_grey_hollow_point_and_in_no_line(name: str) -> None:
    drawn = marks(full_charts()[name].spec)
    lines = [filters for mark, filters in drawn if mark["type"] == "line"]
    assert lines
    assert all(filters == ("datum.trusted",) for filters in lines)
    bad = [mark for mark, filters in drawn if filters == ("!datum.trusted",)]
    assert bad
    assert all(mark["type"] == "point" and mark["filled"] is False for mark in bad)
    assert {mark["color"] for mark in bad} == {theme.GREY}


def test_a_bad_row_is_a_grey_hollow_bar() -> None:
    drawn = marks(draw(samples.document(samples.steps()))["steps"].spec)
    bad = [m for m, filters in drawn if m["type"] == "bar" and filters == ("!datum.trusted",)]
    assert {(mark["fill"], mark["stroke"]) for mark in bad} == {(None, theme.GREY)}


@pytest.mark.parametrize(
    ("make", "counter"),
    [
        (samples.priorities, "work_slowdown"),
        (samples.links, "GBps"),
        (samples.partitions, "overlap_ms"),
        (samples.matrix, "slowdown"),
        (samples.attributions, "by_l2"),
        (samples.steps, "chunking_cost_ms"),
    ],
)
def test_a_row_without_its_figures_is_not_drawn(
    make: Callable[[], list[Json]], counter: str
) -> None:
    rows = make()
    place = next(index for index, row in enumerate(rows) if counter in row)
    del rows[place][counter]
    charts = draw(samples.document(rows)).values()
    drawn = {str(row.name) for chart in charts for row in chart.rows}
    assert drawn == {row["name"] for row in rows} - {rows[place]["name"]}


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
        (samples.sweep(), ["slowdown", "pairs"]),
        (samples.pairs(), ["pairs"]),
        (samples.sweep()[:1], ["pairs"]),
        (samples.bandwidths(), ["families"]),
        (samples.copies(), ["families"]),
        (samples.compute_transfers(), ["families"]),
        (samples.priorities()[1:2], ["priority"]),
        (samples.supplies()[:1], ["families"]),
        (samples.layers()[:1], ["tokens"]),
        ([samples.row("Tp/RowParallel/tokens:256/chunks:2", speedup=1.1)], []),
        (samples.buckets(), ["families"]),
        (samples.steps()[:1], ["steps"]),
        (samples.links()[:1], ["link"]),
        (samples.partitions()[:1], ["partition"]),
        (samples.matrix()[:1], ["matrix"]),
        (samples.attributions()[:1], ["attribution"]),
        ([samples.row("Lab/Link/Broadcast/bytes:1", GBps=3.0, comm_sms=0.0)], ["link"]),
        ([samples.row("Lab/Knee/Broadcast/bytes:1", GBps=3.0, knee_sms=8.0)], []),
        ([row | {"error_occurred": True} for row in samples.matrix()], ["matrix"]),
        ([samples.row("Comm/AllReduce/bytes:1")], []),
        ([samples.row("Copy/Sequential/form:a", GBps=3.0)], []),
        ([row | {"error_occurred": True} for row in samples.copies()], []),
        ([samples.row("Compute/Gemm/n:64", TFLOPs=1.0)], ["families"]),
    ],
)
def test_a_chart_is_drawn_when_its_rows_exist(rows: list[Json], names: list[str]) -> None:
    assert list(draw(samples.document(rows))) == names


@pytest.mark.parametrize("name", [kind.name for kind in CHARTS if kind.name not in CELLS | STACKS])
def test_a_figure_with_an_interval_has_a_bar(name: str) -> None:
    plain, chart = (full_charts(intervals)[name] for intervals in (False, True))
    found = [r for r in records(chart, "name") if any(key.endswith("_low") for key in r)]
    assert found
    for record in found:
        for field in (key.removesuffix("_low") for key in record if key.endswith("_low")):
            assert record[f"{field}_low"] < record[field] < record[f"{field}_high"]
    bars = [text for text in texts(chart.spec, "filter") if "isValid" in text]
    assert bars
    assert not [text for text in texts(plain.spec, "filter") if "isValid" in text]


def test_a_cell_shows_the_interval_of_a_figure_that_is_shown() -> None:
    document = samples.with_intervals(samples.document(samples.pairs()), 0.02)
    document["benchmarks"][0] = samples.noisy(document["benchmarks"][0], "±30 %")
    cells = records(draw(document)["pairs"], "line0")
    assert [cell["lines"] for cell in cells if not cell["trusted"]] == [1]
    trusted = [cell for cell in cells if cell["trusted"]]
    assert trusted
    for cell in trusted:
        assert cell["line1"] == f"±{(cell['slowdown_high'] - cell['slowdown_low']) / 2:.2f}"
    plain = records(draw(samples.document(samples.pairs()))["pairs"], "line0")
    assert {cell["lines"] for cell in plain} == {1}


def test_a_noisy_row_is_grey_and_counted_by_its_state() -> None:
    document = samples.document(samples.sweep())
    document["benchmarks"][2] = samples.noisy(document["benchmarks"][2], "±30 %")
    chart = draw(document)["slowdown"]
    bad = [record["problem"] for record in records(chart, "grid") if not record["trusted"]]
    assert bad == ["noisy: ±30 %"]
    assert "Not to be trusted: 1 noisy of 7 rows" in subtitle(chart)


def test_a_negative_control_that_shows_no_gain_has_passed() -> None:
    document = samples.document(samples.pairs())
    document["benchmarks"].append(samples.control())
    chart = draw(document)["pairs"]
    control = [r for r in records(chart, "line0") if r["line0"] == "passed"]
    assert [record["problem"] for record in control] == [
        "control passed: one stream, and nothing overlapped"
    ]
    assert "Negative controls passed: 1; also grey." in subtitle(chart)
    assert "Not to be trusted" not in subtitle(chart)
