"""PyTorch's profiler traces (Kineto's, Chrome's JSON), and the trace files of overlapbench.

    {"schemaVersion": 1, "baseTimeNanoseconds": N, "distributedInfo": {"rank": 0},
     "traceEvents": [{"ph": "X", "cat": "kernel", "name": "...", "ts": us, "dur": us,
                      "args": {"device": 0, "stream": 7, "correlation": 1}}]}

These complete events (`X`) are read, in any order: `kernel`, `gpu_memcpy` and `gpu_memset` are
spans. `..._runtime` and `..._driver` (of CUDA, XPU and others) are the calls that launched them,
matched by `correlation`. `cuda_sync` states who waits for whom (waits.py). `user_annotation` and
`gpu_user_annotation` are windows. `ts` has fractions of a microsecond and counts from the base,
which is a common clock for the files of all ranks. So are times since 1970, which Kineto wrote
before it had a base. A file may contain several processes (processes.py) and devices (devices.py).

In our own files, the `args` of each device event contain `class`, `step`, `row`, `run`, `sample`,
`lane` and `rank`. An event with `class` is a span, whatever its category. A file may contain
several ranks. Its lanes are the names of the tracks, and flows (`s`, `f`) of the category
`dependency` say which span waited for which. Annotations with `idle` state why nothing ran. Its
steps are its samples: the range of the annotation `sample N`, which begins when the gate opens;
without one, the range from the first span to the last, without the gate. `ProfilerStep#N` covers
the same sample and its host part, so it is a window but not a step. The object `overlapbench` names
the row. The files of a row's ranks share one clock.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from overlapbench.grouping import grouped
from overlapbench.output import ResultError, harmless
from overlapbench.reading.source import can_be_measured, short
from overlapbench.traces.events import EVENTS, EventFile
from overlapbench.traces.intervals import Interval, Intervals, union
from overlapbench.traces.model import (
    Arrow,
    Category,
    Class,
    ForeignFileError,
    Span,
    Trace,
    Window,
    hull,
    is_between_devices,
)
from overlapbench.traces.packed import Text
from overlapbench.traces.path import Arrows, Track, track_of
from overlapbench.traces.plausible import Fault, Omitted, plausible
from overlapbench.traces.processes import Call, Calls, Device, Process, name_of, ranks_among
from overlapbench.traces.rules import Rules
from overlapbench.traces.waits import CATEGORY, Wait, arrows_of, read_wait
from overlapbench.traces.windows import number_of, place

_OURS = "overlapbench"
_SCHEMA = 1
_SPANS: Mapping[str, Category] = {  # including names from before 2021
    "kernel": Category.KERNEL,
    "gpu_memcpy": Category.MEMCPY,
    "memcpy": Category.MEMCPY,
    "gpu_memset": Category.MEMSET,
    "memset": Category.MEMSET,
}
_TYPE_BYTES = {
    **dict.fromkeys(("byte", "char", "bool", "float8", "int8", "uint8"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "float16"), 2),
    **dict.fromkeys(("float", "int", "float32", "int32"), 4),
    **dict.fromkeys(("double", "long", "float64", "int64"), 8),
}
_CALLS = ("runtime", "driver")  # the last words of categories
_ARROW = "dependency"
_IDLE = "idle"  # the argument of idle time: its cause
_HOST_RANGE, _DEVICE_RANGE = "user_annotation", "gpu_user_annotation"
_SINCE_1970_NS = 10**18  # in 2001: times that count from another moment are smaller
_LATEST_NS = 1 << 62  # in 2116
_HIGHEST_RANK = 99_999
_NO_WORK = (
    f"{EVENTS}: no device work (kernel, gpu_memcpy, gpu_memset):"
    " was the profiler told to record the GPU?"
)
Arguments = Mapping[str, Any]  # of an event, or the event
Sample = tuple[str, str, int]  # row, run and number


class OwnRank(NamedTuple):
    """The process of one of our own events."""

    number: int


class _Work(NamedTuple):
    """A span, and what its rank and its launch follow from."""

    span: Span  # without its launch
    event: int
    process: Process  # the device's
    device: str
    track: Track | None
    correlation: int | None
    tag: Sample | None


_Launched = tuple[_Work, Call | None]


@dataclass(eq=False)
class _Device(Device):
    """What was read of one rank."""

    pid: Process = None  # of its events
    samples: list[Window] = field(default_factory=list)
    arrows: tuple[Arrow, ...] | None = None


def read_kineto(text: Text, rules: Rules) -> list[Trace]:
    """Read the traces of one file, one per rank; ResultError if it is not a trace."""
    reader = _Reader(text, rules)
    reader.read_events()
    return reader.traces()


class _Reader:
    """One pass over the events, in any order; then the device's work is matched with the others.

    Times count from the file's base, which may be at the end of the file.
    """

    def __init__(self, text: Text, rules: Rules) -> None:
        self.file, self.rules = EventFile(text), rules
        self.texts: dict[str, str] = {}
        self.omitted, self.arrows, self.calls = Omitted(), Arrows(), Calls()
        self.work: list[_Work] = []
        self.host_ranges: dict[Process, list[Window]] = defaultdict(list)
        self.annotations: dict[Process, list[Window]] = defaultdict(list)
        self.samples: dict[tuple[Process, Sample], Window] = {}  # if they are annotated
        self.idle: dict[Process, list[Window]] = defaultdict(list)  # with the cause as the name
        self.waits: list[Wait] = []

    def read_events(self) -> None:
        for number, event in enumerate(self.file):
            if not isinstance(event, dict):
                continue
            if event.get("ph") == "X":
                self._read_event(number, event)
            else:
                self._read_track(event)
        values = self.file.values
        version = values.get("schemaVersion", _SCHEMA)
        if version != _SCHEMA:
            told = f"{short(version)} is not supported: must be {_SCHEMA}"
            raise ResultError(f"{self.file.source}: schemaVersion: {told}")
        base = values.get("baseTimeNanoseconds")
        self.base_ns = base if isinstance(base, int) and 0 < base < _LATEST_NS else 0
        self.about = _object(values.get(_OURS))
        self.distributed = _object(values.get("distributedInfo"))

    def _read_event(self, number: int, event: Arguments) -> None:
        category, args = _text(event.get("cat")).lower(), _object(event.get("args"))
        if "class" in args or category in _SPANS:
            self._read_work(number, event, _SPANS.get(category, Category.OTHER), args)
        elif category == CATEGORY:
            if wait := read_wait(number, _process(event, args), args):
                self.waits.append(wait)
        elif category.endswith(_CALLS):
            correlation, times = _count(args.get("correlation")), _times(event, True)
            if correlation is not None and not isinstance(times, Fault):
                self.calls.add(correlation, Call(number, times[1], _process(event, args)))
        elif category in (_HOST_RANGE, _DEVICE_RANGE):
            self._read_range(category, event, args)

    def _read_work(
        self, number: int, event: Arguments, category: Category, args: Arguments
    ) -> None:
        name, kind = event.get("name"), args.get("class")
        times = _times(event, is_own=kind is not None)
        if not isinstance(name, str):
            self.omitted.add(Fault.UNREADABLE, short(name))
            return
        if isinstance(times, Fault) or (kind is not None and kind not in list(Class)):
            self.omitted.add(times if isinstance(times, Fault) else Fault.UNREADABLE, name)
            return
        between = is_between_devices(args.get("fromDevice"), args.get("toDevice"))
        if category is Category.MEMCPY and ("PtoP" in name or between):
            category = Category.PEER
        peer, process = args.get("peer"), _process(event, args)
        is_own = isinstance(process, OwnRank)
        lane = str(args.get("lane", args.get("stream", event.get("tid", ""))))
        device = "" if is_own else str(args.get("device", event.get("pid")))
        span = Span(
            self._known(name),
            self.rules.classify(category, name, Class[kind] if kind else None),
            *times,
            self._known(lane),
            category,
            step=str(args.get("step", "")),
            operation=_count(args.get("External id")) if is_own else None,
            communication=_count(args.get("communication")),
            bytes=_count(args.get("bytes", _message_bytes(args))),
            blocks=_count(args.get("blocks", _product(args.get("grid")))),
            engine=_text(args.get("engine")),
            peer="all" if peer == "all" else _count(peer),
            sms=_count(args.get("sms")),
            sample=_count(args.get("sample")),
            group=self._group(args),
            collective=self._known(_text(args.get("Collective name"))),
            ranks=_count(args.get("Group size")),
        )
        correlation, track = _count(args.get("correlation")), track_of(event) if is_own else None
        self.work.append(
            _Work(span, number, process, self._known(device), track, correlation, _sample(args))
        )

    def _known(self, text: str) -> str:
        """Return one copy of a text: very many spans have few different ones."""
        return self.texts.setdefault(text, text)

    def _group(self, args: Arguments) -> str:
        """Return the communicator of a collective, as PyTorch states it."""
        stated = [args.get(f"Process Group {what}", "") for what in ("Name", "Ranks")]
        stated += [args.get(f"{end} Rank", "") for end in ("Src", "Dst")]
        group = " ".join(str(value) for value in stated if value != "")
        return self._known(group)

    def _read_range(self, category: str, event: Arguments, args: Arguments) -> None:
        name, times = event.get("name"), _times(event, is_own=True)
        if not isinstance(name, str) or isinstance(times, Fault):
            self.omitted.add(times if isinstance(times, Fault) else Fault.UNREADABLE, str(name))
            return
        process, tag = _process(event, args), _sample(args)
        window = Window(self._known(name), *times, number_of(name))
        cause = args.get(_IDLE)
        if category == _HOST_RANGE:
            self.host_ranges[process].append(window)
        elif isinstance(cause, str):
            self.idle[process].append(replace(window, name=cause))
        elif tag is None:
            self.annotations[process].append(window)
        elif name == f"sample {tag[2]}":
            self.samples[process, tag] = window
        # Otherwise it belongs to a step, whose work has the same information.

    def _read_track(self, event: Arguments) -> None:
        """Read the name of a track, or an end of an arrow."""
        track, args = track_of(event), event.get("args")
        phase, number = event.get("ph"), event.get("id")
        if track is None:
            return
        if event.get("name") == "thread_name" and isinstance(args, dict):
            self.arrows.names[track] = str(args.get("name", ""))
        elif event.get("cat") == _ARROW and phase in ("s", "f") and isinstance(number, int):
            at_ns = _nanoseconds(event.get("ts"))
            if at_ns is not None:
                ends = self.arrows.sources if phase == "s" else self.arrows.targets
                ends[number] = (track, at_ns)

    def traces(self) -> list[Trace]:
        """Return the trace of each rank."""
        devices = [device for device in self._devices() if device.spans]
        ranks = ranks_among(devices, _rank(self.distributed.get("rank")))
        if not ranks:
            told = "; ".join([_NO_WORK, *self.omitted.notes()])
            raise ForeignFileError(f"{self.file.source}: {told}")
        is_alone = len({device.process for device in ranks}) == 1
        return [self._trace(device, is_alone) for device in ranks]

    def _devices(self) -> Iterator[_Device]:
        """Group the work by the processes that launched it, and the devices that ran it."""
        found = grouped(self.work, lambda work: (work.process, work.device))
        self.work.clear()
        for pid, name in list(found):
            works = found.pop((pid, name))
            launches = [self.calls.launch_of(w.correlation, w.process, w.event) for w in works]
            callers = Counter(launch.process for launch in launches if launch)
            likely = callers.most_common(1)[0][0] if callers else self.calls.only_process(pid)
            launched: dict[Process, list[_Launched]] = defaultdict(list)
            for work, launch in zip(works, launches, strict=True):
                caller = launch.process if launch else likely
                launched[pid if isinstance(pid, OwnRank) else caller].append((work, launch))
            del works, launches
            for caller, of_caller in launched.items():
                process = name_of(pid) if caller is None else caller
                yield self._complete(_Device(process, name, pid=pid), of_caller)

    def _complete(self, device: _Device, work: list[_Launched]) -> _Device:
        """Add the spans of a device, on the common clock, with their launches and lanes."""
        work.sort(key=lambda one: one[0].span.interval)
        lanes = [one.span.lane for one, _ in work]
        if isinstance(device.pid, OwnRank):
            device.rank = device.pid.number
            device.samples = self._sample_windows(device.pid, [one for one, _ in work])
        device.spans = [self._placed(*one) for one in work]
        if not isinstance(device.pid, OwnRank):
            device.spans = plausible(device.spans, self._recorded, self.omitted)
            waits = [w for w in self.waits if (w.process, w.device) == (device.pid, device.name)]
            device.arrows = arrows_of(waits, device.spans, self.calls, self.base_ns)
        elif self.about:
            device.arrows = self.arrows.between(device.spans, lanes, self.base_ns)
        return device

    def _sample_windows(self, pid: Process, work: Iterable[_Work]) -> list[Window]:
        """Return the samples of one of our own ranks."""
        found: dict[Sample, list[Span]] = defaultdict(list)
        for one in work:
            if one.tag and one.span.kind is not Class.GATE:
                found[one.tag].append(one.span)
        windows = []
        for tag, spans in found.items():
            row, run, number = tag
            stated = self.samples.get((pid, tag))
            begin, end = stated.interval if stated else hull(spans)
            windows.append(Window(f"{row} {run} sample {number}", begin, end, number))
        return sorted(map(self._shifted, windows), key=lambda window: window.interval)

    def _placed(self, work: _Work, launch: Call | None) -> Span:
        """Put a span on the common clock, with its launch and its lane's name."""
        span = work.span
        span.begin_ns += self.base_ns
        span.end_ns += self.base_ns
        if launch:
            span.launched_ns = self.base_ns + launch.returned_ns
        if self.about:
            span.lane = self.arrows.names.get(work.track, span.lane)
        return span

    def _shifted(self, window: Window) -> Window:
        begin, end = self.base_ns + window.begin_ns, self.base_ns + window.end_ns
        return replace(window, begin_ns=begin, end_ns=end)

    @cached_property
    def _recorded(self) -> Interval | None:
        """When the host was recorded, as far as its events tell."""
        ranges = [window.interval for found in self.host_ranges.values() for window in found]
        known = [*ranges, *self.calls.hull()]
        if not known:
            return None
        return (self.base_ns + min(b for b, _ in known), self.base_ns + max(e for _, e in known))

    def _trace(self, device: _Device, is_alone: bool) -> Trace:
        spans = device.spans
        host = [
            self._shifted(window)
            for process, windows in self.host_ranges.items()
            for window in windows
            if is_alone or device.process in (process, name_of(process))
        ]
        annotations = [self._shifted(window) for window in self.annotations[device.pid]]
        windows = place(spans, host, annotations)
        if device.samples:
            windows = tuple(replace(window, number=None) for window in windows)
        fault = self._said("fault")
        notes = (f"its records are faulty, so do not trust it: {fault}",) if fault else ()
        is_since_1970 = min(span.begin_ns for span in spans) >= _SINCE_1970_NS
        return Trace(
            self.file.source,
            device.rank,
            tuple(spans),
            windows + tuple(device.samples),
            bool(self.base_ns or self.about or is_since_1970),
            _count(self.distributed.get("world_size")),
            (*notes, *device.notes, *self.omitted.notes()),
            self._said("row"),
            self._said("backend"),
            device.arrows,
            self._idle(device.pid),
        )

    def _idle(self, pid: Process) -> Mapping[str, Intervals]:
        """Return when one of our own ranks was idle, by the cause that the file states."""
        pieces = grouped(map(self._shifted, self.idle[pid]), lambda piece: piece.name)
        return {cause: union(piece.interval for piece in found) for cause, found in pieces.items()}

    def _said(self, key: str) -> str:
        """Return what one of our own files says of itself, under a key."""
        return harmless(_text(self.about.get(key)))


