"""A finding: one sentence with its figure, the figures behind it, and what to change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from overlapbench.output import Wrapper

LEAST = 0.02  # of the time: a smaller saving is not worth a change
MOST = 7  # findings of a run
_TOLD = ("rule", "sentence", "reason", "action", "ways", "saves", "row", "file", "machine")


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
    machine: str = ""  # for which it holds: "2 × NVIDIA H200"

    def to_dict(self) -> dict[str, Any]:
        told = vars(self) | {"ways": list(self.ways), "saves": vars(self.saving)}
        return {key: told[key] for key in _TOLD}


def largest(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings to show, those that surely save most first."""
    return sorted(findings, key=lambda one: -one.saving.low)[:MOST]


def text_of(findings: Sequence[Finding], width: int = 100, *, whole: bool = False) -> str:
    """Write findings as a numbered list, with the first way to make a change, or with all.

    "" without any. Names are broken after a slash. With another number of ranks, other findings may
    hold, so the machine stands above them, or beside each if they differ.
    """
    machines = sorted({one.machine for one in findings})
    head = "Findings" + (f" ({machines[0]})" if len(machines) == 1 and machines[0] else "")
    lines = [head] if findings else []
    for number, one in enumerate(findings, 1):
        lines += _folded(f"{number:>2}. ", one.sentence, width)
        machine = one.machine if len(machines) > 1 else ""
        why = ": ".join(filter(None, (machine, one.row, one.reason)))
        lines += _folded("    why  ", why, width)
        lines += _folded("    do   ", one.action, width)
        for way in one.ways if whole else one.ways[:1]:
            lines += _folded("         ", way, width)
    if any(one.ways for one in findings) and not whole:
        lines.append("docs/apply.md says how to make these changes in other libraries.")
    return "".join(f"{line}\n" for line in lines)


def _folded(head: str, text: str, width: int) -> list[str]:
    indent = " " * len(head)
    return Wrapper(width, initial_indent=head, subsequent_indent=indent).wrap(text)
