"""Traced rows of a page: a picture of each, and where its time went. Files are untrusted."""

from collections.abc import Sequence
from dataclasses import dataclass

from overlapbench.reading.source import harmless
from overlapbench.traces.files import read_rows
from overlapbench.traces.rules import Rules
from overlapbench.view.breakdown import cells
from overlapbench.view.timeline import make_timelines
from overlapbench.view.timeline_picture import Picture, draw_for_page


@dataclass(frozen=True)
class Traced:
    """One row that was traced."""

    row: str
    picture: Picture
    shares: Sequence[Sequence[str]]  # of each rank, under HEADINGS


@dataclass(frozen=True)
class Timelines:
    """The rows that are shown, and the names of those that are not."""

    shown: Sequence[Traced] = ()
    left_out: Sequence[str] = ()


NONE = Timelines()


def read_timelines(paths: Sequence[str]) -> Timelines:
    """Read trace files, and folders of them; ResultError for a bad one."""
    if not paths:
        return NONE
    timelines, left_out = make_timelines(read_rows(paths, Rules()))
    shown = [
        Traced(
            timeline.row,
            draw_for_page(timeline, f"timeline-{place}"),
            [cells(breakdown) for breakdown in timeline.breakdowns],
        )
        for place, timeline in enumerate(timelines)
    ]
    return Timelines(shown, [harmless(row) for row in left_out])
