"""A study from its first question to its answer, and its outcome as a whole: nothing is started."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import samples
from overlapbench.cli import tune as command_line
from overlapbench.findings.apply import advise
from overlapbench.output import ResultError
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.program_run import ProgramRun, parse_program_run
from overlapbench.tune.machine import OBJECTIVES, Machine
from overlapbench.tune.report import json_of, report_of, verdict_of
from overlapbench.tune.search import Estimate
from overlapbench.tune.space import Grid, Wish
from overlapbench.tune.study import Gain, Study, spell_time

ROW = "Overlap/A+B/cache:cold"
CONTEXT = {"date": "today", "device": "GPU", "ranks": "2", "hosts": "not shown"}


@dataclass
class FakeRunner:
    """Answers with `answers`, and with a row of `ms` for each name of a filter."""

    flags: Sequence[str] = ("--ranks", "2")
    commands: dict[str, list[str]] = field(default_factory=lambda: {"tune": ["run", "--no-build"]})
    answers: dict[str, str] = field(default_factory=dict)  # by the last flag
    ms: dict[str, float] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)  # fields of every row
    without: Sequence[str] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    refusal: str = ""
    context: dict[str, str] = field(default_factory=dict)

    def ask(self, side: str, flags: Sequence[str]) -> str:
        assert side == "tune"
        self.asked.append(tuple(flags))
        return self.answers[flags[-1]]

    def run(self, side: str, number: int, names: str) -> ProgramRun:
        self.asked.append((side, str(number), names, *self.flags))
        if self.refusal:
            raise ResultError(self.refusal)
        rows = [
            samples.overlap(
                name.removeprefix("Overlap/"), overlap_ms_low=0.9 * ms, overlap_ms_high=1.1 * ms
            )
            | {"real_time": ms, "overlap_ms": ms}
            | self.rows
            for name, ms in self.ms.items()
            if re.search(names, name)
        ]
        rows = [{k: v for k, v in row.items() if k not in self.without} for row in rows]
        text = json.dumps(samples.document(rows, device="GPU", hosts="not shown", **self.context))
        source = f"{side}-{number}.json"
        self.files[source] = text.encode()
        return parse_program_run(source, text)


NAMES = {
    ("", "comp"): ROW,
    ("copy", "comp"): f"{ROW}/transport:copy",
    ("", "comm"): f"{ROW}/first:comm",
    ("copy", "comm"): f"{ROW}/transport:copy/first:comm",
}
LADDER = {"transport": ["nccl", "copy"], "first": ["comp", "comm"]}
GRID = Grid.of(LADDER, [*NAMES.values()], 132)
DEFAULT, BEST = GRID.default, ("copy", "comm")
WISH = Wish("A+B", {"bytes": "1M", "connections": "8"})


def made(runner: FakeRunner | None = None, **about: Any) -> Study:
    machine = Machine(runner or FakeRunner(), 100)  # type: ignore[arg-type]
    known: dict[str, Any] = {"runs": 3, "say": lambda _line: None} | about
    return Study(machine, WISH, BenchmarkName.parse(ROW), CONTEXT, GRID, **known)


def raced(**about: Any) -> Study:
    """A study after its search."""
    study = made()
    study.race.known |= {
        DEFAULT: Estimate(2.0, 1.9, 2.1),
        BEST: Estimate(1.5, 1.4, math.inf),
        ("nccl", "comm"): Estimate(1.75, 1.7, 1.8),
    }
    study.race.tried |= {*study.race.known, ("copy", "comp")}
    study.race.spent = 6
    for name, value in about.items():
        setattr(study, name, value)
    return study


GAIN = Gain(2.0, 1.6, 0.2, 0.15, 0.25, 3)
FOUND = raced(choice=BEST, gain=GAIN)
SAVES = "saves 20.0 % of the time (15.0 % to 25.0 %; 95 % interval, 3 runs a side), speed-up 1.25"


# ---- the outcome


def test_a_gain_is_told_with_all_that_brings_it() -> None:
    told = report_of([FOUND])
    assert told.startswith(
        f"""\
{ROW}
  default    2 ms  transport:nccl first:comp
  best       1.6 ms  transport:copy first:comm
  gain       {SAVES}
  search     6 evaluations, for 4 settings
  again      {AGAIN}

Findings
 1. A+B: 1.6 instead of 2 ms, saves 15.0 % to 25.0 % with a kernel, or copies, of your own
    why  Overlap/A+B/cache:cold: 3 runs a side, in turn
    do   Set transport:copy first:comm.
