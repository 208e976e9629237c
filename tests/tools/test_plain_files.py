"""Plain Google Benchmark files, as its versions and other programs write them."""

import gzip
import json
import math
import re
from pathlib import Path

import pytest

import samples
from overlapbench.cli import compare
from overlapbench.output import ResultError
from overlapbench.reading import source
from overlapbench.reading.program_run import ProgramRun, parse_program_run
from overlapbench.reading.source import load
from samples import Json

Capture = pytest.CaptureFixture[str]


def entry(name: str, time: object = 8.0, **fields: object) -> Json:
    """Make an entry with what every version writes."""
    return {"name": name, "iterations": 10, "real_time": time, "cpu_time": 1.0} | fields


def aggregate(name: str, kind: str, time: float, **fields: object) -> Json:
    told: Json = {"run_name": name, "run_type": "aggregate", "aggregate_name": kind}
    return entry(f"{name}_{kind}", time, repetitions=16, **told, **fields)


def aggregates(name: str, mean: float, median: float) -> list[Json]:
    return [
        aggregate(name, "mean", mean),
        aggregate(name, "median", median),
        aggregate(name, "stddev", 0.04 * median),
        aggregate(name, "cv", 0.04, aggregate_unit="percentage"),
        aggregate(name, "max", 99.0),
    ]


FIT: list[Json] = [
    {"name": "Sort_BigO", "run_name": "Sort", "run_type": "aggregate", "aggregate_name": "BigO"},
    {"name": "Sort_RMS", "run_name": "Sort", "run_type": "aggregate", "aggregate_name": "RMS"},
    {"name": "Old_BigO", "cpu_coefficient": 1.0, "real_coefficient": 1.0, "big_o": "N"},
    {"name": "Old_RMS", "rms": 0.01},
]


def read(*rows: Json) -> ProgramRun:
    return parse_program_run("plain.json", json.dumps({"context": {}, "benchmarks": rows}))


def times_ns(run: ProgramRun) -> dict[str, object]:
    return {name: pytest.approx(1e6 * run.time_ms(name)) for name in run.names}


def test_an_entry_without_a_run_name_has_its_name() -> None:
    assert times_ns(read(entry("BM_A/8"), entry("BM_A/16", 16))) == {"BM_A/8": 8, "BM_A/16": 16}


def test_entries_of_one_name_are_its_repetitions() -> None:
    told: Json = {
        "run_name": "BM_A",
        "run_type": "iteration",
        "repetition_index": 0,
        "time_unit": "ns",
    }
    for form in ({}, told, told | {"family_index": 1}):
        run = read(*(entry("BM_A", time, **form) for time in (1.0, 9.0, 2.0)))
        assert times_ns(run) == {"BM_A": 2}
        assert run.repetitions == [3]


def test_complexity_rows_are_no_benchmarks() -> None:
    assert times_ns(read(entry("Sort/8"), *FIT)) == {"Sort/8": 8}


def test_aggregates_beside_their_repetitions_are_left_out() -> None:
    rows = [entry("BM_A", 1.0), entry("BM_A", 3.0), *aggregates("BM_A", 50.0, 60.0)]
    assert times_ns(read(*rows)) == {"BM_A": 2}


def test_a_median_stands_for_the_repetitions_that_are_not_there() -> None:
    run = read(*aggregates("BM_A", 50.0, 60.0), entry("BM_B"))
    assert times_ns(run) == {"BM_A": 60, "BM_B": 8}
    assert run.problems == ["", ""]


def test_without_a_median_the_mean_does() -> None:
    mean, _, deviation, *_ = aggregates("BM_A", 50.0, 60.0)
    run = read(deviation, mean)
    assert times_ns(run) == {"BM_A": 50}


def test_medians_of_one_name_are_its_repetitions() -> None:
    run = read(*aggregates("BM_A", 1.0, 2.0), *aggregates("BM_A", 1.0, 4.0))
    assert times_ns(run) == {"BM_A": 3}
    assert run.repetitions == [2]


def test_old_aggregates_are_known_by_their_names() -> None:
    old = [entry(f"BM_A_{kind}", time) for kind, time in (("mean", 5.0), ("median", 6.0))]
    run = read(*old, entry("BM_A_stddev", 0.6), entry("BM_mean"))
    assert times_ns(run) == {"BM_A": 6, "BM_mean": 8}


