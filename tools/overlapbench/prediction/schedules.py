"""Schedules as data: what a result, or a plan, says of its rows' schedules (docs/prediction.md).

A row has works and runs. A run is a list of steps, each a share of a work on a lane, with the
steps that it waits for. The last run is the row's own. The others are each work alone, pairs of
works, and the plain form.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from overlapbench.output import ResultError, expand, harmless
from overlapbench.prediction.plain import PLAIN, described
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.source import decode_json, load

VERSION = 1
TRACE = "Trace"  # the family of a row that was read from a trace
SUMS = ("AllReduce", "ReduceScatter")  # of gradients, for which a step waits once, at its end
_HANDOVER = re.compile(r"([0-9]+(?:\.[0-9]+)?) us on another")
# Workloads that copy host memory. Results from before 28 November 2026 do not say so.
_HOST_COPIES = {"HostToDevice", "DeviceToHost"}
_BY_COPY = ("copy", "nccl_ce")  # transports that move data by copy engine


@dataclass(frozen=True)
class Work:
    """An operation, with the cost of all its parts on one rank."""

    name: str
    kind: str  # COMP, COMM or MEM
    collective: str = ""  # "AllReduce"
    flops: float = 0
    moved_bytes: float = 0
    wire_bytes: float = 0  # of a collective, as nccl-tests counts them
    transport: str = ""  # if it is not the row's; likewise the ranks
    ranks: int = 0
    sms: float = 0  # that a communication holds; 0: none, or not known
    host_bytes: float = 0  # of moved_bytes: those to or from the host's memory

    @property
    def computes(self) -> bool:
        return self.kind == "COMP"

    @property
    def amount(self) -> float:
        return self.flops or self.moved_bytes or self.wire_bytes


@dataclass(frozen=True)
class Recorded:
    """What a trace tells of a step."""

    ms: float  # its time alone
    enqueued_ms: float = 0  # from the begin of the run: it begins no earlier
    delay_ms: float | None = 0  # after what it waits for; None: as the rules of the replay say
    crosses: bool = False  # the delay follows the end of a step on another lane, not on its own


@dataclass(frozen=True)
class Step:
    work: int
    lane: int
    share: float  # of the work
    after: tuple[int, ...] = ()
    host_after: tuple[int, ...] = ()
    engine: str = ""
    recorded: Recorded | None = None

    @property
    def delay_ms(self) -> float | None:
        return self.recorded.delay_ms if self.recorded else None


@dataclass(frozen=True)
class Time:
    """A measured time in ms."""

    ms: float
    spread: float = 0  # its standard error, as a share


@dataclass(frozen=True)
class Run:
    name: str
    owners: tuple[int | None, ...]  # the rank of each lane; None: every rank has one
    steps: tuple[Step, ...]
    time: Time | None = None  # None: it was only planned
    lanes_ms: tuple[tuple[float, float], ...] = ()  # begin and end
    enqueue_ms: float = 0  # by the host, of all steps
    gated: bool = True


@dataclass(frozen=True)
class Row:
    """A row's schedules."""

    name: BenchmarkName
    backend: str
    ranks: int
    hosts: int
    transport: str
    works: tuple[Work, ...]
    runs: tuple[Run, ...]
    device: str = ""
    handover_ms: float | None = None  # from a step to one on another lane, where it was measured
    sms: int = 0  # of its GPU; 0: not known

    @property
    def own(self) -> Run:
        return self.runs[-1]

    @property
    def is_step(self) -> bool:
        """Whether it is more than one work or a pair."""
        return len(self.own.steps) > 2

    @property
    def sets_sms(self) -> bool:
        """Whether its collectives have other SMs than they have by default."""
        return any(axis in ("comm_sms", "comm_ctas") for axis, _ in self.name.axes)

    @property
    def copies_host_memory(self) -> bool:
        """Whether it copies to or from the host's memory, which all GPUs of a host share."""
        said = any(work.host_bytes for work in self.works)
        return said or not _HOST_COPIES.isdisjoint(self.name.workloads)

    @property
    def is_traced(self) -> bool:
        return self.name.family == TRACE

    def alone(self, work: int) -> tuple[Run, Time] | None:
        """Return the measured run of a work alone, and the time of a whole; None without one."""
        for run in self.runs:
            if run.time and all(step.work == work for step in run.steps):
                shares = [0.0] * len(run.owners)
                for step in run.steps:
                    shares[step.lane] += step.share
                return run, Time(run.time.ms / max(shares), run.time.spread)
        return None

    def step_bytes(self, work: int) -> float:
        """Return the size of one step of a collective: the largest, if they differ."""
        shares = [s.share for run in self.runs for s in run.steps if s.work == work]
        return self.works[work].wire_bytes * max(shares)

    def by_kernel(self, work: Work) -> bool:
        """Whether a communication runs on SMs. Where copy engines move the data, only sums do."""
        by_copy = self.transport_of(work) in _BY_COPY
        return self.backend != "host" and work.kind == "COMM" and not by_copy

    def transport_of(self, work: Work) -> str:
        return work.transport or self.transport

    def ranks_of(self, work: Work) -> int:
        return work.ranks or self.ranks


