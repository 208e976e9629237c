"""Titles of charts: they state what the rows show, with its interval, or nothing but the topic."""

from typing import Any

import pytest

import samples
from overlapbench.view import theme
from samples import Json
from test_chart import PAIR, draw, subtitle

WIDE = {"slowdown_low": 0.9, "slowdown_high": 2.4}
TIGHT = {"slowdown_low": 1.5, "slowdown_high": 1.7}


def titles(*rows: Json) -> dict[str, str]:
    return {name: chart.title for name, chart in draw(samples.document(rows)).items()}


def grids(*slowdowns: float, **bounds: Any) -> list[Json]:
    return [
        samples.overlap(f"{PAIR}/grid:{grid}x{grid}", slowdown, **bounds)
        for grid, slowdown in enumerate(slowdowns, 1)
    ]


def test_a_title_states_the_highest_figure_with_its_interval() -> None:
    rows = [*grids(1.02), *grids(1.1, 1.6, **TIGHT)[1:]]
    found = titles(*rows)
    where = "AllToAll beside Gemm, 64 MiB, n 4096"
    assert found["slowdown"] == f"At 2×2, both take 1.6 ±0.1 × the longer side: {where}"
    assert found["pairs"] == f"Both sides take up to 1.6 ±0.1 × the longer one: {where}"
    chart = draw(samples.document(rows))["slowdown"]
    assert subtitle(chart).startswith("Slowdown against grid\n")


@pytest.mark.parametrize(
    "rows",
    [
        grids(1.1, 1.6),  # without intervals
        grids(1.1, 1.6, **WIDE),
        grids(1.0, 1.01, slowdown_low=0.999, slowdown_high=1.015),  # not worth a title
        grids(1.1, 1.6, state="noisy", reason="load", **TIGHT),
    ],
)
def test_without_a_certain_finding_a_title_is_the_topic(rows: list[Json]) -> None:
    found = titles(*rows)
    assert (found["slowdown"], found["pairs"]) == ("Slowdown against grid", "Slowdown of pairs")
    assert "Slowdown against grid" not in subtitle(draw(samples.document(rows))["slowdown"])


@pytest.mark.parametrize(("count", "reach"), [(2, "0.07"), (9, "0.08")])
def test_the_interval_of_the_highest_of_many_is_wider(count: int, reach: str) -> None:
    rows = grids(*[1.6] * count, slowdown_low=1.54, slowdown_high=1.66)
    assert f" 1.60 ±{reach} × " in titles(*rows)["slowdown"]


def shared(way: str, sms: str, ms: float, reach: float) -> Json:
    name = f"AllGather+CublasGemm/bytes:1073741824/n:8192{way}{sms}/cache:cold"
    made = samples.overlap(name, 1.5)
    made |= {"overlap_ms": ms, "overlap_ms_low": ms - reach, "overlap_ms_high": ms + reach}
    made["name"] = made["run_name"] = made["run_name"].replace("Overlap", "Lab/Partition")
    return made


def test_a_better_setting_is_told_beside_the_default() -> None:
    default, copy, limited = (
        shared("", "", 3.29, 0.02),
        shared("/transport:copy", "", 1.6, 0.01),
        shared("/transport:copy", "/comp_sms:120", 1.47, 0.01),
    )
    told = titles(default, copy, limited)["partition"]
    what = "AllGather beside CublasGemm, 1 GiB, n 8192"
    assert told == f"{what}: 1.47 ±0.01 ms by copy · comp sms 120, 3.29 ±0.02 by nccl"
    neutral = "Sharing the SMs between two sides"
    assert titles(copy, limited)["partition"] == neutral, "no default"
    assert titles(default, shared("/transport:copy", "", 3.28, 0.1))["partition"] == neutral


def test_panels_of_families_state_their_best_figure() -> None:
    bounds: Json = {"busbw_GBps_low": 338.0, "busbw_GBps_high": 342.0}
    rows = [
        samples.row(f"Comm/AllReduce/bytes:{size << 20}", busbw_GBps=300.0 + size, **bounds)
        for size in (1, 40)
    ]
    copies = [
        samples.row(
            f"Gelu/Fused/count:{count}", pct_of_copy=x, pct_of_copy_low=x, pct_of_copy_high=x
        )
        for count, x in ((1024, 90.0), (2048, 99.0))
    ]
    told = "Comm/AllReduce: busbw up to 340 ±2 GB/s (40 MiB)"
    alone = draw(samples.document(rows))["families"]
    assert alone.title == told  # a panel alone has no other title
    assert "concat" not in alone.spec
    panels = draw(samples.document([*rows, *copies]))["families"].spec["concat"]
    assert [" ".join(panel["title"]["text"]) for panel in panels] == [
        told,
        "Gelu/Fused: up to 99.00 ±0 % of a copy (count 2048)",
    ]
    assert [panel["layer"][-1]["encoding"]["y"]["title"] for panel in panels] == [
        "busbw (GB/s)",
        "% of a copy",
    ]


def test_bars_are_small_multiples() -> None:
    def step(kind: str, number: int) -> Json:
        name = f"{kind}/layers:{number}/cache:cold"
        parts: Json = {"exposed_comm_ms": 0.5, "chunking_cost_ms": 0.1, "interference_ms": 0.1}
        return samples.row(name, real_time=2.0 + number, sequential_ms=4.0 + number, **parts)

    kinds = ("Ddp/Buckets", "Fsdp/Prefetch", "Moe/DispatchCombine")
    rows = [step(kind, number) for kind in kinds for number in range(9)]
    many = draw(samples.document(rows))["steps"].spec
    assert [panel["title"]["text"] for panel in many["concat"]] == [[kind] for kind in kinds]
    assert many["columns"] == 2
    for panel in many["concat"]:
        assert panel["layer"][0]["encoding"]["y"]["scale"]["domain"] == [
            f"layers {number}" for number in range(9)
        ]
        assert panel["width"] < theme.WIDTH / 2
