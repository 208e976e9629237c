"""What stands at the top of a report and at its end: notable figures, changes, machines."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from overlapbench.compare.findings import Finding, Verdict
from overlapbench.compare.table import cells
from overlapbench.compare.verdicts import Comparison
from overlapbench.page import LEFT_OUT
from overlapbench.report.runs import Run
from overlapbench.report.tables import Anchors, Line, Rows, split_axes

MOST_NOTABLE = 5
_FIGURE = re.compile(r"[-+]?\d[\d.,]*")


@dataclass(frozen=True)
class ChangeLine:
    """One metric of a benchmark that is not the same as in base."""

    name: tuple[str, Sequence[str]]
    anchor: str
    verdict: Verdict
    reason: str
    cells: Sequence[str]


def worst_slowdowns(tables: Sequence[Rows]) -> list[Line]:
    """Return the good rows that overlap slowed down most, the worst first."""
    return [line for table in tables for line in table.largest("slowdown")[:MOST_NOTABLE]]


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


def machine(runs: Sequence[Run]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the context that all runs share, and what differs, a value for each run."""
    contexts = [run.result.context for run in runs]
    keys = sorted({key for context in contexts for key in context} - LEFT_OUT)
    table = {key: [_text(context.get(key, "")) for context in contexts] for key in keys}
    shared = {key: values[0] for key, values in table.items() if len(set(values)) == 1}
    return shared, {key: values for key, values in table.items() if key not in shared}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
