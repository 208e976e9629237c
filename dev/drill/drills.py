"""The drills: a table of faults, and of the suite's promises for each.

A drill measures small and quick rows: ROWS, unless it names others. The fault strikes when a phase
begins for the visit-th time (docs/internals/faults.md). Where rows must be kept, the visit is
chosen so that the first row is finished and the last is not:

- `connect`, `make`, `fill`, `verify` and `report` begin once per row, `first` twice.
- `write` begins once at the start, and once per row.
- `enqueue`, `meet` and `times` begin once per sample, `wait` twice. The start takes 11 samples
  without work. Every row takes 11 more, then 3 to 12 for warmup, then at least 10.

A drill of a transport measures an all-gather over it, at several sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

_ROWS = (
    "Compute/(Gemm|StreamKernel)|Comm/(AllReduce|AllGather|Broadcast|HostToDevice|DeviceToHost)/"
)
# The first of these creates the communicator, on either backend.
_CONNECTING = "Comm/(AllReduce|AllGather|Broadcast)/"
_AXES = {"cache": "warm", "bytes": "64K", "array_bytes": "64K", "n": "64", "grid": "1x1"}
# Enough rows for a fault to strike in the middle. All transports support out-of-place operations.
_AXES_OF_TRANSPORTS = {"bytes": "64K,128K,256K,512K,1M,2M", "place": "out"}


def _quick(rows: str, axes: Mapping[str, str]) -> tuple[str, ...]:
    return (
        f"--benchmark_filter={rows}",
        "--budget_ms=1",
        "--no-self-test",  # its phases would come before those of the rows
        *(f"--axis={axis}={values}" for axis, values in axes.items()),
    )


ROWS = _quick(_ROWS, _AXES)
# A job that waited for a timeout would take at least PATIENT_S. On a busy machine, starting and
# ending take most of AT_ONCE_S.
AT_ONCE_S = 12
PATIENT_S = 40
# In the second row or a later one, but not in the last.
_SAMPLE = 100
_WAIT = 2 * _SAMPLE


class Outcome(Enum):
    """The outcome of the job."""

    ENDS = "the job ends"
    ROW_FAILS = "the row is an error, the others are measured"
    ROWS_FAIL = "the rows from there on are errors"
    INVALID = "the rows from there on are marked invalid"
    UNHARMED = "nothing: all rows are measured"


class Kept(Enum):
    """The part of the result that the job leaves."""

    WHOLE = "all rows, in FILE"
    MARKED = "finished rows, in FILE, marked incomplete"
    NOTHING = "no file: no row was finished"


@dataclass(frozen=True)
class Drill:
    """One or more faults, and the required outcome."""

    fault: str  # --inject_fault's value; several are separated by spaces
    outcome: Outcome
    says: str = ""  # a part of our line on stderr, or of the row's reason
    kept: Kept = Kept.WHOLE
    names: str = ""  # mpirun's words about the dead rank
    backends: tuple[str, ...] = ("host", "cuda")
    rows: str = _ROWS  # --benchmark_filter's value
    transport: str = ""  # of the collective; "" is the default
    # No rank needs a timeout to detect the fault: with --timeout_s=PATIENT_S the job still ends
    # within AT_ONCE_S, including its start.
    at_once: bool = False

    @property
    def faults(self) -> list[str]:
        return self.fault.split()

    @property
    def title(self) -> str:
        """The drill's unique title."""
        return f"{self.fault} transport:{self.transport}" if self.transport else self.fault

    @property
    def flags(self) -> tuple[str, ...]:
        """The program's flags for rows and faults."""
        axes = dict(_AXES)
        if self.transport:
            axes |= {"transport": self.transport, **_AXES_OF_TRANSPORTS}
        faults = (f"--inject_fault={fault}" for fault in self.faults)
        return (*_quick(self.rows, axes), *faults)


def _ends(fault: str, says: str, kept: Kept = Kept.MARKED, **more: Any) -> Drill:
    return Drill(fault, Outcome.ENDS, says, kept, **more)


def _dies(fault: str, says: str = "", kept: Kept = Kept.MARKED, **more: Any) -> Drill:
    """A rank ends without a word: mpirun names it."""
    how = _DEATHS[fault.partition("@")[0]]
    rank = 1 if "rank=1" in fault else 0
    names = rf"process rank {rank} with PID \d+ on node \S+ {how}"
    return _ends(fault, says, kept, names=names, **more)


