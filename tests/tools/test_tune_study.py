"""A study from its first question to its answer, and the command line: nothing is started."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from fake_tune import BEST, DEFAULT, GRID, NAMES, ROW, WISH, FakeRunner, made
from overlapbench.cli import tune as command_line
from overlapbench.output import ResultError
from overlapbench.reading.names import BenchmarkName
from overlapbench.tune.machine import OBJECTIVES, Machine
from overlapbench.tune.search import Estimate
from overlapbench.tune.space import Wish
from overlapbench.tune.study import Study, spell_time

# ---- what is run


def test_the_machine_is_asked_for_rows_and_settings() -> None:
    listing = "A:\n  bytes = 1M  (a)\n\nOf every sample:\n  first = comp  (b)  of comp,comm\n"
    names = [ROW, f"{ROW}/first:comm"]
    answers = {"--list_axes": listing, "--benchmark_list_tests": "\n".join(["noise", *names])}
    runner = FakeRunner(answers=answers)
    machine = Machine(runner, 100)  # type: ignore[arg-type]
    assert machine.rows_of(WISH) == [BenchmarkName.parse(name) for name in names]
    grid = machine.grid_of(WISH, 132)
    assert (grid.ladder, grid.names) == (
        {"first": ["comp", "comm"]},
        {("comp",): ROW, ("comm",): f"{ROW}/first:comm"},
    )
    assert grid.sms == 132
    pair = ("--pair=A+B", "--axis=bytes=1M", "--axis=connections=8")
    assert runner.asked == [
        (*pair, "--benchmark_list_tests"),
        ("--pair=A+B", "--list_axes"),
        (*pair, "--axis=first=comp,comm", "--benchmark_list_tests"),
    ]
    assert machine.command == ["run", "--ranks", "2"]  # without what no user needs
    answers["--benchmark_list_tests"] = ROW
    with pytest.raises(ResultError, match=r"^A\+B: nothing to vary here: only one combination ex"):
        machine.grid_of(WISH, 132)
    answers["--benchmark_list_tests"] = names[1]
    with pytest.raises(ResultError, match="only one combination exists"):
        machine.grid_of(WISH, 132)
    answers["--list_axes"] = ""
    with pytest.raises(ResultError, match=r"^A\+B: nothing to vary here: every setting has one va"):
        machine.grid_of(WISH, 132)


def test_points_are_measured_in_one_process() -> None:
    runner = FakeRunner(ms={NAMES["", "comp"]: 2.0, NAMES[BEST]: 1.0, "Overlap/A+B/other:1": 3.0})
    machine = Machine(runner, 50)  # type: ignore[arg-type]
    found = machine.measure(WISH, GRID, [DEFAULT, BEST], 4)
    assert found == {
        DEFAULT: Estimate(2.0, 0.9 * 2.0, 1.1 * 2.0),
        BEST: Estimate(1.0, 0.9 * 1.0, 1.1 * 1.0),
    }
    ((side, number, names, *flags),) = runner.asked
    assert (side, number) == ("tune", "1")
    assert names == "^(" + "|".join([ROW, NAMES[BEST]]).replace("+", r"\+") + ")$"
    assert flags == [
        *("--ranks", "2", "--pair=A+B", "--axis=bytes=1M", "--axis=connections=8"),
        *("--axis=transport=nccl,copy", "--axis=first=comp,comm"),
        *("--budget_ms=200", "--no-self-test", "--precision=0"),
    ]
    assert runner.files == {}  # they would fill the memory
    machine.run(WISH, GRID, BEST)
    side, number, names, *flags = runner.asked[-1]
    assert (number, flags[-3:]) == (
        "2",
        ["--axis=transport=copy", "--axis=first=comm", "--no-self-test"],
    )


def test_rows_without_a_time_are_left_out() -> None:
    runner = FakeRunner(ms={ROW: 2.0}, rows={"valid": 0.0, "invalid": "it is wrong"})
    machine = Machine(runner, 50)  # type: ignore[arg-type]
    assert machine.measure(WISH, GRID, [DEFAULT], 1) == {}
    with pytest.raises(ResultError, match=r"^not confirmed: invalid: "):
        machine.run(WISH, GRID, DEFAULT)


def test_a_time_without_an_interval_may_be_anything() -> None:
    runner = FakeRunner(ms={ROW: 2.0}, without=("overlap_ms_low", "overlap_ms_high"))
    machine = Machine(runner, 50)  # type: ignore[arg-type]
    assert machine.measure(WISH, GRID, [DEFAULT], 1) == {DEFAULT: Estimate(2.0, 0.0, math.inf)}


def test_a_wish_for_one_row_fixes_what_the_row_has_and_varies_the_rest() -> None:
    wish = Wish("A+B", {"bytes": "1M,2M", "sm_target": "8", "odd": "1"})
    row = BenchmarkName.parse("Overlap/C+D/bytes:1048576/first:comm/sm_target:8/n:4/cache:cold")
    assert wish.of_row(row) == Wish(
        "C+D", {"bytes": "1048576", "n": "4", "cache": "cold", "sm_target": "8", "odd": "1"}
    )


def test_the_context_is_that_of_a_brief_row() -> None:
    runner = FakeRunner(ms={ROW: 2.0})
    machine = Machine(runner, 50)  # type: ignore[arg-type]
    context = machine.context_of(WISH, BenchmarkName.parse(ROW))
    assert context["device"] == "GPU"
    assert runner.asked[0][-3:] == ("--budget_ms=1", "--no-self-test", "--precision=0")


def test_energy_is_measured_where_it_is_minimised() -> None:
    energy = {"energy_J": 7.0, "energy_J_low": 6.9, "energy_J_high": 7.2}
    runner = FakeRunner(ms={ROW: 2.0}, rows=energy)
    machine = Machine(runner, 50, OBJECTIVES["energy"])  # type: ignore[arg-type]
    assert machine.measure(WISH, GRID, [DEFAULT], 1) == {DEFAULT: Estimate(7.0, 6.9, 7.2)}
    assert machine.run(WISH, GRID, DEFAULT).figure == 7.0
    assert all(asked[-1] == "--energy=own" for asked in runner.asked)
    product = Machine(runner, 50, OBJECTIVES["energy_time"])  # type: ignore[arg-type]
    assert product.measure(WISH, GRID, [DEFAULT], 1) == {}
    with pytest.raises(ResultError, match=r"^not confirmed: a run lacks what is minimised$"):
        product.run(WISH, GRID, DEFAULT)


def test_energy_without_a_counter_is_refused_in_one_line() -> None:
    runner = FakeRunner(ms={ROW: 2.0}, context={"energy": "not available: it is a toaster"})
    machine = Machine(runner, 50, OBJECTIVES["energy"])  # type: ignore[arg-type]
    with pytest.raises(ResultError, match=r"^--minimise: energy not available: it is a toaster$"):
        machine.context_of(WISH, BenchmarkName.parse(ROW))


def test_a_failure_is_told_without_a_hundred_names() -> None:
    runner = FakeRunner(refusal="run --benchmark_filter=... --x: exit status 1")
    machine = Machine(runner, 50)  # type: ignore[arg-type]
    with pytest.raises(ResultError, match=r"^run --benchmark_filter=\.\.\. --x: exit status 1$"):
        machine.measure(WISH, GRID, [DEFAULT], 1)


# ---- a study


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let each look at the clock find 2 s more."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += 2.0
        return now[0]

    monkeypatch.setattr("overlapbench.tune.study.time.monotonic", monotonic)
    return now


def test_a_study_searches_and_confirms_in_turn(clock: list[float]) -> None:
    said: list[str] = []
    times = {DEFAULT: 2.0, ("copy", "comp"): 3.0, ("nccl", "comm"): 2.5, BEST: 1.0}
    runner = FakeRunner(ms={GRID.names[point]: ms for point, ms in times.items()})
    study = made(runner, say=said.append)
    study.run()
    assert (study.choice, study.best, study.problem) == (BEST, BEST, "")
    assert study.gain is not None
    assert (study.gain.default, study.gain.best, study.gain.runs) == (2.0, 1.0, 3)
    assert study.gain.share == pytest.approx(0.5)
    assert study.run_s == 2.0
    run = [name for _, _, name, *_ in runner.asked[-6:]]
    order = [ROW, NAMES[BEST], NAMES[BEST], ROW, ROW, NAMES[BEST]]
    assert run == [f"^({name})$".replace("+", r"\+") for name in order]
    told = [line for line in said if line.startswith("confirming")]
    assert told[0] == "confirming: run 1 of 6: default, about 18 s left"
    assert told[1:] == [
        f"confirming: run {i} of 6: {what}, about {2 * (7 - i)} s left"
        for i, what in zip(range(2, 7), ("best", "best", "default", "default", "best"), strict=True)
    ]
    assert not said[0].endswith("left at most")
    assert all(", best " in line for line in said[1:] if not line.startswith("conf"))


def test_what_is_left_is_estimated_from_what_was_spent() -> None:
    study = made()
    assert study.race.limit == 8
    assert study.remaining_s() == 8 * 1.0 + 6 * 3.0
    study.race.spent, study.spent_s, study.run_s = 2, 5.0, 4.0
    assert study.remaining_s() == 6 * 2.5 + 6 * 4.0


def test_a_search_ends_in_time_to_confirm(clock: list[float]) -> None:
    study = made()
    study.deadline, clock[0] = 100.0, 79.9  # 18 s for the runs
    assert study._goes_on()
    clock[0] = 80.0
    assert not study._goes_on()


@pytest.mark.parametrize(
    ("choice", "runs", "confirmed"), [(BEST, 3, 1), (BEST, 0, 0), (DEFAULT, 3, 0)]
)
def test_only_another_choice_is_confirmed(
    choice: Any, runs: int, confirmed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = made(runs=runs)
    asked: list[Any] = []
    monkeypatch.setattr(study.race, "run", lambda: choice)
    monkeypatch.setattr(study, "_confirm", asked.append)
    study.run()
    assert asked == [choice] * confirmed
    assert study.problem == ""


def test_a_study_without_an_answer_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    study = made()
    monkeypatch.setattr(study.race, "run", lambda: None)
    study.run()
    assert study.problem == "the time budget is over"
    study.race.tried.add(DEFAULT)
    study.run()
    assert study.problem == "no row could be measured; overlapbench run shows why"
    failing = made(FakeRunner(refusal="it broke"))
    failing.run()
    assert failing.problem == "it broke"
    assert failing.choice is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (39.2, "40 s"), (89.5, "90 s"), (90.0, "2 min"), (200.0, "3 min")],
)
def test_times_are_spelt(seconds: float, text: str) -> None:
    assert spell_time(seconds) == text


# ---- the command line


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> FakeRunner:
    """Let the command line tune with a fake runner, whose rows have one setting."""
    listing = "Of every sample:\n  first = comp  (b)  of comp,comm\n"
    names = f"{ROW}\n{ROW}/first:comm"
    runner = FakeRunner(
        answers={"--list_axes": listing, "--benchmark_list_tests": names},
        ms={ROW: 2.0, f"{ROW}/first:comm": 1.0},
    )

    def started(commands: Any, flags: Any, timeout_s: float, _say: Any) -> FakeRunner:
        runner.asked.append(("start", str(commands), str(flags), str(timeout_s)))
        return replace(runner, commands=commands, flags=flags)

    monkeypatch.setattr(command_line, "Runner", started)
    monkeypatch.setattr(command_line, "exit_if_terminated", lambda: None)
    return runner


def test_the_command_line_tunes_every_row_of_a_pair(
    planned: FakeRunner, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    out = tmp_path / "tuned.json"
    given = [
        "A+B",
        "--command",
        "my run",
        "--runs",
        "3",
        "--unit-ms",
        "70",
        "--output",
        str(out),
    ]
    assert command_line.main([*given, "--output", str(out), "--timeout-s", "9", "--", "--x"]) == 0
    assert planned.asked[0] == ("start", "{'tune': ['my', 'run']}", "['--x']", "9")
    captured = capsys.readouterr()
    assert captured.out.count("\n  gain       saves 50.0 % of the time (") == 2
    first, second = captured.err.splitlines()[:2]
    assert first.startswith("tune: 2 to tune, 16 evaluations at most, about ")
    assert second == f"tune: 1 of 2: {ROW}, 2 settings"
    assert f"tune: 2 of 2: {ROW}/first:comm, 2 settings" in captured.err
    assert "tune: A+B: confirming: run 6 of 6: best" in captured.err
    document = json.loads(out.read_text())
    assert document["interrupted"] is False
    assert document["context"]["device"] == "GPU"
    assert any("--budget_ms=70" in flag for asked in planned.asked for flag in asked)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "no pair to tune; write for example AllGather+Gemm/bytes:64M"),
        (["Gemm"], "'Gemm' is not a pair; write for example AllGather+Gemm/bytes:64M"),
        (["Comm/AllGather"], "'Comm/AllGather' is not a pair; write for"),
        (["A+B/first:comp,comm"], "A+B/first:comp,comm: first accepts one value, which stays"),
        (["Lab/Matrix/A+B"], "Lab/Matrix/A+B: only rows of Overlap are tuned; write A+B/"),
        (["A+B/streams:1,2"], "A+B/streams:1,2: on one stream nothing overlaps"),
        (["A+B/bytes"], "'bytes' is not axis:value; write for example"),
        (["A+B", "A+B"], "A+B: this pair is given twice"),
        (["A+B/n:1/m:2", "Overlap/A+B/m:2/n:1"], "Overlap/A+B/m:2/n:1: this pair is given twice"),
        (
            ["A+B", "--runs", "2"],
            "--runs: at least 3 per side, or noise decides (0: confirm nothing)",
        ),
        (["A+B", "--", "--axis=n=1"], "--axis=n=1: the tuner sets it; write axes as A+B/bytes:1M/"),
        (["A+B", "--", "--pair=x"], "--pair=x: the tuner sets it"),
        (["A+B", "--", "--benchmark_out=x"], "--benchmark_out=x: the tuner sets it"),
        (["A+B", "--axis=n=1"], "--axis=n=1: write an axis as part of the pair: A+B/n:4096"),
        (["A+B", "--benchmark_out=x"], "--benchmark_out=x: --output writes the result"),
        (["A+B", "--odd"], "--odd: not a flag of the tuner; put flags of the program after --"),
        (["A+B", "--output", "/dev/null/x.json"], "/dev/null/x.json: "),
    ],
)
def test_bad_usage_is_one_line_and_starts_nothing(
    planned: FakeRunner, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    assert command_line.main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"overlapbench tune: {complaint}")
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert planned.asked == []


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "x"])
def test_a_budget_is_a_number_of_minutes(
    planned: FakeRunner, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    with pytest.raises(SystemExit) as raised:
        command_line.main(["A+B", f"--budget-minutes={text}"])
    assert raised.value.code == 2
    assert f"{text!r} is not a number of minutes above 0" in capsys.readouterr().err


def test_the_budget_is_shared_by_the_studies(
    planned: FakeRunner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr("overlapbench.cli.tune.time.monotonic", lambda: now[0])
    deadlines: list[float] = []

    def run(study: Study) -> None:
        deadlines.append(study.deadline)
        now[0] += 30.0
        study.problem = "none"

    monkeypatch.setattr(Study, "run", run)
    assert command_line.main(["A+B", "--budget-minutes", "2"]) == 1
    assert deadlines == [1000.0 + 60.0, 1030.0 + 90.0]
    assert capsys.readouterr().out.count("none; 0 of 2 settings were tried") == 2


def test_an_interruption_prints_what_is_known(
    planned: FakeRunner,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Any,
) -> None:
    def run(_study: Study) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Study, "run", run)
    out = tmp_path / "tuned.json"
    assert command_line.main(["A+B", "--output", str(out)]) == 130
    captured = capsys.readouterr()
    assert captured.err.endswith("tune: interrupted\n")
    assert captured.out.count("not finished") == 1
    assert json.loads(out.read_text())["interrupted"] is True
