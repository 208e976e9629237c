"""tools/peers.py without a GPU: sizes, cases, tables, charts, refusals; with one, a whole run."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

import peers
from overlapbench.peers.cases import (
    COPY,
    OURS,
    Case,
    Figure,
    PeersError,
    parse_size,
    plan_gelu,
    plan_softmax,
    write_size,
)
from overlapbench.peers.report import from_json, render_table, to_json
from overlapbench.torch_kernels import library_path

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
    assert parse_size(text) == size
    assert parse_size(write_size(size)) == size


def test_sizes_are_written_short() -> None:
    sizes = [1, 1000, 1024, 50257, 3 << 19, 1 << 28, 1 << 30]
    written = ["1", "1000", "1K", "50257", "1536K", "256M", "1G"]
    assert [write_size(size) for size in sizes] == written


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "4k", "2^32", "3G", "2^", "9" * 13, "²"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size from 1 to"):
        parse_size(text)


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


def test_the_table_gives_shares_of_the_copy_and_names_what_failed() -> None:
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


def test_what_is_written_is_read_back() -> None:
    assert from_json("x", to_json(CONTEXT, figures())) == (CONTEXT, figures())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"overlapbench_peers": "1", "context": {}, "figures": [{}]}']
)
def test_a_file_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(PeersError, match=r"^x\.json: is not what tools/peers\.py wrote: "):
        from_json("x.json", text.encode())


def test_another_version_is_refused() -> None:
    with pytest.raises(PeersError, match=r"^x: version 2, not 1$"):
        from_json("x", b'{"overlapbench_peers": "2"}')


def test_the_chart_holds_the_shares_of_good_figures() -> None:
    from overlapbench.peers.chart import (
        specification,
    )  # needs Altair, which a GPU's Python may lack

    chosen = [figure for figure in figures() if figure.case.what == "softmax"]
    spec = specification("softmax", chosen, CONTEXT)
    (values,) = {json.dumps(values) for values in spec["datasets"].values()}
    assert [
        (record["series"], record["size"], round(record["percent"], 6))
        for record in json.loads(values)
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
    monkeypatch.delitem(sys.modules, "overlapbench.peers.chart", raising=False)
    monkeypatch.setitem(sys.modules, "altair", None)
    assert run("--from", source, "-o", tmp_path) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"taken.json", "peers.json", "peers.txt"}
    assert "no chart: Python has no altair" in capsys.readouterr().out


def _refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    return line


def test_what_the_machine_lacks_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there: set[str] = set()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name in there or None)
    lacks = [_refusal(capsys, "-o", tmp_path / "out")]
    there.add("torch")
    lacks.append(_refusal(capsys, "-o", tmp_path / "out"))
    there.add("triton")
    cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    lacks.append(_refusal(capsys, "-o", tmp_path / "out"))
    cuda.is_available = lambda: True
    monkeypatch.setenv("OVERLAPBENCH_KERNELS", "/nowhere.so")
    lacks.append(_refusal(capsys, "-o", tmp_path / "out"))
    assert lacks == [
        "peers: Python has no torch: pip install torch",
        "peers: Python has no triton: pip install triton",
        "peers: PyTorch sees no CUDA device",
        "peers: /nowhere.so is missing: where nvcc is, `./bench --build-only` builds it; or set"
        " OVERLAPBENCH_KERNELS to it",
    ]
    assert not (tmp_path / "out").exists()


def test_files_that_cannot_be_read_or_written_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.json"
    line = _refusal(capsys, "--from", missing, "-o", tmp_path / "out")
    assert line == f"peers: {missing}: No such file or directory"
    source = tmp_path / "taken.json"
    source.write_bytes(to_json(CONTEXT, figures()))
    assert (
        _refusal(capsys, "--from", source, "-o", source)
        == f"peers: {source}: cannot be written: File exists"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the following arguments are required: -o/--output"),
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
    script = Path(peers.__file__)
    bare = subprocess.run(
        [sys.executable, "-S", script, "-o", tmp_path / "out"], capture_output=True, text=True
    )
    assert (bare.returncode, bare.stderr) == (2, "peers: Python has no torch: pip install torch\n")


def test_a_whole_run_on_a_gpu(tmp_path: Path) -> None:
    for module in ("torch", "triton"):
        pytest.importorskip(module, reason=f"needs {module}")
    import torch

    if not torch.cuda.is_available() or not library_path().is_file():
        pytest.skip("needs a GPU and the library")
    small = ["--types", "bfloat16", "--columns", "1000,40000", "--sizes", "4099", "--rounds", "3"]
    assert run("-o", tmp_path, "--matrix-bytes", "1M", *small) == 0
    _, found = from_json("peers.json", (tmp_path / "peers.json").read_bytes())
    assert len(found) == 6 * 5  # two softmaxes, four GELUs; a copy and four peers
    assert all(figure.samples == 3 and figure.ms > 0 for figure in found)
