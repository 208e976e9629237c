"""One step of all ranks as a timeline: lanes, bars, arrows and the longest path, ready to be drawn.

Of several steps or samples, the one of median length is used; of an even number, the shorter of the
two in the middle. T is its length on the rank where it is longest. All ranks share a clock that
starts with the first rank's step. If their files share none, each rank's clock starts with its own
step, and a note says so.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from pathlib import Path

from overlapbench.output import ResultError, harmless, numerically
from overlapbench.traces.breakdown import Breakdown, break_down
from overlapbench.traces.collectives import Work
from overlapbench.traces.model import WORK, Span, Trace, Window
from overlapbench.traces.path import longest_path, waits_for_ranks, waits_for_sms
from overlapbench.traces.windows import candidates

MOST_ROWS = 12  # of a picture, or a page
FOR_SMS = "SMs"  # the kind of bars that are waits for SMs
_NO_CLOCK = "The ranks' files share no clock: each rank begins at 0."
_NO_ARROWS = "The trace records no dependencies, so there is no longest path."


@dataclass(frozen=True)
class Lane:
    """A stream of a rank."""

    rank: int
    name: str


@dataclass(frozen=True)
class Bar:
    """A span, or several that are indistinguishable; times are relative to the picture's begin."""

    lane: Lane
    span: Span  # the first
    since_ns: int  # its begin; the next two exclude the time before and after T
    begin_ns: int
    end_ns: int
    busy_ns: int  # of all
    count: int = 1
    on_path: bool = False
    waited_ns: int = 0  # just before, for SMs
    is_wait: bool = False  # the bar is that wait

    @property
    def kind(self) -> str:
        """The class, or FOR_SMS."""
        return FOR_SMS if self.is_wait else self.span.kind


@dataclass(frozen=True)
class Link:
    """An arrow, or a piece of the longest path between two works.

    It leads from the end of one to the begin of the other. If both are parts of one communication,
    it leads from the begin of the part that began last to the other, which waits for it.
    """

    source: Bar
    target: Bar
    on_path: bool
    in_communication: bool = False

    @property
    def leaves_ns(self) -> int:
        if self.in_communication:
            return self.source.begin_ns
        return min(self.source.end_ns, self.target.begin_ns)  # it may have held SMs to its end

    @property
    def reaches_ns(self) -> int:
        return self.source.begin_ns if self.in_communication else self.target.begin_ns


@dataclass(frozen=True)
class Timeline:
    """The drawing of one row, or of one run of another tool."""

    row: str  # the file, in traces of other tools
    window: str
    total_ns: int  # T
    length_ns: int  # from the first rank's begin to the last one's end
    backend: str
    lanes: Sequence[Lane]
    bars: Sequence[Bar]  # work, and what holds it back, by lane and begin
    links: Sequence[Link]
    path: Sequence[Bar]
    breakdowns: Sequence[Breakdown]
    notes: Sequence[str]

    @property
    def ranks(self) -> int:
        return len({lane.rank for lane in self.lanes})


def make_timelines(
    rows: Mapping[str, Sequence[Trace]], step: int | None = None, pattern: str | None = None
) -> tuple[list[Timeline], list[str]]:
    """Make the timelines of the first rows, and name the omitted ones."""
    chosen, left_out = [*rows][:MOST_ROWS], [*rows][MOST_ROWS:]
    timelines = [make_timeline(rows[row], step, pattern) for row in chosen]
    return timelines, [harmless(row) or "traces of other tools" for row in left_out]


def make_timeline(
    ranks: Sequence[Trace], step: int | None = None, pattern: str | None = None
) -> Timeline:
    """Make the timeline of one step of all ranks; ResultError if they share none."""
    name, windows = _median(ranks, step, pattern)
    joint = all(trace.common_clock for trace in ranks)
    first_ns = min(window.begin_ns for window in windows)
    origins = [first_ns if joint else window.begin_ns for window in windows]
    bars = {
        (place, index): _bar(trace, index, window, origin)
        for place, (trace, window, origin) in enumerate(zip(ranks, windows, origins, strict=True))
        for index in _within(trace, window)
    }
    if not bars:
        raise ResultError(f"{ranks[0].source}: {name}: no device work")
    works = {work: bar.span for work, bar in bars.items() if bar.span.kind in WORK}
    held = waits_for_sms(ranks, works)
    path = longest_path(ranks, works, held)
    for work in path:
        bars[work] = replace(bars[work], on_path=True)
    for work, (_, since_ns) in held.items():
        bars[work] = replace(bars[work], waited_ns=works[work].begin_ns - since_ns)
    links = _links(ranks, bars, path)
    if joint:
        links += [
            Link(bars[last], bars[other], on_path=False, in_communication=True)
            for last, other in waits_for_ranks(works)
        ]
    shown = [*bars.values(), *(_wait(bar) for bar in bars.values() if bar.waited_ns)]
    in_lanes = sorted(shown, key=lambda b: (b.lane.rank, numerically(b.lane.name), b.begin_ns))
    drawn = [
        replace(trace, windows=(replace(window, number=0),))
        for trace, window in zip(ranks, windows, strict=True)
    ]
    return Timeline(
        ranks[0].row or _files(ranks),
        name,
        _longest_ns(windows),
        max(w.end_ns - origin for w, origin in zip(windows, origins, strict=True)),
        ranks[0].backend,
        list(dict.fromkeys(bar.lane for bar in in_lanes)),
        in_lanes,
        links,
        [bars[work] for work in path],
        break_down(drawn),
        _notes(ranks, joint),
    )


