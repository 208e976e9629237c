"""PyTorch's profiler traces (Kineto's, Chrome's JSON), and the trace files of overlapbench.

    {"schemaVersion": 1, "baseTimeNanoseconds": N, "distributedInfo": {"rank": 0},
     "traceEvents": [{"ph": "X", "cat": "kernel", "name": "...", "ts": us, "dur": us,
                      "args": {"device": 0, "stream": 7, "correlation": 1}}]}

Of the complete events (`X`) these count, in any order: `kernel`, `gpu_memcpy` and `gpu_memset` are
spans. `cuda_runtime` and `cuda_driver` are the calls that launched them, tied by `correlation`.
`user_annotation` and `gpu_user_annotation` are windows. `ts` has fractions of a microsecond and
counts from the base, which all ranks' files share as a clock.

In our own files each event of the device has `class`, `step`, `row`, `run`, `sample`, `lane` and
`rank` in its `args`. An event with `class` is a span, whatever its category. A file may hold
several ranks. Its lanes are the names of the tracks, and the flows (`s`, `f`) of the category
`dependency` say who waited for whom. Its steps are its samples: what the annotation `sample N`
covers, which begins when the gate opens; without one, from the first span to the last one, without
the gate. `ProfilerStep#N` covers the same sample with the host's part of it, and so is a window
that is no step. The object `overlapbench` names the row. The files of a row's ranks have one clock.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from overlapbench.source import Document, Fields, ResultError, decode_json, harmless, short
from overlapbench.trace.arrows import Arrows, Track, track_of
from overlapbench.trace.model import Category, Class, Span, Trace, Window
from overlapbench.trace.rules import Rules
from overlapbench.trace.windows import number_of, place

EVENTS, _OURS = "traceEvents", "overlapbench"
_SCHEMA = 1
_SPANS: Mapping[str, Category] = {  # the names before 2021 as well
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
Sample = tuple[str, str, int]  # row, run and number


@dataclass(frozen=True, slots=True)
class _Found:
    """A span, and what ties it to a call and to arrows."""

    span: Span
    correlation: int | None
    track: Track | None


@dataclass
class _Device:
    """What was found of one rank, or of one device where no rank is stated."""

    spans: list[_Found] = field(default_factory=list)
    samples: dict[Sample, list[Span]] = field(default_factory=lambda: defaultdict(list))
    stated: dict[Sample, Window] = field(default_factory=dict)  # where samples are annotated
    annotations: list[Window] = field(default_factory=list)

    def sample_windows(self) -> tuple[Window, ...]:
        windows = []
        for (row, run, number), spans in self.samples.items():
            begin, end = min(s.begin_ns for s in spans), max(s.end_ns for s in spans)
            window = self.stated.get((row, run, number), Window("", begin, end))
            windows.append(replace(window, name=f"{row} {run} sample {number}", number=number))
        return tuple(sorted(windows, key=lambda window: window.interval))


def read_kineto(source: str, text: str, rules: Rules) -> list[Trace]:
    """Read the traces of one file, one a rank; ResultError naming the event that is wrong."""
    values = decode_json(source, text)
    if isinstance(values, list):  # the short form of Chrome's format
        values = {EVENTS: values}
    if not isinstance(values, dict) or not isinstance(values.get(EVENTS), list):
        raise ResultError(f"{source}: {EVENTS}: missing: not a trace of PyTorch's profiler")
    if values.get("schemaVersion", _SCHEMA) != _SCHEMA:
        version = short(values["schemaVersion"])
        raise ResultError(f"{source}: schemaVersion: {version} is not {_SCHEMA}, known here")
    return _Reader(Document(source, text, values, EVENTS), rules).read()


class _Reader:
    """One pass over the events, in any order; then calls are tied to what they launched."""

    def __init__(self, document: Document, rules: Rules) -> None:
        self.document, self.rules = document, rules
        base = document.values.get("baseTimeNanoseconds")
        self.common_clock = isinstance(base, int) and 0 < base < _LATEST_NS
        self.base_ns = base if isinstance(base, int) and self.common_clock else 0
        ours = document.values.get(_OURS)
        self.about: Mapping[str, object] = ours if isinstance(ours, dict) else {}
        self.common_clock |= bool(self.about)
        self.arrows = Arrows()
        self.devices: dict[tuple[int | None, int], _Device] = {}
        self.calls: dict[int, int] = {}  # by correlation: when the call returned
        self.host_ranges: list[Window] = []

    def read(self) -> list[Trace]:
        for index, event in enumerate(self.document.entries):
            if not isinstance(event, dict):
                self.document.fields(index)  # refuses it
            elif event.get("ph") == "X":
                self._read_event(index, event)
            elif self.about:
                self._read_track(index, event)
        found = {key: device for key, device in self.devices.items() if device.spans}
        if not found:
            raise ResultError(
                f"{self.document.source}: {EVENTS}: no device work"
                " (kernel, gpu_memcpy, gpu_memset): was the profiler told to record the GPU?"
            )
        rank = self._rank() if len(found) == 1 else None
        return [self._trace(key[0], rank, found[key]) for key in sorted(found, key=_order)]

    def _read_event(self, index: int, event: Mapping[str, object]) -> None:
        category, args = _text(event.get("cat")).lower(), event.get("args")
        args = args if isinstance(args, dict) else {}
        if category not in _RELEVANT and "class" not in args:
            return
        fields = Fields(self.document, index, event)
        if "class" in args or category in _SPANS:
            self._read_span(fields, _SPANS.get(category, Category.OTHER), args)
        elif category in _CALLS:
            correlation = _count(args.get("correlation"))
            if correlation is not None:
                self.calls[correlation] = self._times(fields)[1]
        elif category == _HOST_RANGE:
            self.host_ranges.append(self._window(fields))
        else:
            self._read_annotation(fields, event, args)

    def _read_span(self, fields: Fields, category: Category, args: Mapping[str, object]) -> None:
        name = fields.text("name")
        if category is Category.MEMCPY and _is_peer(name, args):
            category = Category.PEER
        begin, end = self._times(fields)
        kind = self.rules.classify(category, name, _stated(fields, args))
        lane = str(args.get("lane", args.get("stream", fields.values.get("tid", ""))))
        span = Span(
            name,
            kind,
            begin,
            end,
            lane,
            category,
            step=str(args.get("step", "")),
            operation=_count(args.get("External id")),
            communication=_count(args.get("communication")),
            bytes=_count(args.get("bytes")),
            blocks=_count(args.get("blocks", _product(args.get("grid")))),
            engine=_text(args.get("engine")),
            peer=_all_or_count(args.get("peer")),
            sms=_count(args.get("sms")),
            sample=_count(args.get("sample")),
            awaits=_text(args.get("awaits")),
        )
        device = self._device(fields.values, args)
        device.spans.append(_Found(span, _count(args.get("correlation")), track_of(fields.values)))
        sample = _sample(args)
        if sample and kind is not Class.GATE:
            device.samples[sample].append(span)

    def _read_annotation(
        self, fields: Fields, event: Mapping[str, object], args: Mapping[str, object]
    ) -> None:
        device, window, sample = self._device(event, args), self._window(fields), _sample(args)
        if sample is None:
            device.annotations.append(window)
        elif window.name == f"sample {sample[2]}":
            device.stated[sample] = window
        # Else it is a step's, whose work says as much.

    def _read_track(self, index: int, event: Mapping[str, object]) -> None:
        """Read the name of a track, or an end of an arrow."""
        track, args = track_of(event), event.get("args")
        phase, number = event.get("ph"), event.get("id")
        if track is None:
            return
        if event.get("name") == "thread_name" and isinstance(args, dict):
            self.arrows.names[track] = str(args.get("name", ""))
        elif event.get("cat") == _ARROW and phase in ("s", "f") and isinstance(number, int):
            at_ns = self.base_ns + self._ns(Fields(self.document, index, event), "ts")
            ends = self.arrows.sources if phase == "s" else self.arrows.targets
            ends[number] = (track, at_ns)

    def _times(self, fields: Fields) -> tuple[int, int]:
        """Return begin and end in nanoseconds."""
        begin, duration = self._ns(fields, "ts"), self._ns(fields, "dur")
        if duration < 0:
            raise fields.error("dur", f"{fields.number('dur'):g}: it ends before it begins")
        return self.base_ns + begin, self.base_ns + begin + duration

    def _ns(self, fields: Fields, key: str) -> int:
        time = _nanoseconds(fields.number(key))
        if abs(time) > _LATEST_NS:
            raise fields.error(key, f"{fields.number(key):g} is out of range")
        return time

    def _window(self, fields: Fields) -> Window:
        name = fields.text("name")
        return Window(name, *self._times(fields), number=number_of(name))

    def _device(self, event: Mapping[str, object], args: Mapping[str, object]) -> _Device:
        rank = args.get("rank") if "class" in args or _sample(args) else None
        device = args.get("device", event.get("pid"))
        stated = _is_rank(rank)
        number = device if isinstance(device, int) and not stated else 0
        key = (rank if isinstance(rank, int) and stated else None, number)
        return self.devices.setdefault(key, _Device())

    def _rank(self) -> int | None:
        about = self.document.values.get("distributedInfo")
        rank = about.get("rank") if isinstance(about, dict) else None
        return rank if _is_rank(rank) and isinstance(rank, int) else None

    def _trace(self, stated: int | None, rank: int | None, device: _Device) -> Trace:
        found = sorted(device.spans, key=lambda one: one.span.interval)
        spans = tuple(self._completed(one) for one in found)
        windows = place(spans, self.host_ranges, device.annotations)
        if samples := device.sample_windows():
            windows = tuple(replace(window, number=None) for window in windows)
        return Trace(
            self.document.source,
            rank if stated is None else stated,
            spans,
            windows + samples,
            self.common_clock,
            self._notes(),
            self._said("row"),
            self._said("backend"),
            self.arrows.between([one.span for one in found]) if self.about else None,
        )

    def _notes(self) -> tuple[str, ...]:
        fault = self._said("fault")
        return (f"its records have a fault, so do not trust it: {fault}",) if fault else ()

    def _said(self, key: str) -> str:
        """Return what one of our own files says of itself."""
        return harmless(_text(self.about.get(key)))

    def _completed(self, found: _Found) -> Span:
        """Return the span with what other events say of it."""
        span, call = found.span, found.correlation
        return replace(
            span,
            lane=self.arrows.names.get(found.track, span.lane) if found.track else span.lane,
            launched_ns=self.calls.get(call) if call is not None else None,
        )


def _order(key: tuple[int | None, int]) -> tuple[bool, int, int]:
    rank, device = key
    return (rank is None, rank or 0, device)


def _is_rank(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _HIGHEST_RANK


def _is_peer(name: str, args: Mapping[str, object]) -> bool:
    devices = args.get("fromDevice"), args.get("toDevice")
    return "PtoP" in name or (None not in devices and devices[0] != devices[1])


def _sample(args: Mapping[str, object]) -> Sample | None:
    """Return the sample that an event of our own belongs to."""
    number = args.get("sample")
    if not isinstance(number, int):
        return None
    return (str(args.get("row", "")), str(args.get("run", "")), number)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _all_or_count(value: object) -> int | str | None:
    return value if value == "all" and isinstance(value, str) else _count(value)


def _product(grid: object) -> int | None:
    """Return the blocks of a grid of PyTorch's profiler."""
    if not isinstance(grid, Sequence) or not all(isinstance(size, int) for size in grid):
        return None
    return math.prod(grid)


def _stated(fields: Fields, args: Mapping[str, object]) -> Class | None:
    name = args.get("class")
    if name is None:
        return None
    if not isinstance(name, str) or name not in Class.__members__:
        raise fields.error("args.class", f"{short(name)} is not one of {', '.join(Class)}")
    return Class[name]


def _nanoseconds(microseconds: float) -> int:
    """Convert exactly: the product of a large time and 1000 would lose its last digits."""
    whole = math.floor(microseconds)
    return whole * 1000 + round((microseconds - whole) * 1000)
