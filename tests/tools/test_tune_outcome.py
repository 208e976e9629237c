"""The outcome of a study, as text and as JSON: gain, verdict, settings, and how to make them."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from fake_tune import BEST, DEFAULT, FOUND, GAIN, NAMES, ROW, FakeRunner, made, raced
from overlapbench.findings.apply import advise
from overlapbench.output import ResultError
from overlapbench.tune.machine import OBJECTIVES
from overlapbench.tune.report import json_of, report_of, verdict_of
from overlapbench.tune.search import Estimate
from overlapbench.tune.space import Grid, Wish
from overlapbench.tune.study import Gain

SAVES = "saves 20.0 % of the time (15.0 % to 25.0 %; 95 % interval, 3 runs a side), speed-up 1.25"


def test_a_gain_is_told_with_all_that_brings_it() -> None:
    told = report_of([FOUND])
    assert told.startswith(
        f"""\
{ROW}
  default    2.000 ms  transport:nccl first:comp
  best       1.600 ms  transport:copy first:comm
  gain       {SAVES}
  search     6 evaluations, for 4 settings
  again      {AGAIN}

Findings
 1. A+B: 1.600 instead of 2.000 ms, saves 15.0 % to 25.0 % with a kernel, or copies, of your own
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
        "  default    2.000 ms  transport:nccl first:comp",
        "  best       1.500 ms  transport:copy first:comm",
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


def test_a_gain_of_energy_is_told_in_joules() -> None:
    study = made(runs=3)
    study.machine.objective = OBJECTIVES["energy"]
    study.race.known |= {DEFAULT: Estimate(2.0, 1.9, 2.1), BEST: Estimate(1.5, 1.4, math.inf)}
    study.choice, study.gain = BEST, GAIN
    told = report_of([study])
    assert "default    2.000 J  transport:nccl" in told
    assert f"{SAVES.partition(',')[0].replace('time', 'energy')}" in told
    assert "speed-up" not in told
    assert "1.600 instead of 2.000 J, saves 15.0 %" in told
    (pair,) = json.loads(json_of([study], interrupted=False))["pairs"]
    assert pair["minimises"] == "energy"
    assert (pair["gain"]["default_J"], pair["gain"]["best_J"]) == (2.0, 1.6)
    assert pair["measured"][0] == {"name": ROW, "energy_J": 2.0, "low_J": 1.9, "high_J": 2.1}
    study.machine.objective = OBJECTIVES["energy_time"]
    (pair,) = json.loads(json_of([study], interrupted=False))["pairs"]
    assert (pair["gain"]["default_Js"], pair["gain"]["best_Js"]) == (2.0, 1.6)
    assert pair["measured"][0] == {
        "name": ROW, "energy_time_Js": 2.0, "low_Js": 1.9, "high_Js": 2.1,
    }  # fmt: skip
