"""Runs of the program: a result file as comparisons see it, a figure per benchmark and metric.

The run is the unit of comparison: repetitions inside one process share clocks, memory and
placement, so each benchmark's repetitions are reduced to their median. Files of this suite are
checked as in every tool. Any other Google Benchmark file is accepted too, with its time as the only
metric.

A file may contain thousands of benchmarks, and a comparison hundreds of files. So a run is a few
arrays, and names are processed once for all files.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from overlapbench.output import expand, harmless
from overlapbench.reading.counters import TIME, Table
from overlapbench.reading.entries import (
    ERROR,
    ONLY_AGGREGATES,
    Array,
    Entries,
    columns_of,
    read_entries,
)
from overlapbench.reading.plain import MEDIAN_ERROR
from overlapbench.reading.source import failed_self_test, load

HOST, VARIABLES = "hosts", "variables"
# What must agree for a comparison, and its name in reports: keys of the context, and VARIABLES.
CONTEXT_FIELDS: Mapping[str, str] = {
    "backend": "backend",
    "device": "GPU",
    "driver_version": "driver",
    "nccl_version": "NCCL",
    "ranks": "ranks",
    HOST: "host",
    "num_cpus": "cpus",
    "host_cores": "cores",
    "gate": "gate",
    "injected_fault": "fault",
    VARIABLES: "variables",
}
_VARIABLE = "env_"  # starts the keys of recorded environment variables


def surroundings(context: Mapping[str, object]) -> dict[str, str]:
    """Return the value of each of CONTEXT_FIELDS, on one line; "" where the context has none."""
    found = {key: harmless(str(context.get(key, ""))) for key in CONTEXT_FIELDS}
    found[HOST] = found[HOST] or harmless(str(context.get("host_name", "")))
    variables = (
        f"{key.removeprefix(_VARIABLE)}={value}"
        for key, value in sorted(context.items())
        if key.startswith(_VARIABLE)
    )
    return found | {VARIABLES: harmless(" ".join(variables))}


@dataclass(frozen=True)
class ProgramRun:
    """One result file; the sequences after the context have one entry per benchmark."""

    source: str
    context: Mapping[str, str]  # `surroundings`
    table: Table
    columns: tuple[str, ...]  # of values: the judged counters, and others that are kept
    names: Sequence[str]
    units: Sequence[str]
    values: Array  # benchmarks x columns: medians of repetitions, the time in ms; NaN if missing
    errors: Array  # standard errors of the times' logarithms inside the run; NaN if unknown
    repetitions: Sequence[int]
    problems: Sequence[str]  # why figures cannot be trusted; "" for a good row
    doubt: str  # why rows are missing, or none can be trusted; "" if all is well
    measurement: object  # `measurement_of` the file

    def time_ms(self, name: str) -> float:
        """Return the time of a benchmark; NaN if nothing was measured."""
        return float(self.values[self.names.index(name), self.columns.index(TIME)])


def read_program_runs(arguments: Iterable[str]) -> list[ProgramRun]:
    """Read files, globs and `-`; ResultError unless every one is a result."""
    return [parse_program_run(source, load(source)) for source in expand(list(arguments))]


def parse_program_run(source: str, text: str) -> ProgramRun:
    """Validate and reduce one file."""
    return to_program_run(read_entries(source, text))


def to_program_run(entries: Entries) -> ProgramRun:
    """Reduce each benchmark's repetitions to their medians."""
    context, places = entries.document.context.values, entries.places
    columns = columns_of(entries.table)
    values = np.column_stack([*map(entries.column, columns)])
    return ProgramRun(
        entries.document.source,
        surroundings(context),
        entries.table,
        columns,
        tuple(places),
        [entries.rows[found[0]].unit if found else "" for found in places.values()],
        *_reduce(values, columns, list(places.values())),
        [len(found) for found in places.values()],
        [_problem(entries, found) for found in places.values()],
        _doubt(entries),
        entries.measurement,
    )


def _doubt(entries: Entries) -> str:
    context = entries.document.context
    if entries.incomplete:
        return f"incomplete: {entries.incomplete}"
    if not failed_self_test(context.values):
        return ""
    return f"not to be trusted: the self-test {context.line('self_test')}"


def _reduce(
    values: Array, columns: Sequence[str], places: Sequence[Sequence[int]]
) -> tuple[Array, Array]:
    """Return the medians of each benchmark's repetitions, and the precision of its time."""
    medians = np.full((len(places), len(columns)), np.nan)
    errors = np.full(len(places), np.nan)
    time, error = (columns.index(column) for column in (TIME, ERROR))
    counts = np.array([len(found) for found in places])
    for count in set(counts.tolist()) - {0}:
        rows = np.flatnonzero(counts == count).tolist()
        # Sorted, so that sums do not depend on the order of the entries.
        chosen = np.sort(values[[places[row] for row in rows]], axis=1)
        medians[rows] = np.median(chosen, axis=1)
        errors[rows] = medians[rows, error] / np.sqrt(count)
        if count > 1:
            # A row's own interval does not include differences between repetitions.
            errors[rows] = np.fmax(errors[rows], _error_of_median(chosen[:, :, time]))
    return medians, errors


def _error_of_median(repetitions: Array) -> Array:
    """Return the relative standard error of each row's median."""
    count = repetitions.shape[1]
    deviation = repetitions.std(axis=1, ddof=1) / repetitions.mean(axis=1)
    return np.asarray(MEDIAN_ERROR * deviation / np.sqrt(count))


def _problem(entries: Entries, places: Sequence[int]) -> str:
    if not places:
        return ONLY_AGGREGATES
    rows = [entries.rows[place] for place in places]
    problems = [row.state.line(row.reason) for row in rows if not row.state.comparable]
    if problems and len(places) > 1:
        return f"{len(problems)} of {len(places)} repetitions: {problems[0]}"
    return problems[0] if problems else ""
