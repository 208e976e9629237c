"""tools/torch_overlap.py without a GPU: grids, tables, the suite's rows, outputs, refusals."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import samples
import torch_overlap
from torch_overlap import Row, render_table, suite_slowdowns

PAIR = "AllToAll+Gemm/bytes:67108864/n:4096"


def run(*arguments: object) -> int:
    return torch_overlap.main([str(argument) for argument in arguments])


def test_grids() -> None:
    assert torch_overlap.parse_grids("1x1,16x32,256x256") == [(1, 1), (16, 32), (256, 256)]


@pytest.mark.parametrize("text", ["", "1", "0x1", "1x257", "1x1,", "1x1x1", "-1x1", "1.5x1"])
def test_a_malformed_grid_is_a_usage_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run("-o", "x.json", f"--grids={text}")
    assert stopped.value.code == 2
    assert "is not a grid from 1x1 to 256x256" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("rounds", ["0", "-1", "x"])
def test_rounds_are_at_least_one(rounds: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        run("-o", "x.json", f"--rounds={rounds}")
    assert stopped.value.code == 2


def test_the_table_has_the_definitions_of_the_suite() -> None:
    rows = [Row("1x1", 0.3, 0.1, 0.33, 22), Row("16x16", 0.25, 0.125, 0.375, 22)]
    assert render_table(rows, {}).splitlines() == [
        "grid           C ms      M ms      T ms  slowdown efficiency",
        "1x1           0.300     0.100     0.330      1.10       0.70",
        "16x16         0.250     0.125     0.375      1.50       0.00",
    ]
    assert render_table(rows, {"16x16": 1.25}).splitlines()[0::2] == [
        "grid           C ms      M ms      T ms  slowdown efficiency  Overlap  ratio",
        "16x16         0.250     0.125     0.375      1.50       0.00     1.25   1.20",
    ]


def test_the_suites_slowdowns_are_those_of_the_same_experiment(tmp_path: Path) -> None:
    name = f"{PAIR}/grid:{{}}/work:tile/cache:cold"
    rows = [
        samples.overlap(name.format("1x1"), slowdown=1.08),
        samples.overlap(name.format("16x16"), slowdown=1.41),
        samples.overlap(name.format("16x16") + "/first:comm", slowdown=1.1),
        samples.overlap(name.format("32x32"), slowdown=1.2, valid=0.0, label="throttled"),
        samples.overlap(f"{PAIR}/grid:4x4/work:full/cache:cold", slowdown=1.3),
        samples.overlap(f"{PAIR}/grid:8x8/work:tile/cache:warm", slowdown=1.4),
    ]
    path = samples.write(tmp_path / "run.json", samples.document(rows))
    assert suite_slowdowns(path, "comp") == {"1x1": 1.08, "16x16": 1.41}
    assert suite_slowdowns(path, "comm") == {"16x16": 1.1}


def _refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    return line


def test_a_result_without_the_experiment_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = samples.document([samples.row("Compute/Gemm/n:64")])
    path = samples.write(tmp_path / "run.json", document)
    line = _refusal(capsys, "-o", tmp_path / "out.json", "--compare", path)
    assert line == f"torch_overlap: {path}: contains no row of the same experiment"


def test_an_output_that_could_not_be_written_is_refused_before_anything_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)  # would be refused next
    missing = tmp_path / "missing" / "out.json"
    line = _refusal(capsys, "-o", missing)
    assert line == f"torch_overlap: {missing}: cannot be written: No such file or directory"
    line = _refusal(capsys, "-o", tmp_path)
    assert (
        line == f"torch_overlap: {tmp_path}: cannot be written: it exists and is not a regular file"
    )


def test_the_first_rank_writes_the_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Row("16x16", 0.25, 0.125, 0.375, 22)]
    monkeypatch.setattr(torch_overlap, "_require_machine", lambda: None)
    monkeypatch.setattr(torch_overlap, "_run", lambda *_: (rows, {"device": "a GPU"}))
    out = tmp_path / "torch.json"
    monkeypatch.setenv("RANK", "1")
    assert run("-o", out) == 0
    assert not out.exists()
    monkeypatch.setenv("RANK", "0")
    assert run("-o", out, "--first", "comm") == 0
    assert capsys.readouterr().out == render_table(rows, {})
    document = json.loads(out.read_text())
    assert document["context"] == {"device": "a GPU", "first": "comm"}
    (row,) = document["rows"]
    assert (row["grid"], row["slowdown"], row["efficiency"]) == ("16x16", 1.5, 0)


def test_missing_requirements_are_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ("-o", tmp_path / "out.json")
    cuda = SimpleNamespace(device_count=lambda: 2)
    monkeypatch.setitem(sys.modules, "torch", None)
    lacks = [_refusal(capsys, *out)]
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.delenv("RANK", raising=False)
    lacks.append(_refusal(capsys, *out))
    for ranks, library in (("3", ""), ("2", "/nowhere.so")):
        for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
            monkeypatch.setenv(name, ranks)
        monkeypatch.setenv("RANK", "0")
        monkeypatch.setenv("OVERLAPBENCH_KERNELS", library)
        lacks.append(_refusal(capsys, *out))
    assert lacks == [
        "torch_overlap: package torch is not installed: pip install torch",
        "torch_overlap: start it with: torchrun --nproc-per-node 2 tools/torch_overlap.py ...",
        "torch_overlap: needs one GPU per rank: 3 ranks, 2 visible",
        "torch_overlap: /nowhere.so is missing: where nvcc is, `./bench --build-only` builds it;"
        " or set OVERLAPBENCH_KERNELS to its path",
    ]
    monkeypatch.setenv("RANK", "1")  # the first rank speaks for all
    assert run(*out) == 2
    assert capsys.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


def test_the_script_runs_in_a_bare_python(tmp_path: Path) -> None:
    script = Path(torch_overlap.__file__)
    arguments: Sequence[str | Path] = [sys.executable, "-S", script, "-o", tmp_path / "out.json"]
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    bare = subprocess.run(arguments, capture_output=True, text=True, env=environment)
    assert bare.returncode == 2
    assert bare.stderr == "torch_overlap: package torch is not installed: pip install torch\n"


def test_late_samples_of_a_profile_get_another_name() -> None:
    def event(category: str, name: str, ts: float) -> dict[str, Any]:
        return {"cat": category, "name": name, "ts": ts}

    # As PyTorch writes them: in no order, beside others of the same name.
    events = [
        event("user_annotation", "overlapped", 30.0),
        event("gpu_user_annotation", "overlapped", 11.0),
        event("user_annotation", "enqueue", 5.0),
        event("user_annotation", "overlapped", 10.0),
        {"ph": "M", "name": "overlapped"},
        event("user_annotation", "overlapped", 20.0),
    ]
    torch_overlap.rename_late(events, [False, True, False])
    names = [event["name"] for event in events]
    assert names == ["overlapped", "overlapped", "enqueue", "overlapped", "overlapped", "late"]
    with pytest.raises(ValueError, match="zip"):
        torch_overlap.rename_late(events, [False] * 3)
