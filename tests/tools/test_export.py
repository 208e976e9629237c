"""overlapbench export: each format by its own rules, and what is refused in one line."""

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pyarrow import parquet

import samples
from overlapbench.cli import export
from overlapbench.reading.counters import Range, stored_table
from overlapbench.reading.export import BY_SUFFIX, COLUMNS
from overlapbench.reading.rows import State

Capture = pytest.CaptureFixture[str]
RESULTS = Path(__file__).resolve().parents[2] / "docs/results"
PAIR = "Overlap/AllToAll+Gemm/bytes:64/cache:cold"
COMM = "Comm/AllReduce/bytes:64/cache:cold"
FAILED = "Compute/Gemm/n:4/cache:cold"


def table() -> samples.Json:
    stored: samples.Json = json.loads(samples.STORED.read_text(encoding="utf-8"))
    return stored


def write(path: Path, **context: str) -> str:
    """Write a result with a good pair, a noisy collective, and a row that failed."""
    rows = [
        samples.overlap(
            PAIR.removeprefix("Overlap/"),
            slowdown=1.5,
            real_time=0.45,
            time_low_ms=0.44,
            time_high_ms=0.46,
            slowdown_low=1.4,
            slowdown_high=1.6,
            state="ok",
            reason="",
        ),
        samples.row(COMM, real_time=2.0, busbw_GBps=300.0, state="noisy", reason="known to 9 %"),
        samples.row(FAILED, valid=0.0, state="invalid", reason="the clocks fell"),
    ]
    document = samples.document(rows) | table()
    document["context"] |= {"overlapbench_schema": "2"} | context
    samples.write(path, document)
    return str(path)


@pytest.fixture
def result(tmp_path: Path) -> str:
    return write(tmp_path / "run.json")


def exported(capsys: Capture, *arguments: str) -> str:
    assert export.main(arguments) == 0
    return capsys.readouterr().out


def families(text: str) -> dict[str, Metric]:
    """Read OpenMetrics as Prometheus' own client does, which refuses what breaks its rules."""
    read: Callable[[str], Iterable[Metric]] = text_string_to_metric_families
    return {metric.name: metric for metric in read(text)}


def values(metric: Metric) -> dict[str, float]:
    return {sample.labels["benchmark"]: sample.value for sample in metric.samples}


def test_openmetrics(result: str, capsys: Capture) -> None:
    text = exported(capsys, result, "--format=openmetrics")
    assert text.endswith("\n# EOF\n")
    found = families(text)
    time = found["overlapbench_time_seconds"]
    assert (time.type, time.unit) == ("gauge", "seconds")
    assert values(time) == pytest.approx({PAIR: 0.45e-3, COMM: 2e-3})
    assert values(found["overlapbench_time_low_seconds"]) == pytest.approx({PAIR: 0.44e-3})
    assert values(found["overlapbench_time_high_seconds"]) == pytest.approx({PAIR: 0.46e-3})
    assert values(found["overlapbench_slowdown_ratio"]) == {PAIR: 1.5}
    assert values(found["overlapbench_slowdown_high_ratio"]) == {PAIR: 1.6}
    busbw = found["overlapbench_busbw_bytes_per_second"]
    assert (busbw.unit, values(busbw)) == ("bytes_per_second", {COMM: 300e9})
    assert "# HELP overlapbench_slowdown_low_ratio low end of the 95 % interval: " in text
    (run,) = found["overlapbench_run"].samples
    assert run.labels["device"] == "NVIDIA H200"


def test_openmetrics_has_one_state_of_each_row(result: str, capsys: Capture) -> None:
    state = families(exported(capsys, result, "--format=openmetrics"))["overlapbench_state"]
    assert state.type == "stateset"
    assert len(state.samples) == 3 * len(State)
    true = [sample.labels for sample in state.samples if sample.value]
    assert [(labels["benchmark"], labels["overlapbench_state"]) for labels in true] == [
        (PAIR, "ok"),
        (COMM, "noisy"),
        (FAILED, "invalid"),
    ]


def test_openmetrics_escapes_text(tmp_path: Path, capsys: Capture) -> None:
    device = 'a "quoted" \\n'
    text = exported(capsys, write(tmp_path / "run.json", device=device), "--format=openmetrics")
    (run,) = families(text)["overlapbench_run"].samples
    assert run.labels["device"] == device


def test_every_counter_has_a_family_of_its_own(capsys: Capture, tmp_path: Path) -> None:
    """All counters in one row, with intervals: more than any row has."""
    counters = [one for one in stored_table().counters.values() if not one.name.startswith("time")]
    every: samples.Json = {one.name: 0.5 for one in counters if one.range is not Range.FLAG}
    ends: samples.Json = {f"{name}_{end}": 0.5 for name in every for end in ("low", "high")}
    document = samples.document([samples.row(COMM, state="ok", reason="", **every, **ends)])
    document["context"]["overlapbench_schema"] = "2"
    path = samples.write(tmp_path / "run.json", document | table())
    found = families(exported(capsys, str(path), "--format=openmetrics"))
    gauges = {name: one for name, one in found.items() if one.type == "gauge"}
    assert len(gauges) == 3 * len(every) + 1  # the time, which has no interval
    assert all(re.fullmatch(r"overlapbench(_[a-z0-9]+)+", name) for name in gauges)
    for name, value in {
        "overlapbench_of_bound_ratio": 0.005,
        "overlapbench_tokens_per_second": 0.5,
        "overlapbench_skew_seconds": 0.5e-6,
        "overlapbench_samples": 0.5,
        "overlapbench_comp_seconds": 0.5e-3,
        "overlapbench_bytes_per_second": 0.5e9,
        "overlapbench_flops_per_second": 0.5e12,
        "overlapbench_algbw_bytes_per_second": 0.5e9,
        "overlapbench_kernel_seconds": 0.5e-6,
        "overlapbench_kernel_ms_seconds": 0.5e-3,  # another counter than kernel_us
    }.items():
        assert values(gauges[name]) == pytest.approx({COMM: value}), name


