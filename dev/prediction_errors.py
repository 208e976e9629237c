#!/usr/bin/env python3
"""Recompute how far predictions are off: predicted beside measured, from recorded results.

    dev/prediction_errors.py
    dev/prediction_errors.py steps.json more.json trace.json --cases 5 --json

The files are results of `overlapbench run --predictable`, on one or more numbers of GPUs or of
ranks of the host backend, results of Comm and Overlap, and traces; without any, the recorded ones
of docs/results. Each device is judged by its own rows. A row's own time is never an input of its
prediction. Each test has a limit that was set before it was run. Tests for which the files have no
rows are named, not passed. The falsifiers repeat the test of steps with a part of the model taken
out, and pass if it is then clearly worse. docs/prediction.md discusses the tables.

Exit status: 0 if no test failed; 1 if one did; 2 if a file has no schedules.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, median

import numpy as np

import checkout  # noqa: F401
from overlapbench.cli.command_line import command, manual_parser, number_from, screen
from overlapbench.grouping import grouped
from overlapbench.output import ResultError, expand, print_text
from overlapbench.prediction import links
from overlapbench.prediction.answers import predict
from overlapbench.prediction.factors import Pair, pairs_of
from overlapbench.prediction.model import Book, Question, predict_one, replayed
from overlapbench.prediction.published import LLM_FOUNDRY, Scaled, fit_scale
from overlapbench.prediction.schedules import Row, read_rows
from overlapbench.traces.files import is_trace
from overlapbench.view.console import Entry, Screen, table

RESULTS = Path(__file__).parents[1] / "docs/results"
RECORDED = (
    "h100x2/predictions*.json.gz",
    "h200x?/overlap-steps.json.gz",
    "h200x2/collectives-?.json.gz",
    "h200x[48]/collectives.json.gz",
    "h200x?/triple.json.gz",
    "host/delays.json.gz",
    "h200x2/lab-partition.json",
    "h200x2/transport-[cs]*s.json",
    "h200x4/collectives-sms.json.gz",
    "h100x2/allreduce-sms.json",
    "h100x2/transport-sizes.json",
    "h200x2/traces/[MT]*rank?.json.gz",
    "host/traces/*rank?.json.gz",
)
_BY_SMS = ("lab-partition", "/transport-", "-sms.json")  # files whose rows differ in SMs
_DECIDED = ("transport", "bucket_bytes", "prefetch", "comm_sms", "chunks", "microbatches")
_SAID = {True: "passed", False: "FAILED", None: "not possible"}


@dataclass(frozen=True)
class Pipelines:
    """Two orders of a pipeline at the same settings."""

    name: str
    stages: int
    microbatches: int
    virtual: int  # stages of a rank, in the second order
    measured: float  # its speed over the first one's


# torchtitan (github.com/pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md at
# 31a17bfd, table 5): 405B on 512 H100, 8 pipeline stages. It names neither the micro-batches (the
# default then was the number of pipeline ranks) nor the stages of a rank (two are usual).
PIPELINES = (Pipelines("torchtitan 405B, interleaved against 1F1B", 8, 8, 2, 128 / 100),)


@dataclass(frozen=True)
class Asynchronous:
    """A step that is tensor parallel over 8 GPUs, and what collectives beside products gain."""

    name: str
    gathered_bytes: int  # of an element; sums take 2
    per_gpu: float  # tokens a second, if every collective is exposed
    gain: float  # times as many, if they are asynchronous


# torchtitan, Llama 3.1 70B on 256 H100: 16 sequences of 8,192 tokens on the 8 GPUs of a host, all
# activations recomputed, compiled. arXiv 2410.06511 (its abstract has the gain), and at 31a17bfd
# and c720cb87 benchmarks/llama3_h100_202412_torchtitan.md and
# asyncTP_llama3_h100_2025-06_torchtitan.md. With float8, gathers move it (torchao's
# float8_tensor_parallel.py).
ASYNCHRONOUS = (
    Asynchronous("torchtitan 70B, asynchronous, float8", 1, 897, 1.1259),
    Asynchronous("the same in December 2024", 1, 829, 876 / 829),
    Asynchronous("the same in June 2025", 1, 809.8, 942.4 / 809.8),
    Asynchronous("the same in June 2025, bfloat16", 2, 597.3, 652.4 / 597.3),
)
_LAYERS, _TOKENS, _WIDTH = 80, 16 * 8192, 8192
_COLUMNS = 4 * (1280 + 1024 + 7168 + 3584) - 3584  # of a GPU's products in a layer's step
_EXPOSED = {"AllGather": 6, "ReduceScatter": 5}  # of a layer's step
# Of these, what PyTorch's pass micro_pipeline_tp.py does in chunks: gathers and the products that
# read them, a product and its sum. With the products' columns, and how often. Two sums are of
# several products, so they stay exposed.
_CHUNKED = (
    ("AllGather", 1280, 2), ("AllGather", 7168, 2), ("ReduceScatter", 1024, 2),  # and recomputed
    ("ReduceScatter", 3584, 1), ("AllGather", 3584, 1), ("AllGather", 1024, 1),
)  # fmt: skip
_MEMORY_GBps = 2400.0  # of these H100
# At least and at most: the copies along the sequence that only exposed collectives need; links
# unlike the measured ones; what PyTorch's operators save of what is predicted (73 to 91 % on four
# H200, training-peers.json.gz); what share of the computation products are.
_ASSUMED = (
    {"copies": 0.0, "link": 0.95, "saved": 0.73, "products": 0.6},
    {"copies": 1.0, "link": 1.05, "saved": 1.0, "products": 1.0},
)


@dataclass(frozen=True)
class Weak:
    """A model of Megatron-LM's table, at 48 replicas of the data."""

    model: str
    stages: int
    gpus: int
    batch: int  # sequences of 4,096 tokens, over all replicas
    teraflops: float  # of a GPU


