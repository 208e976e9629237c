"""Traces in notebooks and scripts: what `overlapbench trace` prints, as objects.

import overlapbench as ob

found = ob.trace("rank*.json.gz").breakdown(step=3)
found.classes[0]["COMP"], found.idle[0]["host"]   # rank 0, percent of the step
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from overlapbench.traces.breakdown import MIXES, Breakdown, break_down, worst_of
from overlapbench.traces.files import read_traces
from overlapbench.traces.idle import Cause
from overlapbench.traces.model import Trace
from overlapbench.traces.rules import Rules, parse_rule
from overlapbench.view.breakdown import render, to_dict
from overlapbench.view.console import Screen


@dataclass(frozen=True)
class TraceBreakdown:
    """Where the time of a step went on each rank; printed, it is the text of the command."""

    ranks: Sequence[Breakdown]

    @property
    def classes(self) -> dict[int, dict[str, float]]:
        """The shares of the classes by rank, in percent: those of "COMP+COMM" ran at once."""
        return {
            one.rank: {"+".join(mix): one.tenths[mix] / 10 for mix in MIXES} for one in self.ranks
        }

    @property
    def idle(self) -> dict[int, dict[str, float]]:
        """The shares of idle time by rank and cause, in percent; with those of classes 100."""
        return {
            one.rank: {cause.value: one.tenths[cause] / 10 for cause in Cause} for one in self.ranks
        }

    @property
    def worst(self) -> Breakdown:
        """The rank that computes for the smallest share of its time."""
        return worst_of(self.ranks)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, as `overlapbench trace --json` writes them."""
        return to_dict(self.ranks)

    def text(self, screen: Screen | None = None) -> str:
        """Return the tables and the notes."""
        return render(self.ranks, screen or Screen())

    __str__ = text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text())}</pre>"


@dataclass(frozen=True)
class Traces:
    """The traces of one run, read."""

    ranks: Sequence[Trace]

    def breakdown(self, step: int | None = None, window: str | None = None) -> TraceBreakdown:
        """Divide time by class, and idle time by cause.

        Without arguments, all steps or samples count or, if there are none, the whole trace.

        step    only this step, or this sample
        window  only windows (annotations) of this name or, if none, containing it

        ResultError  a rank has no such step or window; it is a ValueError
        """
        return TraceBreakdown(break_down(self.ranks, step, window))


def trace(files: str | Path | Sequence[str | Path], rules: Sequence[str] = ()) -> Traces:
    """Read traces of PyTorch's profiler, of nsys or of overlapbench: a file or more per rank.

    files  files, folders, archives or globs, as `overlapbench trace` accepts them
    rules  classes of spans by name, such as "my_fused_kernel=COMM"

    ResultError  a file is not a trace, or the files belong to several runs; it is a ValueError
    """
    sources = [files] if isinstance(files, str | Path) else files
    return Traces(read_traces([*map(str, sources)], Rules([parse_rule(rule) for rule in rules])))
