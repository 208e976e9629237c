"""Predictions of machines whose times alone and slowdowns are known, and what is refused."""

import itertools
import json
import math
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
from overlapbench.prediction.answers import beside_measured
from overlapbench.prediction.changes import with_sms
from overlapbench.prediction.factors import HANDOVER_MS, pairs_of, rules_of
from overlapbench.prediction.links import OF_SMS, Asked, Network, links_of, time_of
from overlapbench.prediction.model import (
    Book,
    Prediction,
    Question,
    inputs_of,
    named,
    predict_one,
    replayed,
)
from overlapbench.prediction.published import LLM_FOUNDRY, at_scale, fit_scale
from overlapbench.prediction.replay import Rules, replay
from overlapbench.prediction.schedules import Row, Run, Step, Time, Work, read_rows
from overlapbench.reading.names import BenchmarkName
from overlapbench.view.console import Screen
from overlapbench.view.prediction import HEADS, specification, text_of
from predictable import LAYER_BYTES, LAYERS, Machine, ddp, fsdp

MACHINE = Machine()
FEW_SMS = BenchmarkName.parse("Comm/AllGather/bytes:33554432/comm_sms:4/cache:cold")
OTHER = BenchmarkName.parse("Ddp/Overlap/layers:8/transport:copy/cache:cold")
COMP, COMM, COPY = 0, 1, 2
SHUFFLE = Work("shuffle", "COMM", "AllToAll", wire_bytes=2 * LAYERS * LAYER_BYTES)
RING = replace(SHUFFLE, name="ring", collective="SendRecv")
BROADCAST = replace(SHUFFLE, name="broadcast", collective="Broadcast")
EVEN = [[1.0] * 3 for _ in range(3)]
PASS = [[0] * 3 for _ in range(3)]
GATE = Rules(EVEN, [PASS[0], [1, 0, 0], PASS[2]])  # the communication waits for computations


def steps(*known: tuple[int, int, tuple[int, ...]]) -> Run:
    """Return a run of these steps: work, lane and what each waits for."""
    made = tuple(Step(work, lane, 1.0, after) for work, lane, after in known)
    lanes = max(step.lane for step in made) + 1
    return Run("run", (None,) * lanes, made)


def ends(run: Run, alone_ms: list[float], rules: Rules) -> list[float]:
    return [round(end, 6) for end in replay(run, alone_ms, rules).end_ms]


# ---- the replay


def test_steps_follow_their_lane_their_engine_and_what_they_wait_for() -> None:
    free = Rules(EVEN, PASS)
    assert ends(steps((0, 0, ()), (0, 0, ()), (1, 1, (0,))), [2, 3, 1], free) == [2, 5, 3]
    engines = replace(steps((0, 0, ()), (1, 1, ())), owners=(None, None))
    shared = replace(engines, steps=tuple(replace(s, engine="bus") for s in engines.steps))
    assert ends(shared, [2, 3], free) == [2, 5]
    late = replace(free, handover_ms=0.5)  # only to another lane
    assert ends(steps((0, 0, ()), (0, 0, ()), (1, 1, (0,))), [2, 3, 1], late) == [2, 5, 3.5]


def test_a_communication_waits_for_the_kernel_that_has_all_sms_and_a_copy_does_not() -> None:
    for work, ended in ((COMM, 4.0), (COPY, 2.0)):
        # It becomes ready at 1, while the kernel runs until 3.
        run = steps((COMP, 0, ()), (COMP, 0, ()), (work, 1, (0,)), (COMP, 0, ()))
        late = replace(GATE, handover_ms=1e-6)
        assert ends(run, [1, 2, 1, 1], late)[2] == pytest.approx(ended, abs=1e-5)
    # It was there first.
    assert ends(steps((COMM, 1, ()), (COMP, 0, ())), [1, 2], GATE) == [1, 2]


def test_a_step_of_two_kernels_lets_a_communication_pass_between_them() -> None:
    two = replace(GATE, waits=[PASS[0], [2, 0, 0], PASS[2]])
    run = steps((COMP, 0, ()), (COMP, 0, ()), (COMM, 1, (0,)))
    for rules, ended in ((GATE, 4.0), (two, 3.0)):
        late = replace(rules, handover_ms=1e-6)
        assert ends(run, [1, 2, 1], late)[2] == pytest.approx(ended, abs=1e-5)


