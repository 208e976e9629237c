"""Runs taken out of the history: the files that they were added from, or their figures as CSV."""

from collections.abc import Iterator, Sequence

from overlapbench.export import csv_text
from overlapbench.history.database import Database, Run

COLUMNS = ("run", "date", "revision", "host", "machine", "benchmark", "metric", "value", "problem")


def export_files(database: Database, runs: Sequence[Run]) -> dict[str, bytes]:
    """Return the files by name, `run-7.json`; they are those that were added, byte for byte."""
    return {f"run-{run.id}.json": database.document(run.id) for run in runs}


def export_csv(database: Database, runs: Sequence[Run]) -> str:
    """Return a line for each figure of each benchmark, and one for each that was not measured."""
    return csv_text(COLUMNS, _lines(database, runs))


def _lines(database: Database, runs: Sequence[Run]) -> Iterator[Sequence[object]]:
    for run in runs:
        origin = (run.id, run.date, run.revision, run.host, str(run.machine))
        for measured in database.measured_in(run.id):
            for metric, value in measured.figures.items() or (("", ""),):
                yield (*origin, measured.benchmark, metric, value, measured.problem)
