"""Answers: predictions for all combinations of conditions, for the command and for notebooks."""

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlapbench.output import ResultError, expand
from overlapbench.prediction.links import Network
from overlapbench.prediction.model import Book, Prediction, Question, inputs_of, predict_one
from overlapbench.prediction.replay import Rules as Rates
from overlapbench.prediction.schedules import Row, read_rows
from overlapbench.prediction.traced import row_of, settled
from overlapbench.reading.names import chooser, spell_sizes
from overlapbench.reading.source import load
from overlapbench.traces.files import is_trace, read_traces
from overlapbench.traces.rules import Rules, parse_rule


def predict(
    source: str | Path | Iterable[str | Path],
    benchmark: str = "",
    *,
    gpus: int | Iterable[int] | None = None,
    nodes: int | Iterable[int] | None = None,
    network: float | Iterable[float] | None = None,
    latency_us: float = 5.0,
    transport: str | Iterable[str] | None = None,
    step: int | None = None,
    window: str | None = None,
    rules: Sequence[str] = (),
    **axes: str | int | Iterable[str | int] | None,
) -> list[Prediction]:
    """Predict how long measured steps would take under other conditions, in all combinations.

    source      results that were measured with --predictable, and outputs of --plan_ranks; or a
                trace of your own step, one file per rank, and results of the same machine
    benchmark   which rows, as for --benchmark_filter
    gpus        how many GPUs
    nodes       on how many hosts; 8 GPUs on each unless given
    network     GB/s of each GPU to other hosts, in one direction
    latency_us  of a message on that network
    transport   of the collectives
    step        of a trace: only this step, or this sample; of several, that of median length
    window      only windows (annotations) of this name
    rules       classes of spans by name, such as "my_fused_kernel=COMM"
    axes        other settings, such as bucket_bytes="64M", prefetch=2 or comm_sms=8

    ResultError  a file has no schedules, or what was measured does not suffice: one line that says
                 what to measure
    """
    found, refusals = answers(
        source,
        benchmark,
        gpus=gpus,
        nodes=nodes,
        network=network,
        latency_us=latency_us,
        transport=transport,
        traced=Traced(step, window, Rules([parse_rule(rule) for rule in rules])),
        **axes,
    )
    if refusals:
        raise ResultError(refusals[0])
    return found


@dataclass(frozen=True)
class Traced:
    """Which step of a trace, and the classes of its spans."""

    step: int | None
    window: str | None
    rules: Rules


def answers(
    source: Any, benchmark: str, *, latency_us: float, traced: Traced, **conditions: Any
) -> tuple[list[Prediction], list[str]]:
    """Return what can be predicted, and a line for each combination that cannot."""
    sources = expand([str(one) for one in _listed(source)])
    traces = [one for one in sources if is_trace(one)]
    rows = read_rows([one for one in sources if one not in traces])
    chooses = chooser(benchmark)
    if traces:
        read, known = row_of(read_traces(traces, traced.rules), traced.step, traced.window)
        inputs = inputs_of(Book([*rows, read], known=known), read, Question())
        bases = [settled(read, Rates(inputs.slowdown, inputs.waits))]
        book = Book([*rows, *bases], known=known)
    else:
        bases = [row for row in rows if row.own.time and row.is_step and chooses(row.name)]
        book = Book(rows)
    if not bases:
        raise ResultError("no measured step has schedules: measure one with --predictable")
    named = {name: _listed(values) for name, values in conditions.items()}
    asked = [
        _question(dict(zip(named, values, strict=True)), latency_us)
        for values in itertools.product(*(values or [None] for values in named.values()))
    ]
    found, refusals = [], []
    for base in _distinct(bases, {name for name, values in named.items() if values}):
        for question in asked:
            try:
                found.append(predict_one(book, base, question))
            except ResultError as refusal:
                refusals.append(str(refusal))
    return found, list(dict.fromkeys(refusals))


def beside_measured(sources: Iterable[str]) -> tuple[list[Prediction], list[str]]:
    """Predict the measured steps of results at their own settings, from their parts.

    Results without schedules, and steps that cannot be predicted, have none. Also return a line for
    each row whose schedules cannot be read.
    """
    found: list[Prediction] = []
    unread: list[str] = []
    for source in expand([*sources]):
        if '"schedules"' not in load(source):
            continue
        rows = [row for row in read_rows([source], unread) if row.own.time]
        book = Book(rows)
        for row in rows:
            if row.is_step:
                with contextlib.suppress(ResultError):
                    found.append(predict_one(book, row, Question()))
    return found, unread


def _question(values: dict[str, Any], latency_us: float) -> Question:
    rate = values.pop("network")
    network = Network(rate, latency_us) if rate else None
    gpus, nodes, transport = (values.pop(name) for name in ("gpus", "nodes", "transport"))
    axes = {axis: spell_sizes(str(value)) for axis, value in values.items() if value is not None}
    return Question(gpus, nodes, network, transport, axes)


def _distinct(bases: Iterable[Row], varied: set[str]) -> Iterable[Row]:
    """Keep one of the rows that differ only in what is asked for: the first one."""
    chosen: dict[object, Row] = {}
    for row in bases:
        chosen.setdefault((row.name.but_for(*varied), row.ranks, row.hosts), row)
    return chosen.values()


def _listed(values: Any) -> list[Any]:
    if values is None:
        return []
    return [values] if isinstance(values, str | int | float | Path) else list(values)