def _files(ranks: Sequence[Trace]) -> str:
    names = list(dict.fromkeys(Path(trace.source).name for trace in ranks))
    return f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]


def _median(
    ranks: Sequence[Trace], step: int | None, pattern: str | None
) -> tuple[str, list[Window]]:
    """Return the name of the step drawn, and its window on each rank."""
    found = [_keyed(candidates(trace, step, pattern)) for trace in ranks]
    common = [[one[key] for one in found] for key in found[0] if all(key in one for one in found)]
    if not common:
        raise ResultError(f"{ranks[0].source}: the ranks have no step in common")
    windows = sorted(common, key=_longest_ns)[(len(common) - 1) // 2]
    own, number = bool(ranks[0].row), windows[0].number
    name = f"sample {number}" if own and number is not None else windows[0].name
    if _longest_ns(windows) == 0:
        raise ResultError(f"{ranks[0].source}: {name} takes no time")
    return (f"{name}, the median of {len(common)}" if len(common) > 1 else name), windows


def _longest_ns(windows: Iterable[Window]) -> int:
    return max(window.end_ns - window.begin_ns for window in windows)


def _keyed(windows: Iterable[Window]) -> Mapping[object, Window]:
    """Return windows by the number of a step or, without numbers, by their position."""
    keyed: dict[object, Window] = {}
    for place, window in enumerate(windows):
        key = ("step", window.number) if window.number is not None else ("window", place)
        keyed.setdefault(key, window)
    return keyed


def _within(trace: Trace, window: Window) -> list[int]:
    """Return the spans of a window, by their begin.

    Our stream that forks and joins the lanes is left out: it only waits.
    """
    return [
        place
        for place, span in enumerate(trace.spans)
        if span.begin_ns < window.end_ns
        and (span.end_ns > window.begin_ns or span.begin_ns == window.begin_ns)
        and (span.kind in WORK or span.step or not trace.row)
        and (span.kind in WORK or min(span.end_ns, window.end_ns) > window.begin_ns)
    ]


def _bar(trace: Trace, index: int, window: Window, origin_ns: int) -> Bar:
    span = trace.spans[index]
    assert trace.rank is not None
    name = span.lane.removeprefix(f"rank {trace.rank} ")
    lane = Lane(trace.rank, f"stream {name}" if name.isdigit() else name)
    begin, end = max(span.begin_ns, window.begin_ns), min(span.end_ns, window.end_ns)
    return Bar(
        lane,
        span,
        span.begin_ns - origin_ns,
        begin - origin_ns,
        end - origin_ns,
        span.end_ns - span.begin_ns,
    )


def _wait(bar: Bar) -> Bar:
    """Return the bar of a work's wait for SMs."""
    begin = bar.begin_ns - bar.waited_ns
    since = replace(bar, since_ns=begin, begin_ns=begin, end_ns=bar.begin_ns)
    return replace(since, busy_ns=bar.waited_ns, is_wait=True)


def _links(ranks: Sequence[Trace], bars: Mapping[Work, Bar], path: Sequence[Work]) -> list[Link]:
    """Return the arrows between lanes, and the points where the path changes lanes."""
    steps = set(pairwise(path))
    arrows = {
        ((place, source), (place, target))
        for place, trace in enumerate(ranks)
        for source, target in trace.arrows or ()
        if (place, source) in bars and (place, target) in bars
    }
    return [
        Link(bars[source], bars[target], (source, target) in steps)
        for source, target in sorted(arrows | steps)
        if bars[source].lane != bars[target].lane
    ]


def _notes(ranks: Sequence[Trace], joint: bool) -> list[str]:
    notes = [] if joint or len(ranks) == 1 else [_NO_CLOCK]
    if any(trace.arrows is None for trace in ranks):
        notes.append(_NO_ARROWS)
    return [*notes, *dict.fromkeys(note for trace in ranks for note in trace.notes)]


def path_parts(timeline: Timeline) -> Mapping[str | None, int]:
    """Divide T by the kinds of work on the longest path; None: no work of the path runs.

    While a work kept the next one from its SMs, the path waited for SMs.
    """
    parts: Counter[str | None] = Counter()
    reached = 0
    for bar, after in zip_longest(timeline.path, timeline.path[1:]):
        begin, end = max(bar.begin_ns, reached), max(bar.end_ns, reached)
        waits = after.begin_ns - max(begin, after.begin_ns - after.waited_ns) if after else 0
        waited = max(0, min(waits, end - begin))
        parts[FOR_SMS] += waited
        parts[bar.span.kind] += end - begin - waited
        reached = end
    return +parts | {None: timeline.length_ns - sum(parts.values())}
