"""Runs: repetitions become medians, plain files are taken, and refusals name field and line."""

import json
import math
import statistics
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import samples
from overlapbench.judge.side import badness
from overlapbench.output import ResultError
from overlapbench.reading import source
from overlapbench.reading.counters import stored_table
from overlapbench.reading.entries import SAVED, Array, columns_of
from overlapbench.reading.plain import MEDIAN_ERROR
from overlapbench.reading.program_run import parse_program_run, read_program_runs
from samples import Json

NAME = "Compute/Gemm/n:64"
COUNTERS = stored_table().counters
COLUMNS = columns_of(stored_table())
PAIR = "AllToAll+Gemm/grid:1x1"


class Figures(NamedTuple):
    """One benchmark of a run."""

    unit: str
    values: Array
    error: float
    repetitions: int
    problem: str


def read(*rows: Json, **context: str) -> dict[str, Figures]:
    document = samples.document(rows, **context)
    one = parse_program_run("run.json", json.dumps(document))
    columns = (one.units, one.values, one.errors, one.repetitions, one.problems)
    return dict(zip(one.names, map(Figures._make, zip(*columns, strict=True)), strict=True))


def value(figures: Figures, metric: str) -> float:
    return float(figures.values[COLUMNS.index(metric)])


def test_repetitions_become_their_median_and_their_spread() -> None:
    times = (1.0, 9.0, 2.0)
    figures = read(*(samples.row(NAME, i, real_time=t) for i, t in enumerate(times)))[NAME]
    assert value(figures, "time") == 2.0
    assert figures.repetitions == 3
    spread = statistics.stdev(times) / statistics.mean(times)
    assert figures.error == pytest.approx(MEDIAN_ERROR * spread / math.sqrt(3))


@pytest.mark.parametrize(("unit", "ms"), [("ns", 1e-6), ("us", 1e-3), ("ms", 1.0), ("s", 1e3)])
def test_times_are_kept_in_ms(unit: str, ms: float) -> None:
    figures = read(samples.row(NAME, real_time=3.0, time_unit=unit))[NAME]
    assert figures.unit == unit
    assert value(figures, "time") == pytest.approx(3 * ms)


def test_a_row_knows_its_error_by_its_samples() -> None:
    figures = read(*(samples.row(NAME, i, cv=0.02, samples=25) for i in range(4)))[NAME]
    assert figures.error == pytest.approx(MEDIAN_ERROR * 0.02 / 5 / 2)
    assert math.isnan(read(samples.row(NAME))[NAME].error)


def test_efficiency_is_judged_by_the_speedup() -> None:
    row = samples.overlap(PAIR, 1.25, comp=2.0, comm=1.0, efficiency=0.5)
    figures = read(row)[f"Overlap/{PAIR}"]
    assert value(figures, SAVED) == pytest.approx(0.5 * 1.0 / 2.5)
    assert value(figures, "efficiency") == 0.5
    assert badness(COUNTERS["efficiency"], np.array([0.2, 0.1])).tolist() == [
        pytest.approx(-math.log(1.2)),
        pytest.approx(-math.log(1.1)),
    ]


def test_a_falling_rate_is_worse_and_a_rate_of_0_is_none() -> None:
    fast, slow, none = badness(COUNTERS["busbw_GBps"], np.array([2.0, 1.0, 0.0]))
    assert slow - fast == pytest.approx(math.log(2))
    assert math.isnan(none)
    assert badness(COUNTERS["time"], np.array([1.0, 2.0])).tolist() == [0.0, math.log(2)]


def test_a_plain_file_of_google_benchmark_has_its_time() -> None:
    row = samples.row("BM_Copy/1024", real_time=5.0, time_unit="us", efficiency=-3, valid="x")
    del row["repetition_index"]
    text = json.dumps({"context": {"num_cpus": 2}, "benchmarks": [row]})
    run = parse_program_run("plain.json", text)
    assert run.time_ms("BM_Copy/1024") == pytest.approx(0.005)
    assert run.table.judged == ("time",)
    assert "efficiency" not in run.columns
    assert {key: text for key, text in run.context.items() if text} == {"num_cpus": "2"}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (samples.row(NAME, valid=0, label="invalid: throttled"), "invalid: throttled"),
        (samples.row(NAME, error_occurred=True, error_message="wrong\nresult"), "wrong result"),
        (samples.row(NAME, run_type="aggregate"), "only aggregates are in the file"),
        (samples.row(NAME, valid=0, label="a \x1b[31mlie"), "invalid: a �[31mlie"),
    ],
)
def test_problems_are_kept_on_one_harmless_line(row: Json, problem: str) -> None:
    assert read(row)[NAME].problem == problem


def test_one_bad_repetition_is_counted() -> None:
    rows = [samples.row(NAME, i, valid=float(i != 1), label="slow") for i in range(3)]
    assert read(*rows)[NAME].problem == "1 of 3 repetitions: invalid: slow"


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "LARGEST_BYTES", 3 << 20)
    path = tmp_path / "large.json"
    path.write_bytes(b" " * (3 << 20) + b"{}")
    with pytest.raises(ResultError, match=r"large\.json: above 3 MiB"):
        read_program_runs([str(path)])
