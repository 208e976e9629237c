"""Finds the node that differs among many of one model, from a result of the doctor of each.

A figure's logarithm on a node is compared with the median over the nodes. The scale of a check is
the shortest half: the least range that holds more than half of the nodes. So up to half of the
nodes may be at fault, and it stays that of the others. Few nodes say little about each check; so
the scale is at least the typical one of all checks, each in units of the spread of its kind in
recorded results. By how many scales equal nodes differ
is simulated for so many nodes and checks, so that 5 % of tables have a false alarm.

Two nodes have one difference each, and nothing says which of them is at fault.
"""

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from overlapbench.doctor.checks import BAD, FALSE_ALARMS, examined, verdict_of
from overlapbench.doctor.recordings import Recording, spread_of
from overlapbench.doctor.rules import CHECKS, FACTS, Check, Verdict
from overlapbench.findings.finding import LEAST
from overlapbench.grouping import grouped
from overlapbench.output import ResultError, listed
from overlapbench.statistics.distributions import t_quantile

Array = NDArray[np.float64]
_DRAWS = 4_000_000  # random numbers of a simulation, at most
_MOST_TABLES, _LEAST_TABLES = 4000, 400
_PRECISE = 1e-3  # no check is known better
_TAILS = 5  # the freedom of Student's t
_UNSURE = 0.4  # of the logarithm of a check's scale


@dataclass(frozen=True)
class Difference:
    """A check or a fact in which a node differs, or two do."""

    check: str
    nodes: tuple[str, ...]  # one; or two, and either may be at fault
    verdict: Verdict
    sentence: str
    action: str = ""


def require_comparable(nodes: Sequence[Recording]) -> None:
    """Raise ResultError unless the nodes are several of one model and size."""
    if len(nodes) < 2:
        raise ResultError("--compare needs the results of two nodes or more")
    first = nodes[0]
    for one in nodes:
        if (one.model, one.ranks) != (first.model, first.ranks):
            raise ResultError(
                f"{one.file} is of {one.machine}, {first.file} of {first.machine}:"
                " compare nodes of one model and number of GPUs"
            )
    for one, *copies in grouped(nodes, lambda node: node.measurement).values():
        if copies:
            raise ResultError(f"{copies[0].file} is the same measurement as {one.file}")


def differences(nodes: Sequence[Recording], references: Sequence[Recording]) -> list[Difference]:
    """Return what differs, the worst first."""
    found = [*_figures(nodes, references), *_beyond_limits(nodes), *_facts(nodes)]
    return sorted(found, key=lambda one: -one.verdict)


# ---- figures


@dataclass(frozen=True)
class _Measured:
    """A check on the nodes that have its figure."""

    check: Check
    nodes: Sequence[str]
    units: Array  # logarithms in units of `known`: of the interval's low end, figure, high end
    known: float  # spread of logarithms
    freedom: float  # of what is known; 0 if nothing is


def compared(nodes: Sequence[Recording], references: Sequence[Recording]) -> list[str]:
    """Return the checks whose figures most nodes have."""
    return [one.check.name for one in _usable(nodes, references)]


def _usable(nodes: Sequence[Recording], references: Sequence[Recording]) -> list[_Measured]:
    every = (_measured(check, nodes, references) for check in CHECKS if check.kind)
    return [one for one in every if len(one.nodes) > max(1, len(nodes) / 2)]


def _figures(nodes: Sequence[Recording], references: Sequence[Recording]) -> Iterator[Difference]:
    usable = _usable(nodes, references)
    for group in grouped(usable, lambda one: one.freedom > 0).values():
        share = FALSE_ALARMS * len(group) / len(usable)
        strikes = striking([one.units for one in group], [one.freedom for one in group], share)
        for one, beyond in zip(group, strikes, strict=True):
            yield from _named(one, beyond, nodes[0].model[0])


def _measured(
    check: Check, nodes: Sequence[Recording], references: Sequence[Recording]
) -> _Measured:
    backend = nodes[0].model[0]
    key = check.row(backend), check.counter_on(backend)
    quiet = [one for one in nodes if key[0] not in one.doubts]
    found = [(one.file, x) for one in quiet if (x := one.log(key))]
    spread, freedom = spread_of(check.kind, references, nodes[0].ranks)
    known = max(_PRECISE, spread)
    logs = np.array([(x.low, x.value, x.high) for _, x in found]).reshape(-1, 3) / known
    return _Measured(check, [name for name, _ in found], logs, known, freedom)


def _named(one: _Measured, beyond: NDArray[np.bool_], backend: str) -> Iterator[Difference]:
    check, count = one.check, len(one.nodes)
    logs = one.known * one.units[:, 1]
    if count == 2:
        gap = 1 - math.exp(-abs(float(logs[1] - logs[0])))
        if beyond.any() and gap > LEAST:
            said = f"{100 * gap:.0f} % apart; of two nodes, nothing says which is at fault"
            yield Difference(
                check.name, tuple(one.nodes), verdict_of(gap), said, "Compare a third node."
            )
        return
    sign = 1 if check.is_lower_better(backend) else -1
    worse = 1 - np.exp(sign * (np.median(logs) - logs))
    for node in np.flatnonzero(beyond & (np.abs(worse) > LEAST)).tolist():
        share = float(worse[node])
        verdict = Verdict.BAD if share > BAD else Verdict.SUSPICIOUS
        word = "worse" if share > 0 else "better"
        said = f"{100 * abs(share):.0f} % {word} than the median of {count} nodes"
        action = check.action if share > 0 else ""
        yield Difference(check.name, (one.nodes[node],), verdict, said, action)


