"""`overlapbench peers` without a GPU: sizes, cases, tables, charts, refusals; with one, a run."""

import dataclasses
import json
import math
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import samples
from overlapbench.cli import peers
from overlapbench.installation import kernels_path
from overlapbench.peers.arguments import size as size_of
from overlapbench.peers.cases import (
    COPY,
    OURS,
    Case,
    Figure,
    plan_gelu,
    plan_softmax,
    write_size,
)
from overlapbench.peers.host_cost import render, time_calls
from overlapbench.peers.reader import read_figures
from overlapbench.peers.report import render_table, to_json

CONTEXT = {"date": "2025-03-01", "device": "NVIDIA H200", "torch": "PyTorch 2.11"}


def figures() -> list[Figure]:
    """Make two row lengths of one softmax and one GELU; a peer of the second is wrong."""
    short = Case("softmax", "bfloat16", 262144, 1024)
    long = Case("softmax", "bfloat16", 1024, 262144)
    gelu = Case("gelu", "float32", 1, 1 << 22, "erf", "backward")
    wrong = "wrong result: 17 times the allowed error"
    return [
        Figure(short, COPY, 0.25, 0.24, 0.26, 21),
        Figure(short, OURS, 0.26, 0.25, 0.27, 21, 0.5),
        Figure(short, "PyTorch", 0.5, 0.49, 0.51, 21, 0.5),
        Figure(long, COPY, 0.25, 0.24, 0.26, 21),
        Figure(long, OURS, 0.25, 0.25, 0.27, 21, 0.5),
        Figure(long, "PyTorch", problem=wrong),
        Figure(gelu, COPY, 0.012, 0.012, 0.013, 21),
        Figure(gelu, OURS, 0.015, 0.014, 0.016, 21, 0.2),
    ]


def run(*arguments: object) -> int:
    return peers.main([str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("50257", 50257),
        ("4K", 4096),
        ("64M", 1 << 26),
        ("2^26", 1 << 26),
        ("2G", 1 << 31),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert size_of(text) == size
    assert size_of(write_size(size)) == size


def test_sizes_are_written_short() -> None:
    sizes = [1, 1000, 1024, 50257, 3 << 19, 1 << 28, 1 << 30]
    written = ["1", "1000", "1K", "50257", "1536K", "256M", "1G"]
    assert [write_size(size) for size in sizes] == written


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "4k", "2^32", "3G", "2^", "9" * 13, "²"])
def test_malformed_sizes_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is no size from 1 to"):
        size_of(text)


def test_softmax_fills_the_bytes_it_is_given() -> None:
    cases = list(plan_softmax(["float32", "bfloat16"], [1024, 50257], 1 << 29))
    assert [(case.type, case.rows, case.columns) for case in cases] == [
        ("float32", 131072, 1024),
        ("float32", 2670, 50257),
        ("bfloat16", 262144, 1024),
        ("bfloat16", 5341, 50257),
    ]
    assert cases[0].moved_bytes == 1 << 30
    assert [case.rows for case in plan_softmax(["float32"], [1024], 1)] == [1]


def test_gelu_is_planned_in_every_form_and_direction() -> None:
    cases = list(plan_gelu(["float16"], [64], ["forward", "backward"]))
    assert [(case.form, case.direction, case.moved_bytes) for case in cases] == [
        ("tanh", "forward", 256),
        ("tanh", "backward", 384),
        ("erf", "forward", 256),
        ("erf", "backward", 384),
    ]


def test_the_table_gives_shares_of_the_copy_and_names_failures() -> None:
    assert render_table(figures()).splitlines() == [
        "softmax bfloat16: share of the bandwidth of a device copy of the same bytes, in percent",
        "   columns  copy GB/s   ours ms  overlapbench       PyTorch  fastest",
        "      1024       4295    0.2600          96.2          50.0  overlapbench",
        "    262144       4295    0.2500         100.0             -  overlapbench",
        "  262144 PyTorch: wrong result: 17 times the allowed error",
        "",
        "gelu erf backward float32: share of the bandwidth of a device copy of the same bytes,"
        " in percent",
        "  elements  copy GB/s   ours ms  overlapbench  fastest",
        "   4194304       4194    0.0150          80.0  overlapbench",
    ]


def test_results_are_read_back_as_written() -> None:
    assert read_figures("x", to_json(CONTEXT, figures()).decode()) == (CONTEXT, figures())


def replaced(index: int, **fields: Any) -> str:
    """Return the figures with fields of one, or of its case, replaced."""
    document = json.loads(to_json(CONTEXT, figures()))
    figure = document["figures"][index]
    for key, value in fields.items():
        (figure if key in figure else figure["case"])[key] = value
    return json.dumps(document)


