"""The command line: files really written, pages without a network, refusals that change nothing."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

import samples
from overlapbench.cli import chart
from overlapbench.view import theme

REPOSITORY = Path(__file__).parents[2]
NAMES = ["slowdown", "pairs", "priority", "tokens", "steps"]
NAMES += ["link", "partition", "matrix", "triple", "attribution", "families"]
ALL_FILES = {"index.html"} | {f"{name}.{suffix}" for name in NAMES for suffix in ("png", "svg")}


def run(*arguments: str | Path) -> int:
    return chart.main([str(argument) for argument in arguments])


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Charts of a full run whose context and labels try to break out of the page."""
    folder = tmp_path_factory.mktemp("drawn")
    document = samples.document(samples.full_run(), device='H200 </script><script src="http://x">')
    samples.write(folder / "full.json", document)
    return draw_afresh(folder / "full.json", folder / "charts")


def draw_afresh(source: Path, output: Path) -> Path:
    """Run the command in a process of its own, as users do."""
    script = samples.TOOLS / "slowdown_chart.py"
    command: list[str | Path] = [sys.executable, script, source, "-o", output]
    subprocess.run([*command, "--title", "Two <b>H200</b>"], check=True)
    return output


def test_all_charts_are_written(drawn: Path) -> None:
    assert set(contents(drawn)) == ALL_FILES


@pytest.mark.parametrize("name", NAMES)
def test_png(drawn: Path, name: str) -> None:
    data = (drawn / f"{name}.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    least = 0.75 if name == "priority" else 0.94  # a heat map of two columns
    assert least < width / theme.SCALE / theme.WIDTH < 1.06
    assert height / theme.SCALE > 240
    assert len(data) > 20_000


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (
            "slowdown",
            ["slowdown T / max(C, M): 1", "grid of the compute kernel", "perfect overlap"],
        ),
        ("slowdown", ["knee 1.41", "16×16", "AllToAll+Gemm · work tile"]),
        (
            "pairs",
            ["communication", "computation", "1.41", "invalid", "error", "AllToAll · 1 GiB"],
        ),
        ("families", ["Comm/ReduceScatter: busbw_GBps against bytes", "64 Mi", "1 Gi"]),
        ("families", ["Copy/Bandwidth: GBps against bytes", "host_to_device", "pageable"]),
        ("priority", ["slowdown of the work", "gain 1.91", "gain 1.00", "equal priority"]),
        ("priority", ["ShortBlocks beside ResidentGrid", "gain 1.00"]),
        ("families", ["Supply/Batches: batches_per_s against workers", "workers", "prefetch 8"]),
        ("families", ["Softmax/Fused: pct_of_copy", "50257", "fp32"]),
        (
            "link",
            ["Broadcast", "copy", "sm_load: knee at 8, plateau 374"],
        ),
        (
            "partition",
            ["SMs of the computation", "sm_bulk 16 SMs", "communication first", "1.48 ms"],
        ),
        ("matrix", ["AllGather · nccl_ce", "SoftmaxFused", "computation first"]),
        ("attribution", ["device memory", "1.02: no slowdown to explain"]),
        ("families", ["Pp/GPipe/Delay: bubble_share against microbatches"]),
        (
            "tokens",
            ["time / the fastest", "tokens of all ranks", "RowParallel · llama70b", "4: 1.10×"],
        ),
        (
            "steps",
            ["no computation beside it", "copy · prefetch 1", "20 %", "5.0 %"],
        ),
    ],
)
def test_svg(drawn: Path, name: str, texts: list[str]) -> None:
    svg = (drawn / f"{name}.svg").read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    written = set(re.findall(r"<(?:text|tspan)[^>]*>([^<]*)", svg))
    for text in texts:
        assert any(text in candidate for candidate in written), text


