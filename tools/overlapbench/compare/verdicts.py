"""The verdict of every benchmark, and what all of them come to.

A benchmark has a finding for each metric that it is judged by, and takes the worst: a falling
efficiency is a regression even where the time has not moved.

Failing closed: what was measured before and is missing, invalid or incomparable now is status 3,
and so is a change for the worse beyond the floor that nothing can judge, because no side has two
launches. Improvements never fail.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from overlapbench.compare.findings import Finding, Verdict, find, medians
from overlapbench.compare.floors import Floors
from overlapbench.compare.side import Side
from overlapbench.launch import CONTEXT_FIELDS
from overlapbench.metrics import SHOWN, TIME

UNIT = "unit"
ACROSS = (*CONTEXT_FIELDS.values(), UNIT)  # what may be compared in spite of
VAST_FLOOR = 0.25  # a row with a larger floor is hardly guarded

OK, REGRESSION, USAGE, UNDECIDED = 0, 1, 2, 3
_WORST_FIRST = tuple(Verdict)


@dataclass(frozen=True)
class Row:
    """One benchmark."""

    name: str
    verdict: Verdict
    fails: int  # the exit status that it alone would cause
    reason: str
    launches: tuple[int, int]  # how many have it, on each side
    findings: tuple[Finding, ...] = ()
    shown: tuple[tuple[str, float, float], ...] = ()  # metric, base, new of what is not judged


@dataclass(frozen=True)
class Comparison:
    """All of it."""

    base: Side
    new: Side
    rows: tuple[Row, ...]
    differences: tuple[str, ...]  # of the contexts, whether or not they were allowed

    @property
    def status(self) -> int:
        """The exit status: a regression outweighs what could not be decided.

        Where nothing matched, every row of base is missing.
        """
        fails = {row.fails for row in self.rows}
        if REGRESSION in fails:
            return REGRESSION
        return UNDECIDED if UNDECIDED in fails or self.incomplete else OK

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The launches that ended early: what they did not measure cannot have passed."""
        return self.base.incomplete + self.new.incomplete

    @property
    def matched(self) -> int:
        """How many benchmarks are on both sides."""
        return sum(all(row.launches) for row in self.rows)

    @property
    def counts(self) -> Mapping[Verdict, int]:
        counts = Counter(row.verdict for row in self.rows)
        return {verdict: counts[verdict] for verdict in Verdict}

    @property
    def geometric_mean(self) -> float:
        """Mean ratio of times, new to base, over the compared rows; NaN if there is none."""
        changes = [f.change for row in self.rows for f in row.findings if f.metric == TIME]
        return math.exp(sum(changes) / len(changes)) if changes else math.nan

    @property
    def vast_floors(self) -> int:
        """How many rows are hardly guarded."""
        return sum(any(f.floor > VAST_FLOOR for f in row.findings) for row in self.rows)


def compare(base: Side, new: Side, floors: Floors, across: Collection[str] = ()) -> Comparison:
    """Compare two sides; `across` names fields of ACROSS that may differ."""
    differences = {
        label: f"{label}: {_list(base.context[key])} / {_list(new.context[key])}"
        for key, label in CONTEXT_FIELDS.items()
        if len(base.context[key] | new.context[key]) > 1
    }
    blocking = "; ".join(text for label, text in differences.items() if label not in across)
    names = [*base.names, *(name for name in new.names if name not in base.index)]
    rows = {name: _unjudged(name, base, new, blocking, across) for name in names}
    # In one order, whatever that of the files: sums over benchmarks depend on it in the last bit.
    judged = sorted(name for name, row in rows.items() if row is None)
    for name, findings in zip(judged, find(judged, base, new, floors), strict=True):
        rows[name] = _judged(name, base, new, findings)
    return Comparison(
        base, new, tuple(row for row in rows.values() if row), tuple(differences.values())
    )


def _list(values: Iterable[str]) -> str:
    return " and ".join(sorted(value or "unset" for value in values))


def _unjudged(
    name: str, base: Side, new: Side, blocking: str, across: Collection[str]
) -> Row | None:
    """Return the row of a benchmark whose figures cannot be compared; None for any other."""
    launches = base.launches_of(name), new.launches_of(name)
    if not launches[1]:
        return Row(name, Verdict.MISSING, UNDECIDED, "not in the new results", launches)
    now = new.problem(name)
    if not launches[0]:
        return Row(name, Verdict.NEW, OK, now or "not in the base results", launches)
    before = base.problem(name)
    if now:
        fails = OK if before else UNDECIDED
        return Row(name, Verdict.INVALID, fails, now + " (as in base)" * bool(before), launches)
    if before:
        return Row(name, Verdict.INVALID, OK, f"in base: {before}", launches)
    units = base.unit(name), new.unit(name)
    if len(units[0] | units[1]) > 1 and UNIT not in across:
        blocking = f"{UNIT}: {_list(units[0])} / {_list(units[1])}"
    return Row(name, Verdict.INCOMPARABLE, UNDECIDED, blocking, launches) if blocking else None


def _judged(name: str, base: Side, new: Side, findings: tuple[Finding, ...]) -> Row:
    """Sum up the findings of a benchmark by the worst."""
    worst = min(findings, key=lambda finding: _WORST_FIRST.index(finding.verdict))
    shown = []
    for metric in SHOWN:
        before, now = (float(medians(s.values[metric][[s.index[name]]])[0]) for s in (base, new))
        if not math.isnan(before) and not math.isnan(now):
            shown.append((metric, before, now))
    return Row(
        name,
        worst.verdict,
        max(map(_fails, findings), key=(OK, UNDECIDED, REGRESSION).index),
        _reason(worst),
        (base.launches_of(name), new.launches_of(name)),
        findings,
        tuple(shown),
    )


def _fails(finding: Finding) -> int:
    if finding.verdict is Verdict.REGRESSED:
        return REGRESSION
    untested = finding.verdict is Verdict.INCONCLUSIVE and math.isnan(finding.p)
    if finding.verdict is Verdict.INVALID or (untested and finding.change > 0):
        return UNDECIDED
    return OK


def _reason(finding: Finding) -> str:
    if finding.verdict is Verdict.INVALID:
        return f"{finding.metric}: not in the new results"
    if finding.verdict is Verdict.SAME:
        return ""
    text = f"{finding.metric} {100 * finding.natural(finding.change):+.1f} %"
    text += f", floor {100 * finding.floor:.1f} %"
    if finding.verdict is Verdict.INCONCLUSIVE:
        text += ": too few launches to test" if math.isnan(finding.p) else ": may be noise"
    return text