def without(*indices: int) -> str:
    kept = [figure for index, figure in enumerate(figures()) if index not in indices]
    return to_json(CONTEXT, kept).decode()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("[" * 100_000, "not JSON, or cut short"),
        ("[]", "context: missing: not a result"),
        ('{"context": {}}', 'overlapbench_peers: null is not supported: must be "1"'),
        (
            '{"context": {}, "overlapbench_peers": "2"}',
            'overlapbench_peers: "2" is not supported: must be "1"',
        ),
        ('{"context": {}, "overlapbench_peers": "1"}', "figures: missing or empty"),
        (without(0), "figures: softmax bfloat16 262144x1024 has no figure of copy"),
        (without(7), "figures: gelu erf backward float32 1x4194304 has no figure of overlapbench"),
        (replaced(0, problem="burnt"), "figures: softmax bfloat16 262144x1024: the copy failed: b"),
        (replaced(1, ms=0), "figures[1].ms: 0 is not above 0"),
        (replaced(1, ms="1"), 'figures[1].ms: "1" is not a number'),
        (replaced(1, p05_ms=math.nan), "figures[1].p05_ms: NaN is not a finite number"),
        (replaced(1, p95_ms=1e300), "figures[1].p95_ms: 1e+300 is out of range"),
        (replaced(1, ms=[[]]), "figures[1].ms: [[]] is not a number"),
        (replaced(1, samples=1.5), "figures[1].samples: 1.5 is not a whole number"),
        (replaced(1, error=None), "figures[1].error: null is not a number"),
        (replaced(1, peer="\x1b[2J"), 'figures[1].peer: "\\u001b[2J" is empty or contains control'),
        (replaced(1, case=3), "figures[1].case: 3 is not an object"),
        (replaced(1, what="relu"), 'figures[1].case.what: "relu" is not one of "gelu", "softmax"'),
        (replaced(1, type="int8"), 'figures[1].case.type: "int8" is not one of "float32", '),
        (replaced(1, columns=0), "figures[1].case.columns: 0 is not a whole number from 1"),
        (replaced(1, rows=1e18), "figures[1].case.rows: 1e+18 is not a whole number from 1"),
        (replaced(1, form="tanh"), 'figures[1].case.form: "tanh" is not one of ""'),
        (replaced(6, direction=""), 'figures[6].case.direction: "" is not one of "forward", '),
    ],
)
def test_figures_that_cannot_be_tabled_are_refused_in_one_line(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "taken.json"
    source.write_text(text)
    line = _refusal(capsys, "--from", source, "-o", tmp_path / "out")
    assert line.startswith(f"overlapbench peers: {source}: {complaint}")
    assert list(tmp_path.iterdir()) == [source]


def test_the_slowest_and_fastest_figures_are_drawn(tmp_path: Path) -> None:
    source = tmp_path / "taken.json"
    document = json.loads(to_json(CONTEXT, figures()[:3]))
    for figure, ms in zip(document["figures"], (1e100, 1e-100, 1e100), strict=True):
        figure["ms"] = ms
    source.write_text(json.dumps(document))
    assert run("--from", source, "-o", tmp_path / "out") == 0


def test_the_chart_holds_the_shares_of_good_figures() -> None:
    import altair as alt  # which a GPU's Python may lack

    from overlapbench.view.peers_chart import specification

    chosen = [figure for figure in figures() if figure.case.what == "softmax"]
    spec = specification("softmax", chosen, CONTEXT)
    alt.Root.validate(spec)
    values = [record for panel in spec["concat"] for record in panel["data"]["values"]]
    assert [
        (record["series"], record["size"], round(record["percent"], 6)) for record in values
    ] == [(OURS, 1024, 96.153846), ("PyTorch", 1024, 50.0), (OURS, 262144, 100.0)]
    assert spec["title"]["subtitle"][0] == "NVIDIA H200 · PyTorch 2.11 · 2025-03-01"


def test_figures_taken_elsewhere_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "taken.json"
    source.write_bytes(to_json(CONTEXT, figures()))
    assert run("--from", source, "-o", tmp_path / "out") == 1  # one of them was wrong
    written = {path.name for path in (tmp_path / "out").iterdir()}
    pictures = {f"peers_{what}.{kind}" for what in ("gelu", "softmax") for kind in ("png", "svg")}
    assert written == pictures | {"peers.json", "peers.txt"}
    assert (tmp_path / "out/peers.json").read_bytes() == source.read_bytes()
    assert (tmp_path / "out/peers.txt").read_text() == render_table(figures())
    assert "17 times the allowed error" in capsys.readouterr().out


def test_without_altair_the_figures_are_written_and_charts_of_before_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "taken.json"
    source.write_bytes(to_json(CONTEXT, figures()[:3]))
    (tmp_path / "peers_gelu.png").write_text("of an earlier run")
    monkeypatch.delitem(sys.modules, "overlapbench.view.peers_chart", raising=False)
    monkeypatch.setitem(sys.modules, "altair", None)
    assert run("--from", source, "-o", tmp_path) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"taken.json", "peers.json", "peers.txt"}
    assert "no chart: package altair is not installed" in capsys.readouterr().out


