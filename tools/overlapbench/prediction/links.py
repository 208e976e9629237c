"""Links: how long a collective takes alone, at its size, on more ranks, over a network.

A collective of S bytes on p ranks of a host takes alpha(p) + v(p) S / B(S). B comes from measured
sizes. v is the bus factor of nccl-tests and, where NCCL's kernels move the data, a part of the
rank's own block: they copy that, too. Between hosts it takes as long as the slower of its two
legs, NVLink and network, plus the network's latency.

With other SMs it takes as many times as long as the measured curve of times against SMs says.
Between two points of the curve, more SMs help in proportion until the time of the next point.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from overlapbench.grouping import grouped
from overlapbench.output import ResultError
from overlapbench.prediction.schedules import Row

_MIB = 1 << 20
_SLACK = 1.05  # sizes that differ by less count as measured
_RING = ("SendRecv", "Broadcast")  # w = 1
_WIDE = 256 * _MIB  # from here on, NCCL gives each pair of a ring all channels
# A sum reads two blocks to write one, so a rank's own block costs more than in a gather.
_OWN_BLOCK = {"AllGather": 0.4, "ReduceScatter": 0.55, "AllReduce": 0.55, "AllToAll": 0.15}
_START = 6  # of the time for no bytes, in units of what each rank adds
_FIRST_NVLS = 8  # ranks of a host from which NCCL sums in the switch
_SIMILAR = 8.0  # sizes that differ by no more than this factor have one curve of times against SMs
_LEAST_OF_CURVES = 16 * _MIB  # below, each has its own
_LEAST_SLOPE = 0.25  # of a curve; where it is flat, how slow SMs matter is not known
OF_SMS = 0.03  # the standard error of times and factors at other SMs, as a share


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
    sms: float = 0


Links = Mapping[tuple[str, str, int, int], Sequence[Point]]  # collective, transport, ranks, hosts
Curve = Sequence[tuple[float, float]]  # times in ms against SMs, in order


def links_of(rows: Iterable[Row]) -> Links:
    """Collect the collectives that rows have measured alone."""
    found: dict[tuple[str, str, int, int], list[Point]] = {}
    for row in rows:
        for place, work in enumerate(row.works):
            alone = row.alone(place)
            if work.collective and work.wire_bytes and alone and len(alone[0].owners) == 1:
                share = alone[0].steps[0].share
                point = Point(work.wire_bytes * share, alone[1].ms * share, row, work.sms)
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
    sms: float = 0  # 0: as measured

    def unlike(self, bytes_: float) -> float:
        """Return how much another size differs: the logarithm of a factor."""
        return abs(math.log((bytes_ or 1) / (self.bytes or 1)))

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
    own = links.get((asked.collective, asked.transport, ranks, hosts))
    if hosts == 1 or (own and network is None):
        return unbound(links, asked, ranks, hosts)
    if asked.transport not in ("nccl", "mpi"):
        raise ResultError(f"{asked.transport} does not reach other hosts; ask for transport nccl")
    if network is None:
        raise ResultError(f"{hosts} nodes need a network: GB/s of each GPU in one direction")
    local = ranks // hosts
    # The GPUs of a host share what crosses, unless each has blocks of its own for every rank.
    shared = 1 if asked.collective in ("AllToAll", *_RING) else local
    crossing = weight(asked.collective, hosts) * asked.bytes / shared / (network.GBps * 1e6)
    hops = math.ceil(math.log2(hosts)) * (2 if asked.collective == "AllReduce" else 1)
    late_ms = hops * network.latency_us / 1e3
    leg_ms = unbound(links, asked, ranks, hosts) + late_ms * (not own)
    return max(leg_ms, crossing + late_ms)


def traffic(links: Links, asked: Asked, ranks: int, hosts: int, network: Network | None) -> float:
    """Return what share of its traffic's rate a network between hosts leaves."""
    return unbound(links, asked, ranks, hosts) / time_of(links, asked, ranks, hosts, network)


