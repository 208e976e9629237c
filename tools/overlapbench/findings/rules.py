"""Applies the rules for rows (rules.toml): pairs of rows that differ in one axis, and single rows.

A rule gives one finding at most, or one for each value of an axis: that of the most usual row, and
of those the one where it surely saves most. As that row is chosen among many, its interval is wide
enough for all of them. A change that ends slower than settings nearer to the default is none. A row
for which a faster one was measured has no finding of what it could save at most.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

from overlapbench.findings.apply import ways_of
from overlapbench.findings.finding import LEAST, Finding, Saving, largest
from overlapbench.grouping import grouped
from overlapbench.reading.counters import TIME
from overlapbench.reading.names import binary_size
from overlapbench.reading.result import Result
from overlapbench.reading.rows import Row, State
from overlapbench.statistics.intervals import digits, proportion, widened

# What names omit, where a sentence needs it.
_STANDING = {
    **{"transport": "nccl", "first": "comp", "tie": "events", "memory": "pinned"},
    "connections": "unset",
}
_SETTINGS = frozenset(_STANDING) | {
    *("comm_ctas", "comm_sms", "sm_target", "comp_sms", "comm_priority", "comp_priority", "engine")
}
_ORDERS = {"comp": "the computation", "comm": "the communication", "none": "neither side"}
# Axes that tell rows apart in words.
_SIZES = ("bytes", "tokens", "n", "model", "workers", "setting")
_MACHINE = ("backend", "device", "ranks", "hosts", "driver_version", "nccl_version", "git_revision")
_ATTRIBUTED = 0.25  # of T - max(C, M), a cause that is worth a finding
_MOSTLY = 0.5
_PARTS = ("exposed_comm", "interference")
_MEASURED = ("rest", "measured inverse")  # measures that are no upper bounds
_EXACT = ("rank_spread",)  # counters without an interval: their rule has another condition


@dataclass(frozen=True)
class Change:
    name: str
    axis: str
    families: str
    sentence: str
    action: str
    base: str = ".*"
    to: str = ".*"
    evidence: Sequence[str] = ()
    when: str = ""  # a condition of the better row
    each: str = ""  # an axis: a finding for each of its values


@dataclass(frozen=True)
class Limit:
    name: str
    families: str
    saves: tuple[str, str]  # a measure, and its counter
    sentence: str
    options: Sequence[str]
    evidence: Sequence[str] = ()
    when: str = ""  # a condition
    tuned: bool = False  # --tune chooses among the options
    backend: str = ""  # that the sentence is true of; "" for both


@dataclass(frozen=True)
class Option:
    """What the reader of a limit may try."""

    text: str
    way: str = ""
    families: str = ""
    where: Mapping[str, str] = field(default_factory=dict)  # axes, and what their values match
    when: str = ""  # a condition

    def helps(self, row: Row) -> bool:
        """Tell whether a row may still do this."""
        fits = re.match(self.families, row.name) is not None and _CONDITIONS[self.when](row)
        return fits and all(
            re.fullmatch(value, _value(row, axis)) for axis, value in self.where.items()
        )


Rule = Change | Limit


@dataclass(frozen=True)
class Case:
    """A rule that holds for a row, and the faster row if one was measured."""

    rule: Rule
    row: Row
    saving: Saving
    better: Row | None = None


_STORED = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))


def _spelled_out(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "families": entry["families"].format_map(_STORED["families"])}


CHANGES = [Change(**_spelled_out(entry)) for entry in _STORED["change"]]
LIMITS = [Limit(**_spelled_out(entry)) for entry in _STORED["limit"]]
OPTIONS = {name: Option(**entry) for name, entry in _STORED["option"].items()}


def find(results: Sequence[Result]) -> list[Finding]:
    """Return what the rows of results say, those that surely save most first."""
    rows = [row for result in results for row in result.rows if row.trusted]
    machines = {
        one.label: tuple(str(one.context.get(key, "")) for key in _MACHINE) for one in results
    }
    cuda = [row for one in results if one.backend == "cuda" for row in one.rows if row.trusted]
    # Also where the value that is faster is not one to advise, such as a row's default.
    either_way = [replace(rule, base=".*", to=".*") for rule in CHANGES]
    slower = [
        (rule.axis, id(case.row))
        for rule in either_way
        for case in _changes(rule, cuda, machines)
        if case.saving.matters
    ]
    # Nobody keeps a number of chunks that is worse than another: it is no base of other changes.
    poor = {row for axis, row in slower if axis == "chunks"}
    kept = [row for row in cuda if id(row) not in poor]
    changes = [
        part
        for rule in CHANGES
        for part in _parts(rule, _changes(rule, cuda if rule.axis == "chunks" else kept, machines))
    ]
    settled = {row for _, row in slower}
    limits = [
        list(_limits(rule, [row for row in within if id(row) not in settled]))
        for rule in LIMITS
        for within in [cuda if rule.backend else rows]
    ]
    by_label = {one.label: one for one in results}
    found = (one for cases in (*changes, *limits) for one in _strongest(cases))
    return [_of_machine(one, by_label[one.file]) for one in largest(found)]


def _parts(rule: Change, cases: Iterable[Case]) -> Iterable[list[Case]]:
    """Divide the cases of a rule into those of each finding."""
    return grouped(cases, lambda case: case.row.name.axis(rule.each)).values()


def _of_machine(finding: Finding, result: Result) -> Finding:
    """Name the machine, and write the SMs that are left instead of a difference."""
    sms = result.context.get("device_multiprocessors")

    def left(match: re.Match[str]) -> str:
        return str(sms - int(match[1])) if isinstance(sms, int) else match[0]

    ways = [re.sub(r"SMs of the GPU - (\d+)", left, way) for way in finding.ways]
    return replace(finding, machine=result.machine, ways=ways)


def _strongest(cases: Sequence[Case]) -> Iterator[Finding]:
    """Yield the finding of the case that surely saves most, if any saves enough."""
    if not cases:
        return
    holding = [case for case in cases if case.saving.matters]
    if holding:
        best = min(holding, key=lambda case: (_unusual(case.row), -case.saving.low))
        yield _told(best, len(holding), len(cases))


def _unusual(row: Row) -> int:
    """Return how many settings of a row are not those in use by default."""
    return sum(axis in _SETTINGS for axis, _ in row.name.axes)


# ---- which cases there are


def _changes(
    rule: Change, rows: Sequence[Row], machines: Mapping[str, tuple[str, ...]]
) -> Iterator[Case]:
    """Yield the pairs of rows that differ in the rule's axis; connections differ between files."""

    def others(row: Row) -> object:
        place = machines.get(row.file, row.file) if rule.axis == "connections" else row.file
        return place, row.name.but_for(rule.axis)

    chosen = [row for row in rows if _concerns(rule, row) and TIME in row.intervals]
    alike = grouped(chosen, _but_for_settings)
    pairs = [
        (a, b)
        for group in grouped(chosen, others).values()
        for a, b in permutations(group, 2)
        if _value(a, rule.axis) != _value(b, rule.axis)
        and re.fullmatch(rule.base, _value(a, rule.axis))
        and re.fullmatch(rule.to, _value(b, rule.axis))
        and _CONDITIONS[rule.when](b)
        and not any(
            _unusual(plain) < _unusual(a) and plain.intervals[TIME][1] < b.intervals[TIME][0]
            for plain in alike[_but_for_settings(a)]
        )
    ]
    for a, b in pairs:
        (a_low, a_high), (b_low, b_high) = (
            widened(row.intervals[TIME], row.time_ms, len(pairs)) for row in (a, b)
        )
        if a_low > 0:
            ends = 1 - b_high / a_low, 1 - b_low / a_high
            yield Case(rule, a, Saving(1 - b.time_ms / a.time_ms, *ends), b)


