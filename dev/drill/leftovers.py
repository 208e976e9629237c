"""What a job leaves behind: processes, shared memory, files.

A job's processes are identified by an environment variable, which daemons and orphans inherit, too.
OpenMPI's shared memory is in a folder of the job's own (job.py). Another entry in /dev/shm is left
behind if it did not exist before the job and no living process uses it: others may be working on
this machine.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "OVERLAPBENCH_DRILL"
_SHARED_MEMORY = Path("/dev/shm")
_OF_OTHERS = ("vader_segment.", "drill-")
# A killed process and its mappings take a moment to disappear.
_GRACE_S = 3.0


@dataclass(frozen=True)
class Before:
    """The state before the job."""

    mark: str
    shared_memory: frozenset[str]

    @classmethod
    def look(cls, mark: str) -> "Before":
        return cls(mark, _shared_memory())

    def left(self) -> list[str]:
        """Describe what is left after the job has ended and the grace period is over."""
        deadline = time.monotonic() + _GRACE_S
        while (found := self._left_now()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def end_processes(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGKILL)

    def _left_now(self) -> list[str]:
        found = [f"process {pid} ({_command(pid)})" for pid in self.processes()]
        new = _shared_memory() - self.shared_memory
        used = _used_shared_memory() if new else set()
        return [*found, *(f"{_SHARED_MEMORY}/{name}" for name in sorted(new - used))]

    def processes(self) -> list[int]:
        """Return the living processes of the job."""
        wanted = f"{MARK}={self.mark}".encode()
        return [
            int(folder.name)
            for folder in _process_folders()
            if wanted in _read(folder / "environ").split(b"\0")
        ]


def _shared_memory() -> frozenset[str]:
    return frozenset(
        path.name for path in _SHARED_MEMORY.iterdir() if not path.name.startswith(_OF_OTHERS)
    )


def _used_shared_memory() -> set[str]:
    """Return the entries that a process has mapped."""
    used = set()
    for folder in _process_folders():
        for line in _read(folder / "maps").decode(errors="replace").splitlines():
            _, found, name = line.partition(f" {_SHARED_MEMORY}/")
            if found and not name.endswith(" (deleted)"):
                used.add(name)
    return used


def _process_folders() -> Iterator[Path]:
    return (folder for folder in Path("/proc").iterdir() if folder.name.isdigit())


def _command(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/cmdline")).replace(b"\0", b" ").decode(errors="replace").strip()


def _read(path: Path) -> bytes:
    """Return a file of /proc; empty if the process has ended or belongs to another user."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
