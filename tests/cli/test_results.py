"""The JSON of a run: the contract with the tools, checked on a run of every family."""

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

FILTER = "Compute/(Gemm|StreamKernel)|Comm/(AllReduce|HostToDevice)|Overlap/(AllToAll.Gemm|Second)"
FLAGS = (
    f"--benchmark_filter={FILTER}",
    "--budget_ms=20",
    *("--axis", "bytes=64K"),
    *("--axis", "array_bytes=1M"),
    *("--axis", "n=64"),
    *("--axis", "grid=1x1,2x2"),
    *("--axis", "delay_us=2000"),
    *("--axis", "second_delay_us=1000"),
)
NAME = re.compile(r"[A-Z][a-z]+/[A-Z]\w+(\+[A-Z]\w+)?(/[a-z]\w*:[\w.]+)+")

EVERY_ROW = {
    *("p05_ms", "p95_ms", "cv", "samples", "skew_us", "empty_sample_us", "max_rel_err", "valid"),
    *("time_low_ms", "time_high_ms", "margin_pct", "core_wait_pct", "foreign_cores"),
}
OVERLAP = {
    *("comp_ms", "comm_ms", "overlap_ms", "slowdown", "speedup", "efficiency", "hidden_comm"),
    *("comp_slowdown", "comm_slowdown", "exposed_comm_ms", "coverage"),
}
PRODUCT = {"m", "n", "k"}
COUNTERS = {
    "Compute/Gemm": {"TFLOPs", "GBps"} | PRODUCT,
    "Compute/StreamKernel": {"TFLOPs", "GBps"},
    "Comm/AllReduce": {"algbw_GBps", "busbw_GBps"},
    "Comm/HostToDevice": {"GBps"},
    "Overlap/AllToAll+Gemm": OVERLAP | {"algbw_GBps", "busbw_GBps"} | PRODUCT,
    "Overlap/SecondDelay+Delay": OVERLAP,
}
CONTEXT = {
    *("overlapbench_schema", "git_revision", "backend", "ranks", "hosts", "device", "gate"),
    *("ranks_by_host", "allowed_cores"),
    *("device_multiprocessors", "device_cache_bytes", "device_memory_bytes", "mpi_version"),
    *("empty_sample_us", "host_cores"),
}


class Run:
    """One run of two ranks, with its file, its samples and what it printed."""

    def __init__(self, launcher: "Launcher", folder: Path) -> None:
        self.samples = folder / "samples.csv"
        out = folder / "out.json"
        done = launcher.run(
            *FLAGS, f"--benchmark_out={out}", f"--samples_out={self.samples}", timeout_s=300
        )
        assert done.returncode == 0, done.stderr
        self.stdout = done.stdout
        self.files = sorted(path.name for path in folder.iterdir())
        self.result: dict[str, Any] = json.loads(out.read_text())
        self.rows: list[dict[str, Any]] = self.result["benchmarks"]

    def times_ms(self, row: dict[str, Any], of_run: str) -> np.ndarray:
        """The row's samples of one of its runs, in the order in which they were taken."""
        with self.samples.open() as file:
            return np.array(
                [
                    float(sample["total_ms"])
                    for sample in csv.DictReader(file)
                    if (sample["name"], sample["run"]) == (row["name"], of_run)
                ]
            )