def _but_for_settings(row: Row) -> object:
    return row.file, row.name.but_for(*_SETTINGS)


def _limits(rule: Limit, rows: Sequence[Row]) -> Iterator[Case]:
    measure, counter = rule.saves
    holds = _CONDITIONS[rule.when]
    chosen = [row for row in rows if _concerns(rule, row) and holds(row) and _options(rule, row)]
    figures = [(row, row[counter]) for row in chosen if counter in row.counters]
    for row, figure in figures:
        interval = (figure.value,) * 2 if counter in _EXACT else figure.interval
        if interval:
            saves = partial(_MEASURES[measure], row)
            low, high = sorted(map(saves, widened(interval, figure.value, len(figures))))
            yield Case(rule, row, Saving(saves(figure.value), low, high, measure not in _MEASURED))


def _concerns(rule: Rule, row: Row) -> bool:
    """Tell whether a row is of the rule's families, and has the counters of its sentence."""
    needed = re.findall(r"\{[ab]\.(\w+)", rule.sentence)
    has_all = all(counter in row.counters or counter == "time_ms" for counter in needed)
    return has_all and re.match(rule.families, row.name) is not None


def _value(row: Row, axis: str) -> str:
    """Return the value of an axis, of `auto` the one chosen; "" is what names omit."""
    value = row.name.axis(axis) or ""
    return str(round(row.counters[axis])) if value == "auto" and axis in row.counters else value


def _options(rule: Limit, row: Row) -> list[Option]:
    """Return what the row does not do yet."""
    return [OPTIONS[name] for name in rule.options if OPTIONS[name].helps(row)]


# ---- what a row could save, as a share of T


def _inverse(_: Row, factor: float) -> float:
    return 1 - 1 / factor if factor > 0 else 0.0


def _attributed(row: Row, share: float) -> float:
    return min(1.0, share) * (1 - 1 / row.counters["slowdown"]) if share > _ATTRIBUTED else 0.0


_MEASURES: Mapping[str, Callable[[Row, float], float]] = {
    "inverse": _inverse,
    "measured inverse": _inverse,
    "rest": lambda _, factor: 1 - factor,
    "rest of 100": lambda _, pct: 1 - pct / 100,
    "part": lambda row, ms: ms / row.time_ms,
    "itself": lambda _, share: share,
    "attributed": _attributed,
}


