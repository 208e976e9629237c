"""Links: how long a collective takes alone, at its size, on more ranks, over a network.

A collective of S bytes on p ranks of a host takes alpha(p) + v(p) S / B(S). B comes from measured
sizes. v is the bus factor of nccl-tests and, where NCCL's kernels move the data, a part of the
rank's own block: they copy that, too. Between hosts it takes as long as the slower of its two
legs, NVLink and network, plus the network's latency.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from overlapbench.output import ResultError
from overlapbench.prediction.schedules import Row

_MIB = 1 << 20
_SLACK = 1.05  # sizes that differ by less count as measured
_RING = ("SendRecv", "Broadcast")  # w = 1
# A sum reads two blocks to write one, so a rank's own block costs more than in a gather.
_OWN_BLOCK = {"AllGather": 0.4, "ReduceScatter": 0.55, "AllReduce": 0.55, "AllToAll": 0.15}
_START = 3  # of the time for no bytes, in units of what each doubling of the ranks adds
_RELAYED = "on 2 GPUs no rank passes data on"
_UNLIKE_TWO = {
    ("SendRecv", "nccl"): "the ring of 2 sends and receives by one link",
    **{("Broadcast", by): _RELAYED for by in ("nccl", "nccl_ce", "copy", "sm_load", "sm_bulk")},
}
_FIRST_NVLS = 8  # ranks of a host from which NCCL sums in the switch


@dataclass(frozen=True)
class Network:
    """Between hosts: of each GPU, in one direction."""

    GBps: float
    latency_us: float = 5.0


@dataclass(frozen=True)
class Point:
    bytes: float
    ms: float
    row: Row


Links = Mapping[tuple[str, str, int, int], Sequence[Point]]  # collective, transport, ranks, hosts


def links_of(rows: Iterable[Row]) -> Links:
    """Collect the collectives that rows have measured alone."""
    found: dict[tuple[str, str, int, int], list[Point]] = {}
    for row in rows:
        for place, work in enumerate(row.works):
            alone = row.alone(place)
            if work.collective and work.wire_bytes and alone and len(alone[0].owners) == 1:
                share = alone[0].steps[0].share
                point = Point(work.wire_bytes * share, alone[1].ms * share, row)
                key = (work.collective, row.transport_of(work), row.ranks_of(work), row.hosts)
                found.setdefault(key, []).append(point)
    return found


def weight(collective: str, ranks: int) -> float:
    """Return the bus factor w(p)."""
    if collective in _RING:
        return 1.0
    return (2 if collective == "AllReduce" else 1) * (ranks - 1) / ranks


@dataclass(frozen=True)
class Asked:
    """A collective whose time is asked for; `near` is the row whose own times are preferred."""

    collective: str
    transport: str
    bytes: float
    near: Row | None = None

    def command(self) -> str:
        """Return what to measure."""
        by = f" --axis transport={self.transport}" * (self.transport not in ("", "mpi"))
        size = f" --axis bytes={round(self.bytes)}"
        return f"./bench --predictable --benchmark_filter=^Comm/{self.collective}/{by}{size}"


def time_of(
    links: Links, asked: Asked, ranks: int, hosts: int = 1, network: Network | None = None
) -> float:
    """Return the time alone in ms.

    ResultError  it does not follow from what was measured: one line, with what to measure
    """
    if own := links.get((asked.collective, asked.transport, ranks, hosts)):
        return _at_size(own, asked)
    local = ranks // hosts
    if hosts == 1:
        return _on_more_ranks(links, asked, ranks)
    if asked.transport not in ("nccl", "mpi"):
        raise ResultError(f"{asked.transport} does not reach other hosts; ask for transport nccl")
    if network is None:
        raise ResultError(f"{hosts} nodes need a network: GB/s of each GPU in one direction")
    leg = time_of(links, asked, local) if local > 1 else 0.0
    # The GPUs of a host share what crosses, unless each has blocks of its own for every rank.
    shared = 1 if asked.collective in ("AllToAll", *_RING) else local
    crossing = weight(asked.collective, hosts) * asked.bytes / shared / (network.GBps * 1e6)
    hops = math.ceil(math.log2(hosts)) * (2 if asked.collective == "AllReduce" else 1)
    return max(leg, crossing) + hops * network.latency_us / 1e3


def _on_more_ranks(links: Links, asked: Asked, ranks: int) -> float:
    what = f"{asked.collective} by {asked.transport}"
    counts = [
        key[2] for key in links if key[:2] == (asked.collective, asked.transport) and key[3] == 1
    ]
    if not counts:
        raise ResultError(f"{what} was not measured: measure {asked.command()}")
    base = min(counts, key=lambda count: abs(math.log(count / ranks)))
    by_nccl = asked.collective == "AllReduce" and asked.transport.startswith("nccl")
    if by_nccl and base < _FIRST_NVLS <= ranks:
        raise ResultError(
            f"{what} on {ranks} GPUs does not follow from {base}: NCCL may sum in the switch there "
            f"(20 to 22 % error); measure {asked.command()} --ranks {ranks}"
        )
    if asked.bytes < _MIB:
        few = "below 1 MiB times on more GPUs do not follow (11 to 68 % error)"
        raise ResultError(f"{what} on {ranks} GPUs: {few}; measure {asked.command()}")
    if base == 2 and (told := _UNLIKE_TWO.get((asked.collective, asked.transport))):
        raise ResultError(
            f"{what} on {ranks} GPUs does not follow from 2: {told}; measure {asked.command()}"
        )
    points = links[asked.collective, asked.transport, base, 1]
    measured = _at_size(points, asked)
    alpha = min(_alpha(_sizes(points, None)), measured)
    ratio = _moved(asked, ranks) / _moved(asked, base)
    later = (_START + math.log2(ranks)) / (_START + math.log2(base))
    return alpha * later + (measured - alpha) * ratio


def _moved(asked: Asked, ranks: int) -> float:
    """Return v(p)."""
    own = _OWN_BLOCK.get(asked.collective, 0.0) if asked.transport == "nccl" else 0.0
    whole = 1 if asked.collective == "AllReduce" else ranks
    return weight(asked.collective, ranks) + own / whole


def _alpha(sizes: Sequence[tuple[float, float]]) -> float:
    """Return the time that the two smallest sizes would take for no bytes."""
    if len(sizes) < 2:
        return 0.0
    (s1, t1), (s2, t2) = sizes[:2]
    return max(0.0, t1 - s1 * (t2 - t1) / (s2 - s1))


def _sizes(points: Iterable[Point], near: Row | None) -> list[tuple[float, float]]:
    """Return times by size: those of the row itself, or else of collectives by themselves.

    In a step's lane, a collective finds other caches, and its launch is hidden.
    """
    found: dict[float, list[Point]] = {}
    for point in points:
        found.setdefault(point.bytes, []).append(point)
    return [(size, median(p.ms for p in _best(same, near))) for size, same in sorted(found.items())]


def _best(points: Sequence[Point], near: Row | None) -> Sequence[Point]:
    """Return those of the row itself, or else of the standing SMs and measured by themselves."""
    usual = [point for point in points if not point.row.sets_sms] or points
    by_itself = [point for point in usual if len(point.row.own.steps) == 1]
    return [point for point in points if point.row is near] or by_itself or usual


def _at_size(points: Sequence[Point], asked: Asked) -> float:
    sizes, bytes_ = _sizes(points, asked.near), asked.bytes
    for size, ms in sizes:
        if size / _SLACK <= bytes_ <= size * _SLACK:
            return ms * bytes_ / size
    (least, _), (most, most_ms) = sizes[0], sizes[-1]
    if bytes_ < least:
        why = f"the smallest size measured is {least / _MIB:.3g} MiB"
        if bytes_ < _MIB:
            why = "below 1 MiB times do not follow from larger sizes (11 to 68 % error)"
        what = f"{asked.collective} of {bytes_ / _MIB:.3g} MiB"
        raise ResultError(f"{what}: {why}; measure {asked.command()}")
    if bytes_ > most:
        alpha = min(_alpha(sizes), most_ms)
        return alpha + (most_ms - alpha) * bytes_ / most
    (s1, t1), (s2, t2) = next(
        (one, two) for one, two in pairwise(sizes) if one[0] <= bytes_ <= two[0]
    )
    return t1 * math.pow(t2 / t1, math.log(bytes_ / s1) / math.log(s2 / s1))