def _object(value: object) -> Arguments:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _rank(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _HIGHEST_RANK:
        return None
    return value


def _process(event: Arguments, args: Arguments) -> Process:
    """Return the process of an event: its pid or, in our own files, its rank."""
    rank = _rank(args.get("rank")) if "class" in args or _sample(args) else None
    if rank is not None:
        return OwnRank(rank)
    pid = event.get("pid")
    return pid if isinstance(pid, str | int) else str(pid)


def _sample(args: Arguments) -> Sample | None:
    """Return the sample that one of our own events belongs to."""
    number = args.get("sample")
    if not isinstance(number, int):
        return None
    return (str(args.get("row", "")), str(args.get("run", "")), number)


def _product(grid: object) -> int | None:
    """Return the number of blocks of a grid in PyTorch's profiler."""
    if not isinstance(grid, Sequence) or not all(isinstance(size, int) for size in grid):
        return None
    return math.prod(grid)


def _message_bytes(args: Arguments) -> int | None:
    """Return the size of a collective as PyTorch states it: the larger side, of all ranks."""
    counts = [_count(args.get(f"{side} msg nelems")) for side in ("In", "Out")]
    size = _TYPE_BYTES.get(_text(args.get("dtype")).lower().partition("_")[0])
    return None if size is None or None in counts else size * max(n or 0 for n in counts)


def _times(event: Arguments, is_own: bool) -> Interval | Fault:
    """Return begin and end in nanoseconds from the file's base, or what is wrong with them."""
    begin = _nanoseconds(event.get("ts"))
    duration = _nanoseconds(event.get("dur"))
    if begin is None or (begin <= 0 and not duration and not is_own) or (begin < 0 and not is_own):
        return Fault.NO_TIME
    if duration is None:
        return Fault.NO_DURATION
    if duration < 0:
        return Fault.BACKWARD
    return begin, begin + duration


def _nanoseconds(microseconds: object) -> int | None:
    """Convert exactly: a large time times 1000 would lose its last digits. None: not a time."""
    if isinstance(microseconds, bool) or not isinstance(microseconds, int | float):
        return None
    if not can_be_measured(microseconds):
        return None
    whole = math.floor(microseconds)
    return whole * 1000 + round((microseconds - whole) * 1000)
