"""Which devices' work is a rank's: that of each process, without stray records.

A process that touches another GPU, even by creating a context there, leaves a few records on it. A
device is a rank of its own only if it ran kernels, for at least a hundredth of the time of the
busiest device of its process.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from overlapbench.grouping import grouped
from overlapbench.output import counted
from overlapbench.traces.model import Category, Span

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
