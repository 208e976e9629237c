"""The files of a report: results as runs.

A run is the launches of one build on one machine, reduced to their medians. Files are launches of
one run if they come from the same machine, versions and revision and measured the same benchmarks.
Drawn separately, five launches would be five curves on top of each other. Comparisons use their
median, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from overlapbench.grouping import grouped
from overlapbench.output import ResultError, expand
from overlapbench.reading.launch import Launch, parse_launch, surroundings
from overlapbench.reading.result import (
    Result,
    failed_self_test,
    parse_result,
    source_titles,
    sum_up,
    unite,
)
from overlapbench.reading.source import load

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
    """One run; its result has the context of the first launch, and the doubts of any launch."""

    result: Result
    titles: tuple[str, ...]  # of the files

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
        }
        return [warning for warning, applies in warnings.items() if applies]


def read_runs(arguments: Sequence[str], compared: bool) -> tuple[list[Run], list[Launch]]:
    """Read files, globs and `-` as runs and, if they will be compared, as launches too.

    Each file is read once and its text released. ResultError unless every one is a result.
    """
    runs: list[Run] = []
    launches, count = [], 0
    for source, title in source_titles(expand(arguments)).items():
        text = load(source)
        runs.append(_labelled(Run(parse_result(source, text, title), (title,))))
        count += len(runs[-1].result.rows)
        if count > LARGEST_ROWS:
            raise ResultError(
                f"{source}: benchmarks: above {LARGEST_ROWS} rows in all: give fewer files"
            )
        if compared:
            launches.append(parse_launch(source, text))
    results = unite([run.result for run in runs])
    united = [replace(run, result=result) for run, result in zip(runs, results, strict=True)]
    return merge_launches(united), launches


def merge_launches(runs: Sequence[Run]) -> list[Run]:
    """Make one run of all launches that belong together."""

    def measured(run: Run) -> tuple[object, ...]:
        context, names = run.result.context, frozenset(row.name for row in run.result.rows)
        told = (str(context.get(key, "")) for key in _SAME)
        return (*surroundings(context).values(), *told, names)

    groups = grouped(runs, measured).values()
    return [_merge(group) if len(group) > 1 else group[0] for group in groups]


def _merge(group: Sequence[Run]) -> Run:
    first = group[0]
    titles = tuple(title for run in group for title in run.titles)
    rows = grouped((row for run in group for row in run.result.rows), lambda row: row.name)
    context = dict(first.result.context)
    for launch in group:
        other = launch.result.context
        context |= {"busy": other["busy"]} if "busy" in other else {}
        context |= {"self_test": other["self_test"]} if failed_self_test(other) else {}
    merged = replace(
        first.result,
        context=context,
        rows=tuple(sum_up(launches, "launches") for launches in rows.values()),
        incomplete=next((run.result.incomplete for run in group if run.result.incomplete), ""),
    )
    return _labelled(Run(merged, titles))


def _labelled(run: Run) -> Run:
    """Label a result only by its files: the page shows the device.

    Only CPU figures are labelled as such everywhere.
    """
    label = f"{run.name} (backend: host)" if run.result.backend == "host" else run.name
    rows = tuple(replace(row, file=label) for row in run.result.rows)
    return replace(run, result=replace(run.result, label=label, rows=rows))