def test_a_kernel_that_is_ready_too_comes_before_a_communication() -> None:
    late = replace(GATE, latency_ms=(0.0, 0.01, 0.0))
    ready = steps((COMP, 0, ()), (COMP, 0, (0,)), (COMM, 1, (0,)))
    assert ends(ready, [1, 2, 1], late)[2] == pytest.approx(3.99)
    # At the start, it is placed first.
    assert ends(steps((COMP, 0, ()), (COMM, 1, ())), [2, 1], late) == [2, 0.99]


def test_works_slow_each_other_down_only_while_both_run() -> None:
    slow = Rules([[1.0, 2.0, 1.0], [4.0, 1.0, 1.0], EVEN[2]], PASS)
    # The computation does 2 of its 6 ms in the 4 ms in which the communication runs.
    assert ends(steps((COMM, 1, ()), (COMP, 0, ())), [1, 6], slow) == [4, 8]
    # Ranks with lanes of their own do not meet.
    apart = replace(steps((COMM, 1, ()), (COMP, 0, ())), owners=(0, 1))
    assert ends(apart, [1, 6], slow) == [1, 6]


def test_the_host_enqueues_in_order_and_waits() -> None:
    run = steps((COMP, 0, ()), (COMM, 1, ()), (COPY, 2, ()))
    waits = replace(run, steps=(run.steps[0], replace(run.steps[1], host_after=(0,)), run.steps[2]))
    cost = replace(GATE, enqueue_ms=0.25)
    assert ends(waits, [1, 1, 1], cost) == [1.25, 2.5, 2.75]


# ---- factors


def test_the_factors_of_a_pair_are_those_of_the_machine() -> None:
    pair = next(one for one in pairs_of(ddp(MACHINE, 2, 2)) if one.comp == 1 and one.comm == 3)
    assert pair.comm_slowdown == pytest.approx(MACHINE.comm_slowdown, rel=0.01)
    assert pair.comp_slowdown == pytest.approx(MACHINE.comp_slowdown, rel=0.01)


def test_the_wait_for_sms_is_not_counted_as_a_slowdown() -> None:
    calm = Machine(comm_slowdown=1, comp_slowdown=1)
    for pair in pairs_of(ddp(calm, 2, 1)):
        assert pair.comm_slowdown == pytest.approx(1, abs=0.01)


def test_only_kernels_wait_for_sms() -> None:
    assert {pair.waits for pair in pairs_of(ddp(MACHINE, 2, 1))} == {1}
    assert {pair.waits for pair in pairs_of(ddp(MACHINE, 2, 1, "copy"))} == {0}
    host = replace(MACHINE, backend="host")
    assert {pair.waits for pair in pairs_of(ddp(host, 2, 1, "nccl"))} == {0}


# ---- three lanes

# Of a gather, a copy and a product, each beside each.
THREE = [[1.0, 1.4, 1.2], [1.7, 1.0, 1.1], [1.3, 1.25, 1.0]]


def test_of_three_works_each_disturbs_as_much_less_as_the_third_slows_it_down() -> None:
    run = steps((0, 0, ()), (1, 1, ()), (2, 2, ()))
    gather, copy = (1 + 0.4 / 1.1) * (1 + 0.2 / 1.25), (1 + 0.7 / 1.2) * (1 + 0.1 / 1.3)
    product = (1 + 0.3 / 1.4) * (1 + 0.25 / 1.7)
    first = 0.6 * copy
    second = first + (1 - first / gather) * 1.2
    last = second + (1.5 - first / product - (second - first) / 1.3)
    found = ends(run, [1, 0.6, 1.5], Rules(THREE, PASS))
    assert found == [round(t, 6) for t in (second, first, last)]


RECORDED = Path(__file__).parents[2] / "docs/results"


# The rows of Lab/Triple, from their parts and pairs.
@pytest.mark.parametrize("gpus", [2, 4])
def test_recorded_rows_of_three_lanes_are_within_six_percent(gpus: int) -> None:
    rows = read_rows([str(RECORDED / f"h200x{gpus}/triple.json.gz")])
    book = Book(rows)
    off = [abs(replayed(book, row) / row.own.time.ms - 1) for row in rows if row.own.time]
    assert len(off) == 36
    assert mean(off) < 0.04