# Megatron-LM (github.com/NVIDIA/Megatron-LM, images/model_table.png at d98e8a64): H100, tensor
# parallel by 8 from 384 GPUs on. Other models in each line, so the products differ, too.
MEGATRON = (
    Weak("1.7B", 1, 48, 192, 408.8),
    Weak("7.1B", 1, 96, 192, 465.9),
    Weak("16B", 1, 192, 192, 489.1),
    Weak("32B", 1, 384, 192, 459.6),
    Weak("70B", 2, 768, 384, 419.7),
    Weak("119B", 4, 1536, 768, 420.5),
    Weak("177B", 6, 2304, 1152, 432.8),
    Weak("314B", 8, 3072, 1536, 474.4),
    Weak("462B", 16, 6144, 3072, 459.9),
)
_REPLICAS = 48
_GPUS = 8  # of a host


@dataclass(frozen=True)
class Case:
    """One time that was predicted and measured, or a ratio."""

    name: str
    predicted: float
    measured: float
    low: float = math.nan
    high: float = math.nan

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def held(self) -> bool:
        return self.low <= self.measured <= self.high


@dataclass(frozen=True)
class Test:
    name: str
    limit: str
    passed: bool | None  # None: it was not possible
    figures: str
    cases: Sequence[Case] = ()


Judge = Callable[[Sequence[Case]], bool]


def mean_error(cases: Sequence[Case]) -> float:
    return mean(abs(case.error) for case in cases)


def within(share: float) -> Judge:
    return lambda cases: mean_error(cases) <= share


def _is_near_gain(cases: Sequence[Case]) -> bool:
    return all(abs(case.predicted - case.measured) < 0.3 * (case.measured - 1) for case in cases)


def judged(
    name: str, limit: str, cases: Iterable[Case | None], judge: Judge, note: str = ""
) -> Test:
    known = sorted((case for case in cases if case), key=lambda case: -abs(case.error))
    if not known:
        return Test(name, limit, None, "no rows")
    errors = [100 * abs(case.error) for case in known]
    told = f"{len(known)} cases, mean {mean(errors):.2f} %, 90 % within "
    told += f"{np.quantile(errors, 0.9):.1f} %, most {errors[0]:.1f} %{note}"
    return Test(name, limit, bool(judge(known)), told, known)


def _held(cases: Sequence[Case]) -> str:
    return f"; intervals hold in {100 * mean(c.held for c in cases):.1f} %" if cases else ""


def _sms(row: Row) -> float:
    return row.works[0].sms


def _but_for_sms(row: Row) -> object:
    axes = frozenset(pair for pair in row.name.axes if pair[0] not in ("comm_sms", "comm_ctas"))
    return row.name.workloads, axes, row.transport


