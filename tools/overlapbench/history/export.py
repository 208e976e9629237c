"""Runs taken out of the history: the files that they were added from, or their figures as CSV."""

import csv
import io
from collections.abc import Sequence

from overlapbench.history.database import Database, Run

COLUMNS = ("run", "date", "revision", "host", "machine", "benchmark", "metric", "value", "problem")


def export_files(database: Database, runs: Sequence[Run]) -> dict[str, bytes]:
    """Return the files by name, `run-7.json`; they are those that were added, byte for byte."""
    return {f"run-{run.id}.json": database.document(run.id) for run in runs}


def export_csv(database: Database, runs: Sequence[Run]) -> str:
    """Return a line for each figure of each benchmark, and one for each that was not measured."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in runs:
        origin = (run.id, run.date, run.revision, run.host, str(run.machine))
        for measured in database.measured_in(run.id):
            for metric, value in measured.figures.items() or (("", ""),):
                line = (*origin, measured.benchmark, metric, value, measured.problem)
                writer.writerow(map(_harmless, line))
    return text.getvalue()


def _harmless(value: object) -> object:
    """Keep a spreadsheet from taking text for a formula."""
    return (
        f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
    )
