"""A finding: one sentence with its figure, the figures behind it, and what to change."""

import math
import re
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

LEAST = 0.02  # of the time: a smaller saving is not worth a change
MOST = 7  # findings of a run
_SIDE = 0.025  # of a 95 % interval, outside it
_QUANTILE = statistics.NormalDist().inv_cdf(1 - _SIDE)


@dataclass(frozen=True)
class Saving:
    """A share of the time, with the ends of its 95 % interval."""

    share: float
    low: float
    high: float
    at_most: bool = False  # an upper bound, not another row's measured time

    def __str__(self) -> str:
        ends = f"{100 * self.low:.1f} to {100 * self.high:.1f} %"
        if self.at_most:
            return f"at most {100 * self.share:.1f} % ({ends})"
        return ends

    @property
    def matters(self) -> bool:
        return self.low > LEAST


@dataclass(frozen=True)
class Finding:
    """What to change, and why."""

    rule: str
    sentence: str
    reason: str
    action: str
    saving: Saving
    row: str = ""  # the name of the row, or the file of the trace
    file: str = ""
    ways: Sequence[str] = ()  # how it is done today: "PyTorch: ..."

    def to_dict(self) -> dict[str, Any]:
        saving = self.saving
        return {
            "rule": self.rule,
            "sentence": self.sentence,
            "reason": self.reason,
            "action": self.action,
            "ways": list(self.ways),
            "saves": {
                "share": saving.share,
                "low": saving.low,
                "high": saving.high,
                "at_most": saving.at_most,
            },
            "row": self.row,
            "file": self.file,
        }


def largest(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings to show, those that surely save most first."""
    return sorted(findings, key=lambda one: -one.saving.low)[:MOST]


def widened(interval: tuple[float, float], value: float, of: int) -> tuple[float, float]:
    """Return the interval of a figure that is the most striking one `of` many.

    Each of them may be outside its own interval: all are inside these (Bonferroni).
    """
    factor = statistics.NormalDist().inv_cdf(1 - _SIDE / max(1, of)) / _QUANTILE
    low, high = interval
    return value - factor * (value - low), value + factor * (high - value)


def proportion(count: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a probability (E. B. Wilson, 1927, J. Am. Stat. Assoc. 22)."""
    square, share = _QUANTILE**2, count / of
    middle = (share + square / (2 * of)) / (1 + square / of)
    reach = math.sqrt(share * (1 - share) / of + square / (4 * of**2)) / (1 + square / of)
    return middle - _QUANTILE * reach, middle + _QUANTILE * reach


class _Wrapper(textwrap.TextWrapper):
    wordsep_re = re.compile(r"(\s+|(?<=/))")


def text_of(findings: Sequence[Finding], width: int = 100, *, whole: bool = False) -> str:
    """Write findings as a numbered list, with the first way to make a change, or with all.

    "" without any. Names are broken after a slash.
    """
    lines = ["Findings"] if findings else []
    for number, one in enumerate(findings, 1):
        lines += _folded(f"{number:>2}. ", one.sentence, width)
        why = ": ".join(filter(None, (one.row, one.reason)))
        lines += _folded("    why  ", why, width)
        lines += _folded("    do   ", one.action, width)
        for way in one.ways if whole else one.ways[:1]:
            lines += _folded("         ", way, width)
    if any(one.ways for one in findings) and not whole:
        lines.append("docs/apply.md says how to make these changes in other libraries.")
    return "".join(f"{line}\n" for line in lines)


def _folded(head: str, text: str, width: int) -> list[str]:
    indent = " " * len(head)
    return _Wrapper(width, initial_indent=head, subsequent_indent=indent).wrap(text)
