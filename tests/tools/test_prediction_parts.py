"""The parts of a prediction, exactly: schedules that are read or changed, pairs, names."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import predictable
import samples
from overlapbench.output import ResultError
from overlapbench.prediction.answers import Traced, answers, beside_measured
from overlapbench.prediction.changes import with_buckets, with_prefetch
from overlapbench.prediction.factors import Pair, pairs_of, rules_of
from overlapbench.prediction.links import Network, links_of
from overlapbench.prediction.model import (
    Book,
    Prediction,
    Question,
    _most_similar,
    inputs_of,
    named,
    predict_one,
    scheduled,
)
from overlapbench.prediction.schedules import Row, Run, Step, Time, Work, read_rows
from overlapbench.reading.names import BenchmarkName
from overlapbench.traces.rules import Rules
from predictable import LAYER_BYTES, LAYERS, MIB, Machine, alone, ddp, fsdp, row

MACHINE = Machine()


# ---- schedules

WORKS = [
    {"name": "a", "class": "COMP", "flops": 5e9, "moved_bytes": 3, "host_bytes": 2},
    {
        "name": "b",
        "class": "COMM",
        "collective": "AllReduce",
        "wire_bytes": 64,
        "transport": "nccl",
    },
]
RUN = {
    "name": "pattern",
    "lanes": [{"rank": 0}, {}],
    "steps": [[0, 0, 7, 2, []], [1, 1, 0, 1, [0], {"host_after": [0], "engine": "bus"}]],
    "ms": 2.0,
    "ms_low": 1.75,
    "ms_high": 2.25,
    "lanes_ms": [[0, 1], [0.5, 0.5]],
    "enqueue_ms": 0.25,
    "gated": False,
}
BARE = {"name": "planned", "lanes": [{}], "steps": [[0, 0, 0, 1, []]]}


def read(tmp_path: Path, entry: samples.Json, key: str = "benchmarks") -> list[Row]:
    whole = {"version": 1, "ranks": 4, "hosts": 2, "transport": "copy", "works": WORKS,
             "runs": [BARE, RUN]}  # fmt: skip
    one = {"name": "Lab/X/A+B/n:1", "state": "noisy", "schedules": whole} | entry
    path = tmp_path / "steps.json"
    path.write_text(json.dumps({"context": {"backend": "host"}, key: [{"name": "Lab/Y"}, one]}))
    return read_rows([str(path)])


@pytest.mark.parametrize("key", ["benchmarks", "planned"])
def test_all_that_a_file_says_of_a_schedule_is_read(key: str, tmp_path: Path) -> None:
    (row,) = read(tmp_path, {}, key)
    steps = (Step(0, 0, 0.5, (), (), ""), Step(1, 1, 1.0, (0,), (0,), "bus"))
    assert row == Row(
        BenchmarkName.parse("Lab/X/A+B/n:1"),
        "host",
        4,
        2,
        "copy",
        (Work("a", "COMP", flops=5e9, moved_bytes=3, host_bytes=2),
         Work("b", "COMM", "AllReduce", 0, 0, 64, "nccl")),
        (
            Run("planned", (None,), (Step(0, 0, 1.0),)),
            Run("pattern", (0, None), steps, Time(2.0, 0.5 / (2 * 1.96 * 2.0)),
                ((0, 1), (0.5, 0.5)), 0.25, False),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("state", ["invalid", "error"])
def test_schedules_of_bad_rows_are_not_read(state: str, tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="no row has schedules"):
        read(tmp_path, {"state": state})


@pytest.mark.parametrize("text", ["[]", '{"benchmarks": 1}', "{}"])
def test_what_is_neither_a_result_nor_a_plan_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ResultError, match=r"other.json: benchmarks: missing: neither a result nor"):
        read_rows([str(path)])


def test_a_work_alone_is_told_for_its_whole() -> None:
    half = alone(1, 3.0, 0.25, 0.25)
    mixed = replace(half, steps=(Step(0, 0, 1.0), Step(1, 0, 1.0)))
    found = row("cuda", "nccl", replace(half, time=None), mixed, half)
    assert found.alone(1) == (half, Time(6.0, 0.01))
    assert found.alone(0) is None
    spread = alone(1, 3.0, 0.5, 0.25, lanes=2)  # of parts at once, the longest lane decides
    assert row("cuda", "nccl", spread).alone(1) == (spread, Time(6.0, 0.01))
    assert found.step_bytes(1) == 64 * MIB
    assert row("cuda", "nccl", half).step_bytes(1) == 16 * MIB
    assert [work.amount for work in found.works] == [8.0, 64 * MIB, 4.0]


@pytest.mark.parametrize(
    ("backend", "transport", "own", "kernels"),
    [
        ("cuda", "nccl", "", [False, True, False]),
        ("cuda", "copy", "", [False, False, False]),
        ("cuda", "nccl_ce", "", [False, False, False]),
        ("cuda", "copy", "sm_load", [False, True, False]),
        ("host", "mpi", "", [False, False, False]),
    ],
)
def test_a_communication_takes_sms_unless_copy_engines_move_its_data(
    backend: str, transport: str, own: str, kernels: Sequence[bool]
) -> None:
    one = row(backend, transport)
    assert [one.by_kernel(replace(work, transport=own)) for work in one.works] == kernels


def test_a_step_is_more_than_a_pair() -> None:
    runs = (alone(1, 1.0, *[1.0] * count) for count in (2, 3))
    assert [row("cuda", "nccl", run).is_step for run in runs] == [False, True]


# ---- changed schedules


def lanes(one: Row) -> list[list[object]]:
    """What each lane does, whatever its works are called: bytes, and for which steps it waits."""
    found: list[list[object]] = [[], []]
    places = []
    for step in one.own.steps:
        places.append((step.lane, len(found[step.lane])))
        bytes_ = one.works[step.work].wire_bytes * step.share
        found[step.lane].append(
            (pytest.approx(bytes_), [places[earlier] for earlier in step.after])
        )
    return found


@pytest.mark.parametrize(("had", "wants"), [(1, 2), (1, 4), (2, 3), (2, 1), (1, 99)])
def test_buckets_of_another_size_are_those_that_would_be_measured(had: int, wants: int) -> None:
    made = with_buckets(ddp(MACHINE, 2, had), wants * LAYER_BYTES)
    assert lanes(made) == lanes(ddp(MACHINE, 2, wants))
    assert (made.own.time, made.own.lanes_ms) == (None, ())
    assert made.runs[:-1] == ddp(MACHINE, 2, had).runs[:-1]
    again = with_buckets(made, 2 * wants * LAYER_BYTES)
    assert lanes(again) == lanes(ddp(MACHINE, 2, 2 * wants))


@pytest.mark.parametrize(("had", "wants"), [(0, 1), (0, 2), (2, 0), (1, 99)])
def test_gathers_further_ahead_are_those_that_would_be_measured(had: int, wants: int) -> None:
    made = with_prefetch(fsdp(MACHINE, 2, had), wants)
    assert made.own.steps == fsdp(MACHINE, 2, wants).own.steps


def test_a_schedule_of_another_form_is_not_changed() -> None:
    with pytest.raises(ResultError, match="its sums are not buckets of gradients"):
        with_buckets(fsdp(MACHINE, 2, 1), 1e6)
    with pytest.raises(ResultError, match="its gathers are not one for each use of a layer"):
        with_prefetch(ddp(MACHINE, 2, 1), 1)


# ---- pairs


def test_only_two_free_works_of_which_one_communicates_are_a_pair() -> None:
    good = ddp(MACHINE, 2, 1)
    found = pairs_of(good)
    assert [(one.comm, one.comp) for one in found] == [(2, 0), (2, 1)]
    assert {one.spread for one in found} == {predictable.SPREAD}
    (run,) = (run for run in good.runs if run.name == "sum 1 beside forward")

    def pairs(changed: Run) -> int:
        return len(pairs_of(replace(good, runs=(*good.runs[:3], changed))))

    assert pairs(run) == 1
    tied = (*run.steps[:-1], replace(run.steps[-1], after=(0,)))
    waits = (*run.steps[:-1], replace(run.steps[-1], host_after=(0,)))
    on_one = tuple(replace(step, lane=0) for step in run.steps)
    for changed in (
        replace(run, steps=tied),
        replace(run, steps=waits),
        replace(run, steps=on_one),
        replace(run, time=None),
        replace(run, lanes_ms=run.lanes_ms[:1]),
        replace(run, steps=tuple(replace(step, work=0) for step in run.steps)),
    ):
        assert pairs(changed) == 0


def test_a_computation_that_had_little_company_tells_nothing() -> None:
    good = ddp(MACHINE, 2, 1)
    (run,) = (run for run in good.runs if run.name == "sum 1 beside backward")
    (begin, end), other = run.lanes_ms[1], run.lanes_ms[0]
    for times, told in ((1, True), (20, False)):
        long = replace(run, lanes_ms=(other, (begin, begin + (end - begin) * times)))
        (one,) = pairs_of(replace(good, runs=(*good.runs[:3], long)))
        assert (one.comp_slowdown is not None) is told


# Copies pass, so the product began late for another reason.
def test_a_pair_of_which_neither_had_company_tells_nothing() -> None:
    good = ddp(MACHINE, 2, 1, "copy")
    (run,) = (run for run in good.runs if run.name == "sum 1 beside backward")
    (begin, end), (late, last) = run.lanes_ms
    for meet_ms, told in ((begin, 1), (end - 0.01 * (end - begin), 0)):
        apart = ((begin, end), (meet_ms, meet_ms + last - late))
        changed = replace(good, runs=(*good.runs[:3], replace(run, lanes_ms=apart)))
        assert len(pairs_of(changed)) == told


def test_the_rules_of_a_backend() -> None:
    cuda, host = (row(backend, "nccl", alone(1, 1.0, 1.0, 1.0)) for backend in ("cuda", "host"))
    free = replace(cuda, runs=(replace(cuda.own, enqueue_ms=0.5, gated=False),))
    assert rules_of(cuda, [], []).latency_ms == [0, 0.006, 0]
    assert [rules_of(one, [], []).handover_ms for one in (cuda, host)] == [0.004, 0]
    assert [rules_of(one, [], []).enqueue_ms for one in (cuda, free)] == [0, 0.25]


# ---- rows under other conditions


def test_the_name_of_a_row_under_other_conditions() -> None:
    name = BenchmarkName.parse("Ddp/X/transport:copy/n:1/cache:cold")

    def asked(**conditions: object) -> str:
        return str(named(name, Question(**conditions)))  # type: ignore[arg-type]

    assert asked() == "Ddp/X/transport:copy/n:1/cache:cold"
    assert asked(transport="nccl_ce") == "Ddp/X/transport:nccl_ce/n:1/cache:cold"
    for standing in ("nccl", "mpi"):
        assert asked(transport=standing) == "Ddp/X/n:1/cache:cold"
    assert asked(axes={"n": "2", "m": "3"}) == "Ddp/X/transport:copy/n:2/m:3/cache:cold"
    sms = {"comm_sms": "8"}
    assert asked(axes=sms) == "Ddp/X/transport:copy/n:1/comm_sms:8/cache:cold"
    assert asked(transport="nccl", axes=sms) == "Ddp/X/n:1/comm_ctas:8/cache:cold"


def test_hosts_have_eight_gpus_or_as_many_as_one_had() -> None:
    base = fsdp(MACHINE, 2, 1)

    def hosts(book: Book, **conditions: int) -> int:
        return scheduled(book, base, Question(**conditions)).hosts  # type: ignore[arg-type]

    small, large = Book([base]), Book([base, fsdp(MACHINE, 16, 1)])
    assert [hosts(small, gpus=gpus) for gpus in (2, 8, 16, 24)] == [1, 1, 2, 3]
    assert [hosts(large, gpus=gpus) for gpus in (16, 32)] == [1, 2]
    assert hosts(small, gpus=16, nodes=4) == 4
    with pytest.raises(ResultError, match="16 GPUs cannot be divided among 3 nodes"):
        hosts(small, gpus=16, nodes=3)


def test_the_schedule_of_the_wanted_row_is_preferred() -> None:
    few, many, planned = fsdp(MACHINE, 2, 1), fsdp(MACHINE, 2, 2), fsdp(MACHINE, 16, 2)
    book = Book([few, many, planned])
    found = scheduled(book, few, Question(axes={"prefetch": "2"}))
    assert found.own is many.own
    found = scheduled(book, few, Question(gpus=16, axes={"prefetch": "2"}))
    assert found.own is planned.own
    told = (
        "Fsdp/Prefetch/layers:8/prefetch:1/cache:cold: no row has width:4: measure it, or add the"
        " output of --plan_ranks 2 --plan_nodes 1 --axis width=4"
    )
    with pytest.raises(ResultError) as refused:
        scheduled(book, few, Question(axes={"width": "4"}))
    assert str(refused.value) == told
    moe = replace(few, name=BenchmarkName.parse("Moe/Layer/tokens:1"))
    told = "its schedule depends on the ranks: add the output of --plan_ranks 4 --plan_nodes 1, or"
    with pytest.raises(ResultError, match=told):
        scheduled(Book([moe]), moe, Question(gpus=4))


def test_a_work_of_the_same_name_is_nearer_than_one_of_the_same_size() -> None:
    works = [Work(name, "COMP", flops=amount) for name, amount in (("a", 8.0), ("b", 16.0))]
    moved = Work("c", "COMP", moved_bytes=16.0)
    bare = row("cuda", "nccl", *(alone(place, 1.0 + place, 1.0) for place in range(3)))
    base = replace(bare, works=(*works, moved))

    def similar(name: str, kind: str = "COMP", **cost: float) -> str:
        found = _most_similar(base, Work(name, kind, **cost))  # type: ignore[arg-type]
        return found[0].name if found else ""

    assert similar("a", flops=16.0) == "a"
    assert [similar("x", flops=flops) for flops in (11.0, 12.0)] == ["a", "b"]
    assert similar("x", moved_bytes=8.0) == "c"
    assert similar("a", "MEM", flops=8.0) == ""


def test_the_error_of_a_prediction_is_a_share_of_what_was_measured() -> None:
    one = Prediction("a", 2, 1, None, 1.1, 1, 2, 1, 0.1, 0, 0, 1.0)
    assert one.error == pytest.approx(0.1)
    assert replace(one, measured=None).error is None


def test_the_law_of_scale_is_known_to_a_third() -> None:
    base = fsdp(MACHINE, 2, 1)
    question = Question(gpus=256, network=Network(1e5))
    found = predict_one(Book([base, fsdp(MACHINE, 8, 1)]), base, question)
    reaches = found.ms - found.low / 0.9, found.high / 1.1 - found.ms
    assert [one / found.prior for one in reaches] == pytest.approx([1.96 * 0.3] * 2, rel=0.25)


def test_an_input_that_is_hardly_known_counts_as_known_to_a_third() -> None:
    def width(spread: float) -> float:
        base = fsdp(MACHINE, 2, 1)
        runs = (
            replace(run, time=replace(run.time, spread=spread)) for run in base.runs if run.time
        )
        vague = replace(base, runs=tuple(runs))
        found = predict_one(Book([vague]), vague, Question())
        return found.high - found.low

    assert width(9.0) == width(0.3) > 1.5 * width(0.15)


def test_without_pairs_nothing_contends_and_without_the_gate_nothing_waits() -> None:
    base, calm = ddp(MACHINE, 2, 1), Book([])
    calm.links = links_of([base])
    whole, free = (predict_one(book, base, Question()) for book in (Book([base]), calm))
    assert whole.contention > 0.01
    assert free.contention == 0
    assert free.ms == pytest.approx(whole.computation + whole.link)
    assert {one.waits for one in pairs_of(base, gate=False)} == {0}


# A product that is done before the communication begins tells that it waits, but no slowdown.
def test_a_pair_that_tells_only_one_side_is_still_the_rows_own() -> None:
    run = replace(alone(0, 1.5), steps=(Step(1, 0, 1.0), Step(0, 1, 1.0)), owners=(None, None))
    base = row("cuda", "nccl", alone(0, 1.0, 1.0), alone(1, 0.5, 1.0), run)
    other = replace(base, name=BenchmarkName.parse("Lab/X/A+B/n:2"))
    own = Pair(base, 1, 0, comm_slowdown=1.1, comp_slowdown=None, waits=1, spread=0.0)
    more = Pair(other, 1, 0, comm_slowdown=1.3, comp_slowdown=1.2, waits=0, spread=0.0)
    for known in ([own, more], [more, own]):
        book = Book([], known)
        book.links = links_of([base])
        found = inputs_of(book, base, Question())
        assert (found.slowdown[1][0], found.waits[1][0], found.slowdown[0][1]) == (1.1, 1, 1.2)


@pytest.mark.parametrize(
    ("name", "host_bytes", "shares"),
    [
        ("Overlap/HostToDevice+Gemm/bytes:1048576", 0, True),  # as recorded without host_bytes
        ("Lab/Triple/AllGather+DeviceToHost+Gemm/n:1", 0, True),
        ("Prefetch/Step/buffers:2", 8, True),
        ("Overlap/PeerCopy+Gemm/bytes:1048576", 0, False),
        ("Ddp/Overlap/layers:8", 0, False),
    ],
)
def test_copies_of_more_gpus_of_a_host_are_refused(
    name: str, host_bytes: float, shares: bool
) -> None:
    bare = ddp(MACHINE, 2, 1)
    works = (replace(bare.works[0], host_bytes=host_bytes), *bare.works[1:])
    base = replace(bare, name=BenchmarkName.parse(name), works=works)
    book = Book([base, ddp(MACHINE, 4, 1)])
    assert predict_one(book, base, Question(gpus=2)).ms > 0
    if not shares:
        assert predict_one(book, base, Question(gpus=4)).ms > 0
        return
    told = "how copies of 4 GPUs share their host's memory is not known: measure it with --ranks 4"
    with pytest.raises(ResultError, match=told):
        predict_one(book, base, Question(gpus=4))


# ---- answers


def test_rows_that_differ_in_what_is_asked_are_one(tmp_path: Path) -> None:
    rows = [fsdp(MACHINE, 2, ahead) for ahead in (0, 1)]
    path = predictable.write(tmp_path / "steps.json", rows)
    given: dict[str, Any] = {
        "traced": Traced(None, None, Rules()),
        "gpus": None,
        "nodes": None,
        "network": None,
        "transport": None,
    }
    found, refusals = answers(path, "", latency_us=5.0, **given, prefetch=[2, 3])
    assert [one.name.split("/")[3] for one in found] == ["prefetch:2", "prefetch:3"]
    found, refusals = answers(path, "", latency_us=5.0, **given)
    assert (len(found), refusals) == (2, [])
    slow = given | {"gpus": [16, 32]}
    found, refusals = answers(path, "", latency_us=5.0, **slow)
    assert found == []
    assert [line.split(" need")[0] for line in refusals] == ["2 nodes", "4 nodes"]
    late = given | {"gpus": 16, "network": 1e5}
    (soon, _), _ = answers(path, "", latency_us=1.0, **late)
    (later, _), _ = answers(path, "", latency_us=1001.0, **late)
    assert soon.network == Network(1e5, 1.0)
    assert later.link - soon.link > 2 * LAYERS * 0.5
    with pytest.raises(ResultError, match="no measured step has schedules: measure one with"):
        answers(path, "Nothing", latency_us=5.0, **given)


def test_measured_steps_stand_beside_their_predictions(tmp_path: Path) -> None:
    rows = [fsdp(MACHINE, 2, ahead) for ahead in (0, 1)]
    bare = samples.write(tmp_path / "bare.json", samples.document([samples.row("Comm/A/n:1")]))
    path = predictable.write(tmp_path / "steps.json", rows)
    found, unread = beside_measured([str(bare), path])
    assert unread == []
    assert [one.measured for one in found] == [one.own.time.ms for one in rows if one.own.time]
