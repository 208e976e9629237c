"""The verdict of every benchmark, and the exit status of all of them.

`compare` is the function of `overlapbench compare` and of scripts.

A benchmark has a judgement for each metric that it is judged by. The worst one decides: a falling
rate is a regression even if the time has not changed.

Comparisons fail closed. A row is judged from the runs that measured it well, on both sides. One
that is missing, invalid or incomparable gives status 3. So does an inconclusive row whose change is
worse than its limit, and a comparison that decided no row. Improvements never fail.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from overlapbench.judge import wording
from overlapbench.judge.floors import Floors, read_floors
from overlapbench.judge.judgements import MAX_FLOOR, Judgement, Verdict, find
from overlapbench.judge.side import Side
from overlapbench.output import ResultError
from overlapbench.reading.counters import SHOWN, TIME, merge_tables
from overlapbench.reading.program_run import CONTEXT_FIELDS, VARIABLES, read_program_runs
from overlapbench.reading.result import Results
from overlapbench.statistics.distributions import Array

UNIT = "unit"
ACROSS = (*CONTEXT_FIELDS.values(), UNIT)  # fields whose differences can be allowed

OK, REGRESSION, USAGE, UNDECIDED = 0, 1, 2, 3
_WORST_FIRST = tuple(Verdict)

_UNKNOWN_SPREAD = "the spread between runs is unknown: compare three or more per side"


@dataclass(frozen=True)
class Row:
    """One benchmark."""

    name: str
    verdict: Verdict
    fails: int  # the exit status that this row alone would cause
    reason: str
    runs: tuple[int, int]  # number of runs that contain it, on each side
    judgements: tuple[Judgement, ...] = ()
    shown: tuple[tuple[str, float, float], ...] = ()  # metric, base, new; not judged

    @property
    def worst(self) -> Judgement | None:
        """The judgement that decides."""
        return min(self.judgements, key=_severity, default=None)


@dataclass(frozen=True, repr=False)
class Comparison:
    """The whole comparison; printed, and in a notebook, it is a summary and a table.

    base, new    the sides: their sources, context and figures
    rows         of all benchmarks, worst first, each with a verdict, a reason and judgements
    differences  of the contexts, whether or not they were allowed
    min_guarded  the share of benchmarks that must be guarded
    title        of the Markdown
    """

    base: Side
    new: Side
    rows: tuple[Row, ...]
    differences: tuple[str, ...]
    min_guarded: float = 0.0
    title: str = "overlapbench"

    @property
    def status(self) -> int:
        """The exit status: a regression outweighs inconclusive rows.

        A comparison that decided nothing is inconclusive, too.
        """
        fails = {row.fails for row in self.rows}
        if REGRESSION in fails:
            return REGRESSION
        undecided = UNDECIDED in fails or self.doubts or self.blind or not self.guarded
        return UNDECIDED if undecided else OK

    @property
    def ok(self) -> bool:
        """Tell whether nothing got worse, and enough was decided."""
        return self.status == OK

    def __repr__(self) -> str:
        return "\n".join(wording.summary(self))

    def _repr_html_(self) -> str:
        return wording.html_of(self)

    @property
    def doubts(self) -> tuple[str, ...]:
        """The runs that ended early or failed their self-test: none of them can pass."""
        return self.base.doubts + self.new.doubts

    @property
    def copies(self) -> tuple[str, ...]:
        """The files that repeat another run of their side, and do not count."""
        return self.base.copies + self.new.copies

    @property
    def matched(self) -> int:
        """The number of benchmarks on both sides."""
        return sum(all(row.runs) for row in self.rows)

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """The number of benchmarks with each verdict."""
        counts = Counter(row.verdict for row in self.rows)
        return {verdict: counts[verdict] for verdict in Verdict}

    @property
    def geometric_mean(self) -> float:
        """Mean ratio of times, new to base, over the compared rows; NaN if there is none."""
        changes = [f.change for row in self.rows for f in row.judgements if f.metric == TIME]
        return math.exp(sum(changes) / len(changes)) if changes else math.nan

    @property
    def guarded(self) -> tuple[Row, ...]:
        """The benchmarks in which a change was found, or one beyond the limit is ruled out."""
        return tuple(row for row in self.rows if row.verdict.decided)

    @property
    def detectable(self) -> tuple[float, ...]:
        """The changes found in any guarded benchmark with at least statistics.POWERS; or none."""
        each = [f.detectable for row in self.guarded for f in row.judgements]
        return tuple(map(max, zip(*each, strict=True)))

    @property
    def blind(self) -> bool:
        """Tell whether too few of all benchmarks, of both sides, are guarded."""
        return len(self.guarded) < self.min_guarded * len(self.rows)


def compare_sides(
    base: Side,
    new: Side,
    floors: Floors,
    across: Collection[str] = (),
    max_floor: float = MAX_FLOOR,
    allow_noise: bool = False,
) -> Comparison:
    """Compare two sides; `across` names fields of ACROSS that may differ. The worst rows are first.

    With `allow_noise`, an inconclusive row fails only if noise does not explain it.

    ResultError if the sides define a counter differently, or floors are set for an unknown one.
    """
    table = merge_tables((side.sources[0], side.table) for side in (base, new))
    base, new = base.under(table), new.under(table)
    floors.require_known(table)
    differences = {
        label: f"{label}: {_difference(key, base.context[key], new.context[key])}"
        for key, label in CONTEXT_FIELDS.items()
        if len(base.context[key] | new.context[key]) > 1
    }
    blocking = "; ".join(text for label, text in differences.items() if label not in across)
    names = dict.fromkeys([*base.benchmarks, *new.benchmarks])
    rows = {name: _unjudged(name, base, new, blocking, across) for name in names}
    # In a fixed order, whatever that of the files: it affects the last bit of sums over benchmarks.
    judged = sorted(name for name, row in rows.items() if row is None)
    found = find(judged, base, new, floors, max_floor, allow_noise)
    for name, judgements in zip(judged, found, strict=True):
        rows[name] = _judged(name, base, new, judgements)
    worst_first = sorted((row for row in rows.values() if row), key=_order)
    return Comparison(base, new, tuple(worst_first), tuple(differences.values()))


def _severity(judgement: Judgement) -> tuple[int, float]:
    """Order judgements: the worst verdict first, then the largest change."""
    unknown = math.isnan(judgement.change)
    return _WORST_FIRST.index(judgement.verdict), 0.0 if unknown else -judgement.change


def _order(row: Row) -> tuple[bool, int, float, str]:
    """Order rows: failures first, then by verdict, then the largest change for the worse."""
    worst = row.worst
    change = _severity(worst)[1] if worst else 0.0
    return not row.fails, _WORST_FIRST.index(row.verdict), change, row.name


def _difference(key: str, base: Collection[str], new: Collection[str]) -> str:
    """Write what differs; of the variables, only those that do."""
    sides = [base, new]
    if key == VARIABLES:
        common = frozenset.intersection(*(frozenset(value.split()) for value in (*base, *new)))
        sides = [
            {" ".join(one for one in value.split() if one not in common) for value in side}
            for side in sides
        ]
    return " / ".join(map(_list, sides))


def _list(values: Iterable[str]) -> str:
    return " and ".join(sorted(value or "unset" for value in values))


def _unjudged(
    name: str, base: Side, new: Side, blocking: str, across: Collection[str]
) -> Row | None:
    """Return the row of a benchmark whose figures cannot be compared; None for any other."""
    before, now = base.benchmarks.get(name), new.benchmarks.get(name)
    runs = before.runs if before else 0, now.runs if now else 0
    if not now:
        return Row(name, Verdict.MISSING, UNDECIDED, "not in the new results", runs)
    if not before:
        return Row(name, Verdict.NEW, OK, now.problem or "not in the base results", runs)
    if not base.good(name):
        reason = f"in base: {before.problem}"
        if now.problem:
            reason += f"; in new: {now.problem}"
        return Row(name, Verdict.INVALID, UNDECIDED, reason, runs)
    more_bad = now.bad * before.runs > before.bad * now.runs
    if more_bad or not new.good(name):
        return Row(name, Verdict.INVALID, UNDECIDED, now.problem, runs)
    if len(before.units | now.units) > 1 and UNIT not in across:
        blocking = f"{UNIT}: {_list(before.units)} / {_list(now.units)}"
    return Row(name, Verdict.INCOMPARABLE, UNDECIDED, blocking, runs) if blocking else None


def _judged(name: str, base: Side, new: Side, judgements: tuple[Judgement, ...]) -> Row:
    """Combine the judgements of a benchmark: the worst one decides."""
    worst = min(judgements, key=_severity)
    before = base.benchmarks[name]
    runs = before.runs, new.benchmarks[name].runs
    shown = []
    for metric in SHOWN:
        if metric in base.table.judged:
            continue
        one, other = (_typical(side.values[metric][side.index[name]]) for side in (base, new))
        if not math.isnan(one) and not math.isnan(other):
            shown.append((metric, one, other))
    return Row(
        name,
        worst.verdict,
        max((_fails(f) for f in judgements), key=(OK, UNDECIDED, REGRESSION).index),
        "; ".join(filter(None, (_reason(worst), before.problem and f"in base: {before.problem}"))),
        runs,
        judgements,
        tuple(shown),
    )


def _typical(values: Array) -> float:
    """Return the geometric mean, as for judged counters; NaN if there are no figures."""
    measured = values[values > 0]
    return float(np.exp(np.log(measured).mean())) if len(measured) else math.nan


def _fails(judgement: Judgement) -> int:
    if judgement.verdict is Verdict.SLOWER:
        return REGRESSION
    unseen = judgement.verdict is Verdict.INCONCLUSIVE and judgement.beyond_limit
    return UNDECIDED if judgement.verdict is Verdict.INVALID or unseen else OK


def _reason(judgement: Judgement) -> str:
    if judgement.verdict is Verdict.INVALID:
        return f"{judgement.metric}: not in the new results"
    if judgement.verdict is Verdict.SAME:
        return ""
    text = f"{judgement.counter.name} {100 * judgement.relative:+.1f} %"
    if judgement.verdict is not Verdict.INCONCLUSIVE:
        return f"{text}, floor {100 * judgement.floor:.1f} %"
    if math.isinf(judgement.reach):
        return f"{text}; {_UNKNOWN_SPREAD}"
    return f"{text}; a change beyond the limit of {100 * judgement.limit:g} % is not ruled out"


Files = str | Path | Iterable[str | Path] | Results


def compare(
    old: Files,
    new: Files,
    *,
    across: Collection[str] = (),
    max_floor: float = MAX_FLOOR,
    floors: Sequence[str | Path] = (),
    allow_noise: bool = False,
) -> Comparison:
    """Compare results of two builds, machines or settings, as `overlapbench compare` does.

    old          a file, a glob such as "base/*.json", or several of them; each file is one run;
                 or what `read` returned; after `filter`, only the chosen rows are compared
    new          likewise
    across       what may differ between the sides, such as "driver"
    max_floor    the limit, as a share: a larger change must not go unseen
    floors       TOML files that say how large a change must be to count (docs/comparing.md)
    allow_noise  an inconclusive row that is worse than the limit fails only if it is worse than
                 noise makes any of so many rows in 39 of 40 comparisons

    The comparison has a row for each benchmark, worst first, an exit status, and `ok`.

    ResultError  a file cannot be read or is not a result: one line with the file and the field
    """
    sides = {"base": _sources(old), "new": _sources(new)}
    if [*sides["base"], *sides["new"]].count("-") > 1:
        raise ResultError("-: standard input can be read only once")
    known = read_floors([Path(one) for one in floors])
    base, other = (
        _chosen(Side.of_files(name, read_program_runs(sides[name])), files)
        for name, files in (("base", old), ("new", new))
    )
    return compare_sides(base, other, known, across, max_floor, allow_noise)


def _sources(files: Files) -> list[str]:
    if isinstance(files, Results):
        return [*files.sources]
    return [str(one) for one in ([files] if isinstance(files, str | Path) else files)]


def _chosen(side: Side, files: Files) -> Side:
    """Return the side with the rows of filtered results alone."""
    if not isinstance(files, Results):
        return side
    names = {str(row.name) for row in files.rows}
    return side.of([name for name in side.benchmarks if name in names])
