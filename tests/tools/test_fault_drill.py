"""What counts as a broken promise: a job made up to keep all of them, with one thing spoilt."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drill.drills import Drill, Kept, Outcome
from drill.job import RESULT, Ended
from drill.run import Setup, choose
from drill.table import markdown
from drill.verdict import Verdict, judge
from fault_drill import main

PARTIAL = f"{RESULT}.partial"
NOTICED = "mpirun noticed that process rank 0 with PID 0 on node a exited on signal 9 (Killed).\n"
NAMES = ("Compute/Gemm/n:1", "Comm/AllReduce/bytes:1", "Comm/AllGather/bytes:1")
ENDS = Drill("stall@wait,rank=1", Outcome.ENDS, "rank 0 .* did not arrive", Kept.MARKED)
KILLED = Drill("kill@wait", Outcome.ENDS, "", Kept.MARKED, names="rank 0 .* signal 9")
TOO_EARLY = Drill("kill@start", Outcome.ENDS, "", Kept.NOTHING, names="rank 0 .* signal 9")
ROW_FAILS = Drill("fail@make", Outcome.ROW_FAILS, "injected")
ROWS_FAIL = Drill("kernel@verify", Outcome.ROWS_FAIL, "injected")
INVALID = Drill("throttle@report", Outcome.INVALID, "throttled")
UNHARMED = Drill("delay@fill,ms=1000", Outcome.UNHARMED)
AT_ONCE = replace(ROW_FAILS, fault="fail@connect", at_once=True)


def row(name: str, **more: Any) -> dict[str, Any]:
    measured = {"real_time": 1.5, "max_rel_err": 0.0, "valid": 1.0, "state": "ok", "reason": ""}
    return {"name": name, **measured, **more}


def error(name: str, message: str = "injected") -> dict[str, Any]:
    return {"name": name, "error_occurred": True, "state": "error", "reason": message}


def invalid(name: str) -> dict[str, Any]:
    return row(name, valid=0.0, state="invalid", reason="clocks were throttled")


def document(rows: list[dict[str, Any]], **more: Any) -> str:
    return json.dumps({"context": {}, "benchmarks": rows, **more})


def announce(*names: str) -> str:
    rows = "".join(f"    {place}  1.500\n" for place, _ in enumerate(names))
    return "3 benchmarks; times\n\nComm/AllReduce  cache:cold\nbytes  time ms\n" + rows


def ended(drill: Drill) -> Ended:
    """A job that kept every promise of the drill."""
    first, second, third = NAMES
    line = "overlapbench: rank 0 of 2: the other ranks did not arrive\n"
    cut = document([row(first)], incomplete="why")
    rows = {
        Outcome.ROW_FAILS: [row(first), error(second), row(third)],
        Outcome.ROWS_FAIL: [row(first), error(second), error(third)],
        Outcome.INVALID: [row(first), invalid(second), invalid(third)],
        Outcome.UNHARMED: [row(name) for name in NAMES],
    }
    if drill is ENDS:
        return Ended(1, 5.0, announce(first), line, {RESULT: cut})
    if drill is KILLED:
        return Ended(137, 5.0, announce(first), NOTICED, {RESULT: cut})
    if drill is TOO_EARLY:
        return Ended(137, 1.0, "", NOTICED, {})
    status = 1 if drill.outcome in (Outcome.ROW_FAILS, Outcome.ROWS_FAIL) else 0
    return Ended(status, 1.0, announce(*NAMES), "", {RESULT: document(rows[drill.outcome])})


CARRIED = replace(ENDS, transport="copy", rows="Comm/AllGather/")
DRILLS = (ENDS, KILLED, TOO_EARLY, ROW_FAILS, ROWS_FAIL, INVALID, UNHARMED, AT_ONCE)


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.fault)
def test_a_job_that_keeps_all_promises_breaks_none(drill: Drill) -> None:
    assert judge(drill, ended(drill)).broken == []


def files(name: str, rows: list[dict[str, Any]], **more: Any) -> Callable[[Ended], Ended]:
    return lambda job: replace(job, files={name: document(rows, **more)})


SPOILT: dict[str, tuple[Drill, Callable[[Ended], Ended], str]] = {
    "no end": (ENDS, lambda job: replace(job, status=None), "it did not end"),
    "status 0": (ENDS, lambda job: replace(job, status=0), "exit status 0"),
    "another status": (UNHARMED, lambda job: replace(job, status=1), "exit status 1, not 0"),
    "silence": (ENDS, lambda job: replace(job, stderr=""), "no message of the suite matches"),
    "waiting for a timeout": (
        AT_ONCE,
        lambda job: replace(job, seconds=40.0),
        "ended after 40.0 s, not within 12 s",
    ),
    "others' line": (
        ENDS,
        lambda job: replace(job, stderr=job.stderr.replace("overlapbench", "mpirun")),
        "no message of the suite matches",
    ),
    "another rank named": (
        KILLED,
        lambda job: replace(job, stderr=NOTICED.replace("rank 0", "rank 1")),
        "mpirun's words do not match 'rank 0 .* signal 9'",
    ),
    "left behind": (
        UNHARMED,
        lambda job: replace(job, left=["process 7 (orted)"]),
        "left behind: process 7 (orted)",
    ),
    "no file": (ENDS, lambda job: replace(job, files={}), f"no {RESULT}"),
    "file too many": (
        TOO_EARLY,
        lambda job: replace(job, files={PARTIAL: "{}"}),
        f"unexpected file {PARTIAL}",
    ),
    "no JSON": (ENDS, lambda job: replace(job, files={RESULT: "{"}), f"{RESULT} is not JSON"),
    "no mark": (ENDS, files(RESULT, [row(NAMES[0])]), "not marked incomplete"),
    "a mark": (
        UNHARMED,
        files(RESULT, [row(name) for name in NAMES], incomplete="why"),
        "marked incomplete",
    ),
    "lost row": (
        ENDS,
        lambda job: replace(job, stdout=announce(*NAMES[:2])),
        "lost rows: 2 were shown, and 1 kept",
    ),
    "row not measured": (UNHARMED, files(RESULT, [row(NAMES[0])]), "1 rows of 3"),
    "too late a fault": (
        ENDS,
        files(RESULT, [row(name) for name in NAMES], incomplete="why"),
        "3 rows of 3: the fault did not strike in the middle",
    ),
    "wrong number": (
        ENDS,
        files(RESULT, [row(NAMES[0], max_rel_err=0.5)], incomplete="why"),
        f"wrong number: {NAMES[0]}",
    ),
    "no time": (
        ENDS,
        files(RESULT, [row(NAMES[0], real_time=0.0)], incomplete="why"),
        f"wrong number: {NAMES[0]}",
    ),
    "no error": (ROW_FAILS, files(RESULT, [row(name) for name in NAMES]), "0 error rows, not 1"),
    "another error": (
        ROW_FAILS,
        files(RESULT, [row(NAMES[0]), row(NAMES[1]), error(NAMES[2], "else")]),
        "'else' does not say 'injected'",
    ),
    "no row before": (ROWS_FAIL, files(RESULT, [error(name) for name in NAMES]), "3 error rows of"),
    "nothing invalid": (INVALID, files(RESULT, [row(name) for name in NAMES]), "0 invalid rows of"),
    "an error": (
        UNHARMED,
        files(RESULT, [row(NAMES[0]), row(NAMES[1]), error(NAMES[2])]),
        "error rows: ",
    ),
    "an invalid row": (
        UNHARMED,
        files(RESULT, [row(NAMES[0]), row(NAMES[1]), invalid(NAMES[2])]),
        "invalid rows: ",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_each_broken_promise_is_found(name: str) -> None:
    drill, spoil, found = SPOILT[name]
    broken = judge(drill, spoil(ended(drill))).broken
    assert any(promise.startswith(found) for promise in broken), broken


def test_the_table_tells_each_drill_in_a_line() -> None:
    verdicts = [judge(drill, ended(drill)) for drill in (ENDS, UNHARMED)]
    verdicts.append(judge(CARRIED, ended(ENDS)))
    verdicts.append(Verdict(KILLED, ended(KILLED), 1, 3, ["lost row: a|b"]))
    assert markdown(verdicts, "a machine").splitlines() == [
        "a machine: 4 drills, 3 kept their promise.",
        "",
        "| Fault | Phase | Rank | What happened | Seconds | Status | Rows kept |",
        "|---|---|---|---|---:|---:|---|",
        "| `stall` | `wait` | 1 | the job ends | 5.0 | 1 | 1 of 3 |",
        "| `delay` of 1 s | `fill` | 0 | nothing: all rows are measured | 1.0 | 0 | 3 of 3 |",
        "| `stall`, `transport:copy` | `wait` | 1 | the job ends | 5.0 | 1 | 1 of 3 |",
        "| `kill` | `wait` | 0 | **broken**: lost row: a/b | 5.0 | 137 | 1 of 3 |",
    ]


def test_a_drill_of_a_transport_has_rows_of_it_alone() -> None:
    plain, carried = (drill.flags for drill in (ENDS, CARRIED))
    assert not any("transport" in flag for flag in plain)
    assert "--axis=transport=copy" in carried
    assert "--benchmark_filter=Comm/AllGather/" in carried
    axes = [flag.split("=")[1] for flag in carried if flag.startswith("--axis=")]
    assert len(set(axes)) == len(axes)


def test_drills_of_transports_are_chosen_by_a_filter() -> None:
    def titles(backend: str, wanted: str) -> list[str]:
        found = choose(Setup(Path("x"), backend, 2), re.compile(wanted).search)
        return [drill.title for drill in found]

    assert len(titles("cuda", "transport:")) == 3 * 7
    assert len(titles("cuda", "kill@.*transport:nccl")) == 3
    assert titles("host", "transport:") == []


def test_ranks_share_gpus_where_that_is_wanted() -> None:
    for shares in (False, True):
        setup = Setup(Path("x"), "cuda", 2, share_gpu=shares)
        assert ("--share_gpu" in setup.flags(CARRIED)) == shares


def test_the_host_backend_has_no_gpus_to_share(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--share-gpu"]) == 2
    assert capsys.readouterr().err.endswith("fault_drill: --share-gpu needs --backend cuda\n")
