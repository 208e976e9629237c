"""Faults on real ranks of the host backend: a part of the drills, and that the table is whole.

dev/fault_drill.py runs all of them, on either backend. Those here take few seconds each, and run
a few at a time, because they mostly wait.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import ROOT

from drill.drills import DRILLS, Drill, Outcome
from drill.run import Setup, choose, run_all
from drill.verdict import Verdict

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

QUICK = tuple(
    drill.fault
    for drill in DRILLS
    if "host" in drill.backends
    and drill.fault.split(",visit")[0]
    in {
        *("kill@wait,rank=1", "kill@report,rank=0", "exit@times,rank=1", "stop@wait,rank=0"),
        *("stall@first,rank=0", "delay@fill,rank=1", "interrupt@wait,rank=0"),
        *("terminate@report,rank=0", "fail@verify,rank=0", "fail@times,rank=1"),
        *("disk@write,rank=0", "memory@make,rank=1", "kernel@enqueue,rank=0"),
        *("corrupt@verify,rank=1", "throttle@report,rank=1", "fail@connect,rank=1"),
    }
)
AT_A_TIME = 6
# Longer than the drills' own: other tests may run beside them.
TIMEOUT_S = 5
BUSY_S = 20


@pytest.fixture(scope="module")
def verdicts(launcher: "Launcher") -> dict[str, Verdict]:
    setup = Setup(launcher.with_faults().binary, "host", 2, TIMEOUT_S, busy_s=BUSY_S)
    made = run_all(setup, choose(setup, QUICK.__contains__), AT_A_TIME, lambda _: None)
    return {verdict.drill.fault: verdict for verdict in made}


@pytest.mark.parametrize("fault", QUICK)
def test_a_fault_keeps_the_suites_promise(fault: str, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[fault]
    assert verdict.broken == [], verdict.ended.stderr


def test_each_drill_is_there_once() -> None:
    for backend in ("host", "cuda"):
        titles = [drill.title for drill in DRILLS if backend in drill.backends]
        assert len(set(titles)) == len(titles)
        assert len(titles) > 40


# A death is no exception: mpirun names the rank.
def test_every_end_has_a_message() -> None:
    assert not [
        one.title for one in DRILLS if one.outcome is Outcome.ENDS if not one.says + one.names
    ]


def test_every_kind_of_fault_has_a_drill(launcher: "Launcher") -> None:
    done = launcher.with_faults().run("--inject_fault=none@start", ranks=1)
    kinds = set(re.findall(r"^  (\w+) {2,}", done.stderr, re.MULTILINE))
    assert len(kinds) >= 16
    assert kinds == {fault.split("@")[0] for drill in DRILLS for fault in drill.faults}


def test_every_phase_has_a_drill(launcher: "Launcher") -> None:
    done = launcher.with_faults().run("--inject_fault=kill@nowhere", ranks=1)
    _, _, phases = done.stderr.partition("choose one of ")
    assert set(phases.strip().split(", ")) == {phase for drill in DRILLS for phase in at(drill)}


def at(drill: Drill) -> list[str]:
    return [re.split("[@,]", fault)[1] for fault in drill.faults]


def test_the_script_runs_drills_and_writes_the_table(launcher: "Launcher", tmp_path: Path) -> None:
    table = tmp_path / "faults.md"
    script = [sys.executable, "-S", str(ROOT / "dev/fault_drill.py")]  # the standard library only
    flags = [f"--binary={launcher.with_faults().binary}", "--filter=throttle|delay@fill.*ms=1000"]
    done = subprocess.run(
        [*script, *flags, "--jobs=2", "--output", str(table)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("2 drills, 0 broke a promise\n")
    lines = table.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("2 ranks, backend host, ")
    assert lines[-2].startswith("| `delay` of 1 s | `fill` | 1 | nothing: all rows are measured |")
    assert lines[-1].startswith("| `throttle` | `report` | 1 | the rows from there on are marked ")
    assert lines[-1].endswith(" | 0 | 7 of 7 |")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--filter=nothing"], "none of the "),
        (["--filter=("], "--filter: '(' is not a regular expression"),
        (["--binary=/dev/null/missing"], "/dev/null/missing is missing or cannot be run: "),
    ],
)
def test_the_script_refuses_in_one_line(flags: list[str], complaint: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "dev/fault_drill.py"), *flags],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"fault_drill: {complaint}")
    assert done.stderr.count("\n") == 1