def test_csv(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "run.json")
    document = json.loads(Path(path).read_text())
    document["benchmarks"][1]["reason"] = '=SUM(A1), "x"'
    samples.write(Path(path), document)
    text = exported(capsys, path, "--format=csv")
    lines = list(csv.DictReader(io.StringIO(text)))
    assert tuple(lines[0]) == COLUMNS
    by_metric = {(line["benchmark"], line["metric"]): line for line in lines}
    time = by_metric[PAIR, "time"]
    assert [time[name] for name in COLUMNS[4:]] == ["ms", "0.45", "0.44", "0.46"]
    noisy = by_metric[COMM, "busbw_GBps"]
    assert [noisy[name] for name in COLUMNS[1:]] == [
        *("noisy", '\'=SUM(A1), "x"', "busbw_GBps", "GB/s", "300.0", "", "")
    ]
    failed = by_metric[FAILED, ""]
    assert [failed[name] for name in COLUMNS[1:]] == [
        *("invalid", "the clocks fell", "", "", "", "", "")
    ]


def test_parquet(result: str, tmp_path: Path) -> None:
    output = tmp_path / "run.parquet"
    assert export.main([result, "--format=parquet", "-o", str(output)]) == 0
    table = parquet.read_table(output)
    assert tuple(table.column_names) == COLUMNS
    assert [str(kind) for kind in table.schema.types] == ["string"] * 5 + ["double"] * 3
    assert table.schema.metadata[b"device"] == b"NVIDIA H200"
    lines = {(line["benchmark"], line["metric"]): line for line in table.to_pylist()}
    time = lines[PAIR, "time"]
    assert [time[name] for name in COLUMNS[1:]] == ["ok", "", "time", "ms", 0.45, 0.44, 0.46]
    noisy = lines[COMM, "busbw_GBps"]
    assert [noisy[name] for name in COLUMNS[5:]] == [300.0, None, None]
    failed = lines[FAILED, None]
    assert [failed[name] for name in COLUMNS[1:]] == ["invalid", "the clocks fell", *[None] * 5]


def test_parquet_says_what_it_needs(
    result: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert export.main([result, "--format=parquet"]) == 2
    needs_file = "overlapbench export: --format parquet: not text: name a file with -o\n"
    assert capsys.readouterr().err == needs_file
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert export.main([result, "--format=parquet", "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == (
        "overlapbench export: package pyarrow is not installed:"
        " pip install 'overlapbench[parquet]'\n"
    )
    assert not (tmp_path / "out").exists()


def test_openmetrics_says_what_it_needs(
    result: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert export.main([result, "--format=openmetrics"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("overlapbench export: package prometheus_client is not installed: ")


@pytest.mark.parametrize(("ending", "name"), BY_SUFFIX.items())
def test_the_ending_of_the_output_tells_the_format(
    ending: str, name: str, result: str, tmp_path: Path
) -> None:
    outputs = tmp_path / f"out{ending}", tmp_path / "named"
    assert export.main([result, "-o", str(outputs[0])]) == 0
    assert export.main([result, f"--format={name}", "-o", str(outputs[1])]) == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


@pytest.mark.parametrize("arguments", [[], ["-o", "out.json"]])
def test_without_a_format_nothing_is_guessed(
    arguments: list[str], result: str, capsys: Capture
) -> None:
    assert export.main([result, *arguments]) == 2
    assert capsys.readouterr().err == (
        "overlapbench export: --format: missing: only -o FILE that ends in .csv or .parquet or"
        " .prom tells the format\n"
    )


@pytest.mark.parametrize("form", BY_SUFFIX.values())
def test_recorded_results_are_exported(form: str, tmp_path: Path, capsys: Capture) -> None:
    exports = 0
    out = tmp_path / "out"
    for path in sorted(RESULTS.rglob("*.json")):
        if export.main([str(path), f"--format={form}", "-o", str(out)]) == 0:
            exports += 1
            if form == "parquet":
                assert parquet.read_table(out).num_rows > 0
                continue
            text = out.read_text(encoding="utf-8")
            if form == "openmetrics":
                assert families(text)
        else:  # what the tuner and PyTorch's scripts wrote
            assert "not a result of overlapbench" in capsys.readouterr().err
    assert exports > 20


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--format=csv", "--metric=nothing"], "--metric nothing: run (cuda, NVIDIA H200) has no"),
        (["--format=csv", "-o", "missing/out.csv"], "missing/out.csv: cannot be written: No such"),
    ],
)
def test_a_refusal_is_one_line_with_status_2(
    arguments: list[str], complaint: str, result: str, capsys: Capture
) -> None:
    assert export.main([result, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"overlapbench export: {complaint}")


def test_one_file_at_a_time(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a.json", "b.json"):
        write(tmp_path / name)
    assert export.main([f"{tmp_path}/?.json", "--format=csv"]) == 2
    assert capsys.readouterr().err.endswith("?.json: 2 files: export one at a time\n")