def _at_other_sms(sources: Iterable[str]) -> Iterator[Test]:
    """Predict each row from those that differ only in the SMs of their communication."""
    alone: list[Case | None] = []
    pairs: dict[str, list[Case]] = {"NCCL": [], "own kernels": []}
    losses = []
    for source in sources:
        rows = [row for row in read_rows([source]) if _sms(row)]
        for group in grouped(rows, _but_for_sms).values():
            for row in group:
                if len(row.own.steps) == 1:
                    alone.append(_from_other_sms(row, group))
                    continue
                found = [case for target in group if (case := _pair_at_sms(rows, row, target))]
                pairs["own kernels" if row.transport.startswith("sm_") else "NCCL"] += found
                if found and row.own.time:
                    choices = [*found, Case("", row.own.time.ms, row.own.time.ms)]
                    chosen = min(choices, key=lambda case: case.predicted)
                    best = min(case.measured for case in choices)
                    losses.append(Case(str(row.name), chosen.measured, best))
    yield judged("collectives at other SMs", "mean 5 %", alone, within(0.05))
    for by, cases in pairs.items():
        yield judged(f"pairs at other SMs, {by}", "each 6 %, intervals hold in 90 %", cases,
                     lambda known: all(abs(c.error) <= 0.06 for c in known)
                     and mean(c.held for c in known) >= 0.9, _held(cases))  # fmt: skip
    yield judged("loss by decisions: SMs", "mean 2 %", losses, within(0.02))


def _from_other_sms(row: Row, group: Sequence[Row]) -> Case | None:
    """Predict a collective from those with more and with fewer SMs."""
    others = [other for other in group if _sms(other) != _sms(row)] or [_only_planned(row)]
    return _collective(links.links_of(others), row, others[0], _sms(row))


def _pair_at_sms(rows: Sequence[Row], base: Row, target: Row) -> Case | None:
    """Predict a pair from that at other SMs. Other rows tell the collective's times alone."""
    if _sms(base) == _sms(target):
        return None
    solos = [
        replace(row, runs=tuple(run for run in row.runs if {s.work for s in run.steps} == {0}))
        for row in rows
        if row is not target
    ]
    question = Question(axes={"comm_sms": f"{_sms(target):.0f}"})
    return _predicted(Book([base, *solos]), base, question, target)


def validate(rows: Sequence[Row], traces: Sequence[str], by_sms: Sequence[str]) -> Iterator[Test]:
    """Run every test."""
    measured = [row for row in rows if row.own.time and row.backend != "host"]
    for device, own in grouped(measured, lambda row: row.device).items() or [("", [])]:
        for test in _of_device([row for row in own if not _is_wide(row)]):
            if test.passed is not None:
                yield replace(test, name=f"{device.removeprefix('NVIDIA ')}: {test.name}")
    yield judged("host backend: delays on more ranks", "mean 2 %", _delays(rows), within(0.02))
    yield from _three_lanes(measured)
    yield from _at_other_sms(by_sms)
    yield judged("a trace, unchanged", "each 1 %", _unchanged(traces),
                 lambda cases: all(abs(case.error) <= 0.01 for case in cases))  # fmt: skip
    yield judged(
        "published: 128 to 512 GPUs, one model left out", "mean 3 %", _scaled(), within(0.03)
    )
    pipelines = [Case(one.name, _bubble_ratio(one), one.measured) for one in PIPELINES]
    gains = [*_asynchronous_gains(measured)]
    for name, limit, cases, judge in (
        ("gain of an interleaved pipeline", "within 30 % of the gain", pipelines, _is_near_gain),
        ("gain of asynchronous collectives", "within 30 % of the gain", gains[:1], _is_near_gain),
        ("  in later tables", "none", gains[1:], within(math.inf)),
    ):
        yield judged(f"published: {name}", limit, cases, judge)
    yield judged("published: Megatron-LM, a pipeline of twice the GPUs", "none",
                 _bubbles_of_sizes(), within(math.inf))  # fmt: skip


def _of_device(gpu: Sequence[Row]) -> Iterator[Test]:
    yield judged("repeat:4 of a pair from repeat:1", "mean 2 %", _repeats(gpu), within(0.02))
    yield from _steps(gpu)
    yield from _more_ranks(gpu)
    yield _decisions(gpu)
    yield from _falsifiers(gpu)


def _unchanged(traces: Sequence[str]) -> Iterator[Case]:
    for trace in traces:
        (found,) = predict(trace)
        assert found.measured
        yield Case(found.name, found.ms, found.measured, found.low, found.high)


