"""The doctor: healthy machines have no alarm, each fault has its own, and a bad input one line."""

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import doctor_machine
import samples
from overlapbench.doctor.checks import NO_MODEL, Outcome, confirmed, doubtful, judge
from overlapbench.doctor.nodes import differences, striking
from overlapbench.doctor.recordings import (
    STORED,
    Recording,
    derived,
    of_kind,
    spread_of,
    stored,
    written,
)
from overlapbench.doctor.rules import CHECKS, KINDS, Verdict
from overlapbench.reading.counters import Better, stored_table

ROOT = samples.TOOLS.parent
REFERENCES = stored()
LINK = "link by copy engine"


def alarms(machine: Recording, references: Sequence[Recording] = REFERENCES) -> dict[str, str]:
    return {one.name: str(one.verdict) for one in judge(machine, references) if one.verdict.alarms}


def outcome(name: str, machine: Recording) -> Outcome:
    (found,) = (one for one in judge(machine, REFERENCES) if one.name == name)
    return found


# ---- the rules and their references


def test_the_references_are_those_of_the_recorded_results() -> None:
    """dev/update_doctor.py writes them."""
    assert STORED.read_text(encoding="utf-8") == written(derived(ROOT / "docs/results"))


@pytest.mark.parametrize("backend", ["cuda", "host"])
def test_the_rows_of_a_backend_exist(backend: str) -> None:
    names = (ROOT / f"tests/data/names-{backend}.txt").read_text(encoding="utf-8").split()
    assert {check.row(backend) for check in CHECKS} - {""} <= {*names}


def test_every_check_has_a_direction_and_one_way_to_judge() -> None:
    counters = stored_table().counters
    for check in CHECKS:
        assert bool(check.kind) != bool(check.limits), check
        assert check.better or counters[check.counter].better is not Better.NEITHER, check
        assert not check.kind or check.kind in KINDS


def test_every_kind_was_recorded_more_than_once() -> None:
    assert all(
        spread_of(kind, REFERENCES, 2)[1] + spread_of(kind, REFERENCES, 1)[1] >= 5 for kind in KINDS
    )


def test_several_gpus_share_the_host_and_their_copies_differ_more() -> None:
    one, several = (spread_of("bus", REFERENCES, ranks)[0] for ranks in (1, 2))
    assert one < 0.01 < 0.03 < several


def test_no_recorded_result_is_suspicious_beside_the_others() -> None:
    judged = 0
    for one in REFERENCES:
        others = [other for other in REFERENCES if other is not one]
        assert alarms(one, others) == {}, one.file
        judged += sum(found.loss is not None for found in judge(one, others))
    assert judged > 30


# ---- healthy machines


def test_a_healthy_machine_has_no_alarm_and_says_what_was_expected() -> None:
    machine = doctor_machine.recording()
    found = judge(machine, REFERENCES)
    assert [one for one in found if one.verdict.alarms] == []
    link = outcome(LINK, machine)
    assert link.verdict is Verdict.GOOD
    assert "h200x2/comm.json" in link.sources
    assert link.expected.startswith("391, at least ")


def drawn(random: np.random.Generator, spreads: Mapping[str, float], one: Recording) -> Recording:
    """Draw the figures of a recording anew, each with the spread of its kind."""
    kinds = {(check.cuda, check.counter): check.kind for check in CHECKS if check.kind}
    figures: dict[str, dict[str, tuple[float, float, float]]] = {}
    for row, counters in one.figures.items():
        for counter, (center, _, _) in counters.items():
            of_row = (kind for kind in KINDS if of_kind(kind, (row, counter)))
            if kind := kinds.get((row, counter)) or next(of_row, ""):
                value = center * float(np.exp(spreads[kind] * random.normal()))
                figures.setdefault(row, {})[counter] = (value, value, value)
    return replace(one, figures=figures)


def test_false_alarms_are_rare_over_the_whole_table() -> None:
    """Of 400 tables, at most 5 % and two standard errors of that have an alarm.

    The references are drawn anew, too: their spread is known from a few recordings only. The true
    center of a row is the same for all; none is spared by the 2 % that do not matter, since all
    spreads are four times the recorded ones.
    """
    random = np.random.default_rng(1)
    spreads = {kind: 4 * spread_of(kind, REFERENCES, 2)[0] for kind in KINDS}
    center = doctor_machine.recording()
    rows = {row: {key: x[0] for key, x in found.items()} for row, found in center.figures.items()}
    tables, seen = 400, 0
    fixed = [_centered(one, rows) for one in REFERENCES]
    for _ in range(tables):
        references = [drawn(random, spreads, one) for one in fixed]
        seen += bool(alarms(drawn(random, spreads, center), references))
    assert seen / tables <= 0.05 + 2 * (0.05 * 0.95 / tables) ** 0.5


