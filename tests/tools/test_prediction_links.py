"""How long collectives take alone: by size, ranks, hosts and transport."""

import math
from dataclasses import replace

import pytest

from overlapbench.output import ResultError
from overlapbench.prediction.links import (
    Asked,
    Links,
    Network,
    Point,
    links_of,
    time_of,
    traffic,
    weight,
)
from overlapbench.prediction.schedules import Row, Run, Step, Time
from overlapbench.reading.names import BenchmarkName
from predictable import LAYER_BYTES, MIB, SHUFFLE, Machine, alone, ddp, fsdp, row, size

MACHINE = Machine()
BROADCAST = replace(SHUFFLE, name="broadcast", collective="Broadcast")
FEW_SMS = BenchmarkName.parse("Comm/AllGather/bytes:33554432/comm_sms:4/cache:cold")


def collective(bytes_: float, name: str = "AllGather", transport: str = "nccl") -> Asked:
    return Asked(name, transport, bytes_)


def points(*sizes: tuple[float, float], of: Row | None = None) -> list[Point]:
    return [
        Point(size * MIB, ms, of or row("cuda", "nccl", alone(1, 1.0, 1.0))) for size, ms in sizes
    ]


def time(
    links: Links,
    mib: float,
    ranks: int = 2,
    hosts: int = 1,
    *,
    name: str = "AllReduce",
    by: str = "copy",
    network: Network | None = None,
    near: Row | None = None,
) -> float:
    return time_of(links, Asked(name, by, mib * MIB, near), ranks, hosts, network)


def test_a_collective_follows_its_measured_sizes_ranks_and_network() -> None:
    links = links_of([fsdp(MACHINE, 2, 1), fsdp(MACHINE, 4, 1), fsdp(MACHINE, 8, 1)])
    own = MACHINE.collective_ms("AllGather", LAYER_BYTES, 4)
    assert time_of(links, collective(LAYER_BYTES), 4) == pytest.approx(own)
    # Larger than measured, with one size only: in proportion.
    assert time_of(links, collective(2 * LAYER_BYTES), 4) == pytest.approx(2 * own)
    fast, slow = Network(1e6, 1e-9), Network(10, 1e-9)
    inside = time_of(links, collective(LAYER_BYTES), 8)
    assert time_of(links, collective(LAYER_BYTES), 16, 2, fast) == pytest.approx(inside)
    # Half of it crosses, through eight adapters.
    crossing = LAYER_BYTES / 2 / 8 / 10e6
    assert time_of(links, collective(LAYER_BYTES), 16, 2, slow) == pytest.approx(crossing)
    # Every rank has blocks of its own for every other one: all of them cross.
    blocks = replace(fsdp(MACHINE, 8, 1), works=(*fsdp(MACHINE, 8, 1).works[:2], SHUFFLE))
    shuffled = links_of([blocks])
    asked = collective(LAYER_BYTES, "AllToAll")
    assert time_of(shuffled, asked, 16, 2, slow) == pytest.approx(8 * crossing)
    late = Network(10, 100)
    assert time_of(links, collective(LAYER_BYTES), 32, 4, late) > crossing + 0.2


@pytest.mark.parametrize(
    ("asked", "ranks", "hosts", "why"),
    [
        (collective(LAYER_BYTES, "AllReduce"), 8, 1, "on 8 GPUs does not follow from 4"),
        (collective(1 << 19), 4, 1, "below 1 MiB times do not follow"),
        (collective(2 << 20), 4, 1, "the smallest size measured is 32 MiB; measure ./bench"),
        (collective(LAYER_BYTES, "AllToAll"), 4, 1, "AllToAll by nccl was not measured"),
        (collective(1 << 19), 2, 1, "below 1 MiB times on more GPUs do not follow"),
        (collective(LAYER_BYTES, "Broadcast", "copy"), 4, 1, "follow from 2: more ranks pass"),
        (collective(LAYER_BYTES), 16, 2, "2 nodes need a network"),
        (collective(LAYER_BYTES, "AllGather", "copy"), 16, 2, "copy does not reach other hosts"),
    ],
)
def test_what_does_not_follow_is_refused(asked: Asked, ranks: int, hosts: int, why: str) -> None:
    sent = replace(fsdp(MACHINE, 2, 1, "copy"), works=(*fsdp(MACHINE, 2, 1).works[:2], BROADCAST))
    links = links_of([fsdp(MACHINE, 4, 1), ddp(MACHINE, 2, 1), ddp(MACHINE, 4, 1), sent])
    with pytest.raises(ResultError, match=why):
        time_of(links, asked, ranks, hosts)