@pytest.mark.parametrize("backend", ["cuda", "host"])
def test_three_lanes_are_predicted_from_their_pairs(tmp_path: Path, backend: str) -> None:
    row = predictable.triple(THREE, backend=backend)
    assert {(pair.comm, pair.comp) for pair in pairs_of(row)} == {(0, 1), (0, 2), (1, 2)}
    assert not any(pair.waits for pair in pairs_of(row))  # copies and their sums pass
    (found,) = ob.predict(predictable.write(tmp_path / "three.json", [row]))
    assert found.error == pytest.approx(0, abs=0.002)
    (off,) = ob.predict(predictable.write(tmp_path / "off.json", [predictable.triple(THREE, 1.3)]))
    assert off.error is not None
    assert off.error < -0.05


def test_a_collective_may_have_a_transport_of_its_own(tmp_path: Path) -> None:
    row = predictable.triple(THREE)
    mixed = replace(row, works=(replace(row.works[0], transport="nccl"), *row.works[1:]))
    (read,) = read_rows([predictable.write(tmp_path / "mixed.json", [mixed])])
    assert [read.by_kernel(work) for work in read.works] == [True, False, False]
    assert [*links_of([read])] == [("AllGather", "nccl", 2, 1)]
    assert [*links_of([row])] == [("AllGather", "copy", 2, 1)]


# ---- links


def collective(bytes_: float, name: str = "AllGather", transport: str = "nccl") -> Asked:
    return Asked(name, transport, bytes_)


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
        (collective(LAYER_BYTES, "Broadcast", "copy"), 4, 1, "on 2 GPUs no rank passes data on"),
        (collective(LAYER_BYTES), 16, 2, "2 nodes need a network"),
        (collective(LAYER_BYTES, "AllGather", "copy"), 16, 2, "copy does not reach other hosts"),
    ],
)
def test_what_does_not_follow_is_refused(asked: Asked, ranks: int, hosts: int, why: str) -> None:
    sent = replace(fsdp(MACHINE, 2, 1, "copy"), works=(*fsdp(MACHINE, 2, 1).works[:2], BROADCAST))
    links = links_of([fsdp(MACHINE, 4, 1), ddp(MACHINE, 2, 1), ddp(MACHINE, 4, 1), sent])
    with pytest.raises(ResultError, match=why):
        time_of(links, asked, ranks, hosts)


# ---- predictions


@pytest.fixture(scope="module")
def steps_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [ddp(MACHINE, 2, size, by) for by in ("nccl", "copy") for size in (1, 2)]
    rows += [fsdp(MACHINE, 2, ahead) for ahead in (0, 1)]
    return predictable.write(tmp_path_factory.mktemp("steps") / "steps.json", rows)


def wanted(row: Row) -> float:
    assert row.own.time
    return row.own.time.ms


def test_a_measured_row_is_predicted_from_its_parts(steps_file: str) -> None:
    found = ob.predict(steps_file)
    assert len(found) == 6
    for one in found:
        assert one.measured == pytest.approx(one.ms, rel=0.002)
        assert one.low < one.ms < one.high
        parts = one.computation + one.link + one.contention + one.prior
        assert parts == pytest.approx(one.ms)
        assert one.prior == 0


@pytest.mark.parametrize("size", [3, 4])
def test_other_buckets_are_predicted_from_those_measured(size: int, steps_file: str) -> None:
    (found,) = ob.predict(steps_file, "Ddp/.*transport:copy", bucket_bytes=size * LAYER_BYTES)
    assert found.measured is None
    # Sums of sizes that were not measured take as long as the line through those that were.
    assert found.ms == pytest.approx(wanted(ddp(MACHINE, 2, size, "copy")), rel=0.01)


def test_layers_gathered_further_ahead_are_predicted(steps_file: str) -> None:
    (found,) = ob.predict(steps_file, "Fsdp", prefetch=2)
    assert found.ms == pytest.approx(wanted(fsdp(MACHINE, 2, 2)), rel=0.01)


def test_another_transport_is_taken_from_the_rows_that_have_it(steps_file: str) -> None:
    found = ob.predict(steps_file, "Ddp/", transport=["copy", "nccl"], bucket_bytes="32M")
    assert ["transport:copy" in one.name for one in found] == [True, False]
    assert [one.measured for one in found] == [
        wanted(ddp(MACHINE, 2, 1, by)) for by in ("copy", "nccl")
    ]