def _row_fails(fault: str, says: str, **more: Any) -> Drill:
    return Drill(fault, Outcome.ROW_FAILS, says, **more)


def _by_each_transport(drill: Drill) -> tuple[Drill, ...]:
    carried = replace(drill, backends=_CUDA, rows="Comm/AllGather/")
    return tuple(replace(carried, transport=transport) for transport in _TRANSPORTS)


_HOST, _CUDA = ("host",), ("cuda",)
_TRANSPORTS = ("nccl", "nccl_ce", "nccl_sym", "copy", "sm_load", "sm_store", "sm_bulk")
# Which of the two depends on the row.
_LATE = "ranks? .*did not arrive within|the stream .*did not finish within"
_LAUNCHER = "ended by SIGTERM at rank 0 of"
_LOST = f"{_LAUNCHER} .*; rank 1 did not answer"
_DEATHS = {
    "kill": r"exited on signal 9 \(Killed\)",
    "crash": r"exited on signal 11 \(Segmentation fault\)",
    "exit": "exiting improperly",
}
_STILL = "no progress for"
_INJECTED = r"a call failed \(injected\)"
_BY_RANK_1 = f"{_INJECTED} .rank 1 of"
_RANK_0_FAILED, _RANK_1_FAILED = (f"rank {rank}: {_INJECTED}" for rank in (0, 1))