def test_collectives_by_themselves_are_preferred_to_those_of_steps() -> None:
    alone = Run("gather", (None,), (Step(0, 0, 1.0),), Time(1.0))
    work = replace(fsdp(MACHINE, 2, 1).works[2], wire_bytes=LAYER_BYTES)
    by_itself = replace(fsdp(MACHINE, 2, 1), works=(work,), runs=(alone,))
    few_sms = replace(by_itself, name=FEW_SMS, runs=(replace(alone, time=Time(3.0)),))
    links = links_of([fsdp(MACHINE, 2, 1), by_itself, few_sms])
    assert time_of(links, collective(LAYER_BYTES), 2) == pytest.approx(1.0)
    own = replace(collective(LAYER_BYTES), near=few_sms)
    assert time_of(links, own, 2) == pytest.approx(3.0)


def test_kernels_of_nccl_also_copy_their_own_block() -> None:
    links = links_of([fsdp(MACHINE, 2, 1)])
    two, four = (time_of(links, collective(LAYER_BYTES), ranks) for ranks in (2, 4))
    assert four / two == pytest.approx((3 / 4 + 0.4 / 4) / (1 / 2 + 0.4 / 2))
    copied = links_of([fsdp(MACHINE, 2, 1, "copy")])
    asked = collective(LAYER_BYTES, transport="copy")
    assert time_of(copied, asked, 4) / time_of(copied, asked, 2) == pytest.approx(1.5)


@pytest.mark.parametrize(("mib", "by", "follows"), [
    (255, "nccl", False), (256, "nccl", True), (255, "copy", True), (256, "copy", True),
])  # fmt: skip
def test_nccl_sends_by_fewer_channels_on_more_ranks(mib: int, by: str, follows: bool) -> None:
    known = {("SendRecv", by, 4, 1): points((mib, 1.0))}
    if follows:
        assert time(known, mib, 8, name="SendRecv", by=by) == pytest.approx(1.0)
        return
    with pytest.raises(ResultError, match="follow from 4: NCCL sends by fewer channels"):
        time(known, mib, 8, name="SendRecv", by=by)


def test_bus_factors_are_those_of_nccl_tests() -> None:
    names = ("AllReduce", "AllGather", "AllToAll", "SendRecv", "Broadcast")
    assert [weight(name, 4) for name in names] == [1.5, 0.75, 0.75, 1, 1]


def test_times_follow_measured_sizes() -> None:
    known = {("AllReduce", "copy", 2, 1): points((4, 1.2), (1, 0.5), (16, 4.0), (4, 1.0), (4, 9.0))}
    assert time(known, 1) == 0.5
    assert time(known, 4) == 1.2  # the median
    assert time(known, 4 * 1.049) == pytest.approx(1.2 * 1.049)  # close enough: in proportion
    assert time(known, 4 * 1.051) == pytest.approx(1.2 * (4.0 / 1.2) ** (math.log(1.051, 4)))
    assert time(known, 2) == pytest.approx(math.sqrt(0.5 * 1.2))  # between two: a power of the size
    # Beyond the largest: the two smallest tell what no bytes take.
    alpha = 0.5 - 0.7 / 3
    assert time(known, 32) == pytest.approx(alpha + (4.0 - alpha) * 2)
    assert time({("AllReduce", "copy", 2, 1): points((1, 0.5))}, 4) == 2.0
    own = row("cuda", "nccl", alone(1, 1.0, 1.0))
    both = {("AllReduce", "copy", 2, 1): points((4, 1.2), (4, 1.3)) + points((4, 7.0), of=own)}
    assert time(both, 4, near=own) == 7.0
    with pytest.raises(
        ResultError, match=r"AllReduce of 3.8 MiB: the smallest size measured is 4 "
    ):
        time(both, 3.8)
    with pytest.raises(ResultError, match=r"AllReduce of 0.5 MiB: below 1 MiB times do not follow"):
        time(both, 0.5)


def test_more_ranks_are_told_from_the_nearest_number() -> None:
    known = {
        ("AllGather", "copy", 2, 1): points((1, 0.3), (2, 0.5)),
        ("AllGather", "copy", 4, 1): points((1, 0.4), (2, 0.7)),
        ("AllGather", "copy", 16, 2): points((1, 99.0)),  # over a network: says nothing of a host
    }
    # alpha 0.1 grows with the ranks, the rest with the bus factor.
    found = time(known, 2, 8, name="AllGather")
    assert found == pytest.approx(0.1 * 14 / 10 + 0.6 * (7 / 8) / 0.75)
    with_sums = {("AllReduce", "nccl", 2, 1): points((1, 0.3), (2, 0.5))}
    moved = (1.5 + 0.55) / (1.0 + 0.55)  # NCCL copies the rank's own block, too
    found = time(with_sums, 2, 4, by="nccl")
    assert found == pytest.approx(0.1 * 10 / 8 + 0.4 * moved)