def read_rows(arguments: Sequence[str], unread: list[str] | None = None) -> list[Row]:
    """Read the schedules in results and plans.

    With `unread`, a row whose schedules are malformed or of another version adds a line to it, and
    files may have none.

    ResultError  a file has none, or without `unread` one that is malformed or of another version
    """
    return [row for source in expand(arguments) for row in _read(source, unread)]


def _read(source: str, unread: list[str] | None) -> list[Row]:
    document = decode_json(source, load(source))
    entries = None
    if isinstance(document, dict):
        entries = document.get("planned", document.get("benchmarks"))
    if not isinstance(document, dict) or not isinstance(entries, list):
        raise ResultError(f"{source}: benchmarks: missing: neither a result nor a plan")
    rows = []
    for index, entry in enumerate(entries):
        usable = isinstance(entry, dict) and entry.get("state") not in ("invalid", "error")
        try:
            if usable and (row := _entry(document.get("context", {}), entry)):
                rows.append(row)
        except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            told = f"{source}: entry {index}: schedules: malformed: {error!r}"
            if unread is None:
                raise ResultError(told) from None
            unread.append(harmless(told))
    if not rows and unread is None:
        raise ResultError(f"{source}: no row has schedules: measure with --predictable")
    return rows


def _entry(context: Mapping[str, Any], entry: Mapping[str, Any]) -> Row | None:
    """Return the row of an entry; None if it tells nothing."""
    data = entry.get("schedules")
    if data is None and str(entry.get("name", "")).startswith(PLAIN):
        data = described(BenchmarkName.parse(entry["name"]), context, entry)
    if data is None:
        return None
    told = _HANDOVER.search(str(context.get("handover", "")))
    row = _row(BenchmarkName.parse(entry["name"]), context.get("backend", ""), data)
    handover_ms = float(told[1]) / 1e3 if told else None
    sms = int(context.get("device_multiprocessors", 0))
    return replace(row, device=str(context.get("device", "")), handover_ms=handover_ms, sms=sms)


def _row(name: BenchmarkName, backend: str, data: Mapping[str, Any]) -> Row:
    if data["version"] != VERSION:
        raise ValueError(f"version {data['version']!r} is not supported: must be {VERSION}")
    works = tuple(
        Work(
            one["name"],
            one["class"],
            one.get("collective", ""),
            _least(one.get("flops", 0)),
            _least(one.get("moved_bytes", 0)),
            _least(one.get("wire_bytes", 0)),
            str(one.get("transport", "")),
            sms=_least(one.get("sms", 0)),
            host_bytes=_least(one.get("host_bytes", 0)),
        )
        for one in data["works"]
    )
    runs = tuple(_run(run, len(works)) for run in data["runs"])
    if not runs or any(not run.steps for run in runs):
        raise ValueError("a run has no steps")
    ranks, hosts = (round(_least(data[key], 1)) for key in ("ranks", "hosts"))
    return Row(name, backend, ranks, hosts, data["transport"], works, runs)


def _least(number: float, least: float = 0.0) -> float:
    """Return a number; ValueError unless it is finite and at least this."""
    if not least <= number < math.inf:
        raise ValueError(f"{number!r} is not at least {least:g}")
    return number


def _run(data: Mapping[str, Any], works: int) -> Run:
    steps = []
    for place, (work, lane, _, parts, after, *more) in enumerate(data["steps"]):
        rest: Mapping[str, Any] = more[0] if more else {}
        host_after = rest.get("host_after", ())
        if not (0 <= work < works and 0 <= lane < len(data["lanes"]) and parts >= 1):
            raise ValueError(f"step {place} names what does not exist")
        if any(not 0 <= earlier < place for earlier in (*after, *host_after)):
            raise ValueError(f"step {place} does not wait for an earlier one")
        engine = rest.get("engine", "")
        steps.append(Step(work, lane, 1 / parts, tuple(after), tuple(host_after), engine))
    time = None
    if "ms" in data:
        ms = _least(data["ms"])
        width = _least(data.get("ms_high", ms) - data.get("ms_low", ms))
        time = Time(ms, width / (2 * 1.96 * ms))
    return Run(
        data["name"],
        tuple(lane.get("rank") for lane in data["lanes"]),
        tuple(steps),
        time,
        tuple((_least(begin), _least(end, begin)) for begin, end in data.get("lanes_ms", ())),
        _least(data.get("enqueue_ms", 0.0)),
        data.get("gated", True),
    )