def _centered(one: Recording, rows: Mapping[str, Mapping[str, float]]) -> Recording:
    """Give a row's figures the centers of the machine, where it has them and they are compared."""
    figures = {
        row: {
            key: (rows[row][key],) * 3 if key in rows.get(row, {}) else figure
            for key, figure in found.items()
        }
        for row, found in one.figures.items()
    }
    return replace(one, figures=figures)


# ---- faults


@pytest.mark.parametrize(
    ("pattern", "factor", "found"),
    [
        ("PeerCopy", 0.5, {LINK: "bad"}),
        ("Lab/Link", 0.5, {"link by 8 SMs": "bad"}),
        ("comm_ms", 2.0, {"link by NCCL": "bad"}),
        ("HostToDevice", 0.5, {"host to device": "bad"}),
        ("overlap_ms", 1.1, {"collective and product": "suspicious"}),
        ("DeviceToHost", 0.5, {"device to host": "bad"}),
        ("DeviceCopy", 0.7, {"device memory": "bad"}),
        ("comp_ms|TFLOPs$", 1.4, {"product": "bad"}),
        ("overlap_ms", 1.3, {"collective and product": "bad"}),
        ("Fsdp", 18.8 / 13.4, {"prefetching step": "bad"}),
        ("SecondDelay", 1.5, {"streams at once": "bad"}),
        ("SecondDelay", 1.1, {"streams at once": "suspicious"}),
        ("Priority", 0.52, {"priorities": "bad"}),
        ("rank_spread", 15, {"GPUs alike": "bad"}),
        ("host_us", 8, {"launch, host": "bad"}),
        ("device_us", 2, {"launch, device": "bad"}),
        ("PeerCopy|Lab/Link", 0.85, {LINK: "suspicious", "link by 8 SMs": "suspicious"}),
        (".", 1.0, {}),
        ("HostToDevice|DeviceCopy", 1.5, {}),  # better than recorded
        ("HostToDevice|DeviceToHost", 0.91, {}),  # as on other healthy machines with two GPUs
    ],
)
def test_a_fault_is_found_and_nothing_else(
    pattern: str, factor: float, found: Mapping[str, str]
) -> None:
    assert alarms(doctor_machine.recording({"factors": {pattern: factor}})) == found


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ({"env_CUDA_DEVICE_MAX_CONNECTIONS": "1"}, {"connections": "bad"}),
        ({"env_CUDA_DEVICE_MAX_CONNECTIONS": "4"}, {"connections": "suspicious"}),
        ({"env_CUDA_DEVICE_MAX_CONNECTIONS": "32"}, {}),
        ({"env_CUDA_LAUNCH_BLOCKING": "1"}, {"blocking launches": "bad"}),
        ({"env_CUDA_LAUNCH_BLOCKING": "0"}, {}),
        ({"env_NCCL_P2P_DISABLE": "1"}, {"NCCL's variables": "bad"}),
        ({"env_NCCL_PROTO": "Simple"}, {"NCCL's variables": "suspicious"}),
        ({"env_NCCL_NVLS_ENABLE": "0"}, {}),
        ({"nccl_version": "2.30.1"}, {}),
        ({"nvlinks_active": "17"}, {"NVLinks": "bad"}),
        ({"nvlinks_active": "0"}, {"NVLinks": "bad"}),  # as recorded on one GPU
        ({"sm_clock_MHz": "1200"}, {"SM clock": "suspicious"}),
        ({"device_multiprocessors": "66"}, {"SMs": "bad"}),
        ({"peer_access": "none"}, {"peer access": "bad"}),
        ({"peer_access": "1 2 3"}, {}),  # two ranks on four GPUs
    ],
)
def test_a_fact_is_judged(context: Mapping[str, str], found: Mapping[str, str]) -> None:
    assert alarms(doctor_machine.recording({"context": context})) == found


HOT = {"state": "invalid", "valid": 0.0, "reason": "clocks were throttled: hardware slowdown"}
WARM = {"reason": "2 of 12 groups were taken again, since clocks were throttled: hardware slowdown"}
OTHERS = {"state": "noisy", "reason": "disturbed: 1 other process uses a GPU"}


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ({"Priority": HOT}, {"priorities": "bad", "throttling": "bad"}),
        ({"Priority": WARM}, {"throttling": "suspicious"}),
        ({".": OTHERS | {"foreign_gpu_processes": 1.0}}, {"others on the GPU": "suspicious"}),
        (
            {"PeerCopy": {"state": "invalid", "valid": 0.0, "reason": "wrong result"}},
            {LINK: "bad"},
        ),
    ],
)
def test_what_rows_say_is_judged(states: Mapping[str, Any], found: Mapping[str, str]) -> None:
    assert alarms(doctor_machine.recording({"states": states})) == found


