"""Two traces compared: where did the time go?

All times are per window (a step, a sample, or the whole trace) and means over the ranks, so that
recordings of different lengths and numbers of ranks compare.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from overlapbench.output import counted
from overlapbench.reading.source import harmless
from overlapbench.traces.breakdown import PARTS, Breakdown
from overlapbench.traces.idle import Cause, Part
from overlapbench.view.breakdown import fold, shortened

_MOST_NAMES = 10
_LABEL = 45  # characters

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
    changes = []
    for group, figures in _GROUPS.items():
        sides = _mean(before, figures), _mean(after, figures)
        if not all(sides):
            continue
        names = dict.fromkeys([*sides[0], *sides[1]])
        found = [
            Change(group, n, sides[0].get(n, 0) / 1e6, sides[1].get(n, 0) / 1e6) for n in names
        ]
        found = [one for one in found if one.before_ms or one.after_ms]
        if group == _BY_NAME:
            found.sort(key=lambda one: (-abs(one.change_ms), one.name))
            found = [one for one in found if one.change_ms][:_MOST_NAMES]
        changes += found
    return changes


def _parts(one: Breakdown) -> Figures:
    return {"T": one.total_ns} | {_title(part): one.parts_ns[part] for part in PARTS}


def _communication(one: Breakdown) -> Figures:
    if one.waiting is None:
        return {}
    known = one.waiting.waiting_ns, one.waiting.moving_ns
    titles = "waiting for the last rank to arrive", "moving data", "unmatched"
    return dict(zip(titles, (*known, one.waiting.total_ns - sum(known)), strict=True))


def _by_name(one: Breakdown) -> Figures:
    return {f"{kind} {harmless(name)}": ns for (kind, name), ns in one.work_ns.items()}


_BY_NAME = "the largest changes by name, times of parallel spans added"
_GROUPS: Mapping[str, Callable[[Breakdown], Figures]] = {
    "T, and its parts": _parts,
    "all communication": _communication,
    _BY_NAME: _by_name,
}


def _title(part: Part) -> str:
    if isinstance(part, Cause):
        return f"idle: {part.value}"
    return f"{part[0]} only" if len(part) == 1 else "+".join(part)


def _mean(ranks: Sequence[Breakdown], figures: Callable[[Breakdown], Figures]) -> Figures:
    """Return the mean over the ranks of each figure per window."""
    total: dict[str, float] = {}
    for one in ranks:
        for name, ns in figures(one).items():
            total[name] = total.get(name, 0) + ns / one.windows / len(ranks)
    return total


def render(before: Sequence[Breakdown], after: Sequence[Breakdown]) -> str:
    """Write all changes as one table of 80 columns."""
    return "\n".join(_lines(before, after)) + "\n"


def _lines(before: Sequence[Breakdown], after: Sequence[Breakdown]) -> Iterator[str]:
    for side, ranks in (("before", before), ("after", after)):
        yield from fold(f"{side}: {ranks[0].window}, {counted(len(ranks), 'rank')}", "")
    yield ""
    yield f"{'ms per window, mean of the ranks':{_LABEL}}{'before':>11}{'after':>11}{'change':>12}"
    group = ""
    for change in compare(before, after):
        if change.group != group:
            yield ""
            yield f"{change.group}:"
            group = change.group
        name = shortened(f"  {change.name}", _LABEL)
        times = f"{change.before_ms:11.3f}{change.after_ms:11.3f}{change.change_ms:+12.3f}"
        yield f"{name:{_LABEL}}{times}"
    notes = dict.fromkeys(note for one in (*before, *after) for note in one.notes)
    for note in notes:
        yield ""
        yield from fold(f"note: {note}", "  ")


def to_json(before: Sequence[Breakdown], after: Sequence[Breakdown]) -> list[dict[str, object]]:
    """Return all changes for a file."""
    return [asdict(change) | {"change_ms": change.change_ms} for change in compare(before, after)]