def striking(
    units: Sequence[Array], freedoms: Sequence[float], share: float
) -> list[NDArray[np.bool_]]:
    """Tell for each check which nodes differ, with a false alarm in a share of tables.

    Each figure comes with the ends of its interval, in units of what is known of the spread, with
    these freedoms; all are 0 if nothing is known. Then each check is judged by its own scale alone,
    for which two nodes are too few. What counts is how far the interval is from the median.
    """
    is_known = freedoms[0] > 0
    fewest = min(map(len, units))
    if not is_known and fewest < 3:
        return [np.zeros(len(each), dtype=bool) for each in units]
    own = np.array([float(_shortest_half(np.sort(each[:, 1]))) for each in units])
    pooled = float(np.median(own)) if is_known else 0.0
    tests = sum(map(len, units))
    limit = _limit(fewest, len(units), is_known, share)
    found = []
    for each, half, freedom in zip(units, own, freedoms, strict=True):
        scale = max(pooled, half) if len(each) > 2 else pooled
        middle = np.median(each[:, 1])
        away = np.maximum(each[:, 0] - middle, middle - each[:, 2])
        beyond = away > limit * scale
        if is_known:  # the nodes may be alike by chance, so that one seems to differ
            least = float(t_quantile(freedom, share / 2 / tests))
            beyond &= away > least * math.sqrt(1 - 1 / len(each))
        found.append(beyond)
    return found


def _shortest_half(ordered: Array) -> Array:
    """Return the least range of more than half of the nodes, which are the last axis."""
    count = ordered.shape[-1]
    reach = count // 2
    gaps = ordered[..., reach:] - ordered[..., : count - reach]
    return np.asarray(gaps.min(axis=-1))


@functools.cache
def _limit(nodes: int, checks: int, is_known: bool, share: float) -> float:
    """Return what the most striking of equal nodes exceeds in a share of tables.

    The noise has heavier tails than a normal distribution, and what is known of a check's scale may
    be wrong by a factor of 1.5 (one standard deviation).
    """
    tables = min(_MOST_TABLES, max(_LEAST_TABLES, _DRAWS // (nodes * checks)))
    random = np.random.default_rng(nodes * 1000 + checks)  # the same limit every time
    most = []
    for _ in range(0, tables, _LEAST_TABLES):
        each = random.standard_t(_TAILS, (_LEAST_TABLES, checks, nodes))
        each *= np.exp(_UNSURE * random.standard_normal((_LEAST_TABLES, checks, 1)))
        each.sort(axis=-1)
        scale = own = _shortest_half(each)
        if is_known:
            pooled = np.broadcast_to(np.median(own, axis=-1, keepdims=True), own.shape)
            scale = np.maximum(pooled, own) if nodes > 2 else pooled
        away = np.abs(each - np.median(each, axis=-1, keepdims=True)).max(axis=-1)
        most.append((away / scale).max(axis=-1))
    return float(np.quantile(np.concatenate(most), 1 - share))


# ---- limits and facts


def _beyond_limits(nodes: Sequence[Recording]) -> Iterator[Difference]:
    """Find nodes beyond the limit of a check that needs no reference, if most are within it."""
    for check in CHECKS:
        if not check.limits:
            continue
        outcomes = [(one.file, examined(one, check, [], 1)) for one in nodes]
        alarms = [(file, one) for file, one in outcomes if one.verdict.alarms]
        if 2 * len(alarms) >= len(nodes):
            continue
        for file, one in alarms:
            said = f"{one.measured}, and most nodes {one.expected}"
            yield Difference(check.name, (file,), one.verdict, said, check.action)


def _facts(nodes: Sequence[Recording]) -> Iterator[Difference]:
    """Find nodes whose facts differ from those of more than half of the nodes."""
    for fact in FACTS:
        keys = {key for one in nodes for key in one.facts if re.fullmatch(fact.key, key)}
        for key in sorted(keys):
            values = [one.facts.get(key, "unset") for one in nodes]
            usual, count = Counter(values).most_common(1)[0]
            shown = key.removeprefix("env_")
            if 2 * count <= len(nodes):
                said = f"{shown} differs: {listed(sorted(set(values)), 3)}"
                yield Difference(fact.name, (), Verdict.SUSPICIOUS, said, fact.action)
                continue
            for one, value in zip(nodes, values, strict=True):
                if value != usual:
                    said = f"{shown} is {value}, on {count} of {len(nodes)} nodes {usual}"
                    yield Difference(fact.name, (one.file,), Verdict.SUSPICIOUS, said, fact.action)