def test_more_gpus_take_the_weight_of_their_collectives(tmp_path: Path) -> None:
    path = predictable.write(tmp_path / "few.json", [fsdp(MACHINE, 2, 1, "copy")])
    (found,) = ob.predict(path, gpus=4)
    assert found.ms == pytest.approx(wanted(fsdp(MACHINE, 4, 1, "copy")), rel=0.02)


def test_collectives_by_themselves_are_preferred_to_those_of_steps() -> None:
    alone = Run("gather", (None,), (Step(0, 0, 1.0),), Time(1.0))
    work = replace(fsdp(MACHINE, 2, 1).works[2], wire_bytes=LAYER_BYTES)
    by_itself = replace(fsdp(MACHINE, 2, 1), works=(work,), runs=(alone,))
    few_sms = replace(by_itself, name=FEW_SMS, runs=(replace(alone, time=Time(3.0)),))
    links = links_of([fsdp(MACHINE, 2, 1), by_itself, few_sms])
    assert time_of(links, collective(LAYER_BYTES), 2) == pytest.approx(1.0)
    own = replace(collective(LAYER_BYTES), near=few_sms)
    assert time_of(links, own, 2) == pytest.approx(3.0)


def test_results_without_schedules_are_tables_of_collectives_and_pairs() -> None:
    rows = read_rows([str(RECORDED / "h200x2/overlap.json"), str(RECORDED / "h200x2/comm.json")])
    assert {row.name.family for row in rows} == {"Comm", "Overlap"}
    book = Book(rows)
    pairs = [row for row in rows if row.name.family == "Overlap"]
    assert len(pairs) == 64  # of collectives, without other settings
    off = [abs(replayed(book, row) / row.own.time.ms - 1) for row in pairs if row.own.time]
    assert mean(off) < 0.01
    assert max(off) < 0.05
    (small,) = (row for row in pairs if str(row.name).endswith("grid:1x1/work:tile/cache:cold"))
    assert [pair.waits for pair in pairs_of(small)] == [0]  # it leaves SMs free


def test_a_handover_is_the_measured_one_where_a_result_has_it(tmp_path: Path) -> None:
    document = predictable.document([ddp(MACHINE, 2, 1)])
    for told, handover_ms in (("1.66 us on the same stream, 2.29 us on another", 0.00229),
                              ("", HANDOVER_MS)):  # fmt: skip
        document["context"]["handover"] = told
        (tmp_path / "steps.json").write_text(json.dumps(document))
        (row,) = read_rows([str(tmp_path / "steps.json")])
        assert rules_of(row, EVEN, PASS).handover_ms == pytest.approx(handover_ms)


def test_a_transport_whose_pairs_were_not_measured_is_refused(tmp_path: Path) -> None:
    steps_ = [ddp(MACHINE, 2, 1), ddp(MACHINE, 2, 1, "copy")]
    silent = replace(steps_[1], runs=tuple(r for r in steps_[1].runs if len(r.owners) == 1))
    path = predictable.write(tmp_path / "steps.json", [steps_[0]])
    sums = predictable.write(tmp_path / "sums.json", [replace(silent, name=OTHER)])
    with pytest.raises(ResultError, match=r"sum 1 by copy and computation .* not known: measure"):
        ob.predict([path, sums], "Ddp/", transport="copy")


def test_kernels_of_nccl_also_copy_their_own_block() -> None:
    links = links_of([fsdp(MACHINE, 2, 1)])
    two, four = (time_of(links, collective(LAYER_BYTES), ranks) for ranks in (2, 4))
    assert four / two == pytest.approx((3 / 4 + 0.4 / 4) / (1 / 2 + 0.4 / 2))
    copied = links_of([fsdp(MACHINE, 2, 1, "copy")])
    asked = collective(LAYER_BYTES, transport="copy")
    assert time_of(copied, asked, 4) / time_of(copied, asked, 2) == pytest.approx(1.5)
    ring = replace(fsdp(MACHINE, 2, 1), works=(*fsdp(MACHINE, 2, 1).works[:2], RING))
    with pytest.raises(ResultError, match="does not follow from 2: the ring of 2"):
        time_of(links_of([ring]), collective(LAYER_BYTES, "SendRecv"), 4)


