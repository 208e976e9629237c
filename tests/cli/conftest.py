"""Starts the binary as a user would, under mpirun, on real ranks of the host backend.

And programs that measure with the Python package, alone or on such ranks. OVERLAPBENCH_BINARY names
the binary; without it build/release/overlapbench is tested. The library is the one beside it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from overlapbench.installation import MPI_ENVIRONMENT, MPIRUN

ROOT = Path(__file__).resolve().parents[2]
Program = Callable[..., list[Any]]
# Ends what hangs. A busy machine may take a minute for what takes seconds alone.
LIMIT_S = 180.0


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start.

    A shell ignores it for background commands, their children inherit that, and bash then cannot
    trap it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def can_be(interval: Sequence[float], value: float, tolerance: float) -> bool:
    """Whether an interval admits a value; on a busy machine it is wide, elsewhere it is a point."""
    low, high = interval
    return low - tolerance <= value <= high + tolerance


@dataclass(frozen=True)
class Launcher:
    """The binary, and how its ranks are started."""

    binary: Path
    mpirun: str

    def with_faults(self) -> "Launcher":
        """Return the launcher of the program whose ranks fail on request."""
        binary = self.binary.parent / "tests/overlapbench_with_faults"
        if not binary.exists():
            pytest.skip(f"there is no {binary}: build it")
        return Launcher(binary, self.mpirun)

    def command(self, ranks: Sequence[Sequence[str]]) -> list[str]:
        """One rank for each list of flags; BENCHMARK_...=VALUE among them sets a variable."""
        command = [self.mpirun, *MPIRUN[1:]]
        for number, flags in enumerate(ranks):
            variables = [flag for flag in flags if flag.startswith("BENCHMARK_")]
            command += [":"] if number > 0 else []
            command += ["-n", "1"]
            command += [word for variable in variables for word in ("-x", variable)]
            # Most tests do not need it, and it takes a second.
            self_test = [] if "--self-test" in flags else ["--no-self-test"]
            flags = [flag for flag in flags if flag != "--self-test"]
            command += [str(self.binary), "--backend=host", *self_test]
            command += [flag for flag in flags if flag not in variables]
        return command

    def run(
        self, *flags: str, ranks: int = 2, timeout_s: float = LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Runs the same flags on every rank."""
        return self.run_each([list(flags) for _ in range(ranks)], timeout_s=timeout_s)

    def run_each(
        self, ranks: Sequence[Sequence[str]], *, timeout_s: float = LIMIT_S
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

    def alone(
        self, *flags: str, folder: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the binary itself, without mpirun."""
        return subprocess.run(
            [self.binary, *flags],
            cwd=folder,
            env=self.environment() | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
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

        Otherwise ./bench and cmake would configure and build afresh, and tests must not change
        another checkout's folder.
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


# The beginning of all programs. `settled` measures a row up to five times, until it is known to
# 2 %. `stuck` waits forever; it keeps Python's lock, and no signal ends it.
PREAMBLE = """
import json, os, sys, time
import overlapbench as ob

folder = os.getcwd()

def sleep(ms):
    return lambda: time.sleep(ms / 1000)

def settled(measure, **settings):
    rows = []
    while len(rows) < 5 and not (rows and rows[-1]["margin_pct"] <= 2):
        rows.append(measure(cache="warm", **settings))
    return min(rows, key=lambda row: row["margin_pct"])

def tell(*values):
    with open(f"{folder}/told-{os.environ.get('OMPI_COMM_WORLD_RANK', 0)}", "a") as file:
        file.write(json.dumps(values) + "\\n")

# Ranks that have told something may wait until all ranks have told so many lines: the end of one
# process ends the others.
def await_told(lines):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        names = [name for name in os.listdir(folder) if name.startswith("told-")]
        if sum(open(f"{folder}/{name}").read().count("\\n") for name in names) >= lines:
            return
        time.sleep(0.05)

def said(row):
    return [row.state.value, row.reason]

def fail():
    raise ValueError("no\\nway")

def stuck():
    import ctypes
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)

def configure(**settings):
    ob.configure(**{"backend": "host", "precision": 2, "self_test": False} | settings)
"""


@pytest.fixture
def program(launcher: Launcher, tmp_path: Path) -> Program:
    """Return a function that runs a program and returns its ranks' reports, in rank order.

    Each test writes a program, since a process measures with one configuration.
    """
    library = launcher.binary.parent / "liboverlapbench.so"
    if not library.exists():
        pytest.skip(f"there is no {library}: a build with a sanitizer has none")

    def run(text: str, *, ranks: int = 0, status: int | None = 0, **variables: str) -> list[Any]:
        file = tmp_path / "program.py"
        file.write_text(PREAMBLE + text)
        mpirun = [launcher.mpirun, *MPIRUN[1:], "-n", str(ranks)] if ranks else []
        done = subprocess.run(
            [*mpirun, sys.executable, str(file)],
            cwd=tmp_path,
            env=launcher.environment()
            | {"OVERLAPBENCH_LIBRARY": str(library), "PYTHONPATH": str(ROOT / "tools")}
            | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert status is None or done.returncode == status, done.stderr
        told = (file.read_text().splitlines() for file in sorted(tmp_path.glob("told-*")))
        return [json.loads(line) for lines in told for line in lines]

    return run