def _predicted(book: Book, base: Row, question: Question, target: Row) -> Case | None:
    try:
        found = predict_one(book, base, question)
    except ResultError:
        return None
    assert target.own.time
    return Case(str(target.name), found.ms, target.own.time.ms, found.low, found.high)


def _is_wide(row: Row) -> bool:
    return len({step.lane for step in row.own.steps}) > 2


def _three_lanes(rows: Sequence[Row]) -> Iterator[Test]:
    """Replay steps in which up to three works run at once."""
    wide = [row for row in rows if _is_wide(row)]
    if not wide:
        yield judged("three lanes", "mean 6 %", [], within(0.06))
    for ranks in sorted({row.ranks for row in wide}):
        cases = _at_own_settings(rows, _of(wide, ranks))
        yield judged(f"three lanes, {ranks} GPUs", "mean 6 %", cases, within(0.06))


def _of(rows: Iterable[Row], ranks: int) -> list[Row]:
    return [row for row in rows if row.ranks == ranks]


def _only_planned(row: Row) -> Row:
    return replace(row, runs=tuple(replace(run, time=None, lanes_ms=()) for run in row.runs))


def _repeats(rows: Sequence[Row]) -> Iterator[Case | None]:
    """Four computations beside a communication, from one."""
    for base, target in itertools.product(rows, rows):
        axes = dict(base.name.axes)  # without repeat, which is 1
        same = (base.name.workloads, base.ranks) == (target.name.workloads, target.ranks)
        if "repeat" not in axes and same and axes | {"repeat": "4"} == dict(target.name.axes):
            others = [row for row in _of(rows, base.ranks) if row is not target]
            book = Book([*others, _only_planned(target)])
            yield _predicted(book, base, Question(axes={"repeat": "4"}), target)


def _at_own_settings(rows: Sequence[Row], wanted: Sequence[Row]) -> Iterator[Case | None]:
    books = {ranks: Book(_of(rows, ranks)) for ranks in {row.ranks for row in wanted}}
    for row in wanted:
        yield _predicted(books[row.ranks], row, Question(), row)


def _steps(rows: Sequence[Row]) -> Iterator[Test]:
    def judge(cases: Sequence[Case]) -> bool:
        most = np.quantile([abs(case.error) for case in cases], 0.9)
        held = mean(case.held for case in cases)
        return mean_error(cases) <= 0.04 and float(most) <= 0.1 and held >= 0.9

    limit = "mean 4 %, 90 % within 10 %, intervals hold in 90 %"
    for ranks in sorted({row.ranks for row in rows}):
        wanted = [row for row in _of(rows, ranks) if row.is_step]
        cases = [case for case in _at_own_settings(rows, wanted) if case]
        yield judged(f"steps from parts and pairs, {ranks} GPUs", limit, cases, judge, _held(cases))
        families = {row.name.family for row in wanted}
        for family in sorted(families):
            own = [case for case in cases if case.name.startswith(f"{family}/")]
            yield judged(f"  of these {family}", "none", own, within(math.inf))


def _more_ranks(rows: Sequence[Row]) -> Iterator[Test]:
    for few, many in itertools.combinations(sorted({row.ranks for row in rows}), 2):
        known, wanted = _of(rows, few), _of(rows, many)
        name = f"{few} to {many} GPUs: "
        alone = [row for row in wanted if len(row.own.steps) == 1]
        found = links.links_of(known)
        yield judged(name + "collectives", "mean 5 %", (_collective(found, r) for r in alone),
                     within(0.05))  # fmt: skip
        bases = {row.name: row for row in known}
        # A pair keeps its order: which side is first is not in the plan.
        books = {False: Book(known), True: Book([*known, *map(_only_planned, wanted)])}
        for kind, limit, is_step in (("pairs", 0.03, False), ("steps", 0.06, True)):
            cases = (
                _predicted(books[is_step], bases[row.name], Question(gpus=many), row)
                for row in wanted
                if row.name in bases and row.is_step is is_step and len(row.own.steps) > 1
            )
            yield judged(name + kind, f"mean {100 * limit:.0f} %", cases, within(limit))


def _collective(
    found: links.Links, row: Row, near: Row | None = None, sms: float = 0
) -> Case | None:
    work = row.works[row.own.steps[0].work]
    asked = links.Asked(work.collective, row.transport, work.wire_bytes, near, sms)
    try:
        ms = links.time_of(found, asked, row.ranks)
    except ResultError:
        return None
    return Case(str(row.name), ms, row.own.time.ms) if row.own.time else None


