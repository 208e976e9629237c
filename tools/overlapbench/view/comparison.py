"""The comparison for people: a table 80 columns wide, and one benchmark in full.

The worst rows come first, and unchanged ones are folded.

A benchmark's name has its own lines and is broken at a /, never cut. The table has colour only if
the output is a terminal.
"""

import io
import math
import textwrap
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from overlapbench.judge.findings import VAST, Finding, Verdict
from overlapbench.judge.side import Side, figure_of
from overlapbench.judge.verdicts import Comparison, Row
from overlapbench.output import counted
from overlapbench.reading.names import spell_sizes
from overlapbench.reading.source import ResultError, harmless
from overlapbench.statistics import estimates

TITLES = ("metric", "base", "new", "change", "interval", "floor")
_COLOURS = {
    Verdict.SLOWER: "bold red",
    Verdict.INVALID: "red",
    Verdict.MISSING: "red",
    Verdict.INCOMPARABLE: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.FASTER: "green",
}
_WIDTH = 80
_ABOVE = f">{100 * VAST:.0f}"  # an end of an interval, in percent
_PLAIN = frozenset({Verdict.SLOWER, Verdict.FASTER})  # the figures say why


def format_table(comparison: Comparison, terminal: bool = False, every: bool = False) -> str:
    """Return the rows and the summary; `every` also lists unchanged rows."""
    rows = listed(comparison, every)
    lines = {row.name: [(f.verdict.value, *cells(f)) for f in shown(row, every)] for row in rows}
    figures = [("", *TITLES), *(line for row in lines.values() for line in row)]
    widths = [max(map(len, column)) for column in zip(*figures, strict=True)]
    gap = "  " if sum(widths) + 2 * len(widths) <= _WIDTH else " "
    blocks: list[tuple[str, str]] = []  # text and its colour
    if any(lines.values()):
        blocks.append((_aligned(("verdict", *TITLES), widths, gap), ""))
    for row in rows:
        block = [*broken(row.name), *(_aligned(line, widths, gap) for line in lines[row.name])]
        blocks.append(("\n".join(block + _reason(row)), _COLOURS.get(row.verdict, "")))
    if hidden := len(comparison.rows) - len(rows):
        told = f"{hidden} {'row is' if hidden == 1 else 'rows are'} the same (--all lists)"
        blocks.append((told, ""))
    blocks += [(_folded(sentence), "") for sentence in summary(comparison)]
    if not terminal:
        return "".join(f"{text}\n" for text, _ in blocks)
    coloured = io.StringIO()
    console = Console(file=coloured, width=_WIDTH, force_terminal=True, highlight=False)
    for text, colour in blocks:
        # Text, so that no name is read as markup.
        console.print(Text(text, colour), soft_wrap=True)
    return coloured.getvalue()


