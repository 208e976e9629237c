"""Results of several runs in one file: what every tool reads, and what is refused."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import samples
from overlapbench.cli import chart, compare, report
from overlapbench.cli import merge as merge_results
from overlapbench.reading.result import Result, State, read_results

VARIABLE = "env_CUDA_DEVICE_MAX_CONNECTIONS"
PAIR = "Overlap/AllReduce+Gemm/bytes:1048576/cache:cold"


def document(connections: int, *rows: samples.Json, **more: Any) -> samples.Json:
    name = f"{PAIR}/connections:{connections}".removeprefix("Overlap/")
    made = [samples.overlap(name, family_index=0), *rows]
    return samples.document(made, **{VARIABLE: str(connections)}) | more


def write(path: Path, content: samples.Json) -> Path:
    path.write_text(json.dumps(content))
    return path


def merge(folder: Path, *documents: samples.Json) -> samples.Json:
    """Merge documents as files 0.json, 1.json, ... and return what is written."""
    parts = [write(folder / f"{n}.json", content) for n, content in enumerate(documents)]
    out = folder / "merged.json"
    assert merge_results.main([*map(str, parts), "-o", str(out)]) == 0
    merged: samples.Json = json.loads(out.read_text())
    return merged


def read(folder: Path) -> Result:
    (result,) = read_results([str(folder / "merged.json")])
    return result


def test_every_tool_reads_merged_results(tmp_path: Path) -> None:
    merge(tmp_path, document(1), document(8))
    merged = str(tmp_path / "merged.json")
    names = [str(row.name) for row in read(tmp_path).rows]
    assert names == [f"{PAIR}/connections:1", f"{PAIR}/connections:8"]
    assert all(row.state is State.OK for row in read(tmp_path).rows)
    again = shutil.copy(merged, tmp_path / "again.json")
    assert compare.main([merged, str(again)]) in (0, 3)
    assert report.main([merged, "-o", str(tmp_path / "report.html")]) == 0
    assert chart.main([merged, "-o", str(tmp_path / "charts")]) == 0


def test_the_context_is_the_first_with_the_environment_of_all(tmp_path: Path) -> None:
    later = document(8)
    later["context"] |= {"date": "2026-01-01T00:00:00+00:00", "busy": "0 cores are idle"}
    context = merge(tmp_path, document(1), later)["context"]
    assert context[VARIABLE] == "1, 8"
    assert context["date"] == samples.context()["date"]
    assert context["busy"] == "0 cores are idle"


def test_one_failed_self_test_fails_all(tmp_path: Path) -> None:
    first, second = document(1), document(8)
    first["context"]["self_test"] = "passed"
    second["context"]["self_test"] = "failed: 1.2 of 1"
    assert merge(tmp_path, first, second)["context"]["self_test"] == "failed: 1.2 of 1"


def test_a_benchmark_of_several_runs_is_the_firsts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "Compute/Gemm/n:1024"
    twice = [samples.row(name, repetition, real_time=1.0) for repetition in (0, 1)]
    merged = merge(
        tmp_path, document(1, *twice), document(8, samples.row(name, real_time=2.0)), document(32)
    )
    times = [row["real_time"] for row in merged["benchmarks"] if row["name"] == name]
    assert times == [1.0, 1.0]
    said = "1 benchmark is in several runs: only the first is kept"
    assert capsys.readouterr().err == f"overlapbench merge: {said}\n"
    families = [row["family_index"] for row in merged["benchmarks"] if "Overlap" in row["name"]]
    assert families == [0, 1, 2]


def test_an_incomplete_run_makes_the_whole_incomplete(tmp_path: Path) -> None:
    merge(tmp_path, document(1), document(8, incomplete="ended by Ctrl-C"))
    assert read(tmp_path).incomplete == "1.json: ended by Ctrl-C"


def test_a_missing_run_makes_the_whole_incomplete(tmp_path: Path) -> None:
    first = write(tmp_path / "0.json", document(1))
    killed = document(8, incomplete="was ended without a word")
    write(tmp_path / "1.json", killed)
    parts = [str(first), str(tmp_path / "1.json"), str(tmp_path / "2.json")]
    assert merge_results.main([*parts, "-o", str(tmp_path / "merged.json")]) == 0
    result = read(tmp_path)
    assert len(result.rows) == 2
    assert result.incomplete == "1.json: was ended without a word; 2.json: missing"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"context": samples.context(backend="host")}, "'host', but 'cuda' in "),
        ({"context": samples.context(ranks="4")}, "'4', but '2' in "),
        ({"counters": []}, "counters: differs from "),
        ({"benchmarks": []}, "nothing was measured"),
        ({"benchmarks": [{"run_name": 7}]}, "benchmarks[0].run_name: 7 is not text"),
        ({"benchmarks": [{"run_name": "A/B", "family_index": "x"}]}, 'family_index: "x" is not a'),
    ],
)
def test_results_measured_differently_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: samples.Json, complaint: str
) -> None:
    parts = [
        write(tmp_path / "0.json", document(1)),
        write(tmp_path / "1.json", {**document(8), **change}),
    ]
    out = tmp_path / "merged.json"
    assert merge_results.main([*map(str, parts), "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.startswith(f"overlapbench merge: {parts[1]}: ")
    assert not out.exists()


def test_without_runs_it_checks_that_the_output_is_writable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert merge_results.main(["-o", str(tmp_path / "merged.json")]) == 0
    assert not any(tmp_path.iterdir())
    out = tmp_path / "missing" / "merged.json"
    assert merge_results.main(["-o", str(out)]) == 2
    assert capsys.readouterr().err.startswith(f"overlapbench merge: {out}: cannot be written: ")


def test_nothing_to_merge_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "0.json")
    assert merge_results.main([missing, "-o", str(tmp_path / "merged.json")]) == 2
    assert capsys.readouterr().err.endswith("nothing to merge\n")


def test_it_needs_only_the_standard_library() -> None:
    code = "import sys; sys.modules['numpy'] = None; import overlapbench.cli.merge"
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": str(samples.TOOLS)}
    subprocess.run(command, check=True, env=environment)