def unbound(links: Links, asked: Asked, ranks: int, hosts: int) -> float:
    """Return the time in ms as measured on these hosts, or else of the leg in one of them."""
    own = links.get((asked.collective, asked.transport, ranks, hosts))
    if not own and hosts > 1:
        return unbound(links, asked, ranks // hosts, 1) if ranks > hosts else 0.0
    ms = _at_size(own, asked) if own else _on_more_ranks(links, asked, ranks)
    return ms * _by_sms(links, asked, ranks) if asked.sms else ms


def _on_more_ranks(links: Links, asked: Asked, ranks: int) -> float:
    what = f"{asked.collective} by {asked.transport}"
    base = _measured_ranks(links, asked, ranks)
    by_nccl = asked.collective == "AllReduce" and asked.transport.startswith("nccl")
    if by_nccl and base < _FIRST_NVLS <= ranks:
        raise ResultError(
            f"{what} on {ranks} GPUs does not follow from {base}: NCCL may sum in the switch there "
            f"(20 to 22 % error); measure {asked.command()} --ranks {ranks}"
        )
    if asked.bytes < _MIB:
        few = "below 1 MiB times on more GPUs do not follow (11 to 68 % error)"
        raise ResultError(f"{what} on {ranks} GPUs: {few}; measure {asked.command()}")
    if told := _unlike(asked):
        raise ResultError(
            f"{what} on {ranks} GPUs does not follow from {base}: {told}; measure {asked.command()}"
        )
    points = links[asked.collective, asked.transport, base, 1]
    measured = _at_size(points, asked)
    alpha = min(_alpha(_sizes(points, None)), measured)
    ratio = _moved(asked, ranks) / _moved(asked, base)
    later = (_START + ranks) / (_START + base)
    return alpha * later + (measured - alpha) * ratio


def _unlike(asked: Asked) -> str:
    """Return why a collective takes another time on more ranks than its bytes say."""
    if asked.collective == "Broadcast":
        return "more ranks pass its data on (up to 71 % error)"
    if (asked.collective, asked.transport) == ("SendRecv", "nccl") and asked.bytes < _WIDE:
        return "NCCL sends by fewer channels below 256 MiB (up to 68 % error)"
    return ""


def _measured_ranks(links: Links, asked: Asked, ranks: int) -> int:
    """Return the number of ranks of one host that is nearest, of those that were measured."""
    what = asked.collective, asked.transport
    counts = [key[2] for key in links if key[:2] == what and key[3] == 1]
    if not counts:
        told = f"{asked.collective} by {asked.transport} was not measured"
        raise ResultError(f"{told}: measure {asked.command()}")
    return min(counts, key=lambda count: abs(math.log(count / ranks)))


def _by_sms(links: Links, asked: Asked, ranks: int) -> float:
    """Return how many times as long it takes as with the SMs with which it was measured."""
    ranks = _measured_ranks(links, asked, ranks)
    points = links[asked.collective, asked.transport, ranks, 1]
    size = min((point.bytes for point in points), key=asked.unlike)
    was = _best([point for point in points if point.bytes == size], asked.near)[0].sms
    curve = curve_of(links, asked, ranks, was)
    return at_sms(curve, asked.sms) / at_sms(curve, was)


def curve_of(links: Links, asked: Asked, ranks: int, was: float) -> Curve:
    """Return a curve that reaches from the SMs of a measurement to those that are asked for.

    ResultError  no such curve was measured: one line, with what to measure
    """
    few, many = sorted((was, asked.sms))
    if few == many:
        return [(few, 1.0)]
    ranks = _measured_ranks(links, asked, ranks)
    points = links[asked.collective, asked.transport, ranks, 1]
    for some in (_by_themselves(points), points):
        for size in sorted({point.bytes for point in some}, key=asked.unlike):
            same = grouped((p for p in some if p.sms and p.bytes == size), lambda p: p.sms)
            curve = [(sms, median(p.ms for p in same[sms])) for sms in sorted(same)]
            likeness = _SIMILAR if min(size, asked.bytes) >= _LEAST_OF_CURVES else _SLACK
            reaches = curve and curve[0][0] <= few and many <= curve[-1][0]
            if reaches and asked.unlike(size) <= math.log(likeness):
                return curve
    axis = "comm_ctas" if asked.transport.startswith("nccl") else "comm_sms"
    raise ResultError(
        f"{asked.collective} by {asked.transport} with {asked.sms:.0f} SMs does not follow from"
        f" what was measured: measure {asked.command()} --axis {axis}={few:.0f},{many:.0f}"
    )


def at_sms(curve: Curve, sms: float) -> float:
    """Return the time at a number of SMs; below the curve, in proportion."""
    left = [point for point in curve if point[0] <= sms] or [curve[0]]
    right = [ms for count, ms in curve if count >= sms] or [0.0]
    return max(left[-1][1] * left[-1][0] / sms, right[0])


def slope(curve: Curve, sms: float) -> float:
    """Return how steep the curve is up to a number of SMs: 1 if it is in proportion."""
    fewer = max((count for count, _ in curve if count < sms), default=sms / 2)
    steep = math.log(at_sms(curve, fewer) / at_sms(curve, sms)) / math.log(sms / fewer)
    return max(steep, _LEAST_SLOPE)


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
    found = sorted(grouped(points, lambda point: point.bytes).items())
    return [(size, median(point.ms for point in _best(same, near))) for size, same in found]


def _best(points: Sequence[Point], near: Row | None) -> Sequence[Point]:
    """Return those of the row itself, or else of the standing SMs and measured by themselves.

    If none has those, the ones with the most SMs count.
    """
    most = max(point.sms for point in points)
    usual = [point for point in points if not point.row.sets_sms]
    usual = usual or [point for point in points if point.sms == most]
    return [point for point in points if point.row is near] or _by_themselves(usual)


def _by_themselves(points: Sequence[Point]) -> Sequence[Point]:
    return [point for point in points if len(point.row.own.steps) == 1] or points


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