def _last(side: str, row: Row) -> bool:
    """Tell whether both sides ran at once, on SMs, and this one took longer."""
    took = {
        one: row.counters.get(f"{one}_ms", 0) * row.counters.get(f"{one}_slowdown", 0)
        for one in ("comp", "comm")
    }
    on_sms = row.counters.get("comm_sms", 0) > 0 and not _copies(row)
    return took[side] > min(took.values()) and on_sms and row.state is State.OK


def _order_exposes(row: Row) -> bool:
    """Tell whether the order of the steps, not interference, leaves communication exposed."""
    exposed, interference = (row.counters.get(f"{one}_ms", 0) for one in _PARTS)
    return exposed - interference > LEAST * row.time_ms


def _copies(row: Row) -> bool:
    return row.name.axis("transport") in ("copy", "nccl_ce")


def _mostly_one(row: Row) -> bool:
    share, samples = (row.counters.get(key, 0) for key in ("slowest_share", "samples"))
    return samples > 0 and proportion(round(share * samples), round(samples))[0] > _MOSTLY


_CONDITIONS: Mapping[str, Callable[[Row], bool]] = {
    "": lambda _: True,
    "communication waits": lambda row: (
        row.state is State.SERIALIZED
        and row.reason.startswith("communication waited")
        and not _copies(row)
    ),
    "both run": lambda row: row.state is State.OK,
    "computation ends last": partial(_last, "comp"),
    "communication ends last": partial(_last, "comm"),
    "the order exposes": _order_exposes,
    "cutting gains": lambda row: "speedup" in row.counters and row["speedup"].low > 1,
    "producers bound": lambda row: row.counters.get("bound_by_workers") == 1,
    "one rank is mostly the slowest": _mostly_one,
}


# ---- in words


def _told(case: Case, holds: int, of: int) -> Finding:
    rule, row, better, saving = case.rule, case.row, case.better, case.saving
    by = row.name.axis("transport")
    what = described(row) + (f", transport {by}" if by else "")
    values: dict[str, object] = {"what": what, "a": row, "b": better}
    reasons = [row.reason] if row.reason else []
    ways: Sequence[str] = ()
    if isinstance(rule, Change) and better is not None:
        was, to = (
            _spelled(rule.axis, _value(one, rule.axis)).removeprefix(f"{rule.axis} ")
            for one in (row, better)
        )
        values |= {"was": was, "to": to}
        sentence = rule.sentence.format_map(values)
        times = " instead of ".join(digits(one.time_ms) for one in (better, row))
        sentence += f": {times} ms, saves {saving}"
        action = rule.action.format_map(values)
        value = _value(better, rule.axis) or _STANDING.get(rule.axis, "")
        ways = ways_of({rule.axis: value})
    else:
        assert isinstance(rule, Limit)
        word = "saves" if not saving.at_most else "a change saves"
        sentence = f"{rule.sentence.format_map(values)}; {word} {saving}"
        options = _options(rule, row)
        action = _alternatives([one.text for one in options])
        action += "; --tune finds which is best" if rule.tuned and len(options) > 1 else ""
        keys = (one.way.partition(":")[::2] for one in options)
        ways = [way for axis, value in keys for way in ways_of({axis: value})[:1]]
        action += "."
    reasons += _evidence(rule, row, better)
    reasons += [f"holds for {holds} of {of} comparisons"] if better and of > 1 else []
    reasons += [f"holds for {holds} of {of} rows"] if not better and of > 1 else []
    action = action[:1].upper() + action[1:]
    why = "; ".join(reasons)
    return Finding(rule.name, sentence, why, action, saving, row.name, row.file, ways)


def _evidence(rule: Rule, row: Row, better: Row | None) -> Iterator[str]:
    for counter in rule.evidence:
        rows = [row, better] if better else [row]
        both = [one[counter].text for one in rows if counter in one.counters]
        if len(both) == len(rows) == len(set(both)):  # what is the same explains nothing
            title = row.table.counters[counter].label if counter in row.table.counters else counter
            yield f"{title} {' → '.join(both)}"


def described(row: Row) -> str:
    """Return a row in words: `AllReduce beside CublasGemm, 1 GiB`."""
    name = row.name
    pair = name.family in ("Overlap", "Priority") or name.family.startswith("Lab/")
    what = " beside ".join(name.workloads) if pair else f"{name.family}/{'+'.join(name.workloads)}"
    axes = (_spelled(axis, value) for axis, value in name.axes if axis in _SIZES)
    return ", ".join((what, *axes))


def _spelled(axis: str, value: str) -> str:
    value = value or _STANDING.get(axis, "0")
    if axis == "first":
        return _ORDERS.get(value, value)
    if axis.endswith("bytes") and value.isdecimal():
        return binary_size(int(value))
    return f"{axis} {value}" if axis in _SIZES else value


def _alternatives(texts: Sequence[str]) -> str:
    """Return `a`, `a, or b`, or `a, b, or c`."""
    return ", or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
