"""The top and the end of a report: notable figures, changes, machines."""

import re
from collections.abc import Sequence

from overlapbench.grouping import grouped
from overlapbench.judge.findings import Finding, Verdict
from overlapbench.judge.verdicts import Comparison, Row
from overlapbench.view.page import LEFT_OUT
from overlapbench.view.report.runs import Run
from overlapbench.view.report.tables import Line, Section

MOST_NOTABLE = 5
_FIGURE = re.compile(r"[-+]?\d[\d.,]*")


def worst_slowdowns(tables: Sequence[Section]) -> list[Line]:
    """Return the good rows that overlap slowed down most, the worst first."""
    return [line for table in tables for line in table.largest("slowdown")[:MOST_NOTABLE]]


def causes(bad: Sequence[Line]) -> list[str]:
    """Count the untrusted rows by state and reason, the most frequent first.

    Reasons that differ only in their figures count as one, shown with its first row.
    """
    kinds = grouped(bad, lambda line: (line.state, _FIGURE.sub("", line.row.reason)))
    ordered = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    return [
        f"{len(lines)} {state}: {lines[0].row.reason or 'no reason is given'}"
        for (state, _), lines in ordered
    ]


def list_changes(comparison: Comparison) -> list[tuple[Row, Finding | None]]:
    """Return the benchmarks that are not the same, the worst verdicts first.

    A benchmark is listed with each finding whose verdict is not SAME, or with None if it has none.
    """
    order = list(Verdict)
    lines: list[tuple[Row, Finding | None]] = []
    for row in sorted(comparison.rows, key=lambda row: order.index(row.verdict)):
        if row.verdict is not Verdict.SAME:
            changed = [one for one in row.findings if one.verdict is not Verdict.SAME]
            lines += [(row, finding) for finding in changed] or [(row, None)]
    return lines


def machine(runs: Sequence[Run]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the context that all runs share, and each differing key with a value per run."""
    contexts = [run.result.context for run in runs]
    keys = sorted({key for context in contexts for key in context} - LEFT_OUT)
    table = {key: [_text(context.get(key, "")) for context in contexts] for key in keys}
    shared = {key: values[0] for key, values in table.items() if len(set(values)) == 1}
    return shared, {key: values for key, values in table.items() if key not in shared}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
