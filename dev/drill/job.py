"""Starts one job of real ranks, waits for its end, and collects its messages, files and leftovers.

Each job has its own folder, also for temporary files, so that several may run at once.
"""

import contextlib
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drill.leftovers import MARK, Before
from overlapbench.installation import MPI_ENVIRONMENT, MPIRUN

RESULT = "result.json"
# A crash must leave no core file in the folder. Signals have their default actions, even if we were
# started by nohup or in the background, where some are ignored: programs inherit that.
_AS_IF_ALONE = ("env", "--default-signal", "sh", "-c", 'ulimit -c 0; exec "$@"', "sh")


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    status: int | None  # None: it did not end within the limit, and was killed
    seconds: float
    stdout: str
    stderr: str
    files: Mapping[str, str] = field(default_factory=dict)  # the contents of its folder, by name
    left: Sequence[str] = ()  # descriptions of what it left behind

    @property
    def ours(self) -> list[str]:
        """The suite's own lines on stderr."""
        return [line for line in self.stderr.splitlines() if line.startswith("overlapbench: ")]


@dataclass
class Job:
    """A running job."""

    folder: Path
    shared_memory: Path  # OpenMPI's folder for it
    process: "subprocess.Popen[str]"
    before: Before
    started: float

    def await_rows(self, count: int, limit_s: float = 90) -> None:
        """Wait until the job's result has that many rows."""
        result = self.folder / RESULT
        deadline = time.monotonic() + limit_s
        while not result.exists() or result.read_text().count('"real_time"') < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {count} rows after {limit_s:g} s")
            time.sleep(0.05)

    def end(self, limit_s: float) -> Ended:
        """Wait for the end; kill the processes that have not ended in time."""
        status: int | None
        try:
            stdout, stderr = self.process.communicate(timeout=limit_s)
            status = self.process.returncode
        except subprocess.TimeoutExpired:
            self.kill()
            stdout, stderr = self.process.communicate()
            status = None
        seconds = time.monotonic() - self.started
        left = self.before.left()
        temporary = self.folder / "tmp"
        left += [f"a file in TMPDIR: {path.name}" for path in temporary.iterdir()]
        left += [f"shared memory: {path.name}" for path in self.shared_memory.iterdir()]
        files = {
            path.name: path.read_text(encoding="utf-8")
            for path in self.folder.iterdir()
            if path != temporary
        }
        return Ended(status, seconds, stdout, stderr, files, left)

    def kill(self) -> None:
        self.before.end_processes()
        self.process.kill()


@contextlib.contextmanager
def start(command: Sequence[str], cwd: Path | None = None) -> Iterator[Job]:
    """Start a command in `cwd` or a new folder; at the end, remove everything it left."""
    mark = uuid.uuid4().hex
    # A short path: OpenMPI creates sockets in the folder, and their paths are limited.
    with (
        tempfile.TemporaryDirectory(prefix="drill-", dir="/tmp") as name,
        tempfile.TemporaryDirectory(prefix="drill-", dir="/dev/shm") as shared_memory,
    ):
        folder = Path(name)
        (folder / "tmp").mkdir()
        before = Before.look(mark)
        process = subprocess.Popen(
            [*_AS_IF_ALONE, *command],
            cwd=cwd or folder,
            env={
                **{key: v for key, v in os.environ.items() if not key.startswith("BENCHMARK_")},
                **MPI_ENVIRONMENT,
                "TMPDIR": str(folder / "tmp"),
                "OMPI_MCA_btl_vader_backing_directory": shared_memory,
                MARK: mark,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        job = Job(folder, Path(shared_memory), process, before, time.monotonic())
        try:
            yield job
        finally:
            job.kill()
            process.communicate()


def mpirun(binary: Path, ranks: int, flags: Sequence[str]) -> list[str]:
    """Return the command that starts the binary on this machine; mpirun names a dead rank."""
    words = [word for word in MPIRUN if word != "--quiet"]
    return [*words, "-n", str(ranks), str(binary.resolve()), *flags]
