"""Ranks on two hosts by host file: where they run, what they measure, and why they do not start."""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.hosts.rig import BENCH, PROGRAM, SHARED, Rig, last_line, result

BYTES = 98304
ROW = (
    *("--backend=host", "--benchmark_filter=Comm/AllReduce", f"--axis=bytes={BYTES}"),
    *("--budget_ms=50", "--no-self-test", "--benchmark_out=result.json"),
)
BY_FILE = (*BENCH, "--hostfile=hosts", *ROW)
TWO = "node1 slots=1\nnode2 slots=1\n"
FOUR = "node1 slots=2\nnode2 slots=2\n"


def sent_bytes(rig: Rig) -> int:
    (link,) = json.loads(rig.hosts[0].ip("-s", "-j", "link", "show", "cable"))
    return int(link["stats64"]["tx"]["bytes"])


def test_two_hosts_measure_together(rig: Rig) -> None:
    """The clocks of the hosts differ by more than an hour, which must not show."""
    before = sent_bytes(rig)
    ended = rig.run(*BY_FILE, "--trace_out=traces", hosts=FOUR)
    assert (ended.status, ended.left) == (0, []), ended.stderr
    assert re.match(r"bench: starting 4 ranks on node1 \(2\), node2 \(2\)", ended.stderr)
    assert ", 4 ranks on node1, node2, " in ended.stdout.splitlines()[0]
    measured = result(ended)
    assert measured["context"]["hosts"] == "node1, node2"
    assert measured["context"]["ranks"] == "4"
    (row,) = measured["benchmarks"]
    assert row["valid"] == 1, row
    assert row["skew_us"] < 1e6
    assert row["breakdown_valid"] == 1
    assert row["busbw_GBps"] == pytest.approx(row["algbw_GBps"] * 2 * (4 - 1) / 4)
    # At least half of each sample's sum must have come from the other host.
    assert sent_bytes(rig) - before > row["samples"] * BYTES / 2


MPIRUN = ("mpirun", "--hostfile", "hosts", "--bind-to", "none")
PLACES = {
    "uneven slots": (
        BY_FILE,
        "node1 slots=1\nnode2 slots=3\n",
        "node1: rank 0; node2: ranks 1-3",
    ),
    "fewer ranks than slots": ((*BY_FILE, "--ranks=3"), FOUR, "node1: ranks 0, 1; node2: rank 2"),
    "the other host only": (BY_FILE, "node2 slots=2\n", "node2: ranks 0, 1"),
    "comments and blank lines": (
        BY_FILE,
        "# a cluster\n\n  node1   slots=1 # the first\nnode2 slots = 1\n",
        "node1: rank 0; node2: rank 1",
    ),
    "addresses": (
        BY_FILE,
        "10.77.0.1 slots=1\n10.77.0.2 slots=1\n",
        "node1: rank 0; node2: rank 1",
    ),
    "in turn": (
        (*MPIRUN, "--map-by", "node", *BENCH, *ROW),
        FOUR,
        "node1: ranks 0, 2; node2: ranks 1, 3",
    ),
    "by slot": (
        (*MPIRUN, "--map-by", "slot", *BENCH, *ROW),
        FOUR,
        "node1: ranks 0, 1; node2: ranks 2, 3",
    ),
    "two on each": (
        (*MPIRUN, "--map-by", "ppr:2:node", *BENCH, *ROW),
        FOUR,
        "node1: ranks 0, 1; node2: ranks 2, 3",
    ),
}


@pytest.mark.parametrize(("command", "hosts", "places"), PLACES.values(), ids=PLACES)
def test_ranks_run_where_they_should(
    rig: Rig, command: Sequence[str], hosts: str, places: str
) -> None:
    ended = rig.run(*command, hosts=hosts)
    assert (ended.status, ended.left) == (0, []), ended.stderr
    assert result(ended)["context"]["ranks_by_host"] == places
    names = ", ".join(name for name in ("node1", "node2") if name in places)
    assert f" on {names}, " in ended.stdout.splitlines()[0]


# The flags and settings, the host file, and how the last line begins.
REFUSALS: dict[str, tuple[Sequence[str], str, str]] = {
    "host file from Windows": ((), TWO.replace("\n", "\r\n"), "--hostfile: .*Windows.*sed -i"),
    "a node twice": ((), FOUR + "node1 slots=2\n", "--hostfile: .*line 3: node1 is there twice"),
    "slots=two": ((), "node1 slots=two\n", "--hostfile: .*line 1: .*whole number.* 'two'"),
    "slots=0": ((), "node1 slots=0\n", "--hostfile: .*line 1: .*whole number.* '0'"),
    "no host at all": ((), "# to do\n", "--hostfile: .*no machine"),
    "no host name": ((), "node1:2\n", "--hostfile: .*line 1: 'node1:2' is no host name"),
    "too few slots": (("--ranks=5",), FOUR, "5 ranks do not fit.*slots"),
    "a host that is unknown": ((), "node1 slots=1\nnode3 slots=1\n", ".*(node3|ssh HOST)"),
    "no such interface": (
        ("OMPI_MCA_btl_tcp_if_include=eth9",),
        TWO,
        ".*interface 'eth9'.*OMPI_MCA_btl_tcp_if_include",
    ),
    "no such interface for the launcher": (
        ("OMPI_MCA_oob_tcp_if_include=eth9",),
        TWO,
        ".*interface 'eth9'.*OMPI_MCA_oob_tcp_if_include",
    ),
    "no such component": (("OMPI_MCA_pml=nothing",), TWO, ".*pml.*'nothing'.*OMPI_MCA_pml"),
    "transports of one host": (("OMPI_MCA_btl=self,vader",), TWO, ".*node[12].*OMPI_MCA_btl"),
    "a value that is none": (
        ("OMPI_MCA_rmaps_base_mapping_policy=nowhere",),
        TWO,
        ".*mapping policy 'nowhere'.*set here: OMPI_MCA_rmaps_base_mapping_policy",
    ),
}


