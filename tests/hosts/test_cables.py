"""A cable that is cut or slow: the job ends within seconds and keeps its rows, or is right."""

import contextlib
import random
import re
import time
from collections.abc import Callable

import pytest
from tests.hosts.rig import BENCH, Job, Rig, await_true, last_line, result

from drill.job import Ended

TIMEOUT_S = 8
# The silence after which a host is lost (7 s), mpirun's grace period, and a busy machine.
AFTER_THE_CUT_S = TIMEOUT_S + 12.0
# After the cable is mended, OpenMPI's daemon on the other host ends when TCP tries again to send.
# It may leave its files. Until then it may wait, but the ranks there may not.
MENDED_S = 45.0
# The limit of the launcher (the timeout and 19 s), and a busy machine.
START_S = TIMEOUT_S + 27.0
LIMIT_S = 120.0
HOSTS = "node1 slots=1\nnode2 slots=1\n"
FLAGS = (
    *("--backend=host", "--budget_ms=100", f"--timeout_s={TIMEOUT_S}", "--no-self-test"),
    "--benchmark_out=result.json",
)
MANY = (*FLAGS, "--benchmark_filter=Comm/", "--axis=bytes=64K,128K,256K,512K,1M")
ONE = (*FLAGS, "--benchmark_filter=Comm/AllReduce", "--axis=bytes=64K")

Cut = Callable[[Rig], "contextlib.AbstractContextManager[None]"]
# A link that is down, which the kernel knows, and packets that vanish, as when a host loses power.
CUTS: dict[str, Cut] = {
    "unplugged": lambda rig: rig.unplugged(),
    "silent": lambda rig: rig.filtering("policy drop"),
}


def has_started(job: Job) -> bool:
    return bool(job.find("overlapbench", host=1))


def end_while_cut(
    job: Job, cut: "contextlib.AbstractContextManager[None]", limit_s: float
) -> Ended:
    """Cut the cable, wait for the end, mend the cable, and expect that both hosts clean up."""
    with cut:
        job.process.wait(limit_s)
        await_true(lambda: not job.find("overlapbench", host=1), "the rank there ends")
    ended = job.end(LIMIT_S, MENDED_S)
    assert [thing for thing in ended.left if not re.match(r"node2: /tmp/ompi\.", thing)] == []
    return ended


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_cut_during_a_row_keeps_the_rows(rig: Rig, cut: Cut) -> None:
    with rig.start(*BENCH, "--hostfile=hosts", *MANY, hosts=HOSTS) as job:
        job.await_rows(3)
        time.sleep(random.uniform(0, 0.3))
        ended = end_while_cut(job, cut(rig), AFTER_THE_CUT_S)
    assert ended.status not in (0, None), ended.stderr
    assert re.match(r"bench: the connection to node2 was lost", last_line(ended)), ended.stderr
    kept = result(ended)
    assert len(kept["benchmarks"]) >= 3
    assert " rank 0 of 2, " in kept["incomplete"]


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("delay_s", [0.0, 0.2, 0.6])
def test_a_cut_during_the_start_ends_it(rig: Rig, cut: Cut, delay_s: float) -> None:
    """From the moment when mpirun has reached node2."""
    with rig.start(*BENCH, "--hostfile=hosts", *MANY, hosts=HOSTS) as job:
        await_true(lambda: bool(job.find("orted", host=1)), "the daemon starts")
        time.sleep(delay_s)
        ended = end_while_cut(job, cut(rig), START_S)
    assert ended.status not in (0, None), ended.stderr
    assert re.search("node2|machine", last_line(ended)), ended.stderr


def test_a_cut_at_the_end_keeps_every_row(rig: Rig) -> None:
    with rig.start(*BENCH, "--hostfile=hosts", *ONE, hosts=HOSTS) as job:
        job.await_rows(1)
        ended = end_while_cut(job, rig.unplugged(), AFTER_THE_CUT_S)
    assert len(result(ended)["benchmarks"]) == 1


def test_a_short_interruption_costs_nothing(rig: Rig) -> None:
    """TCP sends again what was lost within two seconds."""
    with rig.start(*BENCH, "--hostfile=hosts", *ONE, hosts=HOSTS) as job:
        await_true(lambda: has_started(job), "the ranks start")
        with rig.filtering("policy drop"):
            time.sleep(1.0)
        ended = job.end(60)
    assert (ended.status, ended.left) == (0, []), ended.stderr
    assert "incomplete" not in result(ended)


@pytest.mark.parametrize(("delay_ms", "loss"), [(20, 0.0), (5, 0.02)], ids=["delay", "loss"])
def test_a_slow_cable_is_measured_right(rig: Rig, delay_ms: float, loss: float) -> None:
    flags = ("--benchmark_filter=Comm/AllReduce", "--axis=bytes=64K,1M")
    with rig.slow_cable(delay_ms, loss):
        ended = rig.run(*BENCH, "--hostfile=hosts", *FLAGS, *flags, hosts=HOSTS, limit_s=90)
    assert (ended.status, ended.left) == (0, []), ended.stderr
    rows = result(ended)["benchmarks"]
    assert len(rows) == 2
    for row in rows:
        assert row["valid"] == 1, row
        # A rank cannot have the other's part before the delay has passed once.
        assert row["real_time"] >= delay_ms, row
