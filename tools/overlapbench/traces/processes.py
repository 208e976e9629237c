"""Whose work it is: the processes and devices in a file, which launched what, and which are ranks.

Usually a file has one process. Mergers put several into one file, whose devices and correlations
may have the same numbers. Some write a name of each process into `pid` ("[TP01] 100"), on the host
and on the device. A span then belongs to the process of that name. Otherwise it belongs to the
process whose call launched it; if calls of several have its correlation, to the last one before it
in the file.

A process that touches another GPU, even by creating a context there, leaves a few records on it. A
device is a rank of its own only if it ran kernels, for at least a hundredth of the time of the
busiest device of its process.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

from overlapbench.grouping import grouped
from overlapbench.output import counted
from overlapbench.traces.intervals import Interval
from overlapbench.traces.model import Category, Span

Process = Hashable  # a `pid`; in our own files, a rank
_NUMBER = re.compile(r"\s*\d+$")


class Call(NamedTuple):
    """A call of the host that launched work."""

    event: int  # its place in the file
    returned_ns: int
    process: Process


def name_of(process: Process) -> Process:
    """Return what the pids of a process have in common, on the host and on devices."""
    if isinstance(process, str):
        return _NUMBER.sub("", process)
    return "" if isinstance(process, int) else process


class Calls:
    """All calls of a file."""

    def __init__(self) -> None:
        self._found: dict[Process, dict[int, Call]] = defaultdict(dict)
        self._named: dict[Process, list[dict[int, Call]]] = defaultdict(list)

    def add(self, correlation: int, call: Call) -> None:
        if call.process not in self._found:
            self._named[name_of(call.process)].append(self._found[call.process])
        self._found[call.process][correlation] = call

    def launch_of(self, correlation: int | None, process: Process, event: int) -> Call | None:
        """Return the call that launched a span; `process` is the pid of its device."""
        if correlation is None:
            return None
        known = self._named.get(name_of(process)) or list(self._found.values())
        calls = [of_process[correlation] for of_process in known if correlation in of_process]
        if len(calls) > 1:
            calls.sort(key=lambda call: (call.event < event, call.event))
        return calls[-1] if calls else None

    def only_process(self, process: Process) -> Process | None:
        """Return the process that must have launched a device's work; None if several may have."""
        known = [one for one in self._found if name_of(one) == name_of(process)] or [*self._found]
        return known[0] if len(known) == 1 else None

    def hull(self) -> list[Interval]:
        """Return the time from the first return of a call to the last; empty without calls."""
        times = [call.returned_ns for calls in self._found.values() for call in calls.values()]
        return [(min(times), max(times))] if times else []


_LEAST_SHARE = 0.01


@dataclass(eq=False)
class Device:
    """What one process did on one device."""

    process: Hashable
    name: str
    spans: list[Span] = field(default_factory=list)
    rank: int | None = None  # if the file states it for this device
    notes: tuple[str, ...] = ()

    @cached_property
    def work(self) -> tuple[bool, int]:
        """Whether it ran kernels, and how long it was busy; compared in this order."""
        has_kernels = any(span.category is Category.KERNEL for span in self.spans)
        return has_kernels, sum(span.end_ns - span.begin_ns for span in self.spans)


_Device = TypeVar("_Device", bound=Device)


def ranks_among(devices: Iterable[_Device], stated: int | None) -> list[_Device]:
    """Return the devices that are ranks. The busiest one of an only process has the stated rank."""
    processes = grouped(devices, lambda device: device.process)
    found = [device for each in processes.values() for device in _without_strays(each)]
    if len(processes) == 1:
        busiest = max(found, key=lambda device: device.work)
        busiest.rank = stated if busiest.rank is None else busiest.rank
    return found


def _without_strays(devices: Sequence[_Device]) -> list[_Device]:
    main = max(devices, key=lambda device: device.work)
    ranks = [device for device in devices if device is main or _is_rank(device, main)]
    for stray in devices:
        if stray not in ranks:
            count = counted(len(stray.spans), "stray span")
            main.notes += (
                f"left out {count} on device {stray.name}: the process works on {main.name}",
            )
    return ranks


def _is_rank(device: Device, main: Device) -> bool:
    (has_kernels, busy_ns), (_, most_ns) = device.work, main.work
    return has_kernels and busy_ns >= _LEAST_SHARE * most_ns