@pytest.mark.parametrize(("changes", "hosts", "says"), REFUSALS.values(), ids=REFUSALS)
def test_why_ranks_do_not_start_is_one_line(
    rig: Rig, changes: Sequence[str], hosts: str, says: str
) -> None:
    settings = [change for change in changes if change.startswith("OMPI_")]
    flags = [change for change in changes if change not in settings]
    ended = rig.run("env", *settings, *BY_FILE, "--timeout_s=5", *flags, hosts=hosts, limit_s=40)
    assert ended.status not in (0, None), ended.stderr
    assert ended.left == []
    assert re.match(f"bench: (?:{says})", last_line(ended)), ended.stderr
    assert "-----" not in ended.stderr  # what OpenMPI says in frames
    assert "result.json" not in ended.files


Trouble = Callable[[Rig], "contextlib.AbstractContextManager[object]"]
# What is wrong on node2 or on the way there, how the last line begins, and how long that may take.
TROUBLES: dict[str, tuple[Trouble, str, float]] = {
    "no connection": (lambda rig: rig.unplugged(), ".*ssh HOST", 20),
    "silence": (lambda rig: rig.filtering("policy drop"), ".*(ssh|machine).*", 40),
    "ssh refused": (
        lambda rig: rig.filtering("tcp dport 22 reject with tcp reset"),
        ".*ssh HOST",
        20,
    ),
    "no way back": (
        lambda rig: rig.filtering("tcp sport != 22 reject with tcp reset", host=0),
        ".*has not started the ranks .*firewall",
        40,
    ),
}


@pytest.mark.parametrize(("trouble", "says", "limit_s"), TROUBLES.values(), ids=TROUBLES)
def test_a_host_that_cannot_be_reached_is_told_soon(
    rig: Rig, trouble: Trouble, says: str, limit_s: float
) -> None:
    with trouble(rig):
        ended = rig.run(*BY_FILE, "--timeout_s=5", hosts=TWO, limit_s=limit_s)
    assert ended.status not in (0, None), f"not within {limit_s} s: {ended.stderr}"
    assert re.match(f"bench: {says}", last_line(ended)), ended.stderr
    assert ended.left == []


@contextlib.contextmanager
def on_node2(rig: Rig, do: str, undo: str) -> Iterator[None]:
    rig.hosts[1].run("sh", "-c", do)
    try:
        yield
    finally:
        rig.hosts[1].run("sh", "-c", undo)


LOST_PROGRAM = (f"mount -t tmpfs tmpfs {SHARED}/build", f"umount {SHARED}/build")


@pytest.mark.parametrize("launcher", [BENCH, (*MPIRUN, *BENCH), (*MPIRUN, PROGRAM)])
def test_a_program_that_is_missing_on_a_host_is_named(rig: Rig, launcher: Sequence[str]) -> None:
    by_file = ("--hostfile=hosts",) if launcher == BENCH else ()
    with on_node2(rig, *LOST_PROGRAM):
        ended = rig.run(*launcher, *by_file, *ROW, "--timeout_s=5", hosts=TWO, limit_s=40)
    assert ended.status not in (0, None), ended.stderr
    assert PROGRAM in ended.stderr
    assert launcher == (*MPIRUN, *BENCH) or "node2" in ended.stderr
    assert ended.left == []


@pytest.fixture(scope="module")
def other_build(rig: Rig) -> str:
    """Return the name of a build that differs from ours in its id only."""
    program = rig.path("build/overlapbench").read_bytes()
    # The note's header: sizes of name and id, type 3, and the name.
    (begin,) = [m.end() for m in re.finditer(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", program)]
    file = rig.path("other")
    file.write_bytes(program[:begin] + b"\xab\xcd\xef\x01" + program[begin + 4 :])
    file.chmod(0o755)
    return f"{SHARED}/other"


def test_different_builds_are_refused(rig: Rig, other_build: str) -> None:
    with on_node2(rig, f"mount --bind {other_build} {PROGRAM}", f"umount {PROGRAM}"):
        ended = rig.run(*BY_FILE, hosts=TWO)
    assert ended.status == 2, ended.stderr
    assert ended.left == []
    (line,) = ended.ours
    build = r"version \S+, revision \S+, build [0-9a-f]{8}"
    assert re.search(rf"rank 0: {build} \(on node1\); rank 1: {build} \(on node2\)", line), line
    assert "build abcdef01 (on node2)" in line


def test_ranks_use_only_the_allowed_cores(rig: Rig) -> None:
    core = str(min(os.sched_getaffinity(0)))
    ended = rig.run("taskset", "--cpu-list", core, *BENCH, *ROW)
    assert ended.status == 0, ended.stderr
    assert result(ended)["context"]["host_cores"] == "1"
