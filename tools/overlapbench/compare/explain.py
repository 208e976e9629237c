"""One benchmark in full: its samples, the test, and the floor."""

import math

import numpy as np

from overlapbench.compare import statistics
from overlapbench.compare.findings import Finding
from overlapbench.compare.side import Side
from overlapbench.compare.table import figure, interval, percent
from overlapbench.compare.verdicts import Comparison
from overlapbench.source import ResultError, harmless


def explain(comparison: Comparison, wanted: str) -> str:
    """Explain the benchmark of this name, or the only one whose name contains it."""
    rows = [row for row in comparison.rows if row.name == wanted]
    rows = rows or [row for row in comparison.rows if wanted in row.name]
    if len(rows) != 1:
        found = "no benchmark has" if not rows else f"{len(rows)} benchmarks have"
        example = f", for example {rows[0].name}" if rows else ""
        raise ResultError(f"--explain: {found} {wanted!r} in the name{example}")
    (row,) = rows
    lines = [row.name, f"  {row.verdict.value}{f': {row.reason}' if row.reason else ''}"]
    for finding in row.findings:
        lines += ["", *_explain(finding, row.name, comparison)]
    return "\n".join(lines) + "\n"


def _explain(finding: Finding, name: str, comparison: Comparison) -> list[str]:
    kind = "a share of T" if finding.metric == "efficiency" else "relative"
    lines = [f"{finding.metric}: {finding.verdict.value}"]
    for label, side in (("base", comparison.base), ("new", comparison.new)):
        lines += _samples(label, side, name, finding.metric)
    lines += [
        f"  change    {percent(finding.natural(finding.change))} ({kind}),"
        f" 95 % interval {interval(finding)}",
        f"  floor     {100 * finding.floor:.2f} %: {finding.floor_reason}",
    ]
    if math.isnan(finding.p):
        return [*lines, "  test      none: one side needs two launches at least"]
    return [
        *lines,
        f"  spread    {100 * finding.error:.2f} %: standard error of the change, with"
        f" {finding.freedom:.1f} degrees of freedom, borrowed ones among them",
        f"  test      p = {finding.p:.2g} of being at most 1 % worse; among what is found in all"
        f" benchmarks, {100 * statistics.FALSE_DISCOVERIES:g} % may be false",
    ]


def _samples(label: str, side: Side, name: str, metric: str) -> list[str]:
    """List a side's figures, one a launch."""
    values = side.values[metric][side.index[name]]
    return [
        f"  {label:<8}  {figure(float(value)):>10}  {harmless(source)}"
        for value, source in zip(values, side.sources, strict=True)
        if np.isfinite(value)
    ]
