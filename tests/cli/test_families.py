"""What the families Copy, Supply, Launch and Priority write, on one rank of the host backend."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

FLAGS = (
    "--benchmark_filter=^(Copy|Supply|Launch|Priority)",
    "--budget_ms=1",
    *("--axis", "cache=warm"),
    *("--axis", "bytes=64K"),
    *("--axis", "elements=1024"),
    *("--axis", "intensity=2"),
    *("--axis", "pipeline_streams=1,2"),
    *("--axis", "batch_elements=1024"),
    *("--axis", "tie=events,host"),
    *("--axis", "fragments=16"),
    *("--axis", "workers=0,2"),
    *("--axis", "make_us=100"),
    *("--axis", "batch_bytes=4096"),
    *("--axis", "supply_batches=4"),
    *("--axis", "launches=1,4"),
    *("--axis", "total_steps=64"),
)

NOT_A_COUNTER = {
    *("name", "family_index", "per_family_instance_index", "run_name", "run_type"),
    *("repetitions", "repetition_index", "threads", "iterations", "real_time", "cpu_time"),
    *("time_unit", "state", "reason"),
}
EVERY_ROW = {
    *("p05_ms", "p95_ms", "cv", "samples", "skew_us", "empty_sample_us", "max_rel_err", "valid"),
    *("time_low_ms", "time_high_ms", "margin_pct", "core_wait_pct", "foreign_cores"),
}
BOTH_WAYS = {
    *("host_to_device_GBps", "host_to_device_slowdown"),
    *("device_to_host_GBps", "device_to_host_slowdown"),
}
STAGES = {
    *("sequential_ms", "in_ms", "compute_ms", "out_ms", "bound_ms", "speedup", "pct_of_bound"),
    "identical",
}
FRAGMENTED = {
    *("GBps", "one_transfer_ms", "fragmented_slowdown", "us_per_fragment"),
    "host_us_per_fragment",
}
SUPPLY = {
    *("make_ms", "consume_ms", "batches_per_s", "predicted_batches_per_s"),
    *("prediction_error_pct", "device_idle_share", "bound_by_workers"),
    *("bound_ms", "pct_of_bound"),
}
PIECES = {
    *("whole_ms", "pieces_slowdown", "kernel_us", "host_us_per_launch", "dominated_below_us"),
}
# The beginning of a name -> the row's counters besides EVERY_ROW. The first match applies.
COUNTERS = {
    "Copy/Bandwidth/direction:both/": {"GBps"} | BOTH_WAYS,
    "Copy/Bandwidth/direction:host_to_device/": {"GBps"},
    "Copy/Bandwidth/direction:device_to_host/": {"GBps"},
    "Copy/Bandwidth/direction:device_local/": {"GBps"},
    "Copy/Sequential/": {"GBps", "TFLOPs"},
    "Copy/Pipelined/": STAGES | {"duplex_bound_ms"},
    "Copy/ComputeTransfer/batches:4/batch_elements:1024/buffers:2/tie:host/": (
        STAGES | {"sync_cost_ms"}
    ),
    "Copy/ComputeTransfer/batches:4/batch_elements:1024/buffers:2/": STAGES,
    "Copy/Fragmented/": FRAGMENTED,
    "Supply/Batches/": SUPPLY,
    "Launch/RoundTrip/": {"round_trip_us"},
    "Launch/HandOver/": {"same_stream_us", "other_stream_us"},
    "Launch/EmptyKernel/": {"host_us_per_launch", "device_us_per_launch", "launches_per_s"},
    "Launch/Pieces/launches:1/": PIECES,
    "Launch/Pieces/launches:4/": PIECES | {"device_us_per_launch"},
}
# The beginning of a name -> its row's reason.
FINDINGS = {
    "Copy/Pipelined/elements:1024/intensity:2/pipeline_streams:2/": ("over the bound: ",),
    "Copy/Fragmented/": ("bandwidth-bound", "latency-bound"),
    "Supply/Batches/": ("bound by the producers", "bound by the device"),
    "Launch/Pieces/": ("launches dominate", "kernels dominate"),
}
UNAVAILABLE = (
    "not available: Priority/ShortBlocks+ShortBlocks and 4 more: streams have no priorities here: ",
    "not available: Copy/Bandwidth/direction:peer: PeerCopy exists on the cuda backend only",
    "not available: Copy/Fragmented/bytes:65536/fragments:16/call:batch/cache:warm: copies in a"
    " batch exist on the cuda backend only",
)


class Run:
    """One run of all these families, with its rows and its messages about others."""

    def __init__(self, launcher: "Launcher", folder: Path) -> None:
        out = folder / "out.json"
        done = launcher.run(
            *FLAGS, "--axis", "buffers=2", f"--benchmark_out={out}", ranks=1, timeout_s=300
        )
        assert done.returncode == 0, done.stderr
        self.stderr = done.stderr
        rows: list[dict[str, Any]] = json.loads(out.read_text())["benchmarks"]
        self.rows = {row["name"]: row for row in rows}


@pytest.fixture(scope="module")
def run(launcher: "Launcher", tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(launcher, tmp_path_factory.mktemp("run"))


def test_every_scenario_has_rows_and_every_row_a_scenario(run: Run) -> None:
    met = {next((start for start in COUNTERS if name.startswith(start)), name) for name in run.rows}
    assert met == set(COUNTERS)


def test_each_row_has_its_scenarios_counters_and_no_others(run: Run) -> None:
    for name, row in run.rows.items():
        counters = next(COUNTERS[start] for start in COUNTERS if name.startswith(start))
        keys = {key.removesuffix("_low").removesuffix("_high") for key in row}
        assert keys - NOT_A_COUNTER == EVERY_ROW | counters, name


def test_every_row_is_valid(run: Run) -> None:
    for name, row in run.rows.items():
        assert row["valid"] == 1, (name, row["reason"])
        assert row["state"] in ("ok", "noisy"), (name, row["reason"])


def test_other_orders_of_the_same_work_have_the_same_result(run: Run) -> None:
    identical = {row["identical"] for row in run.rows.values() if "identical" in row}
    assert identical == {1}


def test_only_rows_with_a_finding_have_a_reason(run: Run) -> None:
    for name, row in run.rows.items():
        if row["state"] == "noisy":
            continue
        choices = next((FINDINGS[start] for start in FINDINGS if name.startswith(start)), None)
        if choices is None:
            assert row["reason"] == "", name
        else:
            assert row["reason"].startswith(choices), name


# Ratios are medians over groups, and not ratios of medians: they agree within their interval.
def test_counters_follow_from_each_other(run: Run) -> None:
    def expect(row: dict[str, Any], counter: str, value: float) -> None:
        assert row[f"{counter}_low"] <= row[counter] <= row[f"{counter}_high"], row["name"]
        spread = row[f"{counter}_high"] - row[f"{counter}_low"]
        assert row[counter] == pytest.approx(value, abs=spread + 1e-9), (row["name"], counter)

    for name, row in run.rows.items():
        time_ms = row["real_time"]
        if name.startswith("Copy/Pipelined/"):
            parts = 2 if "/pipeline_streams:2/" in name else 1
            stages = (row["in_ms"], row["compute_ms"], row["out_ms"])
            expect(row, "bound_ms", (sum(stages) + (parts - 1) * max(stages)) / parts)
        if "bound_ms" in row:
            expect(row, "pct_of_bound", 100 * row["bound_ms"] / time_ms)
        if name.startswith(("Copy/Pipelined/", "Copy/ComputeTransfer/")):
            expect(row, "speedup", row["sequential_ms"] / time_ms)
        if name.startswith("Copy/Fragmented/"):
            assert row["us_per_fragment"] == pytest.approx(time_ms / 16 * 1e3)
        if name.startswith("Supply/"):
            expect(row, "batches_per_s", 4 / time_ms * 1e3)
            predicted = row["predicted_batches_per_s"]
            error = 100 * (row["batches_per_s"] / predicted - 1)
            expect(row, "prediction_error_pct", error)


# It cannot take less: a worker sleeps until a tenth of a millisecond is over.
def test_a_batch_takes_the_time_that_was_asked_for(run: Run) -> None:
    made_ms = [row["make_ms"] for name, row in run.rows.items() if name.startswith("Supply/")]
    assert made_ms
    assert min(made_ms) >= 0.1


def test_unavailable_rows_are_listed_with_the_reason(run: Run) -> None:
    lines = run.stderr.splitlines()
    for start in UNAVAILABLE:
        assert any(line.startswith(start) for line in lines), start
    assert not any(name.startswith("Priority/") for name in run.rows)