@pytest.mark.parametrize(
    ("name", "own"),
    [("AllGather", 0.4), ("ReduceScatter", 0.55), ("AllToAll", 0.15)],
)
def test_kernels_of_nccl_copy_a_part_of_the_own_block(name: str, own: float) -> None:
    known = {(name, "nccl", 4, 1): points((4, 1.0))}
    moved = [weight(name, ranks) + own / ranks for ranks in (4, 8)]
    assert time(known, 4, 8, name=name, by="nccl") == pytest.approx(moved[1] / moved[0])


@pytest.mark.parametrize(("base", "ranks", "follows"), [(4, 7, True), (4, 8, False), (8, 16, True)])
def test_sums_by_nccl_do_not_follow_across_eight_ranks(
    base: int, ranks: int, follows: bool
) -> None:
    known = {("AllReduce", "nccl", base, 1): points((4, 1.0))}
    if follows:
        assert time(known, 4, ranks, by="nccl") > 1
        return
    told = "AllReduce by nccl on 8 GPUs does not follow from 4: NCCL may sum in the switch there"
    with pytest.raises(ResultError, match=told):
        time(known, 4, ranks, by="nccl")


@pytest.mark.parametrize(
    ("name", "hosts", "local", "rate", "ms"),
    [
        # Both ways; an eighth of the data through each adapter; two hops each way.
        ("AllReduce", 4, 8, 10, 2 * 3 / 4 * 64 * MIB / 8 / 10e6 + 4 * 0.02),
        ("AllToAll", 4, 8, 10, 3 / 4 * 64 * MIB / 10e6 + 2 * 0.02),
        ("AllToAll", 3, 8, 1e6, 1.0 + 2 * 0.02),  # the link inside is the slower one
        ("AllToAll", 4, 1, 1e6, 3 / 4 * 64 * MIB / 1e12 + 2 * 0.02),  # there is none
    ],
)
def test_hosts_add_a_network(name: str, hosts: int, local: int, rate: float, ms: float) -> None:
    known = {(one, "nccl", 8, 1): points((64, 1.0)) for one in ("AllReduce", "AllToAll")}
    network = Network(rate, 20.0)
    found = time(known, 64, hosts * local, hosts, name=name, by="nccl", network=network)
    assert found == pytest.approx(ms)


def test_a_slower_network_than_the_measured_one_holds_longer() -> None:
    links = {("AllReduce", "nccl", 4, 2): points((64, 5.0)), ("AllReduce", "nccl", 2, 1):
             points((64, 1.0))}  # fmt: skip
    slow_ms = 64 * MIB / 2 / 1e6 + 2 * 0.01
    for rate, ms in ((1, slow_ms), (1e3, 5.0), (None, 5.0)):
        network = Network(rate, 10.0) if rate else None
        assert time(links, 64, 4, 2, by="nccl", network=network) == pytest.approx(ms)
        assert traffic(links, size(64), 4, 2, network) == pytest.approx(5.0 / ms)
    # Over hosts that were not measured, the traffic is that of the leg in one of them.
    crossing = 2 * 3 / 4 * 64 * MIB / 2 / 1e6 + 4 * 0.01
    assert traffic(links, size(64), 8, 4, Network(1, 10.0)) == pytest.approx(1.0 / crossing)


def test_what_to_measure_is_a_command() -> None:
    measure = "./bench --predictable --benchmark_filter=^Comm/AllReduce/"
    assert Asked("AllReduce", "copy", 1e6).command() == (
        f"{measure} --axis transport=copy --axis bytes=1000000"
    )
    for standing in ("", "mpi"):
        assert Asked("AllReduce", standing, 1e6).command() == f"{measure} --axis bytes=1000000"


def test_links_are_collectives_that_ran_alone() -> None:
    one = row("cuda", "copy", alone(1, 3.0, 0.5), alone(0, 1.0, 1.0))
    assert links_of([one]) == {("AllReduce", "copy", 2, 1): [Point(32 * MIB, 3.0, one)]}
    two_lanes = row("cuda", "copy", alone(1, 3.0, 0.5, 0.5, lanes=2))
    assert links_of([two_lanes]) == {}
