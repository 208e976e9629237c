"""The comparison as a table for people; colour only where the output is a terminal."""

import io
import math
import shutil

from rich.console import Console
from rich.table import Table
from rich.text import Text

from overlapbench.compare.findings import Finding, Verdict
from overlapbench.compare.verdicts import VAST_FLOOR, Comparison, Row

_COLOURS = {
    Verdict.REGRESSED: "bold red",
    Verdict.INVALID: "red",
    Verdict.MISSING: "red",
    Verdict.INCOMPARABLE: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.IMPROVED: "green",
}
_MOST_LISTED = 200  # of more, those that are the same are counted only
_WIDTH = 140  # where the output is no terminal


def format_table(comparison: Comparison, terminal: bool = False) -> str:
    """Return the rows and the summary, for a terminal in its width and in colour."""
    text = io.StringIO()
    width = shutil.get_terminal_size().columns if terminal else _WIDTH
    console = Console(file=text, width=width, force_terminal=terminal, highlight=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("verdict")
    table.add_column("benchmark", overflow="fold", ratio=1)
    for title in ("metric", "base", "new", "change", "95 % interval", "floor"):
        table.add_column(title, justify="left" if title == "metric" else "right", no_wrap=True)
    rows = [row for row in comparison.rows if row.verdict is not Verdict.SAME]
    listed = comparison.rows if len(comparison.rows) <= _MOST_LISTED else rows
    for row in listed:
        for line in _lines(row):
            # Text, so that no name is read as markup.
            table.add_row(*(Text(cell, style=_COLOURS.get(row.verdict, "")) for cell in line))
    console.print(table)
    if hidden := len(comparison.rows) - len(listed):
        console.print(f"the same, and not listed: {hidden}")
    for sentence in summary(comparison):
        console.print(Text(sentence), soft_wrap=True)
    return text.getvalue()


def summary(comparison: Comparison) -> list[str]:
    """Say in sentences what it comes to."""
    counts = [f"{n} {verdict.value}" for verdict, n in comparison.counts.items() if n]
    sentences = [f"{len(comparison.rows)} benchmarks: {', '.join(counts)}"]
    if not comparison.matched:
        sentences.append("nothing matched: no benchmark is in both")
    sentences += [f"incomplete: {line}" for line in comparison.incomplete]
    if comparison.differences:
        sentences.append(f"base / new differ in {'; '.join(comparison.differences)}")
    if not math.isnan(comparison.geometric_mean):
        sentences.append(
            f"geometric mean of the times, new / base: {comparison.geometric_mean:.4f}"
        )
    launches = len(comparison.base.sources), len(comparison.new.sources)
    if max(launches) == 1:
        sentences.append("one launch a side: changes cannot be told from noise; 5 a side can")
    if comparison.vast_floors:
        sentences.append(
            f"rows with a floor above {100 * VAST_FLOOR:.0f} %, hardly guarded:"
            f" {comparison.vast_floors}"
        )
    return sentences


def percent(value: float) -> str:
    """Write a relative change."""
    return "" if math.isnan(value) else f"{100 * value:+.1f} %"


def figure(value: float) -> str:
    """Write a figure of a benchmark."""
    return "" if math.isnan(value) else f"{value:.4g}"


def interval(finding: Finding) -> str:
    """Write a confidence interval as it shows in the figures, low end first."""
    if math.isnan(finding.low):
        return "unknown"
    ends = sorted((finding.natural(finding.low), finding.natural(finding.high)))
    return f"{percent(ends[0])} to {percent(ends[1])}"


def cells(finding: Finding) -> tuple[str, ...]:
    """Write a finding: metric, base, new, change, interval, floor."""
    return (
        finding.metric + (" ms" if finding.metric == "time" else ""),
        figure(finding.base),
        figure(finding.new),
        percent(finding.natural(finding.change)),
        interval(finding),
        f"{100 * finding.floor:.1f} %" if not math.isnan(finding.floor) else "",
    )


def _lines(row: Row) -> list[tuple[str, ...]]:
    """One line for the benchmark with its first metric, one for each other metric."""
    if not row.findings:
        return [(row.verdict.value, f"{row.name}\n  {row.reason}", *[""] * 6)]
    lines = [("", f"  {f.verdict.value}", *cells(f)) for f in row.findings]
    name = row.name + (f"\n  {row.reason}" if row.reason else "")
    lines[0] = (row.verdict.value, name, *lines[0][2:])
    for metric, base, new in row.shown:
        lines.append(("", "", metric, figure(base), figure(new), percent(new / base - 1), "", ""))
    return lines
