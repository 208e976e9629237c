"""A gate's session: which launches are made in which order, and what they prove.

Base and candidate are launched in turn, A B B A, so that a drift of clocks or temperature falls on
both. What fails is measured once more, with as many launches, and nothing else is. A regression is
confirmed when all launches together still show it and the new ones alone are more than 1 % worse,
too: what noise picked out among hundreds of rows does not come back. A row that was invalid is
confirmed when it is invalid again. What is missing or incomparable cannot be measured again, and
stands.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from overlapbench.compare.findings import Verdict
from overlapbench.compare.floors import Floors
from overlapbench.compare.side import Side
from overlapbench.compare.statistics import MARGIN
from overlapbench.compare.verdicts import OK, Comparison, Row, compare
from overlapbench.launch import Launch

BASE, CANDIDATE = "base", "candidate"
# Makes launch number N of a side, of the benchmarks that the filter matches; "" is all.
Measure = Callable[[str, int, str], Launch]
_UNMEASURED = frozenset({Verdict.MISSING, Verdict.NEW, Verdict.INCOMPARABLE})
_REPEATABLE = frozenset({Verdict.REGRESSED, Verdict.INVALID, Verdict.INCONCLUSIVE})


@dataclass
class Session:
    """One run of the gate. `stored` are base's launches where it is not launched itself."""

    measure: Measure
    launches: int
    floors: Floors = field(default_factory=Floors)
    across: Collection[str] = ()
    stored: Sequence[Launch] = ()
    say: Callable[[str], None] = print
    made: int = 0  # launches so far, of each side

    def run(self) -> Comparison:
        """Measure, compare, and look again at what failed."""
        first = self._round("")
        found = self._compare(first)
        names = [row.name for row in found.rows if row.fails and row.verdict in _REPEATABLE]
        if not names:
            return found
        self.say(
            f"{len(names)} failed, measured again: {', '.join(names[:3])}{' …' * (len(names) > 3)}"
        )
        second = self._round(filter_of(names))
        again = {row.name: row for row in self._compare(second).rows}
        pooled = self._compare({side: first[side] + second[side] for side in first})
        together = {row.name: row for row in pooled.rows}
        rows = [
            _confirm(row, again.get(row.name), together[row.name])
            if row.name in set(names)
            else row
            for row in found.rows
        ]
        return dataclasses.replace(pooled, rows=tuple(rows))

    def _round(self, names: str) -> dict[str, list[Launch]]:
        """Launch both sides in turn."""
        results: dict[str, list[Launch]] = {BASE: [], CANDIDATE: []}
        sides = [CANDIDATE] * self.launches if self.stored else schedule(self.launches)
        for i, side in enumerate(sides):
            number = self.made + len(results[side]) + 1
            self.say(f"launch {i + 1} of {len(sides)}: {side}")
            results[side].append(self.measure(side, number, names))
        self.made += self.launches
        return results

    def _compare(self, results: dict[str, list[Launch]]) -> Comparison:
        base = self.stored or results[BASE]
        sides = Side.collect(BASE, base), Side.collect(CANDIDATE, results[CANDIDATE])
        return compare(*sides, self.floors, self.across)


def schedule(launches: int) -> list[str]:
    """Return the order A B B A A B ..., so many of each."""
    pairs = ([BASE, CANDIDATE], [CANDIDATE, BASE])
    return [side for i in range(launches) for side in pairs[i % 2]]


def filter_of(names: Sequence[str]) -> str:
    """Return an extended regular expression that matches these names alone."""
    return "^(" + "|".join(re.sub(r"([.\[\\()*+?{|^$])", r"\\\1", name) for name in names) + ")$"


def _confirm(found: Row, again: Row | None, together: Row) -> Row:
    """Return the row of a benchmark that failed and was measured again."""
    if again is None or again.verdict in _UNMEASURED:
        return found
    if found.verdict is Verdict.INVALID:
        return again
    if again.verdict is Verdict.INVALID:  # of base alone, it proves nothing of the candidate
        return again if again.fails else found
    if together.fails and any(finding.change > MARGIN for finding in again.findings):
        return together
    reason = f"not confirmed when measured again; at first {found.reason}"
    return dataclasses.replace(together, verdict=Verdict.INCONCLUSIVE, fails=OK, reason=reason)
