"""Starts the binary as a user would: under mpirun, on real ranks of the host backend.

OVERLAPBENCH_BINARY names the binary; without it build/release/overlapbench is tested.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from overlapbench.installation import MPI_ENVIRONMENT, MPIRUN

ROOT = Path(__file__).resolve().parents[2]


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start.

    A shell ignores it for commands in the background, what they start inherits that, and bash then
    traps it in vain.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Launcher:
    """The binary, and how its ranks are started."""

    binary: Path
    mpirun: str

    def command(self, ranks: Sequence[Sequence[str]]) -> list[str]:
        """One rank for each list of flags; BENCHMARK_...=VALUE among them sets a variable."""
        command = [self.mpirun, *MPIRUN[1:]]
        for number, flags in enumerate(ranks):
            variables = [flag for flag in flags if flag.startswith("BENCHMARK_")]
            command += [":"] if number > 0 else []
            command += ["-n", "1"]
            command += [word for variable in variables for word in ("-x", variable)]
            # Most tests have no use for the second that it takes.
            self_test = [] if "--self-test" in flags else ["--no-self-test"]
            flags = [flag for flag in flags if flag != "--self-test"]
            command += [str(self.binary), "--backend=host", *self_test]
            command += [flag for flag in flags if flag not in variables]
        return command

    def run(
        self, *flags: str, ranks: int = 2, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs the same flags on every rank."""
        return self.run_each([list(flags) for _ in range(ranks)], timeout_s=timeout_s)

    def run_each(
        self, ranks: Sequence[Sequence[str]], *, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(ranks),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def alone(self, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs the binary itself, without mpirun."""
        return subprocess.run(
            [self.binary, *flags],
            env=self.environment() | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def start(self, *flags: str, ranks: int = 2) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command([list(flags) for _ in range(ranks)]),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def build_folder(self) -> Path:
        """Return the folder that the binary was built in, if this checkout has configured it.

        In another one, ./bench and cmake would configure and build afresh, and another's folder is
        not for tests to change.
        """
        folder = self.binary.parent
        cache = folder / "CMakeCache.txt"
        lines = cache.read_text().splitlines() if cache.exists() else []
        if f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}" not in lines:
            pytest.skip(f"{folder} would be configured afresh: it was not done from {ROOT}")
        return folder

    def bench(self) -> list[str]:
        """Return how ./bench starts the binary."""
        return [str(ROOT / "bench"), "--no-install", "--build-dir", str(self.build_folder())]

    @staticmethod
    def environment() -> dict[str, str]:
        inherited = {key: v for key, v in os.environ.items() if not key.startswith("BENCHMARK_")}
        return inherited | MPI_ENVIRONMENT


@pytest.fixture(scope="session")
def launcher() -> Launcher:
    binary = Path(os.environ.get("OVERLAPBENCH_BINARY", ROOT / "build/release/overlapbench"))
    if not binary.exists():
        pytest.skip(f"there is no {binary}: build it, or name it with OVERLAPBENCH_BINARY")
    mpirun = shutil.which(MPIRUN[0])
    if mpirun is None:
        pytest.skip("there is no mpirun")
    return Launcher(binary.resolve(), mpirun)