class Elements(HTMLParser):
    """All elements of a page with their attributes, and the text of its style sheets."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, set[str]]] = []
        self.styles = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name for name, _ in attrs}))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "style":
            self.styles += data


def test_the_page_needs_no_network(drawn: Path) -> None:
    elements = Elements((drawn / "index.html").read_text(encoding="utf-8"))
    tags = [tag for tag, _ in elements.found]
    assert tags.count("script") == len(NAMES) + 3, "charts, looks, and two of code"
    assert not {"link", "iframe", "img", "object", "base"} & set(tags)
    assert not any({"src", "href", "srcset", "data"} & names for _, names in elements.found)
    assert "--page" in elements.styles
    assert "url(" not in elements.styles
    assert "@import" not in elements.styles


def test_the_page_holds_every_chart_with_its_data(drawn: Path) -> None:
    html = (drawn / "index.html").read_text(encoding="utf-8")
    for name in NAMES:
        assert f'<figure data-chart="{name}"' in html
        (text,) = re.findall(rf'<script type="application/json" id="chart-{name}">(.*)<', html)
        assert '"values"' in text
    (vega,) = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)[:1]
    assert len(vega) > 500_000
    assert "window.vegaEmbed" in vega


def test_the_page_shows_context_and_bad_rows_escaped(drawn: Path) -> None:
    html = (drawn / "index.html").read_text(encoding="utf-8")
    assert "<h1>Two &lt;b&gt;H200&lt;/b&gt;</h1>" in html
    assert '<th scope="row">git_revision</th><td>0123456789ab</td>' in html
    assert "not overlapped: coverage 0.03" in html
    assert "needs 4 GPUs, 2 are visible" in html
    assert '<script src="http://x">' not in html


def test_host_figures_are_announced_on_the_page(tmp_path: Path) -> None:
    document = samples.document(samples.sweep(), backend="host", device="")
    assert run(samples.write(tmp_path / "run.json", document), "-o", tmp_path / "charts") == 0
    assert "<strong>backend: host.</strong>" in (tmp_path / "charts/index.html").read_text()


def test_a_second_run_writes_the_same(drawn: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(drawn, tmp_path / "charts")
    assert contents(draw_afresh(drawn.parent / "full.json", copy)) == contents(drawn)


def test_charts_of_an_earlier_run_go_and_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "families.png").write_text("of an earlier run")
    source = samples.write(tmp_path / "run.json", samples.document(samples.sweep()))
    assert run(source, "-o", tmp_path) == 0
    kept = {"notes.txt", "run.json"}
    assert set(contents(tmp_path)) == kept | {
        "index.html",
        *(f"{name}.{suffix}" for name in NAMES[:2] for suffix in ("png", "svg")),
    }


def test_the_output_lists_written_files_bad_rows_and_undrawn_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = samples.overlap("A+B/n:1", valid=0.0, label="throttled")
    rows = [*samples.pairs(), bad, *(samples.row(f"Compute/Gemm/n:{n}") for n in (16, 32))]
    source = samples.write(tmp_path / "run.json", samples.document(rows))
    assert run(source, "-o", tmp_path / "charts") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"wrote index.html, pairs.png, pairs.svg to {tmp_path / 'charts'}",
        "in no chart: 2 Compute/Gemm",
        "not to be trusted: run (cuda, NVIDIA H200): Overlap/A+B/n:1: invalid: throttled",
    ]


def _bad_slowdown() -> samples.Json:
    rows = samples.sweep()
    rows[3]["slowdown"] = -1
    return samples.document(rows)


def _failed() -> samples.Json:
    name = "Overlap/A+B/n:1"
    return samples.row(name, error_occurred=True, error_message="no memory")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(json.dumps(_bad_slowdown()), "benchmarks[3].slowdown: -1", id="bad field"),
        pytest.param(json.dumps(_bad_slowdown())[:-9], "not JSON, or cut short", id="cut short"),
        pytest.param(
            '{"context": {}, "benchmarks": []}',
            "context.overlapbench_schema: missing",
            id="foreign",
        ),
        pytest.param(
            json.dumps(samples.document([samples.row("Compute/Gemm/n:64")])),
            "benchmarks: nothing to draw: no row belongs to a chart",
            id="nothing to draw",
        ),
        pytest.param(
            json.dumps(samples.document([_failed(), samples.row("Compute/Gemm/n:1")])),
            "benchmarks: nothing to draw: no row of a chart was measured; Overlap/A+B/n:1: ",
            id="only an error",
        ),
    ],
)
def test_a_refusal_is_one_line_with_status_2_and_writes_nothing(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = samples.write(tmp_path / "good.json", samples.document(samples.sweep()))
    bad = tmp_path / "bad.json"
    bad.write_text(text)
    sources: Sequence[Path] = [bad] if "nothing to draw" in complaint else [good, bad]
    assert run(*sources, "-o", tmp_path / "charts") == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith(f"overlapbench chart: {bad}: {complaint}")
    assert captured.out == ""
    assert set(contents(tmp_path)) == {"good.json", "bad.json"}


def test_an_output_that_is_a_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = samples.write(tmp_path / "run.json", samples.document(samples.sweep()))
    before = source.read_bytes()
    assert run(source, "-o", source) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"overlapbench chart: {source}: cannot be written: File exists"
    assert source.read_bytes() == before


def test_a_write_that_fails_half_way_keeps_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = samples.write(tmp_path / "run.json", samples.document(samples.sweep()))
    charts = tmp_path / "charts"
    assert run(source, "-o", charts) == 0
    before, write_bytes = contents(charts), Path.write_bytes

    def full_disk(path: Path, data: bytes) -> int:
        if path.name == "index.html":
            raise OSError(28, "No space left on device")
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    assert run(source, "-o", charts, "--title", "other") == 2
    assert capsys.readouterr().err.endswith("cannot be written: No space left on device\n")
    assert contents(charts) == before


@pytest.mark.parametrize("arguments", [[], ["run.json"], ["-o", "charts"], ["x", "-o", "y", "--z"]])
def test_usage_errors_have_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert stopped.value.code == 2


def test_recorded_results_are_drawn(tmp_path: Path) -> None:
    machines = [path for path in (REPOSITORY / "docs/results").iterdir() if path.is_dir()]
    assert machines, "docs/results holds no results"
    for machine in machines:
        # The rows of Lab/Knee are no points of a curve.
        sources = [path for path in machine.glob("*.json") if path.name != "lab-knee.json"]
        charts = tmp_path / machine.name
        assert run(*sorted(sources), "-o", charts) == 0
        assert (charts / "index.html").stat().st_size > 500_000


def test_results_of_this_build_are_drawn(tmp_path: Path) -> None:
    folder = os.environ.get("OVERLAPBENCH_RESULTS")
    if not folder:
        pytest.skip("OVERLAPBENCH_RESULTS names no folder of results; ./check sets it")
    sources = sorted(Path(folder).glob("*.json"))
    assert sources, f"{folder} holds no results"
    assert run(*sources, "-o", tmp_path) == 0
    assert {"index.html", "pairs.png", "slowdown.png", "slowdown.svg"} <= set(contents(tmp_path))
