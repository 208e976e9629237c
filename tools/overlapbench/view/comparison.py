"""A comparison as a table, worst rows first and unchanged ones folded; one benchmark in full."""

import numpy as np

from overlapbench.judge.findings import Finding, Verdict
from overlapbench.judge.side import Side, figure_of
from overlapbench.judge.verdicts import Comparison, Row
from overlapbench.judge.wording import (
    HEADS,
    cells,
    figure,
    interval,
    listed,
    percent,
    power,
    shown,
    summary,
)
from overlapbench.output import ResultError, harmless
from overlapbench.reading.names import spell_sizes
from overlapbench.statistics.estimates import PROMISED
from overlapbench.view.console import Entry, Screen, folded, table

_COLOURS = {
    Verdict.SLOWER: "bold red",
    Verdict.INVALID: "red",
    Verdict.MISSING: "red",
    Verdict.INCOMPARABLE: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.FASTER: "green",
}
_PLAIN = frozenset({Verdict.SLOWER, Verdict.FASTER})  # the figures say why
_FILE = Screen()


def format_table(comparison: Comparison, screen: Screen = _FILE, every: bool = False) -> str:
    """Return the rows and the summary; `every` also lists unchanged rows."""
    rows = listed(comparison, every)
    entries = [
        Entry(
            row.name,
            [(f.verdict.value, *cells(f)) for f in shown(row, every)],
            _note(row),
            _COLOURS.get(row.verdict, ""),
        )
        for row in rows
    ]
    sentences = summary(comparison)
    if hidden := len(comparison.rows) - len(rows):
        told = f"{hidden} {'row is' if hidden == 1 else 'rows are'} the same (--all lists)"
        sentences.insert(0, told)
    text = table(screen, ("verdict", *HEADS), entries, words=2, title="benchmark")
    return text + "".join(f"{folded(sentence, screen)}\n" for sentence in sentences)


def _note(row: Row) -> str:
    """Return the reason of a row whose figures do not show it."""
    if row.verdict in _PLAIN or not row.reason:
        return ""
    return f"{row.verdict.value}: {row.reason.removeprefix(f'{row.verdict.value}: ')}"


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
        f" {100 * (1 - PROMISED):g} % of comparisons",
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