def test_a_noisy_row_may_prove_health_but_no_fault() -> None:
    states = {"PeerCopy": {"state": "noisy", "reason": "known to ±9 % only: few samples"}}
    good = doctor_machine.recording({"states": states})
    assert outcome(LINK, good).verdict is Verdict.GOOD
    slow = outcome(LINK, doctor_machine.recording({"states": states, "factors": {"Peer": 0.5}}))
    assert slow.verdict is Verdict.UNKNOWN
    assert slow.reason == "noisy: known to ±9 % only: few samples"


def test_a_figure_that_is_hardly_known_is_not_called_good() -> None:
    wide = {"PeerCopy": {"GBps_low": 100.0, "GBps_high": 900.0}}
    found = outcome(LINK, doctor_machine.recording({"states": wide}))
    assert found.verdict is Verdict.UNKNOWN
    assert found.reason == "too uncertain: half the speed would not be seen"
    noisy = {"SecondDelay": {"state": "noisy", "reason": "x", "slowdown_high": 1.4}}
    found = outcome("streams at once", doctor_machine.recording({"states": noisy}))
    assert found.verdict is Verdict.UNKNOWN


def test_an_unknown_model_is_judged_by_what_needs_no_reference() -> None:
    machine = doctor_machine.recording(
        {"context": {"device": "NVIDIA B300"}, "factors": {"Peer": 0.1, "SecondDelay": 1.5}}
    )
    assert alarms(machine) == {"streams at once": "bad"}
    assert outcome(LINK, machine).reason == NO_MODEL
    assert outcome("SM clock", machine).reason == NO_MODEL


def test_own_references_serve_an_unknown_model() -> None:
    of_b300 = {"context": {"device": "NVIDIA B300"}}
    healthy_ones = [doctor_machine.recording(of_b300, seed) for seed in range(3)]
    slow = doctor_machine.recording(of_b300 | {"factors": {"PeerCopy": 0.5}}, 9)
    assert alarms(slow, [*REFERENCES, *healthy_ones]) == {LINK: "bad"}
    assert alarms(doctor_machine.recording(of_b300, 8), [*REFERENCES, *healthy_ones]) == {}


def test_a_number_of_gpus_that_was_not_recorded_has_no_expected_values() -> None:
    machine = doctor_machine.recording({"context": {"ranks": "3"}, "factors": {"HostTo": 0.1}})
    found = outcome("host to device", machine)
    assert found.verdict is Verdict.UNKNOWN
    assert found.reason == "not recorded on this model with 3 GPUs"


def test_the_rank_with_the_slow_gpu_is_named() -> None:
    slow = doctor_machine.recording({"factors": {"rank_spread": 15}})
    assert outcome("GPUs alike", slow).reason == "rank 1 is the slowest"


# ---- the second look


def test_a_fault_must_be_seen_twice() -> None:
    slow = doctor_machine.recording({"factors": {"PeerCopy": 0.5}})
    good = doctor_machine.recording(seed=1)
    assert {row.split("/")[1] for row in doubtful(slow, REFERENCES)} == {"PeerCopy"}
    assert alarms(confirmed(slow, good, REFERENCES)) == {}
    assert alarms(confirmed(slow, slow, REFERENCES)) == {LINK: "bad"}


def test_the_better_of_two_looks_counts_and_other_rows_stay() -> None:
    slow = doctor_machine.recording({"factors": {"SecondDelay": 1.1}})
    slower = doctor_machine.recording({"factors": {"SecondDelay": 1.5}})
    again = {row: x for row, x in slower.figures.items() if "SecondDelay" in row}
    found = confirmed(slow, replace(slower, figures=again), REFERENCES)
    assert alarms(found) == {"streams at once": "suspicious"}
    assert found.figures.keys() == slow.figures.keys()


def test_what_was_noisy_is_judged_by_the_second_look() -> None:
    noisy = doctor_machine.recording(
        {"states": {"Peer": {"state": "noisy", "reason": "?"}}, "factors": {"Peer": 0.7}}
    )
    slow = doctor_machine.recording({"factors": {"PeerCopy": 0.5}})
    assert alarms(noisy) == {}
    assert alarms(confirmed(noisy, slow, REFERENCES)) == {LINK: "bad"}


# ---- the command


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


SLOW = {"factors": {"PeerCopy": 0.5}}


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