def _decisions(rows: Sequence[Row]) -> Test:
    """What the choice that was predicted to be fastest costs, against the fastest measured."""
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        for axis in _DECIDED if row.is_step else ():
            if axis == "transport" or row.name.axis(axis):
                rest = "/".join(f"{k}:{v}" for k, v in row.name.axes if k != axis)
                what = "+".join(row.name.workloads)
                key = (f"{row.name.family}/{what}/{rest}", f"{axis} on {row.ranks} GPUs", row.ranks)
                groups.setdefault(key, []).append(row)
    books = {ranks: Book(_of(rows, ranks)) for ranks in {row.ranks for row in rows}}
    cases = []
    for (name, axis, ranks), choices in groups.items():
        times = [(replayed(books[ranks], r), r.own.time.ms) for r in choices if r.own.time]
        if len(times) > 1:
            cases.append(Case(f"{name}: {axis}", min(times)[1], min(ms for _, ms in times)))
    good = sum(case.error <= 0.02 for case in cases)
    return judged(
        "decisions: loss against the best",
        "2 % in 9 of 10",
        cases,
        lambda known: good >= 0.9 * len(known),
        f"; {good} within 2 %",
    )


def _delays(rows: Sequence[Row]) -> Iterator[Case | None]:
    """Pipelines of delays: the fewest ranks predict all others."""
    delays = [row for row in rows if row.backend == "host" and "Delay" in row.name.workloads]
    few = min((row.ranks for row in delays), default=0)
    bases = {row.name: row for row in _of(delays, few)}
    for row in delays:
        if row.ranks > few and row.name in bases:
            book = Book([*bases.values(), _only_planned(row)])
            yield _predicted(book, bases[row.name], Question(gpus=row.ranks, nodes=1), row)


def at_scale(model: Scaled, doublings: float, a_ms: float, b: float) -> float:
    """Return the step's time after so many doublings of 128 GPUs."""
    first = model.step_ms(128)
    return first + doublings * (a_ms * model.layers * model.collectives + b * first)


def _scaled() -> Iterator[Case]:
    for model in LLM_FOUNDRY:
        a_ms, b = fit_scale([other for other in LLM_FOUNDRY if other is not model])
        ratios = [
            ms / model.step_ms(128) for ms in (at_scale(model, 2, a_ms, b), model.step_ms(512))
        ]
        yield Case(f"llm-foundry {model.model}", *ratios)


def _bubble_ratio(one: Pipelines) -> float:
    """Return how much faster the second order is if transfers take no time."""
    idle = (one.stages - 1) / one.microbatches
    return (1 + idle) / (1 + idle / one.virtual)


def asynchronous_gain(
    one: Asynchronous,
    found: links.Links,
    slowdown: float,  # of a product beside copies
    *,
    copies: float = 0.0,
    link: float = 1.0,
    saved: float = 1.0,
    products: float = 1.0,
) -> float:
    """Return how much faster a step is if its collectives are copied in chunks beside products.

    Its own time tells what the products take, so only the share of the collectives is predicted.
    """

    elements = _TOKENS * _WIDTH
    bytes_ = {"AllGather": one.gathered_bytes * elements, "ReduceScatter": 2 * elements}
    alone_ms = {
        (name, by): link * links.time_of(found, links.Asked(name, by, size), _GPUS)
        for name, size in bytes_.items()
        for by in ("nccl", "copy")
    }
    layer_ms = _TOKENS / _GPUS / one.per_gpu * 1e3 / _LAYERS
    computed_ms = layer_ms - sum(_EXPOSED[name] * alone_ms[name, "nccl"] for name in _EXPOSED)
    saved_ms = 0.0
    for name, columns, times in _CHUNKED:
        product_ms = products * computed_ms * columns / _COLUMNS
        copied_ms = alone_ms[name, "copy"]
        # The product goes on beside the copies, or its first or last chunk waits for them.
        together_ms = max(product_ms + copied_ms * (1 - 1 / slowdown),
                          copied_ms + product_ms / _GPUS)  # fmt: skip
        moved_ms = copies * 2 * bytes_[name] / (_MEMORY_GBps * 1e6)
        saved_ms += saved * times * (product_ms + alone_ms[name, "nccl"] + moved_ms - together_ms)
    return layer_ms / (layer_ms - saved_ms)


