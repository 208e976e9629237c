"""The chart of training steps: what they expose, in parts that add up."""

from collections.abc import Sequence

import pytest

import samples
from samples import Json
from test_chart import draw, records


def bars_of(rows: Sequence[Json]) -> list[Json]:
    drawn = records(draw(samples.document(rows))["steps"], "reach")
    return [record for record in drawn if "part" not in record]


def parts_of(rows: Sequence[Json]) -> dict[str, dict[str, Json]]:
    parts: dict[str, dict[str, Json]] = {}
    for part in records(draw(samples.document(rows))["steps"], "part"):
        parts.setdefault(part["name"], {})[part["part"]] = part
    return parts


def test_parts_add_up_to_what_is_exposed() -> None:
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
    assert (cut["from"], cut["to"]) == (0, pytest.approx(-2)), "cutting made it faster"


def test_the_tick_is_where_the_plain_form_ends() -> None:
    bars = bars_of(samples.steps()[:4])
    assert [bar["tick"] for bar in bars] == pytest.approx([60, 60, 50, 20])
    assert [bar["text"] for bar in bars] == ["40 %", "20 %", "5.0 %", "10 %"]


def test_steps_are_named_by_their_family_and_what_sets_them_apart() -> None:
    assert [bar["bar"] for bar in bars_of(samples.steps()[:4])] == [
        "Fsdp/Prefetch · nccl · prefetch 0",
        "Fsdp/Prefetch · nccl · prefetch 1",
        "Fsdp/Prefetch · copy · prefetch 1",
        "Tp/Block/Forward",
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