def _refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    return line


def test_missing_requirements_are_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "triton", None)
    lacks = [_refusal(capsys, "-o", tmp_path / "out")]
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    lacks.append(_refusal(capsys, "-o", tmp_path / "out"))
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace())
    lacks.append(_refusal(capsys, "-o", tmp_path / "out"))
    cuda.is_available = lambda: True
    monkeypatch.setenv("OVERLAPBENCH_KERNELS", "/nowhere.so")
    lacks.append(_refusal(capsys, "-o", tmp_path / "out"))
    assert lacks == [
        "overlapbench peers: package torch is not installed: pip install torch",
        "overlapbench peers: package triton is not installed: pip install triton",
        "overlapbench peers: PyTorch sees no CUDA device",
        "overlapbench peers: /nowhere.so is missing: where nvcc is, `./bench --build-only` builds"
        " it; or set OVERLAPBENCH_KERNELS to its path",
    ]
    assert not (tmp_path / "out").exists()


def test_files_that_cannot_be_read_or_written_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.json"
    line = _refusal(capsys, "--from", missing, "-o", tmp_path / "out")
    assert line == f"overlapbench peers: {missing}: cannot be read: No such file or directory"
    source = tmp_path / "taken.json"
    source.write_bytes(to_json(CONTEXT, figures()))
    assert (
        _refusal(capsys, "--from", source, "-o", source)
        == f"overlapbench peers: {source}: cannot be written: File exists"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "one of the arguments -o/--output --host is required"),
        (["-o", "x", "--types", "float32,int8"], "'int8' is not one of float32, float16, bfloat16"),
        (["-o", "x", "--columns", "1K,0"], "'0' is no size from 1 to 2^31"),
        (["-o", "x", "--what", "relu"], "invalid choice: 'relu'"),
    ],
)
def test_usage_errors_have_status_2(
    arguments: Sequence[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]


def test_the_script_runs_in_a_bare_python(tmp_path: Path) -> None:
    bare = subprocess.run(
        [samples.PROGRAM[0], "-S", *samples.PROGRAM[1:], "peers", "-o", tmp_path / "out"],
        capture_output=True,
        text=True,
    )
    assert (bare.returncode, bare.stderr) == (
        2,
        "overlapbench peers: package torch is not installed: pip install torch\n",
    )


def test_a_whole_run_on_a_gpu(tmp_path: Path) -> None:
    for module in ("torch", "triton"):
        pytest.importorskip(module, reason=f"needs {module}")
    import torch

    if not torch.cuda.is_available() or not kernels_path().is_file():
        pytest.skip("needs a GPU and the library")
    small = ["--types", "bfloat16", "--columns", "1000,40000", "--sizes", "4099", "--rounds", "3"]
    assert run("-o", tmp_path, "--matrix-bytes", "1M", *small) == 0
    _, found = read_figures("peers.json", (tmp_path / "peers.json").read_text())
    assert len(found) == 6 * 5  # two softmaxes, four GELUs; a copy and four peers
    assert all(figure.samples == 3 and figure.ms > 0 for figure in found)


def test_the_host_cost_is_of_one_call_and_leaves_out_the_first_batch() -> None:
    waits_s = iter([0.2] + [0.0] * 10_000)
    calls = {"slow": 0, "quick": 0}

    def slow() -> None:
        calls["slow"] += 1
        time.sleep(next(waits_s))
        deadline_ns = time.perf_counter_ns() + 50_000
        while time.perf_counter_ns() < deadline_ns:
            pass

    def quick() -> None:
        calls["quick"] += 1

    order: list[str] = []
    costs = time_calls({"slow": slow, "quick": quick}, lambda: order.append("idle"), 5)
    assert calls == {"slow": 6 * 200, "quick": 6 * 200}
    assert len(order) == 2 * 6 + 1
    assert costs["slow"].low_us >= 50
    assert costs["slow"].high_us < 800  # the first batch took a millisecond a call more
    assert costs["quick"].us < 25
    table = render(costs).splitlines()
    assert table[1].split() == ["slow", *(f"{v:.2f}" for v in dataclasses.astuple(costs["slow"]))]


def test_the_host_cost_needs_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        peers.main(["--host", "-o", "x"])
    assert "not allowed with argument" in capsys.readouterr().err
