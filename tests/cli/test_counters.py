"""The table of counters: whole, the same wherever it is written, with every row's counters."""

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import update_counters
from overlapbench.reading.result import parse_result

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

# Every row of the host backend, each as small and quick as it can be.
FLAGS = (
    "--budget_ms=1",
    *("--axis", "cache=warm"),
    *("--axis", "bytes=64K"),
    *("--axis", "array_bytes=64K"),
    *("--axis", "n=64"),
    *("--axis", "grid=1x1"),
    *("--axis", "elements=4096"),
    *("--axis", "batch_elements=1024"),
    *("--axis", "delay_us=100"),
    *("--axis", "second_delay_us=100"),
    *("--axis", "fragments=16"),
    *("--axis", "make_us=100"),
    *("--axis", "batch_bytes=4096"),
    *("--axis", "supply_batches=4"),
    *("--axis", "launches=1,4"),
    *("--axis", "total_steps=64"),
    *("--axis", "count=65536"),
    *("--axis", "matrix_bytes=256K"),
    *("--axis", "tensors=4"),
    *("--axis", "tokens=32"),
    *("--axis", "width=32"),
    *("--axis", "hidden=32"),
    *("--axis", "microbatches=4"),
    *("--axis", "sequences=4"),
    *("--axis", "forward_us=100"),
    *("--axis", "backward_us=200"),
)
# Google Benchmark's fields, and those that describe a row.
FIELDS = {
    *("name", "family_index", "per_family_instance_index", "run_name", "run_type"),
    *("repetitions", "repetition_index", "threads", "iterations", "real_time", "cpu_time"),
    *("time_unit", "state", "reason"),
}
FAMILIES = (
    *("Compute", "Comm", "Overlap", "Copy", "Supply", "Launch", "Gelu", "Softmax"),
    *("Tp", "Ddp", "Decode", "Fsdp", "Moe", "Layers", "MixedPrecision", "Prefetch", "Pp", "Lab"),
)


def listed(launcher: "Launcher", form: str) -> str:
    command = [str(launcher.binary), f"--list_counters={form}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def text(launcher: "Launcher", tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the result of a run of everything, which names the slowest ranks too."""
    folder = tmp_path_factory.mktemp("run")
    out = folder / "out.json"
    files = (f"--benchmark_out={out}", f"--rank_times_out={folder}/ranks.csv")
    done = launcher.run(*FLAGS, *files, timeout_s=600)
    assert done.returncode == 0, done.stderr
    return out.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def result(text: str) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(text)
    return whole


def test_the_listed_table_is_that_of_a_result(launcher: "Launcher", result: dict[str, Any]) -> None:
    tables = json.loads(listed(launcher, "json"))
    assert len(tables["counters"]) > 50
    assert [pattern["name"] for pattern in tables.pop("patterns")] == [
        "many short kernels",
        "gaps from late launches",
        "copies and kernels in turn, on different streams",
        "a starving device",
    ]
    assert tables == {part: result[part] for part in ("counters", "families")}


def test_each_counter_is_defined_once_and_in_full(result: dict[str, Any]) -> None:
    names = [counter["name"] for counter in result["counters"]]
    assert len(set(names)) == len(names)
    for counter in result["counters"]:
        assert counter["title"], counter
        assert counter["definition"], counter


def test_families_lead_with_counters_of_the_table(result: dict[str, Any]) -> None:
    names = {counter["name"] for counter in result["counters"]}
    for family in result["families"]:
        assert family["lead"], family
        assert set(family["lead"]) <= names, family


def test_every_counter_of_every_row_is_in_the_table(result: dict[str, Any]) -> None:
    rows = result["benchmarks"]
    assert {row["name"].split("/")[0] for row in rows} == set(FAMILIES)
    keys = {key for row in rows for key in row} - FIELDS
    in_rows = {key.removesuffix("_low").removesuffix("_high") for key in keys}
    assert in_rows <= {counter["name"] for counter in result["counters"]}
    assert {"slowest_rank", "slowdown", "bound_ms", "pct_of_copy", "round_trip_us"} <= in_rows


# The reader refuses a value outside its counter's range.
def test_the_tools_read_every_row(text: str, result: dict[str, Any]) -> None:
    names = [row["name"] for row in result["benchmarks"]]
    assert sorted(str(row.name) for row in parse_result("run", text).rows) == sorted(names)


@pytest.mark.parametrize("path", [update_counters.STORED, update_counters.PATTERNS])
def test_generated_copies_of_the_table_are_up_to_date(launcher: "Launcher", path: Path) -> None:
    expected = update_counters.up_to_date(launcher.binary)[path]
    assert path.read_text(encoding="utf-8") == expected, "run dev/update_counters.py"


def test_help_explains_every_counter_in_80_columns(launcher: "Launcher") -> None:
    command = [str(launcher.binary), "--help", "counters"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    entries = lines[lines.index("Counters:") + 1 :]
    explained = [line.split()[0] for line in entries if line[2] != " "]
    table = json.loads(listed(launcher, "json"))["counters"]
    assert explained == [counter["name"] for counter in table]