def _asynchronous_gains(rows: Sequence[Row]) -> Iterator[Case]:
    found = links.links_of(rows)
    slowdowns = [
        pair.comp_slowdown
        for row in rows
        if row.name.family.startswith("Tp") and row.transport == "copy"
        for pair in pairs_of(row)
        if pair.comp_slowdown
    ]
    for one in ASYNCHRONOUS if slowdowns else ():
        with contextlib.suppress(ResultError):
            gain, low, high = (
                asynchronous_gain(one, found, median(slowdowns), **assumed)
                for assumed in ({}, *_ASSUMED)
            )
            yield Case(f"{one.name}: {low:.2f} to {high:.2f}", gain, one.gain, low, high)


def _bubbles_of_sizes() -> Iterator[Case]:
    """Compare neighbours of Megatron's table by the idle time of their pipelines alone."""
    for one, other in itertools.pairwise(MEGATRON):
        busy = [1 / (1 + (m.stages - 1) / (m.batch / _REPLICAS)) for m in (one, other)]
        name = f"Megatron-LM {one.model} on {one.gpus} to {other.model} on {other.gpus} GPUs"
        yield Case(name, busy[1] / busy[0], other.teraflops / one.teraflops)


def _shuffled(seed: int, book: Book) -> list[Pair]:
    """Give pairs each other's factors."""
    order = np.random.default_rng(seed).permutation(len(book.pairs))
    return [
        replace(one, comm_slowdown=other.comm_slowdown, comp_slowdown=other.comp_slowdown,
                waits=other.waits)
        for one, other in zip(book.pairs, (book.pairs[place] for place in order), strict=True)
    ]  # fmt: skip


def _falsifiers(rows: Sequence[Row]) -> Iterator[Test]:
    def error(pairs_in: Callable[[Book], list[Pair]]) -> float:
        cases = []
        for ranks in {row.ranks for row in rows}:
            book = Book(_of(rows, ranks))
            book.pairs = pairs_in(book)
            for row in _of(rows, ranks):
                if row.is_step and row.own.time:
                    cases.append(Case(str(row.name), replayed(book, row), row.own.time.ms))
        return mean_error(cases) if cases else math.nan

    whole = error(lambda book: book.pairs)
    if math.isnan(whole):
        yield Test("falsifiers", "half as much error again", None, "no rows")
        return
    changed = {
        "factors shuffled": mean(error(partial(_shuffled, seed)) for seed in range(3)),
        "gate off": error(lambda book: [p for row in book.rows for p in pairs_of(row, gate=False)]),
        "contention 1": error(lambda _: []),
    }
    for name, found in changed.items():
        told = f"mean {100 * found:.1f} %, and {100 * whole:.1f} % with the whole model"
        yield Test(f"falsifier: {name}", "half as much error again", found >= 1.5 * whole, told)


def text_of(tests: Iterable[Test], most: int, screen: Screen) -> str:
    entries = []
    for test in tests:
        rows = [
            (f"{c.predicted:.4g}", f"{c.measured:.4g}", f"{100 * c.error:+.1f} %", c.name)
            for c in test.cases[:most]
        ]
        title = f"{_SAID[test.passed]}: {test.name} ({test.limit}): {test.figures}"
        entries.append(Entry(title, rows))
    return table(screen, ("predicted", "measured", "error", "case"), entries, words=0)


@command
def main(arguments: Sequence[str] | None, program: str) -> int:
    options = make_parser(program).parse_args(arguments)
    sources = expand(options.files or [str(RESULTS / name) for name in RECORDED])
    traces = [source for source in sources if is_trace(source)]
    by_sms = [source for source in sources if any(name in source for name in _BY_SMS)]
    results = [source for source in sources if source not in (*traces, *by_sms)]
    tests = list(validate(read_rows(results), traces, by_sms))
    if options.json:
        print_text(json.dumps([dataclasses.asdict(test) for test in tests], indent=1) + "\n")
    else:
        print_text(text_of(tests, options.cases, screen()))
    return int(any(test.passed is False for test in tests))


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="a result, a trace, or a glob")
    add("--cases", type=number_from(0), default=3, metavar="N", help="show the worst N (default 3)")
    add("--json", action="store_true", help="print all cases as JSON")
    return parser


if __name__ == "__main__":
    raise SystemExit(main(program="prediction_errors"))
