"""What stands at the top of a report and at its end: runs, notable figures, changes, machines."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from overlapbench.compare.findings import Finding, Verdict
from overlapbench.compare.table import cells, summary
from overlapbench.compare.verdicts import Comparison
from overlapbench.page import LEFT_OUT
from overlapbench.report.runs import Run, join_titles
from overlapbench.report.tables import Anchors, Line, Rows, figure, split_axes
from overlapbench.result import failed_self_test

MOST_NOTABLE = 5
_FIGURE = re.compile(r"[-+]?\d[\d.,]*")
# Columns of the table of runs, by keys of the context.
_RUN_COLUMNS = {
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
class RunLine:
    """A run in the summary: its files, what it ran on, how many rows it has."""

    files: str
    all_files: str
    launches: int
    cells: Sequence[str]
    rows: int
    bad: int
    warnings: Sequence[str]


@dataclass(frozen=True)
class Overview:
    """A section in the summary."""

    table: Rows
    bad: int
    notable: str  # in words
    value: str
    line: Line | None  # the row that it is of


@dataclass(frozen=True)
class ChangeLine:
    """One metric of a benchmark that is not the same as in base."""

    name: tuple[str, Sequence[str]]
    anchor: str
    verdict: Verdict
    reason: str
    cells: Sequence[str]


def run_columns(runs: Sequence[Run]) -> dict[str, str]:
    """Return the columns of the table of runs that at least one run can fill."""
    return {
        key: title
        for key, title in _RUN_COLUMNS.items()
        if any(run.result.context.get(key) for run in runs)
    }


def list_runs(runs: Sequence[Run]) -> list[RunLine]:
    """Make a line of each run."""
    return [
        RunLine(
            join_titles(run.titles),
            ", ".join(run.titles),
            len(run.titles),
            [_short(key, run.result.context.get(key, "")) for key in run_columns(runs)],
            len(run.result.rows),
            sum(row.bad for row in run.result.rows),
            _warnings(run),
        )
        for run in runs
    ]


def _short(key: str, value: object) -> str:
    """Write the minute of a date, and leave out what a column's title says already."""
    text = str(value)
    return text[:16].replace("T", " ") if key == "date" else text.removeprefix("Open MPI v")


def _warnings(run: Run) -> list[str]:
    """Say what makes figures something else than they look like."""
    context = run.result.context
    warnings = []
    if run.result.backend == "host":
        warnings.append(
            "backend: host. These figures are those of a CPU and its MPI; they say nothing about"
            " a GPU."
        )
    if delay := context.get("injected_delay"):
        warnings.append(f"A delay was injected on purpose: {delay}.")
    if run.result.incomplete:
        warnings.append(f"Not all was measured: {run.result.incomplete}.")
    if context.get("gate") == "off":
        warnings.append("The start gate was off: launch times of the host are in the figures.")
    if failed_self_test(context):
        warnings.append(
            f"Do not trust these figures: the self-test {context['self_test']}. Something else"
            " disturbed the machine."
        )
    if busy := context.get("busy"):
        warnings.append(f"The machine was busy before the run: {busy}.")
    return warnings


def overview(tables: Sequence[Rows]) -> list[Overview]:
    """Make a line of each section, with the largest figure of its notable counter."""
    return [_overview(table) for table in tables]


def _overview(table: Rows) -> Overview:
    section = table.section
    bad = sum(bool(line.state) for line in table.lines)
    counter = section.notable
    best = _largest(table, counter.name)[:1] if counter else []
    if counter is None or not best:
        return Overview(table, bad, "", "", None)
    value = f"{figure(best[0].row.counters[counter.name])} {counter.printed_unit}".strip()
    return Overview(table, bad, section.notable_words, value, best[0])


def worst_slowdowns(tables: Sequence[Rows]) -> list[Line]:
    """Return the good rows that overlap slowed down most, the worst first."""
    return [line for table in tables for line in _largest(table, "slowdown")[:MOST_NOTABLE]]


def _largest(table: Rows, counter: str) -> list[Line]:
    good = [line for line in table.lines if line.row.trusted and counter in line.row.counters]
    return sorted(good, key=lambda line: -line.row.counters[counter])


def causes(bad: Sequence[Line]) -> list[str]:
    """Count the rows not to be trusted by state and reason, the most frequent first.

    Reasons that differ in their figures only are one, told by its first row.
    """
    first: dict[tuple[str, str], str] = {}
    for line in bad:
        first.setdefault((line.state, _FIGURE.sub("", line.row.reason)), line.row.reason)
    counts = Counter((line.state, _FIGURE.sub("", line.row.reason)) for line in bad)
    return [
        f"{count} {kind[0]}: {first[kind] or 'no reason is given'}"
        for kind, count in counts.most_common()
    ]


def list_changes(comparison: Comparison, anchors: Anchors) -> list[ChangeLine]:
    """Make lines of the benchmarks that are not the same, the worst verdicts first."""
    order = list(Verdict)
    rows = [row for row in comparison.rows if row.verdict is not Verdict.SAME]
    lines = []
    for row in sorted(rows, key=lambda row: order.index(row.verdict)):
        place = split_axes(row.name), anchors.find(row.name)
        changed = [finding for finding in row.findings if finding.verdict is not Verdict.SAME]
        if not changed:
            lines.append(ChangeLine(*place, row.verdict, row.reason, [""] * 6))
        lines += [
            ChangeLine(*place, finding.verdict, _doubt(finding), cells(finding))
            for finding in changed
        ]
    return lines


def _doubt(finding: Finding) -> str:
    if finding.verdict is not Verdict.TOO_NOISY:
        return ""
    return f"the limit is {100 * finding.limit:g} %"


def compared(comparison: Comparison) -> tuple[Mapping[Verdict, int], Sequence[str]]:
    """Return how many benchmarks have each verdict, and what it comes to in sentences."""
    counts = {verdict: count for verdict, count in comparison.counts.items() if count}
    return counts, summary(comparison)[1:]


def machine(runs: Sequence[Run]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the context that all runs share, and what differs, a value for each run."""
    contexts = [run.result.context for run in runs]
    keys = sorted({key for context in contexts for key in context} - LEFT_OUT)
    table = {key: [_text(context.get(key, "")) for context in contexts] for key in keys}
    shared = {key: values[0] for key, values in table.items() if len(set(values)) == 1}
    return shared, {key: values for key, values in table.items() if key not in shared}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
