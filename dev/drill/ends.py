"""How ./bench ends: a table of causes from outside, and of its last line and status for each.

Each job measures until the cause strikes, after its second row: a signal to one of its processes,
or a full disk. Whatever the cause, every process of the job must end, its rows must be in FILE, and
nothing else may be left in its folders or in shared memory.
"""

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drill import job
from drill.job import RESULT, Ended, Job

_COUNT = re.compile(r"overlapbench: kept \d+ finished rows")
_ROWS = 2  # before the cause strikes
_LIMIT_S = 40.0
_FLAGS = (
    *("--benchmark_filter=Comm/", "--budget_ms=100", "--timeout_s=3", "--no-self-test"),
    *("--axis", "bytes=64K,128K,256K,512K", f"--benchmark_out={RESULT}"),
)


@dataclass(frozen=True)
class Strike:
    """A signal to some processes of the job."""

    signal: signal.Signals
    # bench, group (as the terminal: bench and those in its process group), mpirun, rank 0, rank 1,
    # or all
    target: str
    times: int = 1  # a tenth of a second apart


@dataclass(frozen=True)
class End:
    """A cause, and how the job ends."""

    cause: str
    says: str  # the last line on stderr, but for the number of rows kept
    status: int  # negative: ended by this signal
    strike: Strike | None = None
    shell: str = 'exec "$@"'  # how the command is started
    flags: tuple[str, ...] = ()  # more flags of the program
    rows: bool = True  # whether rows were finished before the cause struck


def _signal(name: str, target: str, says: str, status: int, times: int = 1, cause: str = "") -> End:
    number = signal.Signals[f"SIG{name}"]
    return End(cause or f"SIG{name} to {target}", says, status, Strike(number, target, times))


def _dead(rank: int, number: str) -> str:
    return rf"rank {rank} .*{number}"


_CTRL_C = "ended by Ctrl-C at rank 0"
_TERM = "ended by SIGTERM"
_FULL = "cannot write .*(No space left on device|File too large)"

ENDS: Sequence[End] = (
    _signal("INT", "bench", _CTRL_C, 130),
    _signal("INT", "group", _CTRL_C, 130, cause="Ctrl-C"),
    _signal("INT", "group", _CTRL_C, 130, 2, cause="Ctrl-C, twice"),
    _signal("TERM", "bench", _TERM, 143),
    _signal("TERM", "bench", _TERM, 143, 2, cause="SIGTERM to bench, twice"),
    _signal("TERM", "all", _TERM, 143, cause="SIGTERM to every process (scancel, systemd)"),
    _signal("HUP", "bench", "ended by SIG(HUP|TERM)", 129),
    _signal("KILL", "bench", "", -9),
    _signal("TERM", "mpirun", _TERM, 143),
    _signal("KILL", "mpirun", "mpirun was killed by SIGKILL", 137),
    _signal("KILL", "rank 0", _dead(0, "SIGKILL"), 137),
    _signal("KILL", "rank 1", _dead(1, "SIGKILL"), 137),
    _signal("SEGV", "rank 0", _dead(0, "SIGSEGV"), 139),
    _signal("SEGV", "rank 1", _dead(1, "SIGSEGV"), 139),
    _signal("TERM", "rank 0", _TERM, 143),
    _signal("USR2", "rank 0", "ended by SIGUSR2", 141),
    _signal("STOP", "rank 1", "rank 0: .*rank 1 did not arrive within 3 s|stream", 1),
    End("FILE on a full disk", _FULL, 1, flags=("--inject_fault=disk@report,visit=3,bytes=1",)),
    End("standard output on a full disk", _FULL, 1, shell='exec "$@" >/dev/full'),
    End("no space in TMPDIR", "TMPDIR", 1, shell='ulimit -f 8; exec "$@"', rows=False),
)


@dataclass(frozen=True)
class Verdict:
    """How one job ended, and which promises were broken."""

    end: End
    ended: Ended
    rows: int
    broken: list[str]

    @property
    def told(self) -> str:
        """The outcome in a line, and a line for each broken promise."""
        line = (
            f"{'BROKEN' if self.broken else 'kept':6} {self.end.cause}: status {self.ended.status}"
        )
        broken = "".join(f"        {promise}\n" for promise in self.broken)
        return f"{line}, {self.ended.seconds:.1f} s, {_last_line(self.ended)}\n{broken}"


def run(bench: Path, binary: Path, end: End) -> Verdict:
    """Run one job with ./bench, and let the cause strike."""
    command = (str(bench), f"--binary={binary.resolve()}", "--backend=host", "--ranks=2")
    with job.start(["sh", "-c", end.shell, "sh", *command, *_FLAGS, *end.flags]) as started:
        if end.strike is not None:
            started.await_rows(_ROWS)
            _hit(started, end.strike)
        ended = started.end(_LIMIT_S)
    return judge(end, ended)


def _hit(started: Job, strike: Strike) -> None:
    for number in range(strike.times):
        if number:
            time.sleep(0.1)
        for pid in _targets(started, strike.target):
            _send(pid, strike.signal)


def _targets(started: Job, target: str) -> list[int]:
    if target == "bench":
        return [started.process.pid]
    processes = started.before.processes()
    if target == "group":
        return [pid for pid in processes if os.getpgid(pid) == started.process.pid]
    if target == "mpirun":
        return [pid for pid in processes if _read(pid, "comm") == b"mpirun\n"]
    rank = f"OMPI_COMM_WORLD_RANK={target[-1]}\0".encode()
    return [pid for pid in processes if target == "all" or rank in _read(pid, "environ")]


def _read(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(pid, number)


def judge(end: End, ended: Ended) -> Verdict:
    """Compare a job's end with the table."""
    broken = [f"left behind: {thing}" for thing in ended.left]
    broken += [f"left behind: {name}" for name in ended.files if name != RESULT]
    if ended.status != end.status:
        broken.append(f"status {ended.status}, not {end.status}")
    if not re.search(end.says, _last_line(ended)):
        broken.append(f"the last line does not match {end.says!r}")
    rows = 0
    if RESULT in ended.files:
        rows = len(json.loads(ended.files[RESULT])["benchmarks"])
    if end.rows and rows < _ROWS:
        broken.append(f"{rows} rows in {RESULT}, not {_ROWS} or more")
    return Verdict(end, ended, rows, broken)


def _last_line(ended: Ended) -> str:
    lines = [line for line in ended.stderr.splitlines() if line and not _COUNT.match(line)]
    return lines[-1] if lines else ""


_HEADER = "| Cause | Last line | Status | Rows kept | Left behind |\n|---|---|---:|---:|---|\n"


def markdown(verdicts: Sequence[Verdict]) -> str:
    """Return the ends as a table."""
    return _HEADER + "".join(_row(verdict) for verdict in verdicts)


def _row(verdict: Verdict) -> str:
    end, ended = verdict.end, verdict.ended
    status = f"{ended.status}" if (ended.status or 0) >= 0 else f"{128 - (ended.status or 0)}"
    line = _last_line(ended).replace(os.uname().nodename, "node1").replace("|", "/")
    cells = [
        end.cause,
        f"`{line}`" if line and not line.startswith("bench: starting") else "none",
        status,
        str(verdict.rows),
        "; ".join(ended.left) or "nothing",
    ]
    if verdict.broken:
        cells[1] = "**broken**: " + "; ".join(verdict.broken).replace("|", "/")
    return f"| {' | '.join(cells)} |\n"
