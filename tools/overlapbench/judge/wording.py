"""A comparison in words and figures, for every form in which it is shown."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from overlapbench.judge.judgements import VAST, Judgement, Verdict
from overlapbench.output import counted
from overlapbench.reading.rows import html_table
from overlapbench.statistics.estimates import POWERS
from overlapbench.statistics.intervals import digits

if TYPE_CHECKING:
    from overlapbench.judge.side import Side
    from overlapbench.judge.verdicts import Comparison, Row

HEADS = ("metric", "base", "new", "change", "interval", "floor")  # of `cells`
_VERSIONS = {"driver": "driver_version", "NCCL": "nccl_version"}
_ABOVE = f">{100 * VAST:.0f}"  # an end of an interval, in percent


def listed(comparison: "Comparison", every: bool = False) -> "list[Row]":
    """Return the rows worth a line: all except unchanged rows without a reason."""
    return [
        row for row in comparison.rows if every or row.verdict is not Verdict.SAME or row.reason
    ]


def shown(row: "Row", every: bool = False) -> list[Judgement]:
    """Return the judgements of a listed row that are worth a line."""
    told = [f for f in row.judgements if every or f.verdict is not Verdict.SAME]
    return told or list(row.judgements)


def lines(comparison: "Comparison", every: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield a line per judgement: verdict, name and reason, if it is a row's first, and cells."""
    for row in listed(comparison, every):
        first = row.verdict.value, row.name, row.reason
        for figures in [cells(one) for one in shown(row, every)] or [("",) * len(HEADS)]:
            yield (*first, *figures)
            first = ("", "", "")


def html_of(comparison: "Comparison") -> str:
    """Return a table for notebooks."""
    heads, told = ("verdict", "benchmark", "reason", *HEADS), [*lines(comparison)]
    said = "<br>".join(map(escape, summary(comparison)))
    return f"<p>{said}</p>" + (html_table(heads, told) if told else "")


def summary(comparison: "Comparison") -> list[str]:
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
        sentences.append("one run per side: 5 per side detect smaller changes")
    return sentences


def headline(comparison: "Comparison") -> str:
    """Say in a few words what the exit status means."""
    counts = Counter(row.verdict for row in comparison.rows if row.fails)
    if counts:
        told = ", ".join(f"{counts[one]} {one.value}" for one in Verdict if counts[one])
        return f"{told} of {counted(len(comparison.rows), 'benchmark')}"
    if comparison.doubts:
        return "a run is incomplete, or not to be trusted"
    if comparison.blind or not comparison.guarded:
        return "too little can be told"
    return "nothing is worse"


def machine_of(side: "Side") -> str:
    """Name the machine of a side: its GPUs, versions and host."""
    what = {key: " and ".join(sorted(values - {""})) for key, values in side.context.items()}
    words = [" × ".join(filter(None, [what.get("ranks"), what.get("device")]))]
    words += [f"{key} {what[name]}" for key, name in _VERSIONS.items() if what.get(name)]
    return ", ".join(filter(None, [*words, what.get("hosts")]))


def _guarding(comparison: "Comparison") -> list[str]:
    told = f"guards {len(comparison.guarded)} of {len(comparison.rows)} rows"
    if comparison.guarded:
        told += f"; found in any of them: {power(comparison.detectable)}"
    if not comparison.blind:
        return [told]
    return [told, f"guards too little: at least {100 * comparison.min_guarded:g} % are required"]


def cells(judgement: Judgement) -> tuple[str, ...]:
    """Write a judgement, in the order of HEADS."""
    return (
        judgement.counter.label,
        digits(judgement.base),
        digits(judgement.new),
        _change(judgement.relative),
        interval(judgement),
        "vast" if VAST <= judgement.floor < math.inf else _share(judgement.floor),
    )


def percent(value: float) -> str:
    """Write a relative change."""
    return "" if math.isnan(value) else f"{100 * value:+.1f} %"


def _change(value: float) -> str:
    """Write a relative change in at most ten characters, unless it is extreme."""
    pct = 100 * value
    if math.isnan(value) or value < VAST:
        return percent(value)
    return f"{pct:+.0f} %" if pct < 1e6 else f"{pct:+.0e} %"


def interval(judgement: Judgement) -> str:
    """Write a confidence interval of the figures, low end first."""
    low, high = judgement.interval
    if math.isnan(low):
        return "" if math.isnan(judgement.change) else "unknown"
    ends = (
        f"{100 * end:+.{1 if end < 1 else 0}f}" if end < VAST else _ABOVE for end in (low, high)
    )
    return f"{' to '.join(ends)} %"


def power(changes: Sequence[float]) -> str:
    """Write the changes that are found with each probability."""
    pairs = zip(changes, POWERS, strict=True)
    told = ", ".join(f"{_share(change)} in {100 * p:.0f} %" for change, p in pairs)
    return f"{told} of cases or more"


def _share(value: float) -> str:
    """Write a relative change without its sign."""
    if math.isinf(value):
        return "unknown"
    return f"{100 * value:.1f} %" if value < VAST else f"{_ABOVE} %"
