"""Scaling: laws are told apart, costs are taken apart exactly, failures are one line."""

import json
import math
import random
from dataclasses import asdict
from pathlib import Path

import pytest

import rank_scaling
from growth import Reading
from scaling import fit

RANKS = (2, 4, 8, 16, 32, 64, 128)


@pytest.mark.parametrize(
    ("law", "cost"),
    [("ranks", lambda n: 5 + 0.25 * n), ("log2(ranks)", lambda n: 3 + 7 * math.log2(n))],
)
def test_the_right_law_is_found_and_predicts(law: str, cost: object) -> None:
    assert callable(cost)
    noise = random.Random(1)
    found = fit({n: cost(n) * noise.uniform(0.98, 1.02) for n in RANKS})
    assert found.law == law
    assert found.at(1024) == pytest.approx(cost(1024), rel=0.05)
    assert 0 < found.scatter < 0.02 * cost(128)


def test_two_points_are_too_few() -> None:
    with pytest.raises(ValueError, match="2 numbers of ranks are too few"):
        fit({2: 1.0, 4: 2.0})


def run(rows: int, groups: int, ranks: int) -> rank_scaling._Run:
    """Make a run in which a start costs 3 s of CPU a rank, a row 5 ms and a sample 2 ms."""
    row_s = 0.005 + 0.002 * groups
    readings = [Reading(0.1, "", 0, {"resident_bytes": 1e6})]
    readings += [
        Reading(0.4 + row_s * (i + 1), "A/B", groups, {"resident_bytes": 3 << 20})
        for i in range(rows)
    ]
    return rank_scaling._Run(3.0 + rows * row_s, ranks * (3.0 + rows * row_s), readings)


def test_costs_are_taken_apart() -> None:
    few, many = rank_scaling._FEW, rank_scaling._MANY
    start = rank_scaling._Run(3.0, 4 * 3.0, [])
    found = rank_scaling.reduce(4, start, run(few, 3, 4), run(many, 3, 4), run(few, 100, 4))
    assert found.start_cpu_ms == pytest.approx(3000)
    assert found.sample_cpu_us == pytest.approx(2000)
    assert found.row_cpu_us == pytest.approx(5000)
    assert found.row_ms == pytest.approx(5)
    assert found.resident_mib == 3
    assert found.sample_ms == pytest.approx(2)


def test_a_failed_run_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text("#!/bin/sh\necho 'overlapbench: no cores' >&2\nexit 3\n")
    mpirun.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert rank_scaling.main(["--ranks=2,4,8"]) == 2
    said = capsys.readouterr().err
    assert said == "rank_scaling: 2 ranks: status 3, saying: overlapbench: no cores\n"


def test_without_mpirun_it_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rank_scaling.main(["--ranks=2,4,8"]) == 2
    said = capsys.readouterr().err
    assert said == "rank_scaling: mpirun: cannot be started: No such file or directory\n"


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_scaling, "measure", lambda *_: pytest.fail("measured"))
    path = tmp_path / "no/costs.json"
    assert rank_scaling.main([f"--json={path}"]) == 2
    said = capsys.readouterr().err
    assert said == f"rank_scaling: {path}: cannot be written: No such file or directory\n"


def test_the_costs_are_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = {n: rank_scaling.Costs(n, 1, 10.0 + n, 1, 100 * n, 1, 5, 8) for n in (2, 4, 8)}
    monkeypatch.setattr(rank_scaling, "measure", lambda _, ranks: costs[ranks])
    path = tmp_path / "costs.json"
    assert rank_scaling.main(["--ranks=2,4,8", f"--json={path}"]) == 0
    assert capsys.readouterr().out == rank_scaling.table(list(costs.values())) + "\n"
    assert json.loads(path.read_text()) == [asdict(one) for one in costs.values()]


def test_the_table_predicts(capsys: pytest.CaptureFixture[str]) -> None:
    costs = [rank_scaling.Costs(n, 1, 10.0 + n, 1, 100 * math.log2(n), 1, 5, 8) for n in RANKS]
    lines = rank_scaling.table(costs).splitlines()
    assert len(lines) == 1 + len(RANKS) + 4
    assert lines[-4].startswith("start CPU ms: 10 +1 x ranks")
    assert lines[-4].endswith("1024 ranks: 1034")
    assert lines[-3].endswith("1024 ranks: 1000")