# ---- nodes


def nodes(count: int, faults: Mapping[int, Mapping[str, Any]], seed: int = 0) -> list[Recording]:
    return [
        doctor_machine.recording(faults.get(place), 1000 * seed + place, f"node{place}")
        for place in range(count)
    ]


def told(found: Sequence[Any]) -> list[tuple[str, tuple[str, ...], str]]:
    return [(one.check, one.nodes, str(one.verdict)) for one in found]


@pytest.mark.parametrize("count", [3, 4, 7, 32])
def test_the_node_that_differs_is_found(count: int) -> None:
    found = differences(nodes(count, {1: SLOW}), REFERENCES)
    assert told(found) == [(LINK, ("node1",), "bad")]
    assert found[0].sentence == f"50 % worse than the median of {count} nodes"


def test_of_two_nodes_nothing_says_which_is_at_fault() -> None:
    found = differences(nodes(2, {1: SLOW}), REFERENCES)
    assert told(found) == [(LINK, ("node0", "node1"), "bad")]
    assert "nothing says which is at fault" in found[0].sentence


def test_up_to_half_of_the_nodes_may_be_at_fault() -> None:
    found = differences(nodes(5, {1: SLOW, 3: SLOW}), REFERENCES)
    assert {one.nodes[0] for one in found} == {"node1", "node3"}


def test_a_node_that_is_slow_in_everything_is_found() -> None:
    slow = {"factors": {"GBps|TFLOPs": 0.6, "_ms|time|_us|": 1 / 0.6}}
    found = differences(nodes(3, {2: slow}), REFERENCES)
    assert {one.nodes for one in found} == {("node2",)}
    assert len(found) >= 6


def test_a_fact_of_one_node_is_found() -> None:
    limited = {"context": {"env_NCCL_MAX_CTAS": "4"}}
    found = differences(nodes(4, {3: limited}), REFERENCES)
    assert told(found) == [("NCCL's variables", ("node3",), "suspicious")]
    assert found[0].sentence == "NCCL_MAX_CTAS is 4, on 3 of 4 nodes unset"


@pytest.mark.parametrize("count", [2, 3, 4, 8, 33])
@pytest.mark.parametrize("spread", [0.5, 4.0])
@pytest.mark.parametrize("tails", ["normal", "t of 5"])
@pytest.mark.parametrize("is_known", [True, False])
def test_equal_nodes_seldom_differ(count: int, spread: float, tails: str, is_known: bool) -> None:
    """At most 5 % of tables, and two standard errors, however much healthy nodes differ.

    Also where noise has heavier tails than a normal distribution, and where nothing is known of it.
    """
    random = np.random.default_rng(count)
    tables, checks, seen = 500, 13, 0
    for _ in range(tables):
        shape = checks, count
        noise = random.normal(size=shape) if tails == "normal" else random.standard_t(5, shape)
        wrong = np.exp((0.4 if is_known else 2.0) * random.normal(size=(checks, 1)))
        units = [*np.repeat((spread * wrong * noise)[..., np.newaxis], 3, axis=-1)]
        seen += any(one.any() for one in striking(units, [8.0 * is_known] * checks, 0.05))
    assert seen / tables <= 0.05 + 2 * (0.05 * 0.95 / tables) ** 0.5


@pytest.mark.parametrize(("count", "away"), [(5, 200.0), (8, 40.0), (33, 15.0)])
def test_a_node_is_found_by_what_the_others_say_alone(count: int, away: float) -> None:
    random = np.random.default_rng(3)
    found = 0
    for _ in range(50):
        units = [*np.repeat(random.normal(size=(10, count, 1)), 3, axis=-1)]
        units[4][1] += away
        found += bool(striking(units, [0.0] * 10, 0.05)[4][1])
    assert found >= 40


def test_a_node_whose_figure_is_hardly_known_does_not_differ() -> None:
    wide = {"PeerCopy": {"GBps_high": 500.0}}
    found = differences(nodes(4, {1: SLOW | {"states": wide}}), REFERENCES)
    assert found == []
    noisy = {"PeerCopy": {"state": "noisy", "reason": "x"}}
    assert differences(nodes(4, {1: SLOW | {"states": noisy}}), REFERENCES) == []


@pytest.mark.parametrize("backwards", [False, True])
def test_limits_tell_nodes_apart_if_most_are_within(backwards: bool) -> None:
    slow = {"factors": {"SecondDelay": 1.5}}
    found = differences(nodes(3, {1: slow} if not backwards else {0: slow, 1: slow}), REFERENCES)
    expected = [("streams at once", ("node1",), "bad")]
    assert told(found) == ([] if backwards else expected)
