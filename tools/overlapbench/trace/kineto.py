"""PyTorch's profiler traces (Kineto's, Chrome's JSON), and the trace files of overlapbench.

    {"schemaVersion": 1, "baseTimeNanoseconds": N, "distributedInfo": {"rank": 0},
     "traceEvents": [{"ph": "X", "cat": "kernel", "name": "...", "ts": us, "dur": us,
                      "args": {"device": 0, "stream": 7, "correlation": 1}}]}

These complete events (`X`) are read, in any order: `kernel`, `gpu_memcpy` and `gpu_memset` are
spans. `cuda_runtime` and `cuda_driver` are the calls that launched them, matched by `correlation`.
`user_annotation` and `gpu_user_annotation` are windows. `ts` has fractions of a microsecond and
counts from the base, which is a common clock for the files of all ranks.

In our own files, the `args` of each device event contain `class`, `step`, `row`, `run`, `sample`,
`lane` and `rank`. An event with `class` is a span, whatever its category. A file may contain
several ranks. Its lanes are the names of the tracks, and flows (`s`, `f`) of the category
`dependency` say which span waited for which. Its steps are its samples: the range of the annotation
`sample N`, which begins when the gate opens; without one, the range from the first span to the
last, without the gate. `ProfilerStep#N` covers the same sample and its host part, so it is a window
but not a step. The object `overlapbench` names the row. The files of a row's ranks share one clock.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from overlapbench.source import Document, Fields, ResultError, decode_json, harmless, short
from overlapbench.trace.arrows import Arrows, track_of
from overlapbench.trace.model import Category, Class, Span, Trace, Window, hull, is_between_devices
from overlapbench.trace.rules import Rules
from overlapbench.trace.windows import number_of, place

EVENTS, _OURS = "traceEvents", "overlapbench"
_SCHEMA = 1
_SPANS: Mapping[str, Category] = {  # including names from before 2021
    "kernel": Category.KERNEL,
    "gpu_memcpy": Category.MEMCPY,
    "memcpy": Category.MEMCPY,
    "gpu_memset": Category.MEMSET,
    "memset": Category.MEMSET,
}
_CALLS = frozenset({"cuda_runtime", "cuda_driver", "runtime", "driver"})
_ARROW = "dependency"
_HOST_RANGE, _DEVICE_RANGE = "user_annotation", "gpu_user_annotation"
_RELEVANT = {*_SPANS, *_CALLS, _HOST_RANGE, _DEVICE_RANGE}
_LATEST_NS = 1 << 62  # as nanoseconds since 1970, the year 2116
_HIGHEST_RANK = 99_999
Arguments = Mapping[str, object]  # of an event
Sample = tuple[str, str, int]  # row, run and number


@dataclass
class _Device:
    """What was read of one rank, or of one device if no rank is stated."""

    spans: list[tuple[Span, str]] = field(default_factory=list)  # each with its lane's own name
    samples: dict[Sample, list[Span]] = field(default_factory=lambda: defaultdict(list))
    stated: dict[Sample, Window] = field(default_factory=dict)  # if samples are annotated
    annotations: list[Window] = field(default_factory=list)

    def sample_windows(self) -> tuple[Window, ...]:
        windows = []
        for sample, spans in self.samples.items():
            row, run, number = sample
            stated = self.stated.get(sample)
            begin, end = stated.interval if stated else hull(spans)
            windows.append(Window(f"{row} {run} sample {number}", begin, end, number))
        return tuple(sorted(windows, key=lambda window: window.interval))


def read_kineto(source: str, text: str, rules: Rules) -> list[Trace]:
    """Read the traces of one file, one per rank; ResultError names an invalid event."""
    values = decode_json(source, text)
    if isinstance(values, list):  # the short form of Chrome's format
        values = {EVENTS: values}
    if not isinstance(values, dict) or not isinstance(values.get(EVENTS), list):
        raise ResultError(f"{source}: {EVENTS}: missing: not a trace of PyTorch's profiler")
    if values.get("schemaVersion", _SCHEMA) != _SCHEMA:
        version = short(values["schemaVersion"])
        raise ResultError(f"{source}: schemaVersion: {version} is not supported: must be {_SCHEMA}")
    return _Reader(Document(source, text, values, EVENTS), rules).read()


class _Reader:
    """One pass over the events, in any order; then the device's work is matched with the others."""

    def __init__(self, document: Document, rules: Rules) -> None:
        self.document, self.rules = document, rules
        base = document.values.get("baseTimeNanoseconds")
        self.base_ns = base if isinstance(base, int) and 0 < base < _LATEST_NS else 0
        self.about = _object(document.values.get(_OURS))
        self.arrows = Arrows()
        self.devices: dict[tuple[int | None, int], _Device] = defaultdict(_Device)
        self.calls: dict[int | None, int] = {}  # by correlation: when the call returned
        self.host_ranges: list[Window] = []
        self.work: list[tuple[Fields, Category, Arguments]] = []

    def read(self) -> list[Trace]:
        for index, event in enumerate(self.document.entries):
            if not isinstance(event, dict):
                self.document.fields(index)  # raises
            elif event.get("ph") == "X":
                self._read_event(index, event)
            elif self.about:
                self._read_track(index, event)
        for work in self.work:
            self._read_span(*work)
        found = {key: device for key, device in self.devices.items() if device.spans}
        if not found:
            raise ResultError(
                f"{self.document.source}: {EVENTS}: no device work"
                " (kernel, gpu_memcpy, gpu_memset): was the profiler told to record the GPU?"
            )
        stated = _object(self.document.values.get("distributedInfo")).get("rank")
        only_rank = _rank(stated) if len(found) == 1 else None
        ranked_first = sorted(found, key=lambda key: (key[0] is None, key[0] or 0, key[1]))
        return [
            self._trace(only_rank if key[0] is None else key[0], found[key]) for key in ranked_first
        ]

    def _read_event(self, index: int, event: Mapping[str, object]) -> None:
        category, args = _text(event.get("cat")).lower(), _object(event.get("args"))
        if category not in _RELEVANT and "class" not in args:
            return
        fields = Fields(self.document, index, event)
        if "class" in args or category in _SPANS:
            self.work.append((fields, _SPANS.get(category, Category.OTHER), args))
        elif category in _CALLS:
            correlation = _count(args.get("correlation"))
            if correlation is not None:
                self.calls[correlation] = self._times(fields)[1]
        elif category == _HOST_RANGE:
            self.host_ranges.append(self._window(fields))
        else:
            self._read_annotation(fields, args)

    def _read_span(self, fields: Fields, category: Category, args: Arguments) -> None:
        name = fields.text("name")
        between = is_between_devices(args.get("fromDevice"), args.get("toDevice"))
        if category is Category.MEMCPY and ("PtoP" in name or between):
            category = Category.PEER
        begin, end = self._times(fields)
        kind = self.rules.classify(category, name, _stated(fields, args))
        lane = str(args.get("lane", args.get("stream", fields.values.get("tid", ""))))
        peer = args.get("peer")
        span = Span(
            name,
            kind,
            begin,
            end,
            self.arrows.names.get(track_of(fields.values), lane),
            category,
            launched_ns=self.calls.get(_count(args.get("correlation"))),
            step=str(args.get("step", "")),
            operation=_count(args.get("External id")),
            communication=_count(args.get("communication")),
            bytes=_count(args.get("bytes")),
            blocks=_count(args.get("blocks", _product(args.get("grid")))),
            engine=_text(args.get("engine")),
            peer="all" if peer == "all" else _count(peer),
            sms=_count(args.get("sms")),
            sample=_count(args.get("sample")),
            awaits=_text(args.get("awaits")),
        )
        device, sample = self._device(fields, args), _sample(args)
        device.spans.append((span, lane))
        if sample and kind is not Class.GATE:
            device.samples[sample].append(span)

    def _read_annotation(self, fields: Fields, args: Arguments) -> None:
        device, window, sample = self._device(fields, args), self._window(fields), _sample(args)
        if sample is None:
            device.annotations.append(window)
        elif window.name == f"sample {sample[2]}":
            device.stated[sample] = window
        # Otherwise it belongs to a step, whose work has the same information.

    def _read_track(self, index: int, event: Mapping[str, object]) -> None:
        """Read the name of a track, or an end of an arrow."""
        track, args = track_of(event), event.get("args")
        phase, number = event.get("ph"), event.get("id")
        if track is None:
            return
        if event.get("name") == "thread_name" and isinstance(args, dict):
            self.arrows.names[track] = str(args.get("name", ""))
        elif event.get("cat") == _ARROW and phase in ("s", "f") and isinstance(number, int):
            at_ns = self.base_ns + _nanoseconds(Fields(self.document, index, event), "ts")
            ends = self.arrows.sources if phase == "s" else self.arrows.targets
            ends[number] = (track, at_ns)

    def _times(self, fields: Fields) -> tuple[int, int]:
        """Return begin and end in nanoseconds."""
        begin, duration = _nanoseconds(fields, "ts"), _nanoseconds(fields, "dur")
        if duration < 0:
            raise fields.error("dur", f"{fields.number('dur'):g}: it ends before it begins")
        return self.base_ns + begin, self.base_ns + begin + duration

    def _window(self, fields: Fields) -> Window:
        name = fields.text("name")
        return Window(name, *self._times(fields), number=number_of(name))

    def _device(self, fields: Fields, args: Arguments) -> _Device:
        is_ours = "class" in args or _sample(args)
        rank = _rank(args.get("rank")) if is_ours else None
        number = _count(args.get("device", fields.values.get("pid"))) or 0
        return self.devices[rank, number if rank is None else 0]

    def _trace(self, rank: int | None, device: _Device) -> Trace:
        found = sorted(device.spans, key=lambda one: one[0].interval)
        spans, lanes = zip(*found, strict=True)
        windows = place(spans, self.host_ranges, device.annotations)
        if samples := device.sample_windows():
            windows = tuple(replace(window, number=None) for window in windows)
        fault = self._said("fault")
        notes = (f"its records are faulty, so do not trust it: {fault}",) if fault else ()
        return Trace(
            self.document.source,
            rank,
            spans,
            windows + samples,
            bool(self.base_ns or self.about),
            notes,
            self._said("row"),
            self._said("backend"),
            self.arrows.between(spans, lanes) if self.about else None,
        )

    def _said(self, key: str) -> str:
        """Return the object with which one of our own files describes itself."""
        return harmless(_text(self.about.get(key)))


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _rank(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _HIGHEST_RANK:
        return None
    return value


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


def _stated(fields: Fields, args: Arguments) -> Class | None:
    name = args.get("class")
    if name is None:
        return None
    if not isinstance(name, str) or name not in Class.__members__:
        raise fields.error("args.class", f"{short(name)} is not one of {', '.join(Class)}")
    return Class[name]


def _nanoseconds(fields: Fields, key: str) -> int:
    """Convert microseconds exactly: a large time times 1000 would lose its last digits."""
    microseconds = fields.number(key)
    whole = math.floor(microseconds)
    time = whole * 1000 + round((microseconds - whole) * 1000)
    if abs(time) > _LATEST_NS:
        raise fields.error(key, f"{microseconds:g} is out of range")
    return time
