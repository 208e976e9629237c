"""A gate's session: the order of runs, and what they prove.

Base and candidate are run in turn, A B B A, so that a drift of clocks or temperature affects
both. Only rows that fail are measured once more, with as many runs, and noisy rows if the gate
would otherwise fail for guarding too few. A regression is confirmed if all runs together still
show it and the new ones alone are more than 1 % worse, too: a row that noise picked out among
hundreds does not regress again. If the two measurements disagree, the row is inconclusive, whatever
its interval, and fails if it still exceeds its limit. An invalid row is confirmed if it is invalid
again. Missing or incomparable rows cannot be measured again; their verdict stays.

Instead of being run, base may be stored: a folder of runs, run-1.json and so on.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from overlapbench.judge.floors import Floors
from overlapbench.judge.judgements import MAX_FLOOR, Verdict
from overlapbench.judge.side import Side, distinct
from overlapbench.judge.verdicts import OK, UNDECIDED, Comparison, Row, compare_sides
from overlapbench.output import ResultError, replace_files
from overlapbench.reading.program_run import ProgramRun, read_program_runs

BASE, CANDIDATE = "base", "candidate"
# Makes run number N of a side, for the benchmarks that match the filter; "" means all.
Measure = Callable[[str, int, str], ProgramRun]
_UNMEASURED = frozenset({Verdict.MISSING, Verdict.NEW, Verdict.INCOMPARABLE})
_REPEATABLE = frozenset({Verdict.SLOWER, Verdict.INVALID, Verdict.INCONCLUSIVE})
MARGIN = math.log1p(0.01)
MIN_GUARDED = 0.9
_STORED = "run-*.json"


@dataclass(frozen=True)
class Session:
    """One run of the gate. `stored` are the runs of base if it is not run."""

    measure: Measure
    runs: int
    floors: Floors = field(default_factory=Floors)
    across: Collection[str] = ()
    stored: Sequence[ProgramRun] = ()
    max_floor: float = MAX_FLOOR
    min_guarded: float = MIN_GUARDED
    say: Callable[[str], None] = print

    def run(self) -> Comparison:
        """Measure, compare, and measure again what failed."""
        first = self._round("", 1)
        found = self._compare(first)
        names = [row.name for row in found.rows if _needs_second_look(row, found.blind)]
        if not names:
            return found
        self.say(f"{len(names)} measured again: {', '.join(names[:3])}{' …' * (len(names) > 3)}")
        second = self._round(filter_of(names), 1 + self.runs)
        again = {row.name: row for row in self._compare(second).rows}
        pooled = self._compare({side: first[side] + second[side] for side in first})
        together = {row.name: row for row in pooled.rows}
        confirmed = {
            row.name: _confirm(row, again.get(row.name), together[row.name])
            for row in found.rows
            if row.name in names
        }
        rows = tuple(confirmed.get(row.name, row) for row in found.rows)
        return dataclasses.replace(pooled, rows=rows)

    def _round(self, names: str, first: int) -> dict[str, list[ProgramRun]]:
        """Run both sides in turn; `first` is the number of each side's first run."""
        results: dict[str, list[ProgramRun]] = {BASE: [], CANDIDATE: []}
        sides = [CANDIDATE] * self.runs if self.stored else schedule(self.runs)
        for i, side in enumerate(sides):
            self.say(f"run {i + 1} of {len(sides)}: {side}")
            run = self.measure(side, first + len(results[side]), names)
            self.floors.require_known(run.table)  # before more is measured
            results[side].append(run)
        return results

    def _compare(self, results: dict[str, list[ProgramRun]]) -> Comparison:
        base = self.stored or results[BASE]
        sides = Side.collect(BASE, base), Side.collect(CANDIDATE, results[CANDIDATE])
        compared = compare_sides(*sides, self.floors, self.across, self.max_floor)
        return dataclasses.replace(compared, min_guarded=self.min_guarded)


def schedule(runs: int) -> list[str]:
    """Return the order A B B A A B ..., with so many of each."""
    pairs = ([BASE, CANDIDATE], [CANDIDATE, BASE])
    return [side for i in range(runs) for side in pairs[i % 2]]


def filter_of(names: Sequence[str]) -> str:
    """Return an extended regular expression that matches only these names."""
    return "^(" + "|".join(re.sub(r"([.\[\\()*+?{|^$])", r"\\\1", name) for name in names) + ")$"


def _needs_second_look(row: Row, blind: bool) -> bool:
    return row.verdict in _REPEATABLE and (bool(row.fails) or blind)


def _confirm(found: Row, again: Row | None, together: Row) -> Row:
    """Return the row of a benchmark that was measured again."""
    if again is None or again.verdict in _UNMEASURED:
        return found
    if Verdict.INVALID in (found.verdict, again.verdict):
        return again
    worse = any(judgement.change > MARGIN for judgement in again.judgements)
    if together.verdict is Verdict.SLOWER and not worse:  # the two measurements disagree
        beyond = any(judgement.beyond_limit for judgement in together.judgements)
        return dataclasses.replace(
            together,
            verdict=Verdict.INCONCLUSIVE,
            fails=UNDECIDED if beyond else OK,
            reason=f"not slower when measured again; at first {found.reason}",
        )
    if found.verdict is Verdict.SLOWER and together.verdict is not Verdict.SLOWER:
        reason = f"not confirmed when measured again; at first {found.reason}"
        return dataclasses.replace(together, reason=reason)
    return together


# ---- a stored base


def store(folder: Path, results: Sequence[bytes]) -> None:
    """Replace the runs in a folder; ResultError if it is not writable."""
    files = {f"run-{number}.json": content for number, content in enumerate(results, 1)}
    before = {path.name for path in stored_files(folder)}
    replace_files(folder, files, outdated=before - files.keys())


def stored_files(folder: Path) -> list[Path]:
    return [*folder.glob(_STORED)]


def read_stored(folder: Path) -> list[ProgramRun]:
    """Read the runs of a folder, without copies; ResultError if there is none."""
    paths = sorted(stored_files(folder))
    if not paths:
        raise ResultError(
            f"{folder}: no baseline: there is no {_STORED}; overlapbench gate baseline records one"
        )
    return distinct(read_program_runs(map(str, paths)))[0]