def test_more_hosts_add_the_law_of_scale(steps_file: str) -> None:
    few, many = ob.predict(steps_file, "Fsdp.*prefetch:1", gpus=[16, 256], network=1e5)
    a_ms, b = fit_scale(LLM_FOUNDRY)
    for one, doublings in ((few, 1), (many, 5)):
        rest = one.ms - one.prior
        assert one.prior == pytest.approx(doublings * (a_ms * 2 * LAYERS + b * rest))
    (slow,) = ob.predict(steps_file, "Fsdp.*prefetch:1", gpus=16, network=1)
    assert slow.link > 5 * few.link
    assert slow.high / slow.ms < 2


def test_the_interval_follows_the_inputs_and_the_residual(tmp_path: Path) -> None:
    row = ddp(MACHINE, 2, 1)
    rough = replace(row, runs=tuple(
        replace(run, time=replace(run.time, spread=0.1) if run.time else None) for run in row.runs
    ))  # fmt: skip
    widths = []
    for place, one in enumerate((row, rough)):
        document = predictable.document([one])
        for run in document["benchmarks"][0]["schedules"]["runs"]:
            ms, share = run["ms"], 0.002 if one is row else 0.2
            run |= {"ms_low": ms * (1 - share), "ms_high": ms * (1 + share)}
        path = tmp_path / f"{place}.json"
        path.write_text(json.dumps(document))
        (found,) = ob.predict(path)
        widths.append((found.high - found.low) / found.ms)
    assert widths[0] == pytest.approx(0.2, abs=0.02)  # the usual residual, both ways
    assert widths[1] > widths[0] + 0.1


def test_the_law_of_scale_is_that_of_the_published_table() -> None:
    a_ms, b = fit_scale(LLM_FOUNDRY)
    assert (a_ms, b) == pytest.approx((0.3310166, 0.01410774), rel=1e-6)
    # 16,384 tokens at 1,058 a second, and 3 collectives in each of 80 layers.
    first = 16384e3 / 1058
    assert at_scale(LLM_FOUNDRY[0], 2, 0.3, 0.01) == first + 2 * (0.3 * 3 * 80 + 0.01 * first)
    off = [at_scale(one, 2, a_ms, b) / one.step_ms(512) - 1 for one in LLM_FOUNDRY]
    assert max(map(abs, off)) < 0.03


# ---- other SMs


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


def test_a_slower_network_disturbs_what_moves_bytes_less_and_no_product() -> None:
    base = fsdp(MACHINE, 2, 1)
    bytes_ = replace(base.works[0], flops=0.0, moved_bytes=1e9)
    mixed = replace(base, works=(bytes_, *base.works[1:]))
    book = Book([mixed, fsdp(MACHINE, 8, 1)])
    network = Network(1.0, 1e-9)
    found = inputs_of(book, mixed, Question(gpus=16, network=network))
    inside, crossing = (time_of(book.links, collective(LAYER_BYTES), *on, network)
                        for on in ((8, 1), (16, 2)))  # fmt: skip
    excess = (MACHINE.comp_slowdown - 1) * inside / crossing
    assert crossing > 4 * inside
    assert found.slowdown[0][2] == pytest.approx(1 + excess, rel=0.01)
    assert found.slowdown[1][2] == inputs_of(book, mixed, Question()).slowdown[1][2]


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


# ---- the command, and files that do not suffice


