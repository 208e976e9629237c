"""The common model of traces, whichever tool wrote them.

Times are whole nanoseconds, so that shares of a window add up exactly. If several files state a
common clock, their times refer to it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from overlapbench.output import ResultError
from overlapbench.traces.intervals import Interval, Intervals, union


class Class(StrEnum):
    """The class of a span on the device."""

    COMP = "COMP"  # computes
    COMM = "COMM"  # moves data between ranks
    MEM = "MEM"  # moves data between this device and the host, or within the device
    GATE = "GATE"  # holds work back until all of a sample is enqueued
    WAIT = "WAIT"  # waits, on the device, for an event or a flag
    HOST = "HOST"  # a host function as work on a stream; only rules and `class` assign it
    FUSED = "FUSED"  # one kernel that computes and communicates: counts as COMP and as COMM


BUSY = (Class.COMP, Class.COMM, Class.MEM)  # the classes of a window's shares
RUNS = (*BUSY, Class.FUSED)  # what keeps a device from being idle
WORK = (*RUNS, Class.HOST)  # work of a lane; the other classes hold it back


class Category(StrEnum):
    """The category under which a tool records a span."""

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    PEER = "peer"  # a copy from device to device
    MEMSET = "memset"
    OTHER = "other"


@dataclass(slots=True)
class Span:
    """One piece of work on one lane of a device. Only its reader changes it."""

    name: str
    kind: Class
    begin_ns: int
    end_ns: int
    lane: str
    category: Category = Category.KERNEL
    launched_ns: int | None = None  # when the host's call returned; None if unknown
    step: str = ""  # of our schedule, to which this work or wait belongs
    operation: int | None = None  # the same for all spans of one of our steps in a sample
    communication: int | None = None  # the same for all its parts, on all ranks
    bytes: int | None = None  # written by a copy or fill; of a collective, as nccl-tests counts
    blocks: int | None = None  # of a kernel's grid
    engine: str = ""  # SM, copy or core; this and the next three are only in our traces
    peer: int | str | None = None  # the rank at the other end, or "all"
    sms: int | None = None  # to which its lane is limited
    sample: int | None = None
    group: str = ""  # the communicator of a collective, if the file states it
    collective: str = ""  # what a collective does, likewise
    ranks: int | None = None  # of its communicator, likewise

    @property
    def interval(self) -> Interval:
        return (self.begin_ns, self.end_ns)


@dataclass(frozen=True, slots=True)
class Window:
    """A named range of a trace."""

    name: str
    begin_ns: int
    end_ns: int
    number: int | None = None  # of a step or a sample

    @property
    def interval(self) -> Interval:
        return (self.begin_ns, self.end_ns)


def hull(parts: Iterable[Span | Window]) -> Interval:
    """Return the range from the first begin of the parts to their last end."""
    begins, ends = zip(*(part.interval for part in parts), strict=True)
    return min(begins), max(ends)


class ForeignFileError(ResultError):
    """A file that is no trace at all, in contrast to a damaged one."""


Arrow = tuple[int, int]  # indices of spans: the second waited for the first


@dataclass(frozen=True)
class Trace:
    """What one rank's device did."""

    source: str
    rank: int | None  # None if the file does not state it; files.py then numbers it
    spans: tuple[Span, ...]  # sorted by their begin
    windows: tuple[Window, ...] = ()
    common_clock: bool = False  # times refer to a clock that other files share
    world: int | None = None  # how many ranks the run had, if the file states it
    notes: tuple[str, ...] = ()  # remarks for readers of the figures
    row: str = ""  # the traced row of the suite; "" in traces of other tools
    backend: str = ""  # on which it ran; likewise
    arrows: tuple[Arrow, ...] | None = None  # None if the file does not state who waits for whom
    idle: Mapping[str, Intervals] = field(default_factory=dict)  # by cause, if our file states it

    def of(self, *kinds: Class) -> Intervals:
        """Return when the device had work of these classes."""
        if Class.COMP in kinds or Class.COMM in kinds:
            kinds += (Class.FUSED,)
        return union(span.interval for span in self.spans if span.kind in kinds)


def is_between_devices(source: object, target: object) -> bool:
    """Tell whether a copy goes to another device; None: its record does not name the device."""
    return None not in (source, target) and source != target


def glob(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of `*` and `?` that matches anywhere in a name, ignoring case.

    Unlike in fnmatch, brackets have no meaning: kernels' names contain them.
    """
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(c, re.escape(c)) for c in pattern), re.I | re.S)
