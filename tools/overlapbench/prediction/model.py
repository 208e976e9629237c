"""The model: what a row takes under other conditions, with an interval, and what it is made of.

The parts come from measured rows: computations from their work alone, collectives from links, and
slowdowns from pairs. The schedule comes from a row of the wanted settings, measured or planned, or
is changed to them. It is replayed; the law of scale adds what more hosts cost. Inputs that do not
suffice are refused.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean

import numpy as np

from overlapbench.output import ResultError
from overlapbench.prediction.changes import CHANGES
from overlapbench.prediction.factors import (
    LATENCY_MS,
    Pair,
    closest,
    even,
    pair_with_sms,
    pairs_of,
    passing,
    rules_of,
)
from overlapbench.prediction.links import OF_SMS, Asked, Network, links_of, time_of, traffic
from overlapbench.prediction.published import LLM_FOUNDRY, fit_scale
from overlapbench.prediction.replay import replay
from overlapbench.prediction.schedules import SUMS, Row, Step, Time, Work
from overlapbench.reading.names import BenchmarkName
from overlapbench.statistics.distributions import t_quantile

_DRAWS = 200
_LEAST_DRAWS = 20  # of long schedules, such as those of traces
_MOST_STEPS = 100_000  # that all draws replay
_SLOWER = 1.02  # a collective that takes longer by more may hold up what waits for it
_FEW_FAMILIES = 3
_TAIL = 0.025
_MOST_RESIDUAL = 0.3
_FEW = 8  # residuals of other families from which their quantile is taken
_MOST_SPREAD = 0.3  # of an input; a row that is known less well says so itself
_OF_THE_PRIOR = 0.3  # its standard error, as a share
USUAL_RESIDUAL = 0.1  # where a file has too few rows to tell its own
_GPUS_OF_A_HOST = 8
_BY_RANKS = ("Tp", "Tp/Block", "Moe", "Pp")  # families whose schedules depend on the ranks


@dataclass(frozen=True)
class Question:
    """Conditions; None is as measured."""

    gpus: int | None = None
    nodes: int | None = None
    network: Network | None = None
    transport: str | None = None
    axes: Mapping[str, str] = field(default_factory=dict)  # "bucket_bytes": "67108864"


@dataclass(frozen=True)
class Prediction:
    """A step's time in ms, its 95 % interval, and its parts in ms, which add up to it."""

    name: str  # of the row at the wanted settings
    ranks: int
    hosts: int
    network: Network | None
    ms: float
    low: float
    high: float
    computation: float
    link: float  # communication that nothing hides
    contention: float  # works that slow each other down, or wait for SMs
    prior: float  # the law of scale's, not measured here
    measured: float | None = None

    @property
    def error(self) -> float | None:
        """Of the prediction, as a share of what was measured."""
        return None if self.measured is None else self.ms / self.measured - 1


class Book:
    """All that files say: rows with schedules, collectives, pairs."""

    def __init__(self, rows: Sequence[Row], known: Sequence[Pair] = ()) -> None:
        self.rows, self.links = rows, links_of(rows)
        self.pairs = [*(pair for row in rows for pair in pairs_of(row)), *known]

    @functools.cached_property
    def _residuals(self) -> dict[str, list[float]]:
        """By family: how far the replay of each step is from its measured time, as a share."""
        found: dict[str, list[float]] = {}
        for row in self.rows:
            if row.is_step and row.own.time:
                error = abs(replayed(self, row) / row.own.time.ms - 1)
                found.setdefault(row.name.family, []).append(error)
        return found

    def residual(self, family: str) -> float:
        """Return half the 95 % interval of the residual of a family, from those of the others.

        Rows of one family err alike. So the families are the sample, and they are few: Student's t.
        """
        others = [all_ for name, all_ in self._residuals.items() if name != family]
        if len(others) < _FEW_FAMILIES or sum(map(len, others)) < _FEW:
            return USUAL_RESIDUAL
        square = mean(mean(r * r for r in all_) for all_ in others)
        wide = t_quantile(len(others) - 1, _TAIL) * math.sqrt((1 + 1 / len(others)) * square)
        return min(float(wide), _MOST_RESIDUAL)


# ---- the schedule


def named(name: BenchmarkName, question: Question) -> BenchmarkName:
    """Return the name of the row with the wanted settings."""
    axes = {**dict(name.axes), **question.axes}
    transport = question.transport or axes.get("transport", "nccl")
    if "comm_sms" in question.axes and transport.startswith("nccl"):
        axes["comm_ctas"] = axes.pop("comm_sms")
    if question.transport is not None:
        axes["transport"] = question.transport
        if question.transport in ("nccl", "mpi"):  # the standing value is not written
            del axes["transport"]
    last = {"cache": axes.pop("cache")} if "cache" in axes else {}
    return BenchmarkName(name.family, name.workloads, tuple((axes | last).items()))


