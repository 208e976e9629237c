"""Judges a recording: each figure against recorded ones of its model, and facts against rules.

A figure differs from its expected value by chance, too: healthy runs differ (the spread of its
kind), and so does each from its own median. The logarithm of the ratio is compared with the
prediction interval of one more run, Student's t with the spread's freedom. All checks of a table
together have a false alarm in 5 % of tables, so each has its share of that (Bonferroni). A figure
is suspicious if it surely is more than 2 % worse, and bad from 10 %.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from overlapbench.doctor.recordings import Recording, spread_of
from overlapbench.doctor.rules import CHECKS, FACTS, KINDS, Check, Fact, Verdict
from overlapbench.findings.apply import ways_of
from overlapbench.findings.finding import LEAST
from overlapbench.grouping import grouped
from overlapbench.reading.counters import Counter, stored_table
from overlapbench.statistics.distributions import t_quantile
from overlapbench.statistics.intervals import digits

FALSE_ALARMS = 0.05  # of tables
BAD = 0.10  # a loss that is not only suspicious
_VAGUE = math.log(2)  # a figure that is known no better says nothing
_FAILED = "Mend what the other lines say, then measure again."
NO_MODEL = "no recorded machine of this model"


@dataclass(frozen=True)
class Outcome:
    """What a check found."""

    name: str
    verdict: Verdict
    measured: str = ""
    expected: str = ""
    reason: str = ""
    action: str = ""
    ways: Sequence[str] = ()
    row: str = ""
    counter: str = ""
    loss: tuple[float, float, float] | None = None  # of the expected rate, with its interval
    limit: float | None = None  # beyond it, a figure is suspicious
    sources: Sequence[str] = ()  # files of the expected values

    def to_dict(self) -> dict[str, Any]:
        told = {key: value for key, value in vars(self).items() if value not in ("", (), None)}
        return told | {"verdict": str(self.verdict)}


def judge(machine: Recording, references: Sequence[Recording]) -> list[Outcome]:
    """Return the outcome of every check, in the order of the rules."""
    judged = sum(bool(check.kind and _peers(machine, check, references)) for check in CHECKS)
    found = {(one.name): examined(machine, one, references, judged) for one in CHECKS}
    for name, facts in grouped(FACTS, lambda fact: fact.name).items():
        found[name] = max(
            (_stated(machine, fact, references) for fact in facts), key=lambda one: one.verdict
        )
    return list(found.values())


# ---- figures


def _peers(
    machine: Recording, check: Check, references: Sequence[Recording]
) -> list[tuple[Recording, float]]:
    """Return the recordings of this model that have the figure, with its logarithm."""
    backend = machine.model[0]
    key = check.row(backend), check.counter_on(backend)
    chosen = (
        one
        for one in references
        if one.model == machine.model
        and (KINDS[check.kind].any_ranks or one.ranks == machine.ranks)
    )
    return [(one, found.value) for one in chosen if (found := one.log(key))]


def examined(
    machine: Recording, check: Check, references: Sequence[Recording], judged: int
) -> Outcome:
    """Judge one of `judged` checks of a table."""
    backend = machine.model[0]
    row, name = check.row(backend), check.counter_on(backend)
    counter = stored_table().counters[name]
    outcome = Outcome(check.name, Verdict.UNKNOWN, row=row, counter=name)
    if reason := _unsuited(machine, bool(row), check.ranks):
        return replace(outcome, reason=reason)
    figure = machine.figures.get(row, {}).get(name)
    doubt = machine.doubts.get(row, "")
    if machine.failed(row):
        wrong = doubt.startswith("invalid: ")
        verdict = Verdict.BAD if wrong else Verdict.SUSPICIOUS
        return replace(outcome, verdict=verdict, reason=doubt, action=_FAILED)
    if figure is None:
        return replace(outcome, reason="no such row here")
    outcome = replace(outcome, measured=_spell(figure, counter))
    lower = check.is_lower_better(backend)
    if check.limits:
        outcome = _within_limits(outcome, check, figure, lower, bool(doubt))
    else:
        outcome = _against(outcome, machine, check, references, judged)
    limited = bool(check.limits and doubt)
    if (limited or machine.is_noisy(row)) and outcome.verdict is not Verdict.GOOD:
        return replace(outcome, verdict=Verdict.UNKNOWN, reason=doubt)  # it may only seem worse
    if outcome.verdict.alarms:
        outcome = replace(outcome, action=check.action)
    if check.counter == "rank_spread" and outcome.verdict.alarms:
        rank = machine.figures[row]["slowest_rank"][0]
        outcome = replace(outcome, reason=f"rank {rank:g} is the slowest")
    return outcome


def _unsuited(machine: Recording, exists: bool, ranks: int) -> str:
    """Return why a check does not concern a machine; "" if it does."""
    if not exists:
        return f"not on the {machine.model[0]} backend"
    return "" if machine.ranks >= ranks else f"needs {ranks} GPUs"


def _within_limits(
    outcome: Outcome,
    check: Check,
    figure: tuple[float, float, float],
    lower: bool,
    noisy: bool,
) -> Outcome:
    assert check.limits
    suspicious, bad = check.limits
    # The end of the interval that is nearer to good: all of it is beyond the limit.
    end, sign = (figure[1], 1) if lower else (figure[2], -1)
    verdict = Verdict.GOOD
    if sign * end > sign * suspicious:
        verdict = Verdict.BAD if sign * end > sign * bad else Verdict.SUSPICIOUS
    worse_end = figure[2] if lower else figure[1]
    if noisy and sign * worse_end > sign * suspicious:
        verdict = Verdict.UNKNOWN
    expected = f"at {'most' if lower else 'least'} {suspicious:g}"
    return replace(outcome, verdict=verdict, expected=expected)


def verdict_of(loss: float) -> Verdict:
    """Return what a loss that is certain means."""
    if loss <= LEAST:
        return Verdict.GOOD
    return Verdict.BAD if loss > BAD else Verdict.SUSPICIOUS


def _against(
    outcome: Outcome,
    machine: Recording,
    check: Check,
    references: Sequence[Recording],
    judged: int,
) -> Outcome:
    """Compare a figure with the recorded ones."""
    lower, noisy = check.is_lower_better(machine.model[0]), machine.is_noisy(outcome.row)
    peers = _peers(machine, check, references)
    if not peers:
        known = any(one.model == machine.model for one in references)
        with_ranks = f"not recorded on this model with {machine.ranks} GPUs"
        return replace(outcome, reason=with_ranks if known else NO_MODEL)
    spread, freedom = spread_of(check.kind, references, machine.ranks)
    if not freedom:
        return replace(outcome, reason="recorded once: how much runs differ is unknown")
    found = machine.log((outcome.row, outcome.counter), noisy=True)
    assert found
    count = len(peers)
    center = math.fsum(x for _, x in peers) / count
    quantile = float(t_quantile(freedom, FALSE_ALARMS / judged))
    if quantile * found.error(lower) > _VAGUE:
        return replace(outcome, reason="too uncertain: half the speed would not be seen")
    reach = quantile * math.hypot(spread * math.sqrt(1 + 1 / count), found.error(lower))
    worse = (found.value - center) * (1 if lower else -1)
    loss, least, most = (1 - math.exp(-x) for x in (worse, worse - reach, worse + reach))
    sure = loss if noisy else least
    verdict = verdict_of(sure)
    allowed = reach - math.log1p(-LEAST)
    limit = math.exp(center + (allowed if lower else -allowed))
    ends = f"at {'most' if lower else 'least'} {digits(limit, 3)}"
    told = f"{100 * loss:.0f} % worse ({100 * least:.0f} to {100 * most:.0f} %)"
    return replace(
        outcome,
        verdict=verdict,
        expected=f"{digits(math.exp(center), 3)}, {ends}",
        reason=told if verdict.alarms else "",
        loss=(loss, least, most),
        limit=limit,
        sources=[one.file for one, _ in peers],
    )


def _spell(figure: tuple[float, float, float], counter: Counter) -> str:
    value, low, high = figure
    shown = digits(value, 3)
    decimals = len(shown.partition(".")[2])
    shown += f" ±{max(value - low, high - value):.{decimals}f}" * (low < high)
    return f"{shown} {counter.printed_unit}".strip()


# ---- facts


def _stated(machine: Recording, fact: Fact, references: Sequence[Recording]) -> Outcome:
    outcome = Outcome(fact.name, Verdict.GOOD)
    if reason := _unsuited(machine, fact.backend in ("", machine.model[0]), fact.ranks):
        return replace(outcome, verdict=Verdict.UNKNOWN, reason=reason)
    values = {key: x for key, x in machine.facts.items() if re.fullmatch(fact.key, key)}
    if not values:
        if fact.backend:
            return replace(outcome, verdict=Verdict.UNKNOWN, reason="not known")
        return replace(outcome, measured="none")
    verdicts = {key: _verdict_on(machine, fact, key, x, references) for key, x in values.items()}
    worst = max(verdicts, key=lambda key: verdicts[key][0])
    verdict, expected = verdicts[worst]
    if verdict is Verdict.UNKNOWN and not expected:
        return replace(outcome, verdict=verdict, measured=values[worst], reason=NO_MODEL)
    outcome = replace(outcome, verdict=verdict, measured=values[worst], expected=expected)
    if verdict is Verdict.GOOD:
        return outcome
    named = f"{worst.removeprefix('env_')} is {values[worst]}" if worst.startswith("env_") else ""
    ways = [way for one in fact.ways for way in ways_of(dict([one.partition(":")[::2]]))]
    return replace(outcome, reason=named, action=fact.action, ways=ways)


def _verdict_on(
    machine: Recording, fact: Fact, key: str, value: str, references: Sequence[Recording]
) -> tuple[Verdict, str]:
    if fact.bad and re.fullmatch(fact.bad, value):
        return Verdict.BAD, "unset" if key.startswith("env_") else ""
    if fact.suspicious and re.fullmatch(fact.suspicious, value):
        return Verdict.SUSPICIOUS, "unset" if key.startswith("env_") else ""
    if not fact.recorded:
        return Verdict.GOOD, ""
    known = {
        one.facts[key]
        for one in references
        if one.model == machine.model and one.ranks >= fact.ranks and key in one.facts
    }
    verdict = {str(one): one for one in Verdict}[fact.recorded] if known else Verdict.UNKNOWN
    return (Verdict.GOOD if value in known else verdict), " or ".join(sorted(known))


# ---- a second look


def confirmed(first: Recording, second: Recording, references: Sequence[Recording]) -> Recording:
    """Return the first recording with the rows of a second that do not confirm their fault.

    A row that could not be judged takes what the second one says.
    """
    before, after = (_worst_of_rows(one, references) for one in (first, second))
    taken = {row for row in after if row in first.doubts or after[row] <= before.get(row, 0)}
    taken &= {*second.figures, *second.doubts}
    figures = {row: x for row, x in first.figures.items() if row not in taken}
    doubts = {row: x for row, x in first.doubts.items() if row not in taken}
    return replace(
        first,
        figures=figures | {row: second.figures[row] for row in taken if row in second.figures},
        doubts=doubts | {row: second.doubts[row] for row in taken if row in second.doubts},
    )


def _worst_of_rows(machine: Recording, references: Sequence[Recording]) -> Mapping[str, Verdict]:
    worst: dict[str, Verdict] = {}
    for one in judge(machine, references):
        if one.row:
            worst[one.row] = max(worst.get(one.row, Verdict.GOOD), one.verdict)
    return worst


def doubtful(machine: Recording, references: Sequence[Recording]) -> list[str]:
    """Return the rows that deserve a second look: of alarms, and those too noisy to judge.

    Where most rows are noisy, they would be so again.
    """
    worst = _worst_of_rows(machine, references)
    busy = 2 * sum(map(machine.is_noisy, machine.figures)) > len(machine.figures)
    return [
        row
        for row, verdict in worst.items()
        if verdict.alarms or (verdict is Verdict.UNKNOWN and machine.is_noisy(row) and not busy)
    ]
