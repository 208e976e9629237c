"""Two traces compared: where did the time go?

All times are per window (a step, a sample, or the whole trace) and means over the ranks, so that
recordings of different lengths and numbers of ranks compare.
"""

from collections.abc import Iterator, Mapping, Sequence

from overlapbench.output import counted, harmless
from overlapbench.traces.breakdown import PARTS, Breakdown
from overlapbench.traces.idle import Cause, Part
from overlapbench.view.console import Entry, Screen, paragraph, shortened, table

_MOST_NAMES = 10
_FIGURES = 36  # characters beside a name
_BY_NAME = "the largest changes by name, times of parallel spans added"

Figures = Mapping[str, float]  # in nanoseconds, by what takes the time
Change = tuple[str, float, float, float]  # what takes the time; ms before, after, and the change


def compare(before: Sequence[Breakdown], after: Sequence[Breakdown]) -> Mapping[str, list[Change]]:
    """Return T, its parts, those of communication, and the names whose times changed most."""
    olds, news = _mean(before), _mean(after)
    groups: dict[str, list[Change]] = {}
    for group in (one for one in olds if olds[one] and news.get(one)):
        times = (
            (name, olds[group].get(name, 0) / 1e6, news[group].get(name, 0) / 1e6)
            for name in olds[group] | news[group]
        )
        changes = [(name, old, new, new - old) for name, old, new in times if old or new]
        if group == _BY_NAME:
            changes.sort(key=lambda one: (-abs(one[-1]), one[0]))
            changes = [one for one in changes if one[-1]][:_MOST_NAMES]
        groups[group] = changes
    return groups


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
    for group, changes in compare(before, after).items():
        rows = [
            Entry(shortened(name, screen.width - _FIGURES), [(f"{a:.3f}", f"{b:.3f}", f"{c:+.3f}")])
            for name, a, b, c in changes
        ]
        heads = ("before", "after", "change")
        parts.append(f"{group}:\n{table(screen, heads, rows, words=0)}".rstrip("\n"))
    notes = dict.fromkeys(note for one in (*before, *after) for note in one.notes)
    parts += [paragraph(f"note: {note}", screen, "  ") for note in notes]
    return "\n\n".join(parts) + "\n"


def to_json(before: Sequence[Breakdown], after: Sequence[Breakdown]) -> Iterator[dict[str, object]]:
    """Yield all changes for a file."""
    for group, changes in compare(before, after).items():
        for name, old, new, change in changes:
            times = {"before_ms": old, "after_ms": new, "change_ms": change}
            yield {"group": group, "name": name, **times}
