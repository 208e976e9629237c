"""The files of a report: results as runs.

Files from the same machine, versions and revision that measured the same benchmarks are repeated
runs of one build. They are reduced to their medians, as comparisons do: drawn separately, five
would be five curves on top of each other. A copy of a file is no other run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from overlapbench.grouping import grouped
from overlapbench.output import ResultError, expand
from overlapbench.reading.entries import read_entries
from overlapbench.reading.program_run import ProgramRun, surroundings, to_program_run
from overlapbench.reading.result import HOST_LABEL, Result, source_titles, to_result, unite
from overlapbench.reading.rows import sum_up
from overlapbench.reading.source import failed_self_test, load
from overlapbench.view.charts.naming import joined

LARGEST_ROWS = 20_000  # the most that a browser still shows, in a page of some 20 MB
_SHOWN_TITLES = 3
_SAME = ("git_revision", "injected_delay")  # beside `surroundings`

# Columns of the table of runs, by keys of the context.
COLUMNS = {
    "device": "device",
    "ranks": "ranks",
    "driver_version": "driver",
    "cuda_runtime": "CUDA",
    "nccl_version": "NCCL",
    "mpi_version": "MPI",
    "git_revision": "revision",
    "date": "date",
}


@dataclass(frozen=True)
class Run:
    """Repeated runs as one, with the context of the first and the doubts of any."""

    result: Result
    titles: tuple[str, ...]  # of the files
    copies: tuple[str, ...] = ()  # other files, with the same measurement

    @property
    def name(self) -> str:
        """The titles: a few are written out; of many, the first and the last."""
        shown = len(self.titles) <= _SHOWN_TITLES
        return ", ".join(self.titles) if shown else f"{self.titles[0]} … {self.titles[-1]}"

    def cell(self, key: str) -> str:
        """Write a cell of the table of runs: dates to the minute, versions without their title."""
        text = str(self.result.context.get(key, ""))
        return text[:16].replace("T", " ") if key == "date" else text.removeprefix("Open MPI v")

    @property
    def warnings(self) -> list[str]:
        """Reasons why the figures may not be what they seem."""
        context, incomplete = self.result.context, self.result.incomplete
        delay, busy, self_test = map(context.get, ("injected_delay", "busy", "self_test"))
        off = context.get("gate") == "off"
        warnings = {
            "backend: host. These figures are those of a CPU and its MPI; they say nothing about"
            " a GPU.": self.result.backend == "host",
            f"A delay was injected on purpose: {delay}.": delay,
            f"The run is incomplete: {incomplete}.": incomplete,
            "The start gate was off: launch times of the host are in the figures.": off,
            f"Do not trust these figures: the self-test {self_test}. Something else disturbed the"
            " machine.": failed_self_test(context),
            f"The machine was busy before the run: {busy}.": busy,
            f"Copies count once: {', '.join(self.copies)}.": self.copies,
        }
        return [warning for warning, applies in warnings.items() if applies]


def read_runs(arguments: Sequence[str], compared: bool) -> tuple[list[Run], list[ProgramRun]]:
    """Read files, globs and `-`, repeated ones as one, and, if they will be compared, each alone.

    Each file is read once and its text released. ResultError unless every one is a result.
    """
    runs: list[Run] = []
    each: list[ProgramRun] = []
    count = 0
    for source, title in source_titles(expand(arguments)).items():
        entries = read_entries(source, load(source), own=True)
        runs.append(Run(to_result(entries, title), (title,)))
        count += len(runs[-1].result.rows)
        if count > LARGEST_ROWS:
            raise ResultError(
                f"{source}: benchmarks: above {LARGEST_ROWS} rows in all: give fewer files"
            )
        if compared:
            each.append(to_program_run(entries))
    results = unite([run.result for run in runs])
    united = [replace(run, result=result) for run, result in zip(runs, results, strict=True)]
    merged = merge_repeated(united)
    mixed = len({run.result.machine for run in merged}) > 1
    return [_labelled(run, mixed) for run in merged], each


def merge_repeated(runs: Sequence[Run]) -> list[Run]:
    """Make one of all runs that repeat each other."""

    def measured(run: Run) -> tuple[object, ...]:
        context, names = run.result.context, frozenset(row.name for row in run.result.rows)
        told = (str(context.get(key, "")) for key in _SAME)
        return (*surroundings(context).values(), *told, names)

    return [_merge(_without_copies(group)) for group in grouped(runs, measured).values()]


def _without_copies(runs: Sequence[Run]) -> list[Run]:
    """Keep the first of equal measurements, with the names of the others."""
    alike = grouped(runs, lambda run: run.result.measurement).values()
    return [replace(same[0], copies=tuple(run.name for run in same[1:])) for same in alike]


def _merge(group: Sequence[Run]) -> Run:
    first = group[0]
    if len(group) == 1:
        return first
    titles = tuple(title for run in group for title in run.titles)
    rows = grouped((row for run in group for row in run.result.rows), lambda row: row.name)
    context = dict(first.result.context)
    for run in group:
        other = run.result.context
        context |= {"busy": other["busy"]} if "busy" in other else {}
        context |= {"self_test": other["self_test"]} if failed_self_test(other) else {}
    merged = replace(
        first.result,
        context=context,
        rows=tuple(sum_up(same, "runs") for same in rows.values()),
        incomplete=next((run.result.incomplete for run in group if run.result.incomplete), ""),
    )
    return Run(merged, titles, tuple(copy for run in group for copy in run.copies))


def _labelled(run: Run, mixed: bool) -> Run:
    """Label a result by its files: the page shows the device.

    Figures of several machines are labelled with these everywhere, and those of a CPU as such.
    """
    machine = run.result.machine if mixed else ""
    about = joined(machine, HOST_LABEL if run.result.backend == "host" else "")
    label = f"{run.name} ({about})" if about else run.name
    rows = tuple(replace(row, file=label) for row in run.result.rows)
    return replace(run, result=replace(run.result, label=label, rows=rows))