def _reason(row: Row) -> list[str]:
    """Return the reason of a row whose figures do not show it."""
    if row.verdict in _PLAIN or not row.reason:
        return []
    reason = f"{row.verdict.value}: {row.reason.removeprefix(f'{row.verdict.value}: ')}"
    return textwrap.wrap(reason, _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _folded(sentence: str) -> str:
    """Break a sentence at its spaces, but not within paths."""
    return textwrap.fill(
        sentence, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def listed(comparison: Comparison, every: bool = False) -> list[Row]:
    """Return the rows worth a line: all except unchanged rows without a reason."""
    return [
        row for row in comparison.rows if every or row.verdict is not Verdict.SAME or row.reason
    ]


def shown(row: Row, every: bool = False) -> list[Finding]:
    """Return the findings of a listed row that are worth a line."""
    told = [f for f in row.findings if every or f.verdict is not Verdict.SAME]
    return told or list(row.findings)


def summary(comparison: Comparison) -> list[str]:
    """Summarize the comparison in sentences."""
    counts = [f"{n} {verdict.value}" for verdict, n in comparison.counts.items() if n]
    sentences = [f"{counted(len(comparison.rows), 'benchmark')}: {', '.join(counts)}"]
    if not comparison.matched:
        sentences.append("nothing matched: no benchmark is in both")
    elif not comparison.guarded:
        sentences.append("nothing was decided: no row can be judged, or all are inconclusive")
    sentences += comparison.doubts
    sentences += comparison.copies
    if comparison.differences:
        sentences.append(f"base / new differ in {'; '.join(comparison.differences)}")
    sentences += _guarding(comparison)
    if not math.isnan(comparison.geometric_mean):
        sentences.append(
            f"geometric mean of the times, new / base: {comparison.geometric_mean:.4f}"
        )
    if max(len(comparison.base.sources), len(comparison.new.sources)) == 1:
        sentences.append("one launch per side: 5 per side detect smaller changes")
    return sentences


def _guarding(comparison: Comparison) -> list[str]:
    told = f"guards {len(comparison.guarded)} of {len(comparison.rows)} rows"
    if comparison.guarded:
        told += f"; found in any of them: {power(comparison.detectable)}"
    if not comparison.blind:
        return [told]
    return [told, f"guards too little: at least {100 * comparison.min_guarded:g} % are required"]


def percent(value: float) -> str:
    """Write a relative change."""
    return "" if math.isnan(value) else f"{100 * value:+.1f} %"


def _change(value: float) -> str:
    """Write a relative change in at most ten characters, unless it is extreme."""
    pct = 100 * value
    if math.isnan(value) or value < VAST:
        return percent(value)
    return f"{pct:+.0f} %" if pct < 1e6 else f"{pct:+.0e} %"


def figure(value: float) -> str:
    """Write a figure of a benchmark."""
    return "" if math.isnan(value) else f"{value:#.4g}".removesuffix(".")


def interval(finding: Finding) -> str:
    """Write a confidence interval of the figures, low end first."""
    low, high = finding.interval
    if math.isnan(low):
        return ""
    if math.isinf(finding.reach):
        return "unknown"
    ends = (
        f"{100 * end:+.{1 if end < 1 else 0}f}" if end < VAST else _ABOVE for end in (low, high)
    )
    return f"{' to '.join(ends)} %"


def power(changes: Sequence[float]) -> str:
    """Write the changes that are found with each probability."""
    pairs = zip(changes, estimates.POWERS, strict=True)
    told = ", ".join(f"{_share(change)} in {100 * p:.0f} %" for change, p in pairs)
    return f"{told} of cases or more"


def _share(value: float) -> str:
    """Write a relative change without its sign."""
    if math.isinf(value):
        return "unknown"
    return f"{100 * value:.1f} %" if value < VAST else f"{_ABOVE} %"


def cells(finding: Finding) -> tuple[str, ...]:
    """Write a finding, in the order of TITLES."""
    return (
        finding.counter.label,
        figure(finding.base),
        figure(finding.new),
        _change(finding.relative),
        interval(finding),
        "vast" if VAST <= finding.floor < math.inf else _share(finding.floor),
    )


def _aligned(line: Sequence[str], widths: Sequence[int], gap: str) -> str:
    """Align a line of figures: verdict and metric to the left, figures to the right."""
    left = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
    right = [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
    return ("  " + gap.join((*left, *right))).rstrip()


def broken(name: str, width: int = _WIDTH, indented: str = "    ") -> list[str]:
    """Break a name into lines, after a / if there is one."""
    lines: list[str] = []
    while name or not lines:
        indent = indented if lines and len(indented) < width else ""
        room = width - len(indent)
        end = len(name) if len(name) <= room else name.rfind("/", 0, room) + 1 or room
        lines.append(indent + name[:end])
        name = name[end:]
    return lines


# ---- one benchmark in full: its samples, the test, and the floor


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
        f" {100 * (1 - estimates.PROMISED):g} % of comparisons",
        f"  spread    {100 * finding.error:.2f} %: standard error of the change, with"
        f" {finding.freedom:.1f} degrees of freedom, including borrowed ones",
        f"  floor     {100 * finding.floor:.2f} %: {finding.floor_reason}; limit"
        f" {100 * finding.limit:g} %",
        f"  power     {power(finding.detectable)}: the change that is found",
    ]


def _samples(label: str, side: Side, name: str, finding: Finding) -> list[str]:
    """List a side's figures, one per launch."""
    values = side.badness(finding.metric)[side.index[name]]
    return [
        f"  {label:<8}  {figure(figure_of(finding.counter, float(value))):>10}  {harmless(source)}"
        for value, source in zip(values, side.sources, strict=True)
        if np.isfinite(value)
    ]