def test_other_aggregates_are_no_figures() -> None:
    for row in (aggregate("BM_A", "max", 9.0), entry("BM_A", run_type="aggregate")):
        run = read(row)
        assert math.isnan(run.time_ms("BM_A"))
        assert run.problems == ["only aggregates are in the file"]


def test_a_failed_entry_needs_no_time() -> None:
    failed = {"name": "BM_A", "run_name": "BM_A", "error_occurred": True, "error_message": "no"}
    assert read(failed, entry("BM_B")).problems == ["no", ""]


@pytest.mark.parametrize("time", [0, 0.0, -1.0, math.nan, math.inf, 1e-320, 10**400])
def test_a_time_that_is_none_is_its_rows_problem(time: float) -> None:
    run = read(entry("BM_A", time, time_unit="us"), entry("BM_B"))
    assert re.fullmatch("invalid: a time of .* us is no measurement", run.problems[0])
    assert run.units == ["us", "ns"]
    assert run.problems[1] == ""
    assert math.isnan(run.time_ms("BM_A"))
    assert math.isnan(read(aggregate("BM_A", "median", time)).time_ms("BM_A"))


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("real_time", "8", 'real_time: "8" is not a number'),
        ("real_time", True, "real_time: true is not a number"),
        ("real_time", None, "real_time: missing"),
        ("time_unit", "h", "time_unit: 'h' is not one of ns, us, ms, s"),
        ("run_type", "other", "run_type: 'other' is neither iteration nor aggregate"),
        ("name", "a\nb", 'name: "a\\nb" is empty or contains control characters'),
        ("name", 7, "name: 7 is not text"),
    ],
)
def test_a_malformed_entry_is_refused(field: str, value: object, complaint: str) -> None:
    with pytest.raises(ResultError) as refused:
        read(entry("BM_A"), entry("BM_B") | {field: value})
    assert str(refused.value) == f"plain.json: benchmarks[1].{complaint}"


def test_units_counts_and_threads_are_read() -> None:
    for unit, ns in {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}.items():
        row = entry("BM_A/threads:2", 2, time_unit=unit, iterations=1e9, threads=2)
        assert times_ns(read(row)) == {"BM_A/threads:2": 2 * ns}
        assert read(row).units == [unit]


def test_twice_the_median_fails_a_comparison(tmp_path: Path, capsys: Capture) -> None:
    base, new = (
        [
            str(
                samples.write(
                    tmp_path / f"{time}.json",
                    {"context": {}, "benchmarks": aggregates("BM_A", time, time)},
                )
            )
            for time in (factor, 1.01 * factor, 1.02 * factor)
        ]
        for factor in (1.0, 2.0)
    )
    assert compare.main(["--base", *base, "--new", *new]) == 1
    assert re.search(r"^BM_A +slower", capsys.readouterr().out, re.MULTILINE)


TEXT = json.dumps({"context": {}, "benchmarks": [entry("BM_µs", label="naïve")]}, indent=1)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_text_is_read_in_the_encodings_of_json(encoding: str, end: str, tmp_path: Path) -> None:
    text = TEXT.encode().decode("unicode_escape").replace("\n", end)
    path = tmp_path / "plain.json"
    path.write_bytes(text.encode(encoding))
    assert parse_program_run(str(path), load(str(path))).names == ("BM_µs",)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "empty"),
        (b" \r\n", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (TEXT.encode()[:-9], "not JSON, or cut short: "),
        (TEXT.encode("utf-16")[:-1], "not JSON: byte "),
        (b"{}\xff", "not JSON: byte 2 is not UTF-8"),
    ],
)
def test_other_data_is_refused(data: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "plain.json"
    path.write_bytes(data)
    with pytest.raises(ResultError) as refused:
        parse_program_run(str(path), load(str(path)))
    assert str(refused.value).startswith(f"{path}: {complaint}")


def test_a_packed_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plain.json.gz"
    packed = gzip.compress(TEXT.encode())
    path.write_bytes(packed)
    assert load(str(path)) == TEXT
    path.write_bytes(packed[:-9])
    with pytest.raises(ResultError, match=r"plain.json.gz: not gzip, or cut short: "):
        load(str(path))
    path.write_bytes(gzip.compress(bytes(20_000)))
    monkeypatch.setattr(source, "LARGEST_BYTES", 10_000)
    with pytest.raises(ResultError, match=r"plain.json.gz: above 0 MiB: too large for a result"):
        load(str(path))
