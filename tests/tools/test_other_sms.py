"""Predictions of collectives, pairs and steps on other SMs than the measured ones."""

import itertools
import re
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

import overlapbench as ob
import predictable
import samples
from overlapbench.cli import main
from overlapbench.output import ResultError
from overlapbench.prediction.changes import with_sms
from overlapbench.prediction.factors import Pair, closest, pair_with_sms, pairs_of
from overlapbench.prediction.links import OF_SMS, Asked, links_of, time_of
from overlapbench.prediction.model import Book, Question, inputs_of, named, predict_one
from overlapbench.prediction.schedules import Row, Work, read_rows
from overlapbench.reading.names import BenchmarkName
from predictable import (
    LAYER_BYTES,
    MIB,
    RECORDED,
    SHUFFLE,
    Machine,
    alone,
    ddp,
    fsdp,
    row,
    size,
    wanted,
)

MACHINE = Machine()


# ---- steps


def on(row: Row, sms: int, axes: str = "") -> Row:
    """Give a row's collectives so many SMs of 132; `axes` are added to its name."""
    works = tuple(replace(work, sms=sms * bool(work.collective)) for work in row.works)
    return replace(row, works=works, sms=132, name=BenchmarkName.parse(f"{row.name}{axes}"))


def curve(path: Path, by: str = "sm_load", axis: str = "comm_sms") -> str:
    """Write a plain result: the times of 32 MiB against SMs, which they halve."""
    name = f"Comm/AllReduce/bytes:{LAYER_BYTES}" + f"/transport:{by}" * (by != "nccl")
    rows = [
        samples.row(f"{name}/{axis}:{sms}/cache:cold", real_time=ms, time_low_ms=ms,
                    time_high_ms=ms, comm_sms=sms)
        for sms, ms in ((8, 4.0), (16, 2.0), (64, 0.5))
    ]  # fmt: skip
    samples.write(path, samples.document(rows))
    return str(path)


@pytest.mark.parametrize("by", ["sm_load", "nccl"])
def test_a_step_with_half_the_sms_takes_collectives_of_twice_the_time(
    tmp_path: Path, by: str
) -> None:
    base = on(ddp(MACHINE, 2, 1, by), 16)
    table = curve(tmp_path / "curve.json", by, "comm_ctas" if by == "nccl" else "comm_sms")
    path = predictable.write(tmp_path / "steps.json", [base])
    # The products have 164 and 261 tiles: as many waves on 116 SMs as on 124.
    slow = Machine(GBps=MACHINE.GBps / 2, alpha_ms=2 * MACHINE.alpha_ms)
    same, half = ob.predict([path, table], "Ddp", comm_sms=[16, 8])
    assert same.ms == pytest.approx(wanted(base), rel=0.002)
    assert half.ms == pytest.approx(wanted(ddp(slow, 2, 1, by)), rel=0.005)
    assert f"/comm_{'ctas' if by == 'nccl' else 'sms'}:8/cache:cold" in half.name
    assert half.high - half.low > same.high - same.low
    # On 68 SMs they have 3 waves for 2, and 4 for 3.
    book = Book(read_rows([path, table]))
    few, many = (inputs_of(book, book.rows[0], Question(axes=axes)).slowdown
                 for axes in ({}, {"comm_sms": "64"}))  # fmt: skip
    assert [many[comp][2] / few[comp][2] for comp in (0, 1)] == pytest.approx([3 / 2, 4 / 3])
    asked = Question(axes={"comm_sms": "64"})
    planned = replace(
        base, name=named(base.name, asked), sms=0, runs=(replace(base.own, time=None),)
    )
    found = inputs_of(Book([*book.rows, planned]), book.rows[0], asked)
    assert (found.slowdown, found.spreads[2]) == (many, OF_SMS)
    # Other buckets and other SMs, both at once.
    (both,) = ob.predict([path, table], "Ddp", comm_sms=8, bucket_bytes=2 * LAYER_BYTES)
    assert both.ms == pytest.approx(wanted(ddp(slow, 2, 2, by)), rel=0.02)


def test_a_row_that_was_measured_with_these_sms_is_preferred(tmp_path: Path) -> None:
    slow = Machine(GBps=100.0, comp_slowdown=1.5)
    rows = [on(ddp(MACHINE, 2, 1, "sm_load"), 16), on(ddp(slow, 2, 1, "sm_load"), 8, "/comm_sms:8")]
    path = predictable.write(tmp_path / "steps.json", rows)
    (found,) = ob.predict(path, comm_sms=8)
    assert found.measured == wanted(rows[1])
    assert found.error == pytest.approx(0, abs=0.002)