@pytest.fixture(scope="module")
def run(launcher: "Launcher", tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(launcher, tmp_path_factory.mktemp("run"))


def scenario(row: dict[str, Any]) -> str:
    return "/".join(row["name"].split("/")[:2])


def test_the_files_are_whole_and_nothing_else_is_left(run: Run) -> None:
    assert run.files == ["out.json", "samples.csv"]


def test_the_context_describes_the_origin_of_a_result(run: Run) -> None:
    context = run.result["context"]
    assert context.keys() >= CONTEXT
    assert context["backend"] == "host"
    assert context["ranks"] == "2"
    assert context["executable"].endswith("overlapbench")
    assert float(context["empty_sample_us"]) >= 0


def test_the_context_has_only_listed_environment_variables(run: Run) -> None:
    variables = {key for key in run.result["context"] if key.startswith("env_")}
    assert not variables & {"env_PATH", "env_HOME", "env_USER"}


def test_names_follow_the_grammar_and_are_unique(run: Run) -> None:
    names = [row["name"] for row in run.rows]
    assert len(set(names)) == len(names)
    for name in names:
        assert NAME.fullmatch(name)


def test_every_scenario_that_was_asked_for_is_there(run: Run) -> None:
    assert {scenario(row) for row in run.rows} == set(COUNTERS)
    assert "Overlap/AllToAll+Gemm/bytes:65536/n:64/grid:2x2/work:full/cache:cold" in {
        row["name"] for row in run.rows
    }


def test_each_row_has_its_familys_counters_and_no_others(run: Run) -> None:
    of_google_benchmark = {
        *("name", "family_index", "per_family_instance_index", "run_name", "run_type"),
        *("repetitions", "repetition_index", "threads", "iterations", "real_time", "cpu_time"),
        *("time_unit", "state", "reason"),
    }
    for row in run.rows:
        keys = {key.removesuffix("_low").removesuffix("_high") for key in row}
        assert keys - of_google_benchmark == EVERY_ROW | COUNTERS[scenario(row)], row["name"]


# Each is the median over the groups, from times that were sampled side by side.
def test_counters_match_their_definitions(run: Run) -> None:
    for row in run.rows:
        if not row["name"].startswith("Overlap/"):
            continue
        comp, comm, both = (run.times_ms(row, name) for name in ("comp", "comm", "overlap"))
        longer, shorter = sorted((comp, comm), key=np.median, reverse=True)
        hidden = comp + comm - both
        expected = {
            "comp_ms": comp,
            "comm_ms": comm,
            "overlap_ms": both,
            "slowdown": both / longer,
            "speedup": (comp + comm) / both,
            "efficiency": hidden / shorter,
            "hidden_comm": hidden / comm,
            "exposed_comm_ms": both - comp,
        }
        for counter, values in expected.items():
            assert row[counter] == pytest.approx(np.median(values), rel=1e-3, abs=1e-4), counter
            assert row[f"{counter}_low"] <= row[counter] <= row[f"{counter}_high"], counter
        assert row["real_time"] == pytest.approx(row["overlap_ms"])
        assert row["time_unit"] == "ms"


# Of an even number of groups, the median of the rates is not the rate at the median time.
def test_rates_are_medians_over_the_samples(run: Run) -> None:
    for row in run.rows:
        if scenario(row) == "Comm/AllReduce":
            rates = 65536 / run.times_ms(row, "AllReduce") / 1e6
            assert row["algbw_GBps"] == pytest.approx(np.median(rates), rel=1e-4)
            assert row["busbw_GBps"] == pytest.approx(row["algbw_GBps"])  # 2 (n - 1) / n, n = 2
        if scenario(row) == "Compute/StreamKernel":
            rates = 3 * 2**20 / run.times_ms(row, "StreamKernel") / 1e6
            assert row["GBps"] == pytest.approx(np.median(rates), rel=1e-4)


def test_a_row_that_is_not_valid_says_why(run: Run) -> None:
    for row in run.rows:
        assert row["valid"] in (0, 1)
        assert (row["state"] == "invalid") == (row["valid"] == 0), row["name"]
        assert row["reason"] or row["state"] == "ok", row["name"]
        assert "label" not in row


def test_the_negative_control_is_marked(run: Run) -> None:
    (one_stream,) = (row for row in run.rows if row["name"].endswith("/streams:1"))
    assert one_stream["state"] == "control"
    assert one_stream["reason"] == "one stream, and nothing overlapped"
    assert one_stream["slowdown_low"] <= one_stream["slowdown"] <= one_stream["slowdown_high"]


def test_the_samples_are_those_of_the_rows(run: Run) -> None:
    header, *lines = run.samples.read_text().splitlines()
    assert header == "name,group,run,total_ms,skew_us"
    for row in run.rows:
        own = [line.split(",") for line in lines if line.startswith(row["name"] + ",")]
        runs = Counter(run for _name, _group, run, *_times in own)
        family, workload = row["name"].split("/")[:2]
        expected = ("comp", "comm", "overlap") if family == "Overlap" else (workload,)
        assert runs == dict.fromkeys(expected, row["samples"])


# A line for each row: what distinguishes it, its family's main figures, and its reason.
def test_the_console_shows_a_rows_main_figures(run: Run) -> None:
    number = r"(-?[\d.]+( ±[\d.]+)?|\?)"
    lines = run.stdout.splitlines()
    (begin,) = (i for i, line in enumerate(lines) if line.startswith("Overlap/SecondDelay+Delay"))
    titles, _, row = lines[begin + 1 : begin + 4]
    assert titles.split("  ")[0] == "streams"
    for title in ("T ms", "slowdown", "comp ×", "comm ×", "C ms", "M ms", "efficiency"):
        assert f"  {title}" in titles
    figures = r"\s+".join([number] * 7)
    assert re.fullmatch(rf"      1\s+{figures}\s+control: one stream, and nothing overlapped", row)


def test_json_on_the_console_is_the_only_thing_there(launcher: "Launcher") -> None:
    done = launcher.run(
        "--benchmark_format=json",
        "--benchmark_filter=Comm/AllReduce",
        *("--axis", "bytes=64K"),
        "--budget_ms=20",
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["benchmarks"]
    assert row["name"] == "Comm/AllReduce/bytes:65536/cache:cold"


def test_csv_on_the_console_has_a_line_for_each_row(launcher: "Launcher") -> None:
    filter_ = "--benchmark_filter=Comm/(AllReduce|HostToDevice)"
    flags = (filter_, "--axis", "bytes=64K", "--budget_ms=20")
    done = launcher.run("--benchmark_format=csv", *flags)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["name"].split("/")[1] for row in rows] == ["AllReduce", "HostToDevice"]
    assert all(float(row["real_time"]) > 0 and row["state"] in ("ok", "noisy") for row in rows)
    assert rows[0]["busbw_GBps"] != ""
    assert rows[1]["busbw_GBps"] == ""


def test_each_ranks_times_are_written_on_request(launcher: "Launcher", tmp_path: Path) -> None:
    out, times = tmp_path / "out.json", tmp_path / "times.csv"
    flags = ("--axis", "bytes=60K", "--axis", "delay_us=2000", "--budget_ms=40")
    done = launcher.run(
        "--benchmark_filter=Compute/Delay|Comm/AllReduce",
        *flags,
        f"--benchmark_out={out}",
        f"--rank_times_out={times}",
        ranks=3,
    )
    assert done.returncode == 0, done.stderr
    header, *lines = times.read_text().splitlines()
    assert header == "name,rank,host,time_ms,late_us,work_ms"
    rows = json.loads(out.read_text())["benchmarks"]
    assert len(lines) == 3 * len(rows) == 6
    for row in rows:
        own = [line.split(",") for line in lines if line.startswith(row["name"] + ",")]
        assert [fields[1] for fields in own] == ["0", "1", "2"]
        work_ms = [float(fields[5]) for fields in own]
        assert work_ms[int(row["slowest_rank"])] == max(work_ms)
        # The rank with the greatest median need not be slowest in any of a few samples.
        assert 0 <= row["slowest_share"] <= 1


def test_energy_is_in_a_row_or_one_line_says_why_not(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    flags = ("--energy=own", "--no-self-test", "--benchmark_filter=Compute/Delay", "--budget_ms=1")
    done = launcher.run(*flags, f"--benchmark_out={out}")
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text(encoding="utf-8"))
    (row,) = result["benchmarks"]
    energy = result["context"]["energy"]
    if energy.startswith("RAPL, a tick every "):
        assert row["energy_J"] > 0
        assert float(result["context"]["idle_W"]) > 0
        return
    assert energy.startswith("not available: ")
    assert done.stderr == f"overlapbench: energy {energy}\n"
    assert "energy_J" not in row
    refused = launcher.alone("--energy=some")
    assert refused.stderr == "overlapbench: --energy takes on, off or own, got 'some'\n"