def test_the_command_prints_a_table_and_json(
    steps_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", steps_file, "--benchmark", "Ddp", "--bucket-bytes", "32M,64M"]) == 0
    text = capsys.readouterr().out
    assert "contention" in text
    assert text.count("bucket_bytes:33554432") >= 2  # by NCCL and by copy
    assert main(["predict", steps_file, "--benchmark", "Fsdp", "--gpus=2,16", "--json"]) == 0
    printed = capsys.readouterr()
    assert [one["ranks"] for one in json.loads(printed.out)] == [2, 2]
    assert "not predicted: 2 nodes need a network" in printed.err


def test_the_chart_needs_two_curves_of_points(steps_file: str, tmp_path: Path) -> None:
    picture = tmp_path / "scaling.svg"
    given = ["predict", steps_file, "--benchmark", "Fsdp", "--gpus", "2,4", "-o", str(picture)]
    assert main(given) == 0
    assert "efficiency" in picture.read_text(encoding="utf-8")


def test_the_chart_divides_by_the_fewest_gpus_and_names_the_step_on_the_most() -> None:
    def on(ranks: int, ms: float, network: Network | None = None) -> Prediction:
        return Prediction("Fsdp/a", ranks, 1, network, ms, ms - 1, ms + 1, ms, 0, 0, 0)

    drawn = specification(
        [on(2, 10), on(8, 12.5), on(16, 20, Network(50)), on(64, 40, Network(50))]
    )
    panels = drawn["concat"]
    found = {one["gpus"]: one["efficiency"] for one in panels[1]["data"]["values"]}
    assert found == {2: 100, 8: 80, 16: 50, 64: 25}
    assert drawn["title"]["text"] == ["On 64 GPUs, the step takes 40.00 ms (39.00 to 41.00)"]


def test_a_prediction_takes_one_line_of_80_columns_and_no_column_is_empty() -> None:
    here = Prediction("Fsdp/a", 2, 1, None, 18.28, 15.94, 20.61, 13, 4.1, 1.1, 0, 20.5)
    far = Prediction("Fsdp/a", 1024, 128, Network(50), 1912, 1000, 2824, 133, 50, 19, 1710)
    head, _, *lines = text_of([here, far], Screen()).splitlines()
    assert [line.split()[0] for line in lines] == ["2", "1024"]
    assert "GB/s" in head
    heads = text_of([here], Screen(100)).splitlines()[0].split()
    assert heads == ["GPUs", "nodes", "ms", *HEADS[4:]]
    assert text_of([far], Screen(100)).splitlines()[0].split() == list(HEADS[:-2])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 2}, "version 2 is not supported"),
        ({"runs": []}, "a run has no steps"),
        ({"ranks": 0}, "0 is not at least 1"),
        ({"hosts": math.nan}, "nan is not at least 1"),
        ({"works": [{"name": "a", "class": "COMP", "flops": math.inf}]}, "inf is not at least 0"),
        ({"runs": [{"name": "a", "ms": math.nan, "lanes": [{}], "steps": []}]}, "nan is not"),
        ({"works": []}, "step 0 names what does not exist"),
        ({"runs": [{"name": "a", "lanes": [{}], "steps": [[0, 0, 0, 1, [0]]]}]}, "earlier one"),
    ],
)
def test_schedules_that_are_not_whole_are_refused(
    change: dict[str, object], why: str, tmp_path: Path
) -> None:
    document = predictable.document([ddp(MACHINE, 2, 1)])
    document["benchmarks"][0]["schedules"] |= change
    path = tmp_path / "steps.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ResultError, match=f"entry 0: schedules: malformed: .*{why}"):
        read_rows([str(path)])


def test_a_report_leaves_out_rows_whose_schedules_it_cannot_read(tmp_path: Path) -> None:
    document = predictable.document([fsdp(MACHINE, 2, 1), ddp(MACHINE, 2, 1)])
    document["benchmarks"][0]["schedules"]["version"] = 2
    path = tmp_path / "steps.json"
    path.write_text(json.dumps(document))
    found, unread = beside_measured([str(path)])
    assert [one.name for one in found] == [document["benchmarks"][1]["name"]]
    (line,) = unread
    assert line.startswith(f"{path}: entry 0: schedules: malformed: ")
    for entry in document["benchmarks"]:
        entry["state"] = "invalid"
    path.write_text(json.dumps(document))
    assert beside_measured([str(path)]) == ([], [])


def test_files_without_schedules_say_what_to_measure(tmp_path: Path) -> None:
    document = predictable.document([ddp(MACHINE, 2, 1)])
    del document["benchmarks"][0]["schedules"]
    path = tmp_path / "steps.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ResultError, match="no row has schedules: measure with --predictable"):
        ob.predict(path)


def test_plans_have_schedules_without_times(tmp_path: Path) -> None:
    row = fsdp(MACHINE, 256, 1)
    planned = {"name": str(row.name), "schedules": predictable.schedules(row, planned=True)}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"planned": [planned]}))
    (read,) = read_rows([str(path)])
    assert read.own.time is None
    assert read.own.steps == row.own.steps
    assert not math.isnan(read.works[2].wire_bytes)