@pytest.mark.parametrize(
    ("by", "sms", "value", "axes", "why"),
    [
        ("sm_load", 132, "0", "", "comm_sms is '0': it must be a whole number of at least 1"),
        ("sm_load", 132, "-8", "", "comm_sms is '-8': it must be a whole number of at least 1"),
        ("sm_load", 132, "few", "", "comm_sms is 'few': it must be a whole number of at least 1"),
        ("sm_load", 132, "132", "", "comm_sms:132 leaves the computation none of 132 SMs"),
        ("sm_load", 0, "8", "", "the SMs of its GPU are not known: give a result"),
        ("sm_load", 132, "8", "/sm_target:128", "its computation has SMs of its own: measure"),
        ("sm_load", 132, "4", "", "AllReduce by sm_load with 4 SMs does not follow from what was"
         " measured: measure ./bench .* --axis comm_sms=4,16$"),
        ("copy", 132, "8", "", "by copy, no kernel holds SMs while data moves: measure comm_sms:8"),
        ("nccl", 132, "6", "", "NCCL takes 1, 2 or a multiple of 4 CTAs, and for all-to-alls a"),
        ("nccl", 132, "8", "", "AllReduce by nccl .*measure ./bench .* --axis comm_ctas=8,16$"),
    ],
)  # fmt: skip
def test_sms_that_cannot_be_predicted_are_one_line(
    by: str, sms: int, value: str, axes: str, why: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    base = replace(on(ddp(MACHINE, 2, 1, by), 16, axes), sms=sms)
    path = predictable.write(tmp_path / "steps.json", [base])
    table = curve(tmp_path / "curve.json")
    assert main(["predict", path, table, "--benchmark", "Ddp", f"--comm-sms={value}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(why, line)


def test_only_powers_of_two_are_ctas_of_an_all_to_all() -> None:
    base = on(replace(fsdp(MACHINE, 2, 1), works=(*fsdp(MACHINE, 2, 1).works[:2], SHUFFLE)), 16)
    assert with_sms(base, 8) == base
    with pytest.raises(ResultError, match="and for all-to-alls a power of two"):
        with_sms(base, 12)
    gathers = on(fsdp(MACHINE, 2, 1), 16)
    assert [with_sms(gathers, sms) for sms in (1, 2, 12)] == 3 * [gathers]


# Each row of Lab/Partition, from those with other SMs.
def test_recorded_pairs_at_other_sms_are_within_six_percent() -> None:
    rows = read_rows([str(RECORDED / "h200x2/lab-partition.json")])
    own = [row for row in rows if row.works[0].sms and not row.name.axis("comp_sms")]
    off = []
    for base, target in itertools.permutations(own, 2):
        if _alike(base, target) and base.works[0].sms != target.works[0].sms:
            others = [replace(row, runs=row.runs[1:2]) for row in rows if row is not target]
            question = Question(axes={"comm_sms": f"{target.works[0].sms:.0f}"})
            book = Book([base, *others])
            found = predict_one(book, base, question)
            assert found.low < wanted(target) < found.high
            off.append(abs(found.ms / wanted(target) - 1))
            if base.name.axis("first"):  # else the product waits for nothing
                (measured,) = (pair.comp_slowdown for pair in pairs_of(target))
                told = inputs_of(book, base, question).slowdown[1][0]
                assert told == pytest.approx(measured, rel=0.07)
    assert len(off) == 36
    assert max(off) < 0.06
    assert mean(off) < 0.02


def _alike(one: Row, other: Row) -> bool:
    """Whether two rows have one transport and one order."""
    return (one.transport, one.name.axis("first")) == (other.transport, other.name.axis("first"))


# ---- collectives

CURVE = {4: 8.0, 8: 4.0, 16: 2.0 * 2**0.5, 32: 2.0 * 2**0.5}  # ms on so many SMs


WORKS_OF_BYTES = (Work("a", "COMP", moved_bytes=1e9), Work("b", "COMM", "AllReduce", sms=8))


def sums(ms: float, share: float = 1.0) -> Row:
    return row("cuda", "nccl", alone(1, ms, share))


def on_ctas(one: Row, sms: int, axis: str = "comm_ctas:1") -> Row:
    """Give the collective of a row so many SMs, by an axis or by default."""
    works = tuple(replace(work, sms=sms * bool(work.collective)) for work in one.works)
    axes = f"{one.name}/{axis}" if axis else str(one.name)
    return replace(one, works=works, name=BenchmarkName.parse(axes))


def test_with_other_sms_a_collective_follows_the_measured_curve() -> None:
    rows = [on_ctas(sums(ms), sms) for sms, ms in CURVE.items()]
    links = links_of([*rows, on_ctas(sums(3.0), 24, "")])

    def ms(sms: int, mib: float = 64, near: Row | None = None) -> float:
        return time_of(links, replace(size(mib), sms=sms, near=near), 2)

    assert [ms(sms) for sms in (24, 16, 8, 4)] == pytest.approx([3.0, CURVE[16], 4.0, 8.0])
    # More SMs help in proportion, but not below the time of the next point.
    assert [ms(sms) for sms in (6, 11, 12)] == pytest.approx([8 * 4 / 6, 4 * 8 / 11, CURVE[16]])
    assert ms(8, 128) == pytest.approx(2 * 4.0)  # a size that is similar
    assert ms(8, 64, rows[0]) == pytest.approx(4.0)  # as many times as long as the row's own
    assert time_of(links_of(rows), replace(size(64), sms=8), 2) == pytest.approx(4.0)
    for few, mib in ((2, 64), (64, 64), (8, 1024)):
        with pytest.raises(ResultError, match=f"with {few} SMs does not follow"):
            ms(few, mib)


def test_below_16_mib_a_curve_is_of_its_own_size() -> None:
    links = links_of([on_ctas(sums(ms, 1 / 8), sms) for sms, ms in CURVE.items()])
    assert time_of(links, replace(size(8), sms=8), 2) == pytest.approx(4.0)
    told = (
        "AllReduce by nccl with 8 SMs does not follow from what was measured: measure ./bench"
        " --predictable --benchmark_filter=^Comm/AllReduce/ --axis transport=nccl --axis"
        " bytes=16777216 --axis comm_ctas=8,32"
    )
    with pytest.raises(ResultError) as refused:
        time_of(links, replace(size(16), sms=8), 2)
    assert str(refused.value) == told
    with pytest.raises(ResultError, match="AllGather by nccl was not measured"):
        time_of(links, Asked("AllGather", "nccl", MIB, sms=8), 2)


# ---- pairs


def pair(bytes_: float, *, slowdown: float = 2.0, comp: float | None = 3.0, waits: int = 1) -> Pair:
    one = row("cuda", "nccl", alone(1, 1.0, bytes_ / (64 * MIB)))
    return Pair(one, 1, 0, slowdown, comp, waits, 0.01)


def test_the_pair_of_the_most_similar_size_is_taken() -> None:
    small, large = pair(1 * MIB), pair(16 * MIB)
    assert [closest([small, large], size(mib)) for mib in (3, 5)] == [small, large]
    assert closest([], size(1)) is None
    few = replace(small, row=on_ctas(small.row, 4))
    assert closest([few, large], size(1)) == large  # few SMs are not usual
    assert closest([large, few], replace(size(16), sms=4)) == few


@pytest.mark.parametrize(
    ("was", "sms", "of_comm", "of_comp"),
    [
        (8, 8, 2.0, 3.0),
        (8, 16, 2.0**0.5, 3.0 * 18 / 17),  # 2048 tiles on 124 and on 116 SMs; half as steep
        (16, 8, 4.0, 3.0 * 17 / 18),
        (8, 32, 2.0**0.25, 3.0 * 21 / 17),  # no SM helps: how steep is not known
    ],
)
def test_with_other_sms_a_product_has_other_waves_and_a_communication_another_slope(
    was: int, sms: int, of_comm: float, of_comp: float
) -> None:
    links = links_of([on_ctas(sums(ms), n) for n, ms in CURVE.items()])
    known = replace(pair(64 * MIB), row=on_ctas(pair(64 * MIB).row, was))
    asked = replace(size(64), sms=sms)
    product = replace(known.row, sms=132, works=(replace(known.row.works[0], flops=2 * 8192.0**3),
                                                 *known.row.works[1:]),
                      runs=(alone(0, 1.0, 1.0),))  # fmt: skip
    found = pair_with_sms(known, product, 0, asked, links)
    assert (found.comm_slowdown, found.comp_slowdown) == pytest.approx((of_comm, of_comp))
    assert found.spread == (0.01 if was == sms else OF_SMS)
    little = replace(known, comp_slowdown=None)
    assert pair_with_sms(little, product, 0, asked, links).comp_slowdown is None
    copies = replace(product, works=WORKS_OF_BYTES)
    assert pair_with_sms(known, copies, 0, asked, links).comp_slowdown == 3.0


def test_a_pair_whose_sms_are_not_known_is_refused() -> None:
    links = links_of([on_ctas(sums(ms), n) for n, ms in CURVE.items()])
    with pytest.raises(ResultError, match="Lab/X/A\\+B/n:1: does not state its comm_sms: measure"):
        pair_with_sms(pair(MIB), pair(MIB).row, 0, replace(size(64), sms=8), links)
