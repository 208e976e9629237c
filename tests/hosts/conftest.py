"""Two imitated hosts for the tests of this folder (rig.py): one rig per process of pytest."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.rig import Rig, two_hosts

ROOT = Path(__file__).resolve().parents[2]


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start, also if pytest was started in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def obstacle() -> str:
    """Return why there can be no rig on this machine; "" if there can."""
    scripts = [str(ROOT / "tools/setup.sh"), str(ROOT / "dev/check_setup.sh")]
    command = ["bash", "-c", 'source "$0"; source "$1"; hosts_obstacle', *scripts]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@pytest.fixture(scope="session")
def rig() -> Iterator[Rig]:
    binary = Path(os.environ.get("OVERLAPBENCH_BINARY", ROOT / "build/release/overlapbench"))
    if not binary.exists():
        pytest.skip(f"there is no {binary}: build it, or name it with OVERLAPBENCH_BINARY")
    if why := obstacle():
        pytest.skip(why)
    with two_hosts(ROOT, binary.resolve().parent) as rig:
        yield rig


@pytest.fixture(scope="session")
def slurm(rig: Rig) -> Rig:
    """Return the rig, with Slurm."""
    rig.start_slurm()
    return rig
