"""Runs drills: each is one job, whose end is compared with its promise."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from drill import job
from drill.drills import DRILLS, PATIENT_S, Drill, Outcome
from drill.verdict import Verdict, judge

# The watchdog's own margin and patience (ranks/watchdog.h), and the time to start the job and end
# it in mpirun on a busy machine.
_MARGIN_S = 5
_PATIENCE_S = 4
_START_AND_END_S = 11
_ROWS_S = 60  # and to measure all rows there, if the fault does not end the job


@dataclass(frozen=True)
class Setup:
    """The settings that all drills of a run share."""

    binary: Path
    backend: str
    ranks: int  # at least 2
    timeout_s: int = 3
    share_gpu: bool = False
    busy_s: int = 0  # more for each job, where other processes use the cores

    def timeout_of(self, drill: Drill) -> int:
        return PATIENT_S if drill.at_once else self.timeout_s

    def limit_s(self, drill: Drill) -> float:
        rows_s = 0 if drill.outcome is Outcome.ENDS else _ROWS_S
        ends_s = self.timeout_of(drill) + _MARGIN_S + _PATIENCE_S + _START_AND_END_S
        return ends_s + rows_s + self.busy_s

    def flags(self, drill: Drill) -> list[str]:
        return [
            f"--backend={self.backend}",
            f"--timeout_s={self.timeout_of(drill)}",
            f"--benchmark_out={job.RESULT}",
            *(("--share_gpu",) if self.share_gpu else ()),
            *drill.flags,
        ]


def run_all(
    setup: Setup, drills: Iterable[Drill], jobs: int, tell: Callable[[Verdict], None]
) -> list[Verdict]:
    """Run `jobs` drills at a time, and report each when it ends. Results are in table order."""

    def run(drill: Drill) -> Verdict:
        with job.start(job.mpirun(setup.binary, setup.ranks, setup.flags(drill))) as started:
            verdict = judge(drill, started.end(setup.limit_s(drill)), setup.busy_s)
        tell(verdict)
        return verdict

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run, drills))


def choose(setup: Setup, wanted: Callable[[str], object]) -> list[Drill]:
    return [drill for drill in DRILLS if setup.backend in drill.backends and wanted(drill.title)]
