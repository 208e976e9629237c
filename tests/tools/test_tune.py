"""The tuner's command line, with a program made up; and what it says of settings."""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from scipy import stats

import samples
import simulated_bench
from overlapbench.cli import tune
from overlapbench.findings.apply import advise
from overlapbench.tune.search import Estimate
from overlapbench.tune.space import Axis, Grid, Wish, ladders, parse_axes
from overlapbench.tune.study import Gain, gain_of
from simulated_pairs import Machine

PROGRAM = f"{sys.executable} {simulated_bench.__file__} --no-build"
NAME = "Overlap/A+B/cache:cold"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    here = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (here, here.parents[1] / "tools"))))
    return folder


def run(*arguments: str | Path, program: str = PROGRAM) -> int:
    return tune.main(["--command", program, "--runs", "3", *map(str, arguments)])


def test_the_best_is_found_confirmed_and_explained(
    tmp_path: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tuned.json"
    assert run("A+B", "--json", "-o", out, "--", "--seed=11") == 0
    document = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == document
    assert run("A+B", "--output", out, "--", "--seed=11") == 0
    document = json.loads(out.read_text())
    (pair,) = document["pairs"]
    machine = Machine(11)
    points = {name: point for point, name in machine.grid.names.items()}
    best_ms = min(map(machine.true_ms, machine.grid.names))
    assert machine.true_ms(points[pair["best"]["name"]]) <= 1.02 * best_ms
    assert pair["grid"] == len(machine.grid)
    assert pair["evaluations"] <= 0.15 * pair["grid"]
    assert pair["beats_default"]
    saved = 1 - machine.true_ms(points[pair["best"]["name"]]) / machine.true_ms(points[NAME])
    assert pair["gain"]["low"] - 0.01 < saved < pair["gain"]["high"] + 0.01
    assert pair["gain"]["low"] < pair["gain"]["share"] < pair["gain"]["high"]
    assert document["context"]["device_multiprocessors"] == "132"
    captured = capsys.readouterr()
    assert pair["best"]["command"] in captured.out
    assert "--no-build" not in captured.out
    assert captured.out.startswith(f"{NAME}\n  default ")
    assert "run 6 of 6: best, about " in captured.err
    assert captured.err.count("run ") == 12  # also of the best without new code
    plain = pair["best_without_new_code"]
    assert plain["settings"].get("transport", "nccl").startswith("nccl")
    assert plain["gain"]["low"] > 0
    rules = [one["rule"] for one in pair["findings"]]
    assert rules == ["best", "best without new code"]
    assert f"\n\nFindings\n 1. {pair['findings'][0]['sentence'][:20]}" in captured.out
    assert not any(temporary.iterdir())


@pytest.mark.parametrize(("default", "told"), [("faster", "; "), ("unlucky", ": the best saves")])
def test_without_a_gain_or_by_luck_in_the_search_nothing_is_claimed(
    default: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("A+B", "--", "--seed=9", f"--default={default}") == 0
    printed = capsys.readouterr().out
    assert f"gain       no setting beats the default on this machine{told}" in printed
    assert "again" not in printed


def test_what_the_program_refuses_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("A+C") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("overlapbench tune: --pair: there is no workload")
    assert captured.err.count("\n") == 1


def test_an_invalid_row_does_not_win(tmp_path: Path) -> None:
    out = tmp_path / "tuned.json"
    flags = ["--seed=9", "--invalid=/transport:copy"]  # which wins otherwise
    assert run("A+B/first:comp", "--output", out, "--", *flags) == 0
    (pair,) = json.loads(out.read_text())["pairs"]
    assert pair["best"]["settings"].get("transport", "nccl") != "copy"
    assert not [one for one in pair["measured"] if "/transport:copy" in one["name"]]


def test_settings_in_the_name_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "tuned.json"
    assert run("A+B/transport:nccl/first:comm", "--output", out, "--", "--seed=9") == 0
    (pair,) = json.loads(out.read_text())["pairs"]
    assert {"transport", "first"}.isdisjoint(pair["default"]["settings"])
    assert pair["name"] == f"{NAME}/first:comm"
    assert all("/first:comm" in one["name"] for one in pair["measured"])
    assert "--axis=first=comm" in pair["best"]["command"]


def test_a_budget_of_time_ends_the_search(tmp_path: Path) -> None:
    out = tmp_path / "tuned.json"
    assert run("A+B", "--budget-minutes", "0.01", "--output", out) == 1
    (pair,) = json.loads(out.read_text())["pairs"]
    assert pair["evaluations"] == 0
    assert pair["verdict"].startswith("the time budget is over")


def test_without_runs_nothing_is_confirmed_and_nothing_claimed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("A+B", "--runs=0") == 0
    printed = capsys.readouterr().out
    assert "not confirmed: with --runs 0, none is claimed; " in printed
    assert "saves" not in printed
    assert "again" not in printed


def test_a_program_that_fails_loses_nothing_that_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("A+B", "--", "--seed=9", "--fail=budget_ms=200") == 1
    printed = capsys.readouterr().out
    assert "\n  best       " in printed
    assert "exit status 2, no result: overlapbench: it fails; " in printed
    assert "--benchmark_filter=... " in printed
    assert "again" not in printed


def test_with_nothing_to_vary_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    knobs = Machine(3).grid.ladder
    fixed = "/".join(f"{knob}:{values[0]}" for knob, values in knobs.items())
    assert run(f"A+B/{fixed}") == 2
    assert "tune: A+B: nothing to vary here" in capsys.readouterr().err


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_leaves_nothing_and_prints_the_best_so_far(
    how: signal.Signals, status: int, tmp_path: Path, temporary: Path
) -> None:
    mark = f"--mark={os.getpid()}"
    flags = [f"--command={PROGRAM}", "A+B", "--", "--seed=9", mark, "--hang=budget_ms=200"]
    process = subprocess.Popen(
        [*samples.PROGRAM, "tune", *flags],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A job in the background of a shell ignores it, and so do its children.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "finals" in line:
            break
    time.sleep(0.5)
    process.send_signal(how)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == status
    if how == signal.SIGINT:
        assert "\n  best       " in printed
        assert "gain       not finished; " in printed
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if mark in read(p)]
    assert not any(temporary.iterdir())


def read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def side(figures: Iterable[float], error: float = math.nan) -> list[Estimate]:
    """Runs of these figures, each with a relative standard error."""
    reach = 0.0 if math.isnan(error) else math.exp(-1.96 * error)
    return [Estimate(x, reach * x, x / reach if reach else math.inf) for x in figures]


def test_a_gain_is_certain_when_its_interval_is_above_zero() -> None:
    gain = gain_of(side((2.0, 2.01, 1.99)), side((1.0, 1.01, 0.99)))
    assert gain.certain
    assert gain.share == pytest.approx(0.5, abs=0.005)
    assert 0.48 < gain.low < gain.share < gain.high < 0.52
    worse = gain_of(side((1.0, 1.01, 0.99)), side((2.0, 2.01, 1.99)))
    assert not worse.certain
    assert worse.high < 0
    same = gain_of(side((1.0, 1.05, 0.95)), side((1.0, 0.94, 1.04)))
    assert not same.certain
    assert same.low < 0 < same.high


def test_the_interval_holds_the_truth_95_times_in_100() -> None:
    import numpy as np

    random = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        base, new = np.exp(0.01 * random.normal(size=(2, 4)))
        gain = gain_of(side(base.tolist()), side((0.8 * new).tolist()))
        held += gain.low <= 0.2 <= gain.high
    assert 0.92 <= held / 400 <= 0.98


def test_the_interval_of_a_gain_is_students_for_one_figure() -> None:
    times = [math.exp(log) for log in (-0.01, 0.0, 0.01)]
    half = 0.01 * math.sqrt(2 / 3) * stats.t.isf(0.025, 4)
    ends = 1 - 0.5 * math.exp(half), 1 - 0.5 * math.exp(-half)
    gain = gain_of(side(times), side(0.5 * ms for ms in times))
    assert (gain.default, gain.best, gain.share) == pytest.approx((1.0, 0.5, 0.5))
    assert (gain.low, gain.high) == pytest.approx(ends)


def test_a_gain_is_no_more_certain_than_its_rows() -> None:
    """Runs may agree by chance."""
    half = 0.02 * math.sqrt(2 / 3) * stats.t.isf(0.025, 4)
    gain = gain_of(side([1.0] * 3, 0.02), side([0.5] * 3, 0.02))
    assert gain.low == pytest.approx(1 - 0.5 * math.exp(half))


@pytest.mark.parametrize(("low", "certain"), [(-0.01, False), (0.0, False), (0.01, True)])
def test_a_gain_that_may_be_none_is_not_certain(low: float, certain: bool) -> None:
    assert Gain(1.0, 0.9, 0.1, low, 0.2, runs=3).certain == certain


def test_settings_become_variables_and_fields() -> None:
    ctas = advise({"transport": "nccl_sym", "comm_ctas": "8"})
    assert ctas.variables == {"NCCL_MIN_CTAS": "8", "NCCL_MAX_CTAS": "8"}
    assert ctas.config == {"minCTAs": "8", "maxCTAs": "8"}
    engines = advise({"transport": "nccl_ce", "comm_priority": "1"})
    assert engines.variables == {"NCCL_CTA_POLICY": "2"}
    assert engines.config == {"CTAPolicy": "NCCL_CTA_POLICY_ZERO"}
    assert any("NCCL_WIN_COLL_SYMMETRIC" in note for note in engines.notes)
    assert any("cudaStreamCreateWithPriority, 1 above" in note for note in engines.notes)
    ours = advise({"transport": "sm_load", "comm_sms": "8", "sm_target": "116", "first": "comm"})
    assert not ours.variables
    assert not ours.config
    assert any("kernel that reads the peers' memory" in note for note in ours.notes)
    assert "the communication's kernel takes 8 SMs" in ours.notes
    assert any("CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = 116" in note for note in ours.notes)
    *_, copy = advise({"engine": "sm"}).notes
    assert copy.startswith("the copy: a kernel ")
    assert advise({}).notes == ()


def test_values_come_from_the_device_and_the_listing() -> None:
    copies = "HostToDevice: copy\n  engine = copy  (what copies)  of copy,sm\n"
    found = ladders(parse_axes(copies, ["HostToDevice", "Gemm"]), {}, 132)
    assert found == {"engine": ["copy", "sm"]}
    listing = (
        "AllGather: each\n"
        "  transport = nccl  (what (carries) it)  of nccl,copy\n"
        "  comm_sms = 0  (SMs; 0: 16)\n"
        "CublasGemm: product\n"
        "  sm_target = 0  (SMs)\n"
        "AllToAll: other\n"
        "  odd = 1  (not of this pair)\n"
        "Of every sample (cache, cadence), and of some scenarios:\n"
        "  first = comp  (which side)  of comp,comm,none\n"
        "  comp_sms = 0  (SMs)\n"
    )
    axes = parse_axes(listing, ["AllGather", "CublasGemm"])
    assert axes["transport"] == Axis(("nccl",), ("nccl", "copy"))
    assert "odd" not in axes
    found = ladders(axes, {"first": "comm"}, 132)
    assert found == {
        "transport": ["nccl", "copy"],
        "comm_sms": ["0", "4", "8", "12", "24", "32"],
        "sm_target": ["0", "108", "116", "120", "124"],
        "comp_sms": ["0", "104", "112", "120", "128"],
    }
    more = dict.fromkeys(("comm_ctas", "comp_priority", "comm_priority"), Axis(("0",)))
    assert ladders(more, {}, 132) == {
        "comm_ctas": ["0", "4", "8", "16", "32"],
        "comp_priority": ["0", "1"],
        "comm_priority": ["0", "1"],
    }
    assert ladders(axes, {}, 3)["comp_sms"] == ["0", "1", "2"]
    assert ladders(axes, {}, 15)["comp_sms"] == [*map(str, range(15))]
    assert "comp_sms" not in ladders(axes, {}, 16)
    assert ladders(axes, {}, 40)["comp_sms"] == ["0", "32"]
    assert "comp_sms" not in ladders(axes, {}, 1)


def test_the_grid_has_the_listed_combinations() -> None:
    ladder = {"first": ["comp", "comm"], "comp_priority": ["0", "1"], "comm_priority": ["0", "1"]}
    names = [
        *("Overlap/A+B", "Overlap/A+B/first:comm"),
        *("Overlap/A+B/comp_priority:1/comm_priority:1", "Overlap/A+B/comm_priority:1"),
    ]
    grid = Grid.of(ladder, names, 132)
    assert dict(grid.ladder) == {"first": ["comp", "comm"], "comm_priority": ["0", "1"]}
    assert list(grid.names) == [("comp", "0"), ("comp", "1"), ("comm", "0")]
    assert grid.changed(("comm", "0")) == {"first": "comm"}
    assert grid.varying(("comp", "1"), ["comm_priority"]) == [("comp", "0"), ("comp", "1")]


def test_sides_that_fit_share_all_sms() -> None:
    ladder = {
        "transport": ["nccl", "copy", "sm_load"],
        "comm_ctas": ["0", "16"],
        "comm_sms": ["0", "12", "24"],
        "comp_sms": ["0", "104", "112", "120", "128"],
    }
    names = [
        f"Overlap/A+B/transport:{transport}/comm_sms:{taken}/comp_sms:{limit}"
        for transport, most in (("copy", 1), ("sm_load", 3))
        for taken in ladder["comm_sms"][:most]
        for limit in ladder["comp_sms"]
    ]
    names.append("Overlap/A+B/transport:nccl/comm_ctas:16/comp_sms:112")
    grid = Grid.of(ladder, names, 132)

    def fitting(transport: str) -> list[list[dict[str, str]]]:
        start = next(point for point in grid.names if point[0] == transport)
        return [[grid.changed(point) for point in path] for path in grid.fitting(start)]

    assert fitting("sm_load") == [
        [
            {"transport": "sm_load", "comm_sms": "24", "comp_sms": "104"},
            {"transport": "sm_load", "comm_sms": "12", "comp_sms": "120"},
        ]
    ], "a limit of 112 leaves the communication no more than one of 120"
    assert fitting("nccl") == [[{"comm_ctas": "16", "comp_sms": "112"}]]
    assert fitting("copy") == [], "a copy takes no SMs that could be shared"


def test_a_line_goes_from_few_sms_to_many() -> None:
    ladder = {"comm_sms": ["0", "12", "24"], "comp_sms": ["0", "104", "112"]}
    names = [
        f"Overlap/A+B/comm_sms:{a}/comp_sms:{b}"
        for a in ["0", "12", "24"]
        for b in ["0", "104", "112"]
    ]
    grid = Grid.of(ladder, names, 132)
    assert grid.line(("0", "104"), "comm_sms") == [("12", "104"), ("0", "104"), ("24", "104")]
    assert grid.line(("12", "0"), "comp_sms") == [("12", "104"), ("12", "112"), ("12", "0")]
    assert grid.unlimited(("12", "104")) == ("12", "0")
    assert grid.takes_sms(grid.default)


def test_a_pair_keeps_the_settings_in_its_name() -> None:
    wish = Wish.parse("Overlap/AllGather+Gemm/bytes:1G/first:comp")
    assert wish.flags == ["--pair=AllGather+Gemm", "--axis=bytes=1G", "--axis=first=comp"]
    assert Wish.parse("AllGather+Gemm/bytes:1G/first:comp") == wish
