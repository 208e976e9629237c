"""Several hosts through mpirun with a host file, imitated on one machine.

Two network namespaces with names of their own, joined by one cable, stand for two hosts: between
them there is nothing but TCP over that cable. mpirun's launch agent, which otherwise is ssh, enters
the other namespace. Needs root.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overlapbench.drill import job

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

RANKS = 4
BYTES = 65536
# Enters the namespace, under a name of its own.
AGENT = """#!/bin/sh
shift
exec ip netns exec {space} unshare --uts sh -c "hostname {name}; $*"
"""
TIMEOUT_S = 8
# The silence after which a host is lost, mpirun's grace period after SIGTERM, and a busy machine.
AFTER_THE_CUT_S = TIMEOUT_S + 8.0


@dataclass(frozen=True)
class Hosts:
    """Two hosts and their cable."""

    spaces: tuple[str, str]
    folder: Path

    def command(self, launcher: "Launcher", *flags: str) -> list[str]:
        bench = ["env", f"OMPI_MCA_plm_rsh_agent={self.folder / 'agent'}", *launcher.bench()]
        bench += ["--no-build", f"--ranks={RANKS}", f"--hostfile={self.folder / 'hosts'}"]
        bench += ["--backend=host", f"--benchmark_out={job.RESULT}"]
        enter = ["ip", "netns", "exec", self.spaces[0], "unshare", "--uts"]
        enter += ["sh", "-c", 'hostname node1; exec "$@"', "sh"]
        return [*enter, *bench, *flags]

    def cut(self) -> None:
        ip("-n", self.spaces[0], "link", "set", "cable", "down")

    def sent_bytes(self) -> int:
        text = ip("-n", self.spaces[0], "-s", "-j", "link", "show", "cable")
        (link,) = json.loads(text)
        return int(link["stats64"]["tx"]["bytes"])


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def obstacle() -> str:
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "unshare", "hostname") if shutil.which(name) is None]
    if missing:
        return f"there is no {missing[0]}"
    space = f"overlapbench-{uuid.uuid4().hex[:6]}"
    made = subprocess.run(["ip", "netns", "add", space], capture_output=True, text=True)
    if made.returncode != 0:
        return f"no network namespace can be made here: {made.stderr.strip()}"
    ip("netns", "del", space)
    return ""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    if why := obstacle():
        pytest.skip(why)
    name = f"overlapbench-{uuid.uuid4().hex[:6]}"
    spaces = (f"{name}-1", f"{name}-2")
    with contextlib.ExitStack() as clean_up:
        for space in spaces:
            ip("netns", "add", space)
            clean_up.callback(ip, "netns", "del", space)
        ends = ("cable", "netns", spaces[0]), ("peer", "name", "cable", "netns", spaces[1])
        ip("link", "add", *ends[0], "type", "veth", *ends[1])
        for number, space in enumerate(spaces, start=1):
            ip("-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", "cable")
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "link", "set", "cable", "up")
        (tmp_path / "hosts").write_text("10.77.0.1 slots=2\n10.77.0.2 slots=2\n")
        agent = tmp_path / "agent"
        agent.write_text(AGENT.format(space=spaces[1], name="node2"))
        agent.chmod(0o755)
        yield Hosts(spaces, tmp_path)


def test_two_hosts_measure_together(launcher: "Launcher", hosts: Hosts) -> None:
    flags = ("--benchmark_filter=Comm/AllReduce", "--budget_ms=20", "--axis", f"bytes={BYTES}")
    before = hosts.sent_bytes()
    with job.start(hosts.command(launcher, *flags)) as started:
        ended = started.end(60)
    assert ended.status == 0, ended.stderr
    assert ended.left == []
    assert "bench: starting 4 ranks on 10.77.0.1 (2), 10.77.0.2 (2), backend host" in ended.stderr
    assert ", 4 ranks on node1, node2, " in ended.stdout
    result: dict[str, Any] = json.loads(ended.files[job.RESULT])
    assert result["context"]["hosts"] == "node1, node2"
    assert result["context"]["ranks"] == str(RANKS)
    (row,) = result["benchmarks"]
    assert row["valid"] == 1, row
    assert row["algbw_GBps"] == pytest.approx(BYTES / row["real_time"] / 1e6)
    assert row["busbw_GBps"] == pytest.approx(row["algbw_GBps"] * 2 * (RANKS - 1) / RANKS)
    # At least half of each sample's sum must have come from the other host.
    assert hosts.sent_bytes() - before > row["samples"] * BYTES / 2


@pytest.mark.alone
def test_a_disconnected_host_ends_the_job(launcher: "Launcher", hosts: Hosts) -> None:
    flags = ("--benchmark_filter=Comm/", "--budget_ms=100", f"--timeout_s={TIMEOUT_S}")
    with job.start(
        hosts.command(launcher, *flags, "--axis", "bytes=64K,128K,256K,512K,1M")
    ) as started:
        started.await_rows(2, limit_s=60)
        hosts.cut()
        cut = time.monotonic()
        ended = started.end(AFTER_THE_CUT_S)
        seconds = time.monotonic() - cut
    assert ended.status not in (0, None), ended.stderr
    assert seconds < AFTER_THE_CUT_S
    assert ended.left == []
    assert any(" rank 0 of 4, Comm/" in line for line in ended.ours), ended.stderr
    assert ended.stderr.splitlines()[-1] == (
        f"bench: the connection to 10.77.0.2 was lost; rows so far are in {job.RESULT}"
    )
    kept = json.loads(ended.files[job.RESULT])
    assert " rank 0 of 4, Comm/" in kept["incomplete"]
    assert len(kept["benchmarks"]) >= 2