DRILLS: tuple[Drill, ...] = (
    Drill("delay@between,visit=99999", Outcome.UNHARMED),
    # A dead process.
    _dies("kill@start,rank=1", _LAUNCHER, Kept.NOTHING),
    _dies(f"kill@wait,rank=1,visit={_WAIT}", _LOST),
    _dies("kill@report,rank=0,visit=3"),
    _dies("kill@write,rank=0,visit=3"),
    _dies("kill@end,rank=1", "", Kept.WHOLE),
    _dies("crash@verify,rank=1,visit=2", _LOST),
    _dies(f"crash@enqueue,rank=0,visit={_SAMPLE}"),
    # The launcher ends the job if the other rank has already reported that it starts MPI.
    _ends("exit@start,rank=1", f"{_STILL}|{_LAUNCHER}", Kept.NOTHING),
    _dies(f"exit@times,rank=1,visit={_SAMPLE}", _LOST),
    _dies("exit@make,rank=0,visit=2"),
    # A frozen process.
    _ends(f"stop@meet,rank=1,visit={_SAMPLE}", _LATE),
    _ends(f"stop@wait,rank=0,visit={_WAIT}", f"rank 1: .*({_LATE})"),
    _ends("stop@start,rank=1", _STILL, Kept.NOTHING),
    _ends("stall@connect,rank=1,visit=2", _LATE),
    _ends("stall@first,rank=0,visit=3", _LATE),
    _ends(f"stall@times,rank=1,visit={_SAMPLE}", _LATE),
    _ends("stall@end,rank=1", _LATE, Kept.WHOLE),
    _ends("stall@start,rank=0", _STILL, Kept.NOTHING),
    _ends("delay@fill,rank=1,visit=2,ms=20000", _LATE),
    Drill("delay@fill,rank=1,visit=2,ms=1000", Outcome.UNHARMED),
    Drill(f"delay@enqueue,rank=0,visit={_SAMPLE},ms=1000", Outcome.UNHARMED),
    Drill("delay@start,rank=1,ms=2000", Outcome.UNHARMED),
    # A signal from outside.
    _ends(f"interrupt@wait,rank=0,visit={_WAIT}", "ended by Ctrl-C at rank 0"),
    _ends(f"interrupt@meet,rank=1,visit={_SAMPLE}", _LAUNCHER),
    _ends("terminate@report,rank=0,visit=3", f"{_LAUNCHER} .*; all ranks answered"),
    _ends("terminate@start,rank=1", _LAUNCHER, Kept.NOTHING),
    _ends("hangup@write,rank=0,visit=3", "ended by SIGHUP at rank 0"),
    # A failing call.
    # Only on rank 1, while the job starts: its own message is shown, and no rank waits for it.
    _ends("fail@start,rank=1", _BY_RANK_1, Kept.NOTHING, at_once=True),
    _ends("fail@agree,rank=1", f"^overlapbench: {_BY_RANK_1}", Kept.NOTHING, at_once=True),
    _ends("fail@enqueue,rank=1", _RANK_1_FAILED, Kept.NOTHING, at_once=True),
    _ends("fail@meet,rank=1", _BY_RANK_1, Kept.NOTHING, at_once=True),
    _ends("fail@wait,rank=1", _RANK_1_FAILED, Kept.NOTHING, at_once=True),
    _ends("fail@times,rank=1", _BY_RANK_1, Kept.NOTHING, at_once=True),
    # While the others create the communicator.
    _row_fails("fail@connect,rank=1", _RANK_1_FAILED, rows=_CONNECTING, at_once=True),
    _row_fails("fail@connect,rank=0", _RANK_0_FAILED, rows=_CONNECTING, at_once=True),
    _row_fails("fail@make,rank=0,visit=2", _RANK_0_FAILED),
    _row_fails("fail@fill,rank=1,visit=3", _RANK_1_FAILED),
    _row_fails("fail@verify,rank=0,visit=2", _RANK_0_FAILED),
    _ends(f"fail@enqueue,rank=1,visit={_SAMPLE}", _RANK_1_FAILED),
    _ends(f"fail@meet,rank=1,visit={_SAMPLE}", f"{_INJECTED}.*rank 1 of", at_once=True),
    _row_fails(f"fail@wait,rank=1,visit={_WAIT}", _RANK_1_FAILED),
    _ends(f"fail@times,rank=1,visit={_SAMPLE}", f"{_INJECTED}.*rank 1 of", at_once=True),
    _ends("fail@report,rank=1,visit=2", f"{_INJECTED}.*rank 1 of", at_once=True),
    _ends("fail@write,rank=0,visit=3", f"{_INJECTED}.*rank 0 of"),
    # A full disk, immediately and in the middle of a row: a result has about 18 kB before its rows.
    _ends("disk@write,rank=0,visit=3,bytes=1", "cannot write .*File too large"),
    _ends("disk@report,rank=0,visit=3,bytes=21200", "cannot write .*File too large"),
    # Memory and kernels.
    _row_fails("memory@make,rank=1,visit=2", "rank 1: "),
    _row_fails("memory@fill,rank=0,visit=3", "rank 0: "),
    _row_fails("kernel@verify,rank=1,visit=2", "rank 1: a kernel failed", backends=_HOST),
    Drill("kernel@verify,rank=1,visit=2", Outcome.ROWS_FAIL, "rank 1: ", backends=_CUDA),
    # On cuda its stream may share a hardware queue with a stream that waits behind the gate.
    _ends(f"kernel@enqueue,rank=0,visit={_SAMPLE}", "rank 0: ", backends=_HOST),
    _ends(f"kernel@enqueue,rank=0,visit={_SAMPLE}", f"rank 0: |{_LATE}", backends=_CUDA),
    # Numbers that are wrong or cannot be trusted.
    _row_fails("corrupt@verify,rank=1,visit=5", "rank 1: wrong result of COMM"),
    _row_fails("corrupt@verify,rank=0,visit=2", "rank 0: wrong result of COMP"),
    _row_fails("corrupt@first,rank=0,visit=9", "wrong result of COMM"),
    Drill("corrupt@fill,rank=1,visit=2", Outcome.UNHARMED),
    Drill("throttle@report,rank=1,visit=2", Outcome.INVALID, "clocks were throttled: injected"),
    # The links beside MPI's: NCCL's.
    Drill(f"link@wait,rank=1,visit={_WAIT}", Outcome.UNHARMED, backends=_HOST),
    _ends("link@first,rank=1,visit=11", "rank [01]", backends=_CUDA),
    # With every transport of a collective, ranks must not wait forever for a dead rank.
    *_by_each_transport(_dies(f"kill@wait,rank=1,visit={_WAIT}", _LOST)),
    *_by_each_transport(_ends(f"stop@wait,rank=0,visit={_WAIT}", f"rank 1: .*({_LATE})")),
    *_by_each_transport(_ends(f"fail@enqueue,rank=1,visit={_SAMPLE}", _RANK_1_FAILED)),
    # Two at once.
    _ends(f"stop@wait,rank=1,visit={_WAIT} stall@wait,rank=0,visit={_WAIT}", _STILL),
)
