"""The knee, and how axes and sizes read in labels."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlapbench.reading.names import BenchmarkName, binary_size
from overlapbench.reading.rows import Row, State
from overlapbench.view.charts.finish import KNEE_RISE, knee
from overlapbench.view.charts.naming import (
    by_order,
    by_workload,
    describe,
    named,
    shared_axes,
)
from overlapbench.view.charts.pairs import SLOWDOWN


@pytest.mark.parametrize(
    ("slowdowns", "index"),
    [
        pytest.param([0.91, 0.92, 0.92, 1.02, 1.16, 1.06], 3, id="the report: 16x16"),
        pytest.param([1.08, 1.09, 1.41, 1.23, 1.05, 1.03, 1.01], 2, id="two H200: 16x16"),
        pytest.param([1.0, 1.04, 1.08, 1.12], 3, id="a slow rise"),
        pytest.param([1.0, 1.0999, 1.0], None, id="not 10 % above"),
        pytest.param([0.8, 0.9, 1.0], None, id="never above perfect overlap"),
        pytest.param([1.5, 1.4, 1.3], None, id="only falling"),
        pytest.param([1.5], None, id="one grid has no smaller ones"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_knee(slowdowns: list[float], index: int | None) -> None:
    assert knee(slowdowns) == index


@given(st.lists(st.floats(min_value=0.1, max_value=10.0), max_size=12))
def test_the_knee_is_the_first_clear_rise(slowdowns: list[float]) -> None:
    rises = [
        index
        for index in range(1, len(slowdowns))
        if slowdowns[index] > 1.0 and slowdowns[index] >= KNEE_RISE * min(slowdowns[:index])
    ]
    assert knee(slowdowns) == (rises[0] if rises else None)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (100, "100 B"),
        (1 << 10, "1 KiB"),
        (1536, "1536 B"),
        (64 << 20, "64 MiB"),
        (3 << 29, "1536 MiB"),
        (1 << 40, "1024 GiB"),
    ],
)
def test_binary_size(size_bytes: int, text: str) -> None:
    assert binary_size(size_bytes) == text


@pytest.mark.parametrize(
    ("axis", "value", "text"),
    [
        ("bytes", "67108864", "64 MiB"),
        ("array_bytes", "268435456", "array 256 MiB"),
        ("delay_us", "4000", "4000 µs"),
        ("grid", "16x8", "grid 16×8"),
        ("precision", "bf16", "bf16"),
        ("work", "tile", "work tile"),
        ("elements", "4194304", "4 Mi elements"),
        ("elements", "1000", "1000 elements"),
        ("batch_elements", "524288", "batch 512 Ki elements"),
        ("batch_bytes", "4194304", "batch 4 MiB"),
        ("supply_batches", "32", "batches 32"),
        ("pipeline_streams", "4", "streams 4"),
        ("make_us", "2000", "make 2000 µs"),
        ("memory", "pageable", "pageable"),
        ("call", "graph", "graph"),
        ("priority", "high", "priority high"),
        ("engine", "sm", "engine sm"),
        ("tie", "host", "tie host"),
        ("block_steps", "2048", "block steps 2048"),
    ],
)
def test_describe(axis: str, value: str, text: str) -> None:
    assert describe(axis, value) == text


@pytest.mark.parametrize(
    ("suffix", "grid"),
    [("/grid:16x8", "16×8"), ("", None), ("/grid:16", None), ("/grid:axb", None)],
)
def test_only_a_grid_has_a_place_on_its_axis(suffix: str, grid: str | None) -> None:
    name = BenchmarkName.parse(f"Compute/Gemm{suffix}")
    assert SLOWDOWN.x.of(Row("", name, {}, State.OK)) == grid


def test_labels_omit_axes_that_all_rows_share() -> None:
    rows = [
        Row("run", BenchmarkName.parse(f"Comm/AllReduce/bytes:{size}/cache:cold"), {})
        for size in (1 << 20, 1 << 30)
    ]
    assert shared_axes(rows) == {"cache": "cold"}
    assert [named(head=by_workload)(rows)(row) for row in rows] == [
        "AllReduce · 1 MiB",
        "AllReduce · 1 GiB",
    ]
    other = replace(rows[0], file="other")
    assert named("bytes", head=by_workload)([*rows, other])(other) == "AllReduce · other"


def test_a_row_is_named_by_the_side_that_starts_first() -> None:
    rows = [
        Row("run", BenchmarkName.parse(f"Lab/Matrix/AllReduce+Gemm{first}"), {})
        for first in ("/first:zero", "/first:none", "/first:half", "/first:comm", "")
    ]
    assert [by_order(rows)(row) for row in rows] == [
        "first zero",
        "neither side first",
        "first half",
        "communication first",
        "computation first",
    ]
