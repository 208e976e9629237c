"""The command doctor on a made-up machine: what it prints, its status, and what it refuses."""

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import doctor_machine
import samples
from overlapbench.cli.doctoring import specification, text_of_differences, text_of_outcomes
from overlapbench.doctor.checks import Outcome
from overlapbench.doctor.nodes import Difference
from overlapbench.doctor.rules import Verdict
from overlapbench.view.console import Screen
from test_doctor import LINK, machine

SLOW = {"factors": {"PeerCopy": 0.5}}


def doctor(
    folder: Path, *words: str, faults: Mapping[str, Any] | None = None, command: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run the command on the made-up machine."""
    program = shlex.join([sys.executable, doctor_machine.__file__])
    own = [] if "--compare" in words else ["--command", command or program]
    return subprocess.run(
        [*samples.PROGRAM, "doctor", *own, *words],
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "COLUMNS": "100",
            "PYTHONPATH": f"{samples.TOOLS}:{Path(doctor_machine.__file__).parent}",
            "DOCTOR_MACHINE": json.dumps(faults or {}),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_healthy_machine_ends_with_status_0_and_a_result(tmp_path: Path) -> None:
    done = doctor(tmp_path, "-o", "node.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("2 × NVIDIA H200, driver 580.159.04\ncheck ")
    assert done.stdout.endswith(" judged: good\n")
    document = json.loads((tmp_path / "node.json").read_text(encoding="utf-8"))
    assert document["verdict"] == "good"
    (link,) = (one for one in document["checks"] if one["name"] == LINK)
    assert link["verdict"] == "good"
    assert "h200x2/comm.json" in link["sources"]


def test_a_fault_is_measured_again_and_ends_with_status_1(tmp_path: Path) -> None:
    done = doctor(tmp_path, faults={"factors": {"PeerCopy": 0.5}})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "doctor: 1 of 12 rows measured again\n" in done.stderr
    assert "\nbad: link by copy engine: 50 % worse (" in done.stdout
    assert "nvidia-smi nvlink -s" in done.stdout


def test_figures_are_drawn_as_shares_of_the_expected_rate(tmp_path: Path) -> None:
    done = doctor(tmp_path, "-o", "node.json", "-o", "node.svg", faults=SLOW)
    assert done.returncode == 1, done.stdout + done.stderr
    assert (tmp_path / "node.svg").read_text(encoding="utf-8").startswith("<svg")
    document = json.loads((tmp_path / "node.json").read_text(encoding="utf-8"))
    known = [one for one in document["checks"] if "loss" in one]
    outcomes = [Outcome(**one | {"verdict": Verdict[one["verdict"].upper()]}) for one in known]
    drawn = specification(outcomes, machine({}, context={"driver_version": "1"}))
    bars = {one["what"]: one for one in drawn["data"]["values"]}
    assert len(bars) == len(known) > 5
    assert bars[LINK]["pct_high"] < 90 < bars["device memory"]["pct_low"]
    assert bars[LINK]["pct"] == pytest.approx(50, abs=2)
    assert bars[LINK]["text"].endswith(", bad")


def test_the_differences_of_nodes_have_no_picture(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--compare", "a.json", "b.json", "-o", "nodes.svg")
    assert done.returncode == 2
    assert done.stderr.endswith("-o nodes.svg: the name must end in .json\n")


def test_connections_come_with_how_to_set_them(tmp_path: Path) -> None:
    done = doctor(tmp_path, faults={"context": {"env_CUDA_DEVICE_MAX_CONNECTIONS": "1"}})
    assert done.returncode == 1
    assert "\nbad: connections: " in done.stdout
    assert "Megatron-LM: must be 1 with tensor or context parallelism" in done.stdout


def test_what_comes_of_one_connection_is_said_after_it(tmp_path: Path) -> None:
    """As seen on two H200."""
    serial = {"state": "invalid", "valid": 0.0, "reason": "not overlapped: free together for 0"}
    faults = {
        "context": {"env_CUDA_DEVICE_MAX_CONNECTIONS": "1"},
        "factors": {"Fsdp": 1.29, "Priority": 0.52},
        "states": {"^Overlap": serial},
    }
    done = doctor(tmp_path, faults=faults)
    said = [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith("bad")]
    assert said[0].startswith("connections: CUDA_DEVICE_MAX_CONNECTIONS is 1.")
    assert said[1].startswith("link by NCCL, product, streams at once, collective and product: inv")
    assert {one.partition(":")[0] for one in said[2:]} == {"prefetching step", "priorities"}


def test_progress_says_how_long_it_takes(tmp_path: Path) -> None:
    done = doctor(tmp_path, faults={"seconds": 9})
    assert done.returncode == 0, done.stderr
    assert "doctor: measuring, for at most 120 s\n" in done.stderr
    assert " of 12 rows, about " in done.stderr
    assert done.stderr.count(" of 12 rows") <= 4  # one in five seconds


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--reference", "none.json"], "none.json: cannot be read: No such file or directory"),
        (["--compare", "none.json", "node.json"], "none.json: cannot be read: No such file"),
        (["--compare", "result.json", "node.json"], "result.json: not a result of the doctor"),
        (["--compare", "broken.json", "node.json"], "broken.json: the recording is incomplete"),
        (["--compare", "nan.json", "node.json"], "nan.json: the recording is incomplete or damage"),
        (["--compare", "later.json", "node.json"], "later.json: doctor_schema is 9, and this"),
        (["--compare", "node.json"], "--compare needs the results of two nodes or more"),
        (["--compare", "node.json", "copy.json"], "copy.json is the same measurement as node.json"),
        (["--compare", "node.json", "b300.json"], "b300.json is of 2 × NVIDIA B300, node.json of"),
        (["--compare", "node.json", "one.json"], "one.json is of NVIDIA H200, node.json of 2 × NV"),
        (["--", "--axis=n=1"], "--axis=n=1: the doctor sets it"),
        (["--command", "false"], "--benchmark_filter=... --benchmark_out="),
        (["--command", "/no/such"], "/no/such: cannot be started: No such file or directory"),
        (["--timeout-s", "1"], "timed out after 1 s (--timeout-s)"),
        (["-o", "none/x.json"], "none/x.json: cannot be written: "),
    ],
)
def test_a_bad_input_is_refused_in_one_line(
    words: Sequence[str], says: str, tmp_path: Path
) -> None:
    def write(name: str, document: object) -> None:
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")

    def node(name: str, **context: str) -> None:
        machine = doctor_machine.recording({"context": context})
        write(name, {"doctor_schema": "1", "recording": vars(machine) | {"file": ""}})

    node("node.json")
    node("copy.json")
    node("b300.json", device="NVIDIA B300")
    node("one.json", ranks="1")
    write("result.json", doctor_machine.document())
    write("broken.json", {"doctor_schema": "1", "recording": {"figures": {"a": 1}}})
    damaged = vars(doctor_machine.recording()) | {"figures": {"a": {"time": [float("nan")] * 3}}}
    write("nan.json", {"doctor_schema": "1", "recording": damaged})
    write("later.json", {"doctor_schema": "9"})
    done = doctor(tmp_path, *words, faults={"seconds": 20 * ("--timeout-s" in words)})
    assert done.returncode == 2, done.stdout
    line = done.stderr.splitlines()[-1]
    assert line.startswith("overlapbench doctor: ")
    assert says in line
    assert done.stdout == ""


def test_a_machine_without_any_of_the_rows_could_not_be_examined(tmp_path: Path) -> None:
    noisy = {".": {"state": "noisy", "reason": "x"}}
    slow = {"rank_spread|Delay": 90, "gain": 0.1, "GBps|TF": 0.1, "_ms|time|_us": 3}
    done = doctor(tmp_path, faults={"states": noisy, "factors": slow})
    assert done.returncode == 2, done.stdout
    assert "\nno figure could be judged\n" in done.stdout


@pytest.mark.parametrize(("status", "ended"), [(1, 0), (5, 2)])
def test_a_run_that_did_not_end_well_proves_no_health(
    status: int, ended: int, tmp_path: Path
) -> None:
    done = doctor(tmp_path, faults={"status": status})
    assert done.returncode == ended, done.stdout + done.stderr
    doubt = "exit status 5, a result was written: "
    assert (doubt in done.stdout) is (status == 5)


def test_a_copy_of_a_healthy_node_is_one_reference(tmp_path: Path) -> None:
    of_b300 = {"context": {"device": "NVIDIA B300"}}
    for name in ("healthy.json", "copy.json"):
        recording = vars(doctor_machine.recording(of_b300)) | {"file": ""}
        document = {"doctor_schema": "1", "recording": recording}
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")
    done = doctor(tmp_path, "--reference", "healthy.json", "copy.json", faults=SLOW | of_b300)
    assert "\nExpected values: healthy.json.\n" in done.stdout


def test_nodes_are_compared_from_their_files(tmp_path: Path) -> None:
    for number in range(3):
        faults = SLOW if number == 1 else None
        done = doctor(tmp_path, "-o", f"node{number}.json", faults=faults)
        assert done.returncode == bool(faults), done.stderr
    done = doctor(tmp_path, "--compare", "node*.json", "-o", "nodes.json")
    assert done.returncode == 1, done.stderr
    assert "node1.json" in done.stdout
    assert "node0.json" not in done.stdout
    (found,) = json.loads((tmp_path / "nodes.json").read_text())["differences"]
    assert (found["check"], found["nodes"], found["verdict"]) == (LINK, ["node1.json"], "bad")


FOUND = [
    Outcome("link", Verdict.BAD, "300 GB/s", "400, at least 379", "25 % worse", "See the links.",
            row="A", sources=("a", "b")),
    Outcome("connections", Verdict.BAD, "1", "unset", "It is 1", "Unset it.", ("PyTorch: so",)),
    Outcome("memory", Verdict.GOOD, "4268 GB/s", "4276", row="B", sources=("b", "c")),
    Outcome("clock", Verdict.SUSPICIOUS, "1200", "1980", "", "See the clocks."),
]  # fmt: skip
MISSING = [
    Outcome("one", Verdict.UNKNOWN, reason="noisy: known to 9 %"),
    Outcome("two", Verdict.UNKNOWN, reason="noisy: disturbed"),
    Outcome("three", Verdict.UNKNOWN, "2.30", "2.28", action="Another version."),
    Outcome("four", Verdict.UNKNOWN, reason="needs 2 GPUs"),
    Outcome("five", Verdict.UNKNOWN, reason="needs 2 GPUs"),
]


def test_what_is_found_is_told_causes_first() -> None:
    here = machine({}, context={"driver_version": "580"})
    assert (
        text_of_outcomes([*FOUND, *MISSING], here, [], Screen(100))
        == """\
2 × NVIDIA H200, driver 580
check        measured   expected
link         300 GB/s   400, at least 379  bad
connections  1          unset              bad
memory       4268 GB/s  4276               good
clock        1200       1980               suspicious
not available: one, two: too noisy, such as known to 9 %
not available: three 2.30: Another version.
not available: four, five: needs 2 GPUs

bad: connections: It is 1. Unset it.
  PyTorch: so
bad: link: 25 % worse. See the links.
suspicious: clock: See the clocks.
Expected values: a, b, c.
4 checks judged: bad
"""
    )
    host = {"driver_version": "", "backend": "host", "device": "CPU", "ranks": "1"}
    assert (
        text_of_outcomes(MISSING[:1], machine({}, context=host), [], Screen(100))
        == """\
CPU, host backend
not available: one: too noisy, such as known to 9 %
Expected values: no recorded machine of this model (CPU).
0 checks judged: good
no figure could be judged
"""
    )


def test_differences_are_told_node_by_node() -> None:
    found = [
        Difference("link", ("n1",), Verdict.BAD, "25 % worse", "Look."),
        Difference("clock", ("n1",), Verdict.SUSPICIOUS, "it is 1", "See."),
        Difference("version", (), Verdict.SUSPICIOUS, "it differs", "Look."),
        Difference("link", ("n1", "n2"), Verdict.BAD, "apart"),
    ]
    assert (
        text_of_differences(found, 3 * [machine({})], Screen(100))
        == """\
3 nodes of 2 × NVIDIA H200
node           check    difference
n1             link     25 % worse  bad
               clock    it is 1     suspicious
several nodes  version  it differs  suspicious
n1 and n2      link     apart       bad
Look.
See.
"""
    )


def test_nodes_without_figures_are_not_alike(tmp_path: Path) -> None:
    noisy = {"states": {".": {"state": "noisy", "reason": "x"}}}
    for number in range(3):
        recording = vars(doctor_machine.recording(noisy if number else None, number)) | {"file": ""}
        document = {"doctor_schema": "1", "recording": recording}
        (tmp_path / f"node{number}.json").write_text(json.dumps(document), encoding="utf-8")
    done = doctor(tmp_path, "--compare", "node0.json", "node1.json", "node2.json")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.endswith("no node differs\nno figure could be compared\n")
