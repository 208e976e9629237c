"""The times of a step on the device.

The host annotates what it launches, and the device runs it later. So a host range stands for the
spans launched in it: from the begin of the first to the end of the last. A step ends where the next
one begins, so that steps omit no time and share none. If no launch is known in any range of a name,
the device's own annotation of that name is used, or else the host's times.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import itemgetter

from overlapbench.grouping import grouped
from overlapbench.output import ResultError, listed
from overlapbench.traces.intervals import Intervals, union
from overlapbench.traces.model import Span, Trace, Window, glob, hull

_STEP = re.compile(r"(?:ProfilerStep|step|iteration|iter)[ _:#]*(\d{1,15})", re.I)
_LISTED = 6  # names or steps in an error message


def number_of(name: str) -> int | None:
    """Return the number of a step; None if the name is not a step's."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None


def place(
    spans: Sequence[Span], host: Sequence[Window], device: Iterable[Window]
) -> tuple[Window, ...]:
    """Return the device windows of the host's ranges and of the device's annotations."""
    pairs = ((span.launched_ns, span) for span in spans if span.launched_ns is not None)
    launched = sorted(pairs, key=itemgetter(0))
    annotated = _hulls(device)
    placed: list[Window] = []
    without_work: list[Window] = []
    for window in host:
        first = bisect_left(launched, window.begin_ns, key=itemgetter(0))
        last = bisect_right(launched, window.end_ns, key=itemgetter(0))
        if first < last:
            within = (span for _, span in launched[first:last])
            placed.append(Window(window.name, *hull(within), window.number))
        else:
            without_work.append(window)
    names = {window.name for window in placed}
    placed += [w for w in without_work if w.name not in names and w.name not in annotated]
    placed += [w for name, found in annotated.items() if name not in names for w in found]
    return _join_steps(placed)


def _hulls(device: Iterable[Window]) -> dict[str, list[Window]]:
    """Return the device's annotations by name; the parts of a step, one per lane, are merged."""
    return {
        name: found if found[0].number is None else [Window(name, *hull(found), found[0].number)]
        for name, found in grouped(device, lambda window: window.name).items()
    }


def _join_steps(windows: Sequence[Window]) -> tuple[Window, ...]:
    """End each step where the next one of that name begins."""
    ordered = sorted(windows, key=lambda window: window.interval)
    joined = [window for window in ordered if window.number is None]
    steps_alone = (window for window in ordered if window.number is not None)
    for steps in grouped(steps_alone, lambda step: step.name.rstrip("0123456789")).values():
        nexts = [*(step.begin_ns for step in steps[1:]), steps[-1].end_ns]
        joined += [replace(s, end_ns=end) for s, end in zip(steps, nexts, strict=True)]
    return tuple(sorted(joined, key=lambda window: window.interval))


def choose(
    trace: Trace, step: int | None, pattern: str | None
) -> tuple[str, Intervals, tuple[Window, ...]]:
    """Return the name of the user's choice, its moments, and its individual windows.

    Without a choice, all steps. ResultError if a rank has none of them.
    """
    chosen = candidates(trace, step, pattern)
    moments = union(window.interval for window in chosen)
    name = _label(chosen)
    if not moments:
        raise ResultError(f"{trace.source}: {name} takes no time")
    return name, moments, chosen


def candidates(trace: Trace, step: int | None, pattern: str | None) -> tuple[Window, ...]:
    """Return the windows that the user chose, at least one: as choose, but individually.

    Windows of exactly the requested name are preferred to those whose names contain it.
    """
    chosen = trace.windows
    if step is not None:
        chosen = tuple(window for window in chosen if window.number == step)
    if pattern is not None:
        sought = glob(pattern)
        exact = tuple(window for window in chosen if sought.fullmatch(window.name))
        chosen = exact or tuple(window for window in chosen if sought.search(window.name))
    if step is None and pattern is None:
        chosen = tuple(window for window in chosen if window.number is not None)
        if not chosen:
            chosen = (Window("the whole trace", *hull(trace.spans)),)
    if not chosen:
        raise ResultError(f"{trace.source}: {_refusal(trace, step, pattern)}")
    return chosen


def _label(chosen: Sequence[Window]) -> str:
    names = list(dict.fromkeys(window.name for window in chosen))
    if len(names) > 1:
        return f"{names[0]} to {_told_after(names[0], names[-1])}, {len(chosen)} in all"
    return f"{len(chosen)} × {names[0]}" if len(chosen) > 1 else names[0]


def _told_after(first: str, last: str) -> str:
    """Return the part of the last name that differs from the first: for samples, the number."""
    (row, _, one), (other, _, number) = first.rpartition(" "), last.rpartition(" ")
    return number if row and row == other and one.isdigit() and number.isdigit() else last


def _refusal(trace: Trace, step: int | None, pattern: str | None) -> str:
    what = {"step": step, "window": pattern or None}
    asked = " ".join(f"{key} {value}" for key, value in what.items() if value is not None)
    numbers = {window.number for window in trace.windows if window.number is not None}
    if step is not None and numbers and step not in numbers:
        return f"no {asked}: the steps are {listed([*map(str, sorted(numbers))], _LISTED)}"
    within = (w for w in trace.windows if step is None or w.number in (step, None))
    known = listed(list(dict.fromkeys(window.name for window in within)), _LISTED)
    return f"no {asked}: there {f'are {known}' if known else 'are no windows in it'}"
