"""What a trace is to us, whichever tool wrote it.

Times are whole nanoseconds, so that shares of a window add up exactly. Where several files tell of
a common clock, their times are that clock's.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from overlapbench.trace.intervals import Interval, Intervals, union


class Class(StrEnum):
    """What a span on the device is."""

    COMP = "COMP"  # computes
    COMM = "COMM"  # moves data between ranks
    MEM = "MEM"  # moves data between this device and the host, or within the device
    GATE = "GATE"  # holds work back until all of a sample is enqueued
    WAIT = "WAIT"  # waits, on the device, for an event or a flag
    HOST = "HOST"  # a function of the host, as work on a stream; only rules and `class` name one


BUSY = (Class.COMP, Class.COMM, Class.MEM)  # the classes that a window's shares are of
WORK = (*BUSY, Class.HOST)  # what a lane does; the other classes hold it back


class Category(StrEnum):
    """What a tool records a span as."""

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    PEER = "peer"  # a copy from device to device
    MEMSET = "memset"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work on one lane of a device."""

    name: str
    kind: Class
    begin_ns: int
    end_ns: int
    lane: str
    category: Category = Category.KERNEL
    launched_ns: int | None = None  # when the host's call returned; None where no call is known
    step: str = ""  # of a schedule of ours that this is work of, or waits for
    operation: int | None = None  # the same for all that one sample does for a step of ours
    communication: int | None = None  # the same for all parts of one, on all ranks
    bytes: int | None = None  # that a copy or fill writes
    blocks: int | None = None  # of a kernel's grid
    engine: str = ""  # what it runs on: SM, copy or core; this and the next four are ours alone
    peer: int | str | None = None  # the rank at the other end, or "all"
    sms: int | None = None  # that its lane is limited to
    sample: int | None = None
    awaits: str = ""  # what held it back on its stream, as far as ours tell

    @property
    def interval(self) -> Interval:
        return (self.begin_ns, self.end_ns)


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a trace that has a name."""

    name: str
    begin_ns: int
    end_ns: int
    number: int | None = None  # of a step or a sample

    @property
    def interval(self) -> Interval:
        return (self.begin_ns, self.end_ns)


def hull(parts: Iterable[Span | Window]) -> Interval:
    """Return from when the first of the parts begins until the last one has ended."""
    begins, ends = zip(*(part.interval for part in parts), strict=True)
    return min(begins), max(ends)


Arrow = tuple[int, int]  # places of spans: the second waited for the first


@dataclass(frozen=True)
class Trace:
    """What one rank's device did."""

    source: str
    rank: int | None  # None where the file does not tell; files.py then numbers it
    spans: tuple[Span, ...]  # by their begin
    windows: tuple[Window, ...] = ()
    common_clock: bool = False  # times are of a clock that other files have, too
    notes: tuple[str, ...] = ()  # what a reader of the figures should know
    row: str = ""  # of the suite that was traced; "" in traces of other tools
    backend: str = ""  # that it ran on; likewise
    arrows: tuple[Arrow, ...] | None = None  # None where the file does not tell who waits for whom

    def of(self, *kinds: Class) -> Intervals:
        """Return when the device had work of these classes."""
        return union(span.interval for span in self.spans if span.kind in kinds)


def is_between_devices(source: object, target: object) -> bool:
    """Tell whether a copy goes to another device; None is one that its record does not name."""
    return None not in (source, target) and source != target


def glob(pattern: str) -> re.Pattern[str]:
    """Make a pattern of `*` and `?` that is sought anywhere in a name, without regard to case.

    Not fnmatch's: kernels' names have brackets, which mean nothing here.
    """
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(c, re.escape(c)) for c in pattern), re.I | re.S)
