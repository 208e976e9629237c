"""Two traces compared: where did the time go?

All times are per window (a step, a sample, or the whole trace) and means over the ranks, so that
recordings of different lengths and numbers of ranks compare.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from overlapbench.grouping import grouped
from overlapbench.output import counted, harmless
from overlapbench.traces.breakdown import PARTS, Breakdown
from overlapbench.traces.idle import Cause, Part
from overlapbench.view.console import Entry, Screen, paragraph, shortened, table

_MOST_NAMES = 10
_FIGURES = 36  # characters beside a name
_BY_NAME = "the largest changes by name, times of parallel spans added"

Figures = Mapping[str, float]  # in nanoseconds, by what takes the time


@dataclass(frozen=True)
class Change:
    """A time in both traces."""

    group: str
    name: str
    before_ms: float
    after_ms: float

    @property
    def change_ms(self) -> float:
        return self.after_ms - self.before_ms


def compare(before: Sequence[Breakdown], after: Sequence[Breakdown]) -> list[Change]:
    """Return T, its parts, those of communication, and the names whose times changed most."""
    changes: list[Change] = []
    olds, news = _mean(before), _mean(after)
    for group in (one for one in olds if olds[one] and news.get(one)):
        old, new = olds[group], news[group]
        found = [
            Change(group, name, old.get(name, 0) / 1e6, new.get(name, 0) / 1e6)
            for name in old | new
            if old.get(name) or new.get(name)
        ]
        if group == _BY_NAME:
            found.sort(key=lambda one: (-abs(one.change_ms), one.name))
            found = [one for one in found if one.change_ms][:_MOST_NAMES]
        changes += found
    return changes


def _figures(one: Breakdown) -> Mapping[str, Figures]:
    """Return what takes a rank's time, in groups."""
    communication: Figures = {}
    if waiting := one.waiting:
        communication = {
            "waiting for the last rank to arrive": waiting.waiting_ns,
            "moving data": waiting.moving_ns,
            "unmatched": waiting.total_ns - waiting.waiting_ns - waiting.moving_ns,
        }
    return {
        "T, and its parts": {"T": one.total_ns} | {_title(p): one.parts_ns[p] for p in PARTS},
        "all communication": communication,
        _BY_NAME: {f"{kind} {harmless(name)}": ns for (kind, name), ns in one.work_ns.items()},
    }


def _title(part: Part) -> str:
    if isinstance(part, Cause):
        return f"idle: {part.value}"
    return f"{part[0]} only" if len(part) == 1 else "+".join(part)


def _mean(ranks: Sequence[Breakdown]) -> Mapping[str, dict[str, float]]:
    """Return the mean over the ranks of each figure per window, in groups."""
    total: dict[str, dict[str, float]] = {}
    for one in ranks:
        for group, figures in _figures(one).items():
            sums = total.setdefault(group, {})
            for name, ns in figures.items():
                sums[name] = sums.get(name, 0) + ns / one.windows / len(ranks)
    return total


def render(before: Sequence[Breakdown], after: Sequence[Breakdown], screen: Screen) -> str:
    """Write a table of the changes in each group, and the notes of both sides."""
    sides = [
        paragraph(f"{side}: {ranks[0].window}, {counted(len(ranks), 'rank')}", screen)
        for side, ranks in (("before", before), ("after", after))
    ]
    parts = ["\n".join([*sides, "Times are in ms per window, and means of the ranks."])]
    for group, changes in grouped(compare(before, after), lambda one: one.group).items():
        rows = []
        for one in changes:
            times = f"{one.before_ms:.3f}", f"{one.after_ms:.3f}", f"{one.change_ms:+.3f}"
            rows.append(Entry(shortened(one.name, screen.width - _FIGURES), [times]))
        heads = ("before", "after", "change")
        parts.append(f"{group}:\n{table(screen, heads, rows, words=0)}".rstrip("\n"))
    notes = dict.fromkeys(note for one in (*before, *after) for note in one.notes)
    parts += [paragraph(f"note: {note}", screen, "  ") for note in notes]
    return "\n\n".join(parts) + "\n"


def to_json(before: Sequence[Breakdown], after: Sequence[Breakdown]) -> list[dict[str, object]]:
    """Return all changes for a file."""
    return [asdict(change) | {"change_ms": change.change_ms} for change in compare(before, after)]
