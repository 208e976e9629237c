"""The reader: what a good file becomes, and that every bad one is refused by file and field."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import samples
from overlapbench.output import ResultError, expand
from overlapbench.reading.result import parse_result, read_results
from overlapbench.reading.rows import Row
from overlapbench.reading.source import short
from overlapbench.statistics.intervals import pool
from samples import Json

COMM = "Comm/AllReduce/bytes:1024"
PAIR = "AllToAll+Gemm/grid:1x1"


def read_rows(*rows: Json) -> tuple[Row, ...]:
    return parse_result("run.json", json.dumps(samples.document(rows))).rows


def test_a_good_file() -> None:
    text = json.dumps(samples.document([samples.overlap(PAIR, 1.25, comp=2.0, comm=1.0)]))
    result = parse_result("some/where/run.json", text)
    assert result.label == "run (cuda, NVIDIA H200)"
    assert result.backend == "cuda"
    assert result.context["git_revision"] == "0123456789ab"
    (row,) = result.rows
    assert str(row.name) == f"Overlap/{PAIR}"
    assert row.file == result.label
    assert row.problem == ""
    assert row.counters == {"comp_ms": 2.0, "comm_ms": 1.0, "overlap_ms": 2.5, "slowdown": 1.25}


def test_quotes_in_messages_are_short() -> None:
    assert [short("a" * n) for n in (38, 39)] == [f'"{"a" * 38}"', f'"{"a" * 36}...']
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert short(deep) == "a deeply nested value"


def test_host_figures_say_so_in_the_label() -> None:
    document = samples.document([samples.row(COMM)], backend="host", device="")
    assert parse_result("run.json", json.dumps(document)).label == "run (backend: host)"


def test_repetitions_become_their_median_and_aggregates_are_left_out() -> None:
    repetitions = [samples.overlap(PAIR, s, repetition=i) for i, s in enumerate((1.1, 1.9, 1.2))]
    mean = samples.overlap(PAIR, 9.0, run_type="aggregate", aggregate_name="mean")
    (row,) = read_rows(*repetitions, mean)
    assert row.counters["slowdown"] == 1.2
    assert row.problem == ""


def test_the_suffix_for_repetitions_is_no_part_of_the_name() -> None:
    (row,) = read_rows(samples.row(f"{COMM}/repeats:3"), samples.row(f"{COMM}/repeats:3", 1))
    assert str(row.name) == COMM


@pytest.mark.parametrize(
    ("rows", "problem", "figures"),
    [
        pytest.param(
            [samples.overlap(PAIR, valid=0.0, label="invalid: not overlapped")],
            "invalid: not overlapped",
            True,
            id="invalid, with the reason in the label",
        ),
        pytest.param(
            [samples.overlap(PAIR, valid=0)],
            "invalid: no reason is given",
            True,
            id="no label",
        ),
        pytest.param(
            [samples.row(f"Overlap/{PAIR}", error_occurred=True, error_message="wrong\n result")],
            "wrong result",
            False,
            id="failed: no counters are needed, nor read",
        ),
        pytest.param(
            [samples.row(f"Overlap/{PAIR}", skipped=True, skip_message="needs 4 GPUs")],
            "needs 4 GPUs",
            False,
            id="skipped, as Google Benchmark 1.8 writes it",
        ),
        pytest.param(
            [
                samples.overlap(PAIR),
                samples.overlap(PAIR, repetition=1, valid=0.0, label="invalid: throttled"),
                samples.overlap(PAIR, repetition=2),
            ],
            "invalid: 1 of 3 repetitions: throttled",
            True,
            id="one repetition spoils the row",
        ),
        pytest.param(
            [samples.overlap(PAIR, run_type="aggregate", aggregate_name="median")],
            "only aggregates are in the file",
            False,
            id="aggregates cannot tell how many repetitions failed",
        ),
    ],
)
def test_bad_rows_are_kept_with_their_problem(
    rows: list[Json], problem: str, figures: bool
) -> None:
    (row,) = read_rows(*rows)
    assert row.problem == problem
    assert bool(row.counters) == figures


Change = Callable[[Json], object]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d.pop("context"), "context: missing"),
        (lambda d: d.update(context=[]), "context: missing"),
        (
            lambda d: d["context"].pop("overlapbench_schema"),
            "context.overlapbench_schema: missing: not a result of overlapbench",
        ),
        (
            lambda d: d["context"].update(overlapbench_schema="3"),
            "context.overlapbench_schema: '3' is not supported: must be '2'",
        ),
        (lambda d: d.pop("counters"), "counters: missing"),
        (
            lambda d: d["context"].update(overlapbench_schema=1),
            "context.overlapbench_schema: 1 is not text",
        ),
        (lambda d: d["context"].pop("backend"), "context.backend: missing"),
        (lambda d: d["context"].update(backend="tpu"), "context.backend: 'tpu' is not one of"),
        (lambda d: d["context"].update(device=7), "context.device: 7 is not text"),
        (lambda d: d.pop("benchmarks"), "benchmarks: missing or empty"),
        (lambda d: d.update(incomplete=1), "incomplete: 1 is not text"),
        (lambda d: d.update(benchmarks=[]), "benchmarks: missing or empty"),
        (lambda d: d.update(benchmarks={}), "benchmarks: missing or empty"),
        (lambda d: d["benchmarks"].append("row"), 'benchmarks[2]: "row" is not an object'),
    ],
)
def test_a_bad_document_is_refused(change: Change, complaint: str) -> None:
    document = samples.document([samples.overlap(PAIR), samples.row(COMM)])
    change(document)
    assert_refused(json.dumps(document), complaint)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda r: r.pop("slowdown"), "slowdown: missing"),
        (lambda r: r.update(slowdown=float("nan")), "slowdown: NaN is not a finite number"),
        (lambda r: r.update(slowdown=float("inf")), "slowdown: Infinity is not a finite number"),
        (
            lambda r: r.update(slowdown=10**400),
            "slowdown: 1000000000000000000000000000000000000...",
        ),
        (lambda r: r.update(slowdown=-1.0), "slowdown: -1 is not above 0"),
        (lambda r: r.update(slowdown=0), "slowdown: 0 is not above 0"),
        (lambda r: r.update(slowdown="1.1"), 'slowdown: "1.1" is not a number'),
        (lambda r: r.update(slowdown=True), "slowdown: true is not a number"),
        (lambda r: r.update(slowdown=None), "slowdown: null is not a number"),
        (lambda r: r.pop("comp_ms"), "comp_ms: missing"),
        (lambda r: r.update(comm_ms=0.0), "comm_ms: 0 is not above 0"),
        (lambda r: r.update(overlap_ms=-2), "overlap_ms: -2 is not above 0"),
        (lambda r: r.update(busbw_GBps=-2), "busbw_GBps: -2 is negative"),
        (lambda r: r.update(efficiency=float("nan")), "efficiency: NaN is not a finite number"),
        (lambda r: r.update(bound_ms=0.0), "bound_ms: 0 is not above 0"),
        (lambda r: r.update(gain=-1.0), "gain: -1 is not above 0"),
        (lambda r: r.update(kernel_us=0), "kernel_us: 0 is not above 0"),
        (lambda r: r.update(pct_of_bound=-1), "pct_of_bound: -1 is negative"),
        (lambda r: r.update(batches_per_s=-1), "batches_per_s: -1 is negative"),
        (lambda r: r.update(host_to_device_GBps=-1), "host_to_device_GBps: -1 is negative"),
        (lambda r: r.update(device_idle_share=1.5), "device_idle_share: 1.5 is above 1"),
        (lambda r: r.update(identical=0.5), "identical: 0.5 is neither 0 nor 1"),
        (lambda r: r.update(bound_by_workers=2), "bound_by_workers: 2 is neither 0 nor 1"),
        (lambda r: r.update(sync_cost_ms="x"), 'sync_cost_ms: "x" is not a number'),
        (lambda r: r.update(valid=0.5), "valid: 0.5 is neither 0 nor 1"),
        (lambda r: r.update(reason=3), "reason: 3 is not text"),
        (lambda r: r.update(error_occurred=True, error_message=3), "error_message: 3 is not text"),
        (lambda r: r.pop("run_name"), "run_name: missing"),
        (lambda r: r.update(run_name="BM_Copy"), "run_name: 'BM_Copy' is not Family/Workload"),
        (lambda r: r.update(run_name="Overlap/Gemm"), "run_name: Overlap takes 2 or 3 workloads"),
        (
            lambda r: r.update(run_name=COMM),
            f"run_name: {COMM} is already at benchmarks[0]",
        ),
        (lambda r: r.update(run_type="other"), "run_type: 'other' is neither iteration nor"),
        (lambda r: r.pop("real_time"), "real_time: missing"),
        (lambda r: r.update(real_time=1e101), "real_time: 1e+101 is out of range"),
        (lambda r: r.update(time_unit="h"), "time_unit: 'h' is not one of ns, us, ms, s"),
        (lambda r: r.update(repetition_index=[0]), "repetition_index: [0] is not a number"),
        (lambda r: r.update(run_name="A/\x1b[31mB"), 'run_name: "A/\\u001b[31mB" is empty or'),
    ],
)
def test_a_bad_row_is_refused(change: Change, complaint: str) -> None:
    rows = [samples.row(COMM), samples.overlap(PAIR)]
    change(rows[1])
    assert_refused(json.dumps(samples.document(rows)), f"benchmarks[1].{complaint}")


def test_signed_counters_may_be_negative() -> None:
    signed = {"efficiency": -0.2, "hidden_comm": -0.1, "exposed_comm_ms": -0.01}
    signed |= {"device_idle_share": -0.01, "prediction_error_pct": -4.0, "sync_cost_ms": -0.1}
    signed |= {"device_us_per_launch": -2.4}
    (row,) = read_rows(samples.overlap(PAIR, **signed))
    assert signed.items() <= row.counters.items()


@pytest.mark.parametrize("text", ["", "slowdown", "[" * 100_000, "[1, 2]", '{"context": 1}'])
def test_files_that_are_not_results_are_refused(text: str) -> None:
    assert_refused(text, "")


def assert_refused(text: str, complaint: str) -> None:
    with pytest.raises(ResultError) as refusal:
        parse_result("run.json", text)
    line = str(refusal.value)
    assert line.startswith(f"run.json: {complaint}")
    assert len(line.splitlines()) == 1
    assert len(line) < 200


def test_globs_and_plain_files_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        samples.write(tmp_path / f"{name}.json", samples.document([samples.row(COMM)]))
    results = read_results([str(tmp_path / "[ab].json"), str(tmp_path / "c.json")])
    assert [result.label[0] for result in results] == ["a", "b", "c"]


def test_a_glob_orders_files_by_their_numbers(tmp_path: Path) -> None:
    names = ["rank2.json", "rank010.json", "rank10.json", "rank10a.json"]
    for name in reversed(names):
        (tmp_path / name).touch()
    assert [Path(path).name for path in expand([str(tmp_path / "*.json")])] == names


def test_a_file_may_be_named_like_a_glob(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "run[1].json", samples.document([samples.row(COMM)]))
    assert [result.label for result in read_results([str(path)])] == ["run[1] (cuda, NVIDIA H200)"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(samples.document([samples.row(COMM)])).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    (result,) = read_results(["-"])
    assert result.label == "standard input (cuda, NVIDIA H200)"


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    good = samples.document([samples.row(COMM)])
    paths = []
    for place in ("old/a/run.json", "new/a/run.json", "new/a/run.txt", "new/b/other.json"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        paths.append(str(samples.write(tmp_path / place, good)))
    labels = [result.label.removesuffix(" (cuda, NVIDIA H200)") for result in read_results(paths)]
    assert labels == ["run", "run.json", "run.txt", "other"]
    del paths[2]
    labels = [result.label.removesuffix(" (cuda, NVIDIA H200)") for result in read_results(paths)]
    assert labels == ["old/a/run", "new/a/run", "other"]


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "run.json", samples.document([samples.row(COMM)]))
    with pytest.raises(ResultError, match=f"^{path}: given twice$"):
        read_results([str(path), str(path)])


def test_the_time_is_in_ms_and_a_good_row_keeps_its_remark() -> None:
    rows = [
        samples.row(COMM, repetition, real_time=time, time_unit="us", label=label)
        for repetition, (time, label) in enumerate([(3000.0, ""), (1000.0, "note: 1"), (5e3, "")])
    ]
    (row,) = read_rows(*rows)
    assert row.time_ms == pytest.approx(3.0)
    assert row.remark == "1 of 3 repetitions: note: 1"
    assert row.problem == ""


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("absent.json", "cannot be read: No such file"),
        ("absent*.json", "no file matches"),
        (".", "cannot be read: Is a directory"),
        ("latin1.json", "not JSON: byte 2 is not UTF-8"),
    ],
)
def test_unreadable_files_are_refused(tmp_path: Path, name: str, complaint: str) -> None:
    (tmp_path / "latin1.json").write_bytes('{"é"'.encode("latin-1"))
    with pytest.raises(ResultError) as refusal:
        read_results([str(tmp_path / name)])
    assert str(refusal.value).startswith(f"{tmp_path / name}: {complaint}")


def with_intervals(*rows: Json) -> Json:
    return samples.with_intervals(samples.document(rows), 0.1)


def test_bounds_are_intervals_and_no_counters() -> None:
    document = with_intervals(samples.row(COMM, real_time=2.0, busbw_GBps=100.0))
    document["counters"].append(dict(document["counters"][-1], name="busbw_GBps_low"))
    (row,) = parse_result("run.json", json.dumps(document)).rows
    assert row.counters == {"busbw_GBps": 100.0}
    assert row.intervals == {"busbw_GBps": (90.0, 110.0), "time": (1.8, 2.2)}


def test_the_intervals_of_repetitions_are_pooled() -> None:
    times = (2.1, 2.0, 1.9)
    document = with_intervals(*(samples.row(COMM, i, real_time=t) for i, t in enumerate(times)))
    (row,) = parse_result("run.json", json.dumps(document)).rows
    assert row.time_ms == 2.0
    expected = pool(times, [(0.9 * time, 1.1 * time) for time in times])
    assert row.intervals["time"] == pytest.approx(expected)
    for bound in ("time_low_ms", "time_high_ms"):
        del document["benchmarks"][0][bound]
    (row,) = parse_result("run.json", json.dumps(document)).rows
    assert "time" not in row.intervals, "not known of all"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"busbw_GBps_low": 200.0}, "busbw_GBps_low: 200 is above busbw_GBps_high: 110"),
        ({"time_high_ms": "wide"}, 'time_high_ms: "wide" is not a number'),
        ({"time_low_ms": None}, "time_low_ms: null is not a number"),
    ],
)
def test_malformed_bounds_are_refused(change: Json, complaint: str) -> None:
    document = with_intervals(samples.row(COMM, busbw_GBps=100.0))
    document["benchmarks"][0] |= change
    with pytest.raises(ResultError, match=re.escape(complaint)):
        parse_result("run.json", json.dumps(document))


def test_a_noisy_row_is_measured_and_not_trusted() -> None:
    document = samples.document([samples.row(COMM, busbw_GBps=100.0)])
    document["benchmarks"] = [samples.noisy(document["benchmarks"][0], "±30 %: clocks changed")]
    (row,) = parse_result("run.json", json.dumps(document)).rows
    assert (row.trusted, row.bad, row.counters) == (False, True, {"busbw_GBps": 100.0})
    assert row.problem == "noisy: ±30 %: clocks changed"


@pytest.mark.parametrize(
    ("state", "reason", "passed"),
    [
        ("control", "one stream, and nothing overlapped", True),
        ("invalid", "throttled", False),
        ("ok", "", False),
        ("noisy", "±30 %", False),
    ],
)
def test_two_sides_on_one_stream_pass_as_their_state_says(
    state: str, reason: str, passed: bool
) -> None:
    document = samples.document([])
    document["benchmarks"] = [samples.control(state, reason)]
    (row,) = parse_result("run.json", json.dumps(document)).rows
    assert row.passed_control is passed
    assert row.bad is (state in ("invalid", "noisy") and not passed)


def test_equal_priorities_pass_where_nothing_is_gained() -> None:
    rows = samples.priorities()
    rows[1] |= {"valid": 0.0, "label": "invalid: the negative control shows a gain of 1.2"}
    found = {row.name.axis("priority"): row for row in read_rows(*rows[:2])}
    assert found["equal"].bad
    assert not found["equal"].passed_control
    assert not found["high"].passed_control
    assert [row.passed_control for row in read_rows(*rows[2:])] == [False, True]
