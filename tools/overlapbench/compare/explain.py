"""One benchmark in full: its samples, the test, and the floor."""

import numpy as np

from overlapbench.compare import statistics
from overlapbench.compare.findings import Finding
from overlapbench.compare.side import Side, figure_of
from overlapbench.compare.table import figure, interval, percent
from overlapbench.compare.verdicts import Comparison
from overlapbench.names import spell_sizes
from overlapbench.source import ResultError, harmless


def explain(comparison: Comparison, wanted: str) -> str:
    """Explain the benchmark of this name, or the only one whose name contains it."""
    rows = [row for row in comparison.rows if row.name == wanted]
    sized = spell_sizes(wanted)
    rows = rows or [row for row in comparison.rows if sized in spell_sizes(row.name)]
    if len(rows) != 1:
        found = "no benchmark has" if not rows else f"{len(rows)} benchmarks have"
        example = f", for example {rows[0].name}" if rows else ""
        raise ResultError(f"--explain: {found} {wanted!r} in the name{example}")
    (row,) = rows
    lines = [row.name, f"  {row.verdict.value}{f': {row.reason}' if row.reason else ''}"]
    for finding in row.findings:
        lines += ["", *_explain(finding, row.name, comparison)]
    for metric, base, new in row.shown:
        lines += ["", f"{metric}: {figure(base)} and {figure(new)}, not judged"]
    return "\n".join(lines) + "\n"


def _explain(finding: Finding, name: str, comparison: Comparison) -> list[str]:
    counter = finding.counter
    unit = f", in {counter.printed_unit}" if counter.printed_unit else ""
    lines = [
        f"{counter.name}: {finding.verdict.value}",
        f"  {counter.better.value} is better{unit}: {counter.definition}",
    ]
    for label, side in (("base", comparison.base), ("new", comparison.new)):
        lines += _samples(label, side, name, finding)
    return [
        *lines,
        f"  mean      {figure(finding.base)} and {figure(finding.new)}: geometric means, outlying"
        " launches pulled in",
        f"  change    {percent(finding.relative)}",
        f"  interval  {interval(finding)}: all intervals of a comparison hold at once in"
        f" {100 * (1 - statistics.FALSE_ALARMS):g} %",
        f"  spread    {100 * finding.error:.2f} %: standard error of the change, with"
        f" {finding.freedom:.1f} degrees of freedom, borrowed ones among them",
        f"  floor     {100 * finding.floor:.2f} %: {finding.floor_reason}; limit"
        f" {100 * finding.limit:g} %",
    ]


def _samples(label: str, side: Side, name: str, finding: Finding) -> list[str]:
    """List a side's figures, one a launch."""
    values = side.badness(finding.metric)[side.index[name]]
    return [
        f"  {label:<8}  {figure(figure_of(finding.counter, float(value))):>10}  {harmless(source)}"
        for value, source in zip(values, side.sources, strict=True)
        if np.isfinite(value)
    ]
