"""The checks, from rules.toml, whose comments explain the fields."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from overlapbench.reading.counters import Better, stored_table


class Verdict(IntEnum):
    """The verdict of a check, the worst last."""

    GOOD = 0
    UNKNOWN = 1  # not available
    SUSPICIOUS = 2
    BAD = 3

    def __str__(self) -> str:
        return {self.UNKNOWN: "not available"}.get(self, self.name.lower())

    @property
    def alarms(self) -> bool:
        return self >= Verdict.SUSPICIOUS


@dataclass(frozen=True)
class Check:
    """A counter of a row."""

    name: str
    counter: str
    action: str
    cuda: str = ""
    host: str = ""
    host_counter: str = ""
    kind: str = ""
    limits: tuple[float, float] | None = None
    better: str = ""  # where the counter's table does not say
    ranks: int = 1  # at least

    def row(self, backend: str) -> str:
        return self.cuda if backend == "cuda" else self.host

    def counter_on(self, backend: str) -> str:
        return (self.host_counter if backend == "host" else "") or self.counter

    def is_lower_better(self, backend: str) -> bool:
        counter = stored_table().counters[self.counter_on(backend)]
        return (self.better or counter.better.value) == Better.LOWER.value


@dataclass(frozen=True)
class Fact:
    """A value of the context, or what all rows say."""

    name: str
    key: str  # a regular expression
    action: str
    bad: str = ""
    suspicious: str = ""
    recorded: str = ""  # the verdict on a value that was not recorded
    backend: str = ""
    ranks: int = 1
    ways: Sequence[str] = ()


@dataclass(frozen=True)
class Kind:
    """The recorded figures whose differences between runs give a tolerance."""

    rows: str
    counters: Sequence[str]
    any_ranks: bool = False


def _load() -> tuple[list[Check], list[Fact], Mapping[str, Kind]]:
    stored = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
    kinds = {name: Kind(**one) for name, one in stored["kind"].items()}
    return [Check(**one) for one in stored["check"]], [Fact(**one) for one in stored["fact"]], kinds


CHECKS, FACTS, KINDS = _load()


def all_rows() -> list[str]:
    """Return the rows to measure; each backend has only its own."""
    rows = (row for check in CHECKS for row in (check.cuda, check.host))
    return list(dict.fromkeys(filter(None, rows)))