"""
    )
    ways = " ".join(told.partition("first:comm.")[2].split())
    assert ways == " ".join(
        advise({"transport": "copy", "first": "comm", "connections": "8"}).notes
    )


AGAIN = (
    "run --ranks 2 --pair=A+B --axis=bytes=1M --axis=connections=8 --axis=transport=copy"
    " --axis=first=comm"
)


def test_a_failure_of_the_plainer_settings_leaves_the_gain() -> None:
    """The best that needs no new code is confirmed last, and only if it is not the best of all."""
    study = raced()
    confirmed = []

    def confirm(point: tuple[str, ...]) -> Gain:
        confirmed.append(point)
        if len(confirmed) > 1:
            raise ResultError("it failed")
        return GAIN

    study._confirm = confirm  # type: ignore[method-assign, assignment]
    study.race.run = lambda: BEST  # type: ignore[method-assign]
    study.run()
    assert confirmed == [BEST, ("nccl", "comm")]
    assert (study.gain, study.plain_gain, study.problem) == (GAIN, None, "")


def test_what_nccl_must_be_told_is_shown() -> None:
    grid = Grid.of({"transport": ["nccl", "nccl_ce"], "comm_ctas": ["0", "8"]}, GRIDDED, 132)
    study = replace(made(), grid=grid)
    study.choice, study.gain = ("nccl_ce", "8"), GAIN
    study.race.spent = 1
    lines = report_of([study]).splitlines()
    assert lines[4] == "  search     1 evaluations, 25.0 % of 4 settings"
    assert lines[6] == "  variables  NCCL_CTA_POLICY=2 NCCL_MIN_CTAS=8 NCCL_MAX_CTAS=8"
    assert lines[7] == (
        "  NCCL       ncclConfig_t: config.CTAPolicy = NCCL_CTA_POLICY_ZERO; config.minCTAs = 8;"
        " config.maxCTAs = 8"
    )
    assert lines[9] == "Findings"
    assert lines[10].endswith("saves 15.0 % to 25.0 % with no new code")
    assert sum(line.lstrip().startswith("PyTorch: opts = ProcessGroupNCCL") for line in lines) == 2
    twice = report_of([study, FOUND])
    assert twice.count("\nFindings\n") == 1
    assert twice.count(" saves 15.0 % to 25.0 % with ") == 2


GRIDDED = [
    f"{ROW}{transport}{ctas}"
    for transport in ("", "/transport:nccl_ce")
    for ctas in ("", "/comm_ctas:8")
]


@pytest.mark.parametrize(
    ("about", "verdict"),
    [
        ({"gain": GAIN, "choice": BEST}, SAVES),
        (
            {"gain": replace(GAIN, low=-0.01), "choice": BEST},
            "no setting beats the default on this machine: the best saves 20.0 % (-1.0 % to 25.0 %;"
            " 95 % interval, 3 runs a side); 4 of 4 settings were tried",
        ),
        ({"gain": GAIN, "problem": "it broke"}, "it broke; 4 of 4 settings were tried"),
        ({}, "not finished; 4 of 4 settings were tried"),
        (
            {"choice": DEFAULT},
            "no setting beats the default on this machine; 4 of 4 settings were tried",
        ),
        (
            {"choice": BEST},
            "not confirmed: the search ended early; 4 of 4 settings were tried",
        ),
        (
            {"choice": BEST, "runs": 0},
            "not confirmed: with --runs 0, none is claimed; 4 of 4 settings were tried",
        ),
    ],
)
def test_the_verdict_says_what_is_known(about: dict[str, Any], verdict: str) -> None:
    assert verdict_of(raced(**about)) == verdict


def test_without_a_gain_times_are_those_of_the_search() -> None:
    lines = report_of([raced(choice=BEST)]).splitlines()
    assert lines[1:3] == [
        "  default    2 ms  transport:nccl first:comp",
        "  best       1.5 ms  transport:copy first:comm",
    ]
    assert len(lines) == 5
    assert "again" not in report_of([raced(choice=BEST, gain=replace(GAIN, low=-0.1))])
    lines = report_of([made()]).splitlines()
    assert lines[1] == "  default    transport:nccl first:comp"
    assert lines[2].startswith("  gain       not finished")
    assert "best" not in report_of([raced(choice=DEFAULT)])


def test_the_json_has_all_of_it() -> None:
    text = json_of([FOUND, made()], interrupted=True)
    assert text.startswith(b'{\n "tune_schema": "1",\n')
    assert text.endswith(b"}\n")
    document = json.loads(text)
    first, second = document.pop("pairs")
    assert document == {
        "tune_schema": "1",
        "context": {"date": "today", "device": "GPU", "ranks": "2"},
        "interrupted": True,
    }
    start = "run --ranks 2 --pair=A+B --axis=bytes=1M --axis=connections=8"
    assert first.pop("best") == {
        "name": NAMES[BEST],
        "settings": {"transport": "copy", "first": "comm"},
        "command": AGAIN,
        "variables": {},
        "ncclConfig_t": {},
        "notes": list(advise({"transport": "copy", "first": "comm", "connections": "8"}).notes),
    }
    (finding,) = first.pop("findings")
    assert (finding["rule"], finding["saves"]["low"]) == ("best", 0.15)
    assert first == {
        "pair": "A+B",
        "minimises": "time",
        "name": ROW,
        "evaluations": 6,
        "grid": 4,
        "tried": 4,
        "verdict": SAVES,
        "default": {
            "name": ROW,
            "settings": {"transport": "nccl", "first": "comp"},
            "command": start,
        },
        "beats_default": True,
        "measured": [
            {"name": ROW, "overlap_ms": 2.0, "low_ms": 1.9, "high_ms": 2.1},
            {"name": NAMES[BEST], "overlap_ms": 1.5, "low_ms": 1.4},
            {"name": f"{ROW}/first:comm", "overlap_ms": 1.75, "low_ms": 1.7, "high_ms": 1.8},
        ],
        "gain": {
            "default_ms": 2.0,
            "best_ms": 1.6,
            "share": 0.2,
            "low": 0.15,
            "high": 0.25,
            "launches": 3,
        },
    }
    assert (second["beats_default"], second["measured"], "gain" in second) == (False, [], False)
    assert "best" not in second
    assert json.loads(json_of([], interrupted=False)) == {
        "tune_schema": "1",
        "context": {},
        "interrupted": False,
        "pairs": [],
    }
    unsure = json.loads(json_of([raced(choice=BEST, gain=replace(GAIN, low=0.0))], False))
    assert unsure["pairs"][0]["beats_default"] is False


@pytest.mark.parametrize(
    ("setting", "value", "note"),
    [
        (
            "transport",
            "sm_load",
            "write a kernel that reads the peers' memory, with few blocks",
        ),
        ("transport", "sm_store", "write a kernel that writes the peers' memory, with few blocks"),
        ("transport", "sm_bulk", "a kernel that writes the peers' memory by cp.async.bulk, with"),
        ("transport", "nccl_sym", "NCCL 2.28 or later; 2.28.7 fixes a data corruption"),
        (
            "transport",
            "nccl_ce",
            "NCCL 2.28 or later, one node, all-gather and all-to-all; anything",
        ),
        ("first", "comp", "start the collective after the product"),
        ("first", "none", "any order; either starts first"),
        ("comm_sms", "8", "the communication's kernel takes 8 SMs"),
        ("engine", "sm", "the copy: a kernel that reads and writes (comm/sm_copy.h has ours)"),
        ("sm_target", "120", "cuBLASLt: CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = 120"),
        ("comp_sms", "64", "the computation's stream: a green context of 64 SMs (cuGreenCtxCreate"),
        ("comp_priority", "1", "the computation's stream: cudaStreamCreateWithPriority, 1 above"),
        ("comm_priority", "1", "the communication's stream: cudaStreamCreateWithPriority, 1 above"),
        ("connections", "1", "CUDA_DEVICE_MAX_CONNECTIONS=1 in the environment"),
    ],
)
def test_each_setting_has_advice(setting: str, value: str, note: str) -> None:
    advice = advise({setting: value})
    assert note in advice.notes[-1]
    if value.startswith("nccl_"):
        assert any("NCCL_WIN_COLL_SYMMETRIC" in line for line in advice.notes)


def test_a_command_is_quoted_for_a_shell() -> None:
    runner = FakeRunner(commands={"tune": ["my run"]}, flags=())
    document = json.loads(json_of([replace(made(runner), wish=Wish("A+B", {"n": "1,2"}))], False))
    assert document["pairs"][0]["default"]["command"] == "'my run' --pair=A+B --axis=n=1,2"
    assert advise({}) == advise({"unknown": "1"})


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
    assert math.isnan(product.run(WISH, GRID, DEFAULT).figure)


def test_energy_without_a_counter_is_refused_in_one_line() -> None:
    runner = FakeRunner(ms={ROW: 2.0}, context={"energy": "not available: it is a toaster"})
    machine = Machine(runner, 50, OBJECTIVES["energy"])  # type: ignore[arg-type]
    with pytest.raises(ResultError, match=r"^--minimise: energy not available: it is a toaster$"):
        machine.context_of(WISH, BenchmarkName.parse(ROW))


def test_a_gain_of_energy_is_told_in_joules() -> None:
    study = made(runs=3)
    study.machine.objective = OBJECTIVES["energy"]
    study.race.known |= {DEFAULT: Estimate(2.0, 1.9, 2.1), BEST: Estimate(1.5, 1.4, math.inf)}
    study.choice, study.gain = BEST, GAIN
    told = report_of([study])
    assert "default    2 J  transport:nccl" in told
    assert f"{SAVES.partition(',')[0].replace('time', 'energy')}" in told
    assert "speed-up" not in told
    assert "1.6 instead of 2 J, saves 15.0 %" in told
    (pair,) = json.loads(json_of([study], interrupted=False))["pairs"]
    assert pair["minimises"] == "energy"
    assert (pair["gain"]["default_J"], pair["gain"]["best_J"]) == (2.0, 1.6)
    assert pair["measured"][0] == {"name": ROW, "energy_J": 2.0, "low_J": 1.9, "high_J": 2.1}


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
        (["A+B", "A+B"], "A+B: this pair is given twice"),
        (["A+B", "C+D", "Overlap/A+B"], "Overlap/A+B: this pair is given twice"),
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
    assert capsys.readouterr().err.startswith(f"overlapbench tune: {complaint}")
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