def scheduled(book: Book, base: Row, question: Question) -> Row:
    """Return the row whose schedule is replayed, with the question's ranks, hosts and transport."""
    ranks = question.gpus or base.ranks
    most_local = max([_GPUS_OF_A_HOST, *(row.ranks // row.hosts for row in book.rows)])
    hosts = question.nodes or (base.hosts if ranks == base.ranks else math.ceil(ranks / most_local))
    if ranks % hosts:
        raise ResultError(f"{ranks} GPUs cannot be divided among {hosts} nodes")
    wanted = named(base.name, question).but_for()
    same = [row for row in book.rows if row.name.but_for() == wanted]
    found = [row for row in same if (row.ranks, row.hosts) == (ranks, hosts)]
    plan = f"--plan_ranks {ranks} --plan_nodes {hosts}"
    if not found and base.name.family.startswith(_BY_RANKS) and ranks != base.ranks:
        told = "its schedule depends on the ranks: add the output of"
        raise ResultError(f"{base.name}: {told} {plan}, or measure it")
    row = next(iter(found or same), base)
    transport = question.transport or row.transport
    # A plan has no GPU, so it knows no SMs.
    row = replace(row, ranks=ranks, hosts=hosts, transport=transport, sms=base.sms)
    for axis, value in question.axes.items():
        if found or same or base.name.axis(axis) == value:
            continue
        if axis not in CHANGES:
            told = f"no row has {axis}:{value}: measure it, or add the output of {plan}"
            raise ResultError(f"{base.name}: {told} --axis {axis}={value}")
        if not value.isdecimal() or (int(value) == 0 and axis != "prefetch"):
            raise ResultError(f"{axis} is {value!r}: it must be a whole number of at least 1")
        row = CHANGES[axis](row, int(value))
    return row


# ---- its parts


@dataclass
class Inputs:
    """What is replayed, with the standard errors of the times (by work) and of the slowdowns."""

    row: Row
    alone_ms: list[float]
    slowdown: list[list[float]]
    waits: list[list[int]]
    spreads: list[float]
    factor_spreads: list[list[float]]

    def total(
        self,
        alone_ms: Sequence[float] | None = None,
        slowdown: Sequence[Sequence[float]] | None = None,
        waits: Sequence[Sequence[int]] | None = None,
    ) -> float:
        rules = rules_of(self.row, slowdown or self.slowdown, waits or self.waits)
        starts_ms = [begin for begin, _ in self.row.own.lanes_ms]
        return replay(self.row.own, alone_ms or self.alone_ms, rules, starts_ms).total_ms


def inputs_of(book: Book, base: Row, question: Question) -> Inputs:
    """Collect what is known of a row's parts; ResultError if something is not."""
    if sms := question.axes.get("comm_sms"):  # else the base's: the row that differs only in them
        wanted = named(base.name, Question(axes={"comm_sms": sms}))
        base = _measured(book, wanted, base) or base
    row = scheduled(book, base, question)
    if base.is_traced and (row.ranks, row.hosts) != (base.ranks, base.hosts):
        raise ResultError(
            f"{base.name}: a trace tells nothing of other GPUs: give a result instead"
        )
    gpus = row.ranks // row.hosts
    if row.copies_host_memory and gpus != base.ranks // base.hosts:
        raise ResultError(
            f"{base.name}: how copies of {gpus} GPUs share their host's memory is not known:"
            f" measure it with --ranks {gpus}"
        )
    moved = row.transport != base.transport
    count = len(row.works)
    none = [[0.0] * count for _ in range(count)]
    inputs = Inputs(row, [], even(row), passing(row), [0.0] * count, none)
    near = base if base.transport == row.transport else None
    changed = row.is_traced and (moved or row.own is not base.own)
    for step in row.own.steps:
        work = row.works[step.work]
        known = _most_similar(base, work)
        if known:
            inputs.spreads[step.work] = known[1].spread
        if step.recorded and not (moved and work.kind == "COMM"):
            ms = step.recorded.ms
            if changed and work.kind == "COMM":
                ms += LATENCY_MS * row.by_kernel(work)
        elif work.collective and row.own.owners[step.lane] is None:
            asked = _asked(row, step, near, question)
            if asked.sms and not (known and known[0].sms == asked.sms):
                inputs.spreads[step.work] = OF_SMS
            ms = time_of(book.links, asked, row.ranks_of(work), row.hosts, question.network)
            if step.recorded:
                was = replace(asked, transport=base.transport, near=base)
                recorded_ms = step.recorded.ms + LATENCY_MS * base.by_kernel(work)
                ms *= recorded_ms / time_of(book.links, was, row.ranks_of(work), row.hosts)
        elif step.recorded:
            raise ResultError(
                f"{base.name}: '{work.name}' states no collective and size, so its time by "
                f"{row.transport} is unknown: record it with PyTorch 2.3 or newer"
            )
        elif known:
            had, has = known[0].amount, work.amount
            ms = known[1].ms * (has / had if had and has else 1) * step.share
        else:
            raise ResultError(
                f"{base.name}: '{work.name}' was not measured alone: measure {row.name}"
            )
        inputs.alone_ms.append(ms)
    if changed:
        _require_followers(inputs)
        inputs.row = _without_delays(row)
    if all(owner is None for owner in row.own.owners):  # else pairs are not measured
        _add_factors(book, base, inputs, question)
    return inputs


def _asked(row: Row, step: Step, near: Row | None, question: Question) -> Asked:
    work = row.works[step.work]
    sms = int(question.axes.get("comm_sms", 0)) if row.by_kernel(work) else 0
    return Asked(work.collective, row.transport_of(work), work.wire_bytes * step.share, near, sms)


def _measured(book: Book, name: BenchmarkName, like: Row) -> Row | None:
    """Return the measured row of this name, on as many ranks and hosts as another row."""
    same = (
        row
        for row in book.rows
        if row.own.time and row.name.but_for() == name.but_for()
        and (row.ranks, row.hosts) == (like.ranks, like.hosts)
    )  # fmt: skip
    return next(same, None)


def _require_followers(inputs: Inputs) -> None:
    """Refuse a slower collective if the trace does not state what waits for it."""
    row, steps = inputs.row, inputs.row.own.steps
    followed = {k for step in steps for k in step.after if steps[k].lane != step.lane}
    for place, (step, ms) in enumerate(zip(steps, inputs.alone_ms, strict=True)):
        name = row.works[step.work].collective
        is_slower = step.recorded and ms > _SLOWER * (step.recorded.ms + LATENCY_MS)
        if is_slower and name and name not in SUMS and place not in followed:
            raise ResultError(
                f"{row.name}: the trace does not state what waits for {row.works[step.work].name}:"
                " record it with enable_cuda_sync_events=True (torch.profiler._ExperimentalConfig)"
            )


def _without_delays(row: Row) -> Row:
    """Return a trace's row whose communication waits as the rules say, not as recorded."""
    steps = (
        replace(step, recorded=replace(step.recorded, delay_ms=None))
        if step.recorded and row.works[step.work].kind == "COMM"
        else step
        for step in row.own.steps
    )
    return replace(row, runs=(*row.runs[:-1], replace(row.own, steps=tuple(steps))))


def _most_similar(base: Row, work: Work) -> tuple[Work, Time] | None:
    """Return the measured work of this name, or else that of its kind with the nearest amount."""
    known = [
        (one, alone[1])
        for place, one in enumerate(base.works)
        if one.kind == work.kind and (alone := base.alone(place))
    ]
    named_alike = [pair for pair in known if pair[0].name == work.name]
    similar = [pair for pair in known if bool(pair[0].flops) == bool(work.flops)]

    def distance(pair: tuple[Work, Time]) -> float:
        return abs(math.log((pair[0].amount or 1) / (work.amount or 1)))

    return min(named_alike or similar, key=distance, default=None)


def _add_factors(book: Book, base: Row, inputs: Inputs, question: Question) -> None:
    row, near = inputs.row, base if base.transport == inputs.row.transport else None
    must_know = row.transport != base.transport or (row.is_traced and row.own is not base.own)
    used = {step.work: step.lane for step in row.own.steps}
    for comm in used:
        for comp in used:
            if comm == comp or row.works[comm].computes or used[comm] == used[comp]:
                continue
            alike = _alike(book.pairs, base, row, row.works[comp], row.works[comm])
            pairs = _own(alike, base, row)
            if must_know and not pairs and row.works[comm].collective and row.works[comp].computes:
                raise ResultError(_unknown_pair(base, row, row.works[comm]))
            largest = max((s for s in row.own.steps if s.work == comm), key=lambda s: s.share)
            asked = _asked(row, largest, near, question)
            if pair := closest(pairs, asked):
                pair = pair_with_sms(pair, row, comp, asked, book.links)
                inputs.slowdown[comm][comp] = pair.comm_slowdown
                inputs.waits[comm][comp] = pair.waits
                inputs.factor_spreads[comm][comp] = pair.spread
            told = [pair for pair in alike if pair.comp_slowdown is not None]
            if pair := closest(_own(told, base, row), asked):
                pair = pair_with_sms(pair, row, comp, asked, book.links)
                excess = (pair.comp_slowdown or 1.0) - 1
                moves_bytes = row.works[comp].computes and not row.works[comp].flops
                if moves_bytes and asked.collective and row.hosts > 1:
                    excess *= traffic(book.links, asked, row.ranks, row.hosts, question.network)
                inputs.slowdown[comp][comm] = 1 + excess
                inputs.factor_spreads[comp][comm] = pair.spread


def _alike(pairs: Iterable[Pair], base: Row, row: Row, comp: Work, comm: Work) -> list[Pair]:
    """Return the pairs of this family and collective.

    Of two communications, `comp` is the one that comes later; there are no pairs the other way.
    """
    family = [
        pair
        for pair in pairs
        if (base.is_traced or pair.row.name.family == base.name.family)
        and pair.row.transport_of(pair.row.works[pair.comm]) == row.transport_of(comm)
        and pair.row.works[pair.comm].collective == comm.collective
        and pair.row.works[pair.comm].kind == comm.kind
        and pair.row.works[pair.comp].computes == comp.computes
    ]
    same = [pair for pair in family if pair.row.works[pair.comp].name == comp.name]
    return same or (family if comp.computes else [])


def _own(pairs: list[Pair], base: Row, row: Row) -> list[Pair]:
    """Return those that the row has itself, as measured or as wanted; all if it has none."""
    names = (one.name.but_for() for one in (base, row))
    own = ([pair for pair in pairs if pair.row.name.but_for() == name] for name in names)
    return next(filter(None, own), pairs)


def _unknown_pair(base: Row, row: Row, comm: Work) -> str:
    by = row.transport_of(comm)
    family = "Ddp" if base.is_traced else base.name.family
    return (
        f"{base.name}: how much {comm.name} by {by} and computation slow each other down is not"
        f" known: measure ./bench --predictable --benchmark_filter=^{family}/ --axis transport={by}"
    )


# ---- the answer


def replayed(book: Book, base: Row) -> float:
    """Return the replayed time of a measured row in ms."""
    return inputs_of(book, base, Question()).total()


def predict_one(book: Book, base: Row, question: Question) -> Prediction:
    """Predict a measured row under the conditions of a question.

    ResultError  what was measured does not suffice: one line, with what to measure
    """
    inputs = inputs_of(book, base, question)
    row, steps = inputs.row, inputs.row.own.steps
    works = [row.works[step.work] for step in steps]
    collectives = [bool(work.collective) for work in works]
    moves = [bool(w.collective or (row.is_traced and w.kind == "COMM")) for w in works]
    free = [0.0 if no else ms for no, ms in zip(moves, inputs.alone_ms, strict=True)]
    computation = inputs.total(free, even(row), passing(row))
    unslowed = inputs.total(None, even(row), passing(row))
    total = inputs.total()
    doublings = math.log2(max(1.0, row.hosts / base.hosts))
    a_ms, b = _scale()

    def prior(ms: float) -> float:
        return doublings * (a_ms * sum(collectives) + b * ms)

    draws = [ms + prior(ms) * certainty for ms, certainty in _draws(inputs, steps)]
    low, high = np.quantile(draws, [0.025, 0.975])
    residual = book.residual(base.name.family)
    name = named(base.name, question)
    measured = _measured(book, name, row)
    return Prediction(
        str(name),
        row.ranks,
        row.hosts,
        question.network if row.hosts > 1 else None,
        ms=total + prior(total),
        low=float(low) * (1 - residual),
        high=float(high) * (1 + residual),
        computation=computation,
        link=unslowed - computation,
        contention=total - unslowed,
        prior=prior(total),
        measured=measured.own.time.ms if measured and measured.own.time else None,
    )


def _draws(inputs: Inputs, steps: Sequence[Step]) -> Iterable[tuple[float, float]]:
    """Yield the replayed time with resampled inputs, and a factor of the prior."""
    random = np.random.default_rng(0)
    spreads = np.minimum(inputs.spreads, _MOST_SPREAD)
    of_factors = np.minimum(inputs.factor_spreads, _MOST_SPREAD)
    for _ in range(max(_LEAST_DRAWS, min(_DRAWS, _MOST_STEPS // len(steps)))):
        noise = np.exp(random.normal(0, spreads)).tolist()
        alone_ms = [ms * noise[s.work] for s, ms in zip(steps, inputs.alone_ms, strict=True)]
        slowdown = np.array(inputs.slowdown) * np.exp(random.normal(0, of_factors))
        yield inputs.total(alone_ms, slowdown.tolist()), max(0.0, random.normal(1, _OF_THE_PRIOR))


@functools.cache
def _scale() -> tuple[float, float]:
    return fit_scale(LLM_FOUNDRY)
