"""Rows in which findings are found."""

import json
from typing import Any

import samples
from overlapbench.findings.rules import find
from overlapbench.reading.result import Result, parse_result, unite

PAIR = "Overlap/AllGather+CublasGemm/bytes:1073741824/n:8192"
WAITED = {
    "state": "serialized",
    "reason": "communication waited for the other side (coverage 0.05)",
}
_EXACT = ("bound_by_workers", "slowest_rank", "slowest_share", "samples", "rank_spread")


def result(*rows: samples.Json, title: str = "made", **context: str) -> Result:
    return parse_result(title, json.dumps(samples.document([*rows], **context)))


def timed(name: str, ms: float, reach: float = 0.005, **fields: Any) -> samples.Json:
    """A row whose time is known to a share; of a pair, with all that its family requires."""
    ends = {"time_low_ms": ms * (1 - reach), "time_high_ms": ms * (1 + reach)}
    given = {"real_time": ms} | ends | fields
    if not name.startswith("Overlap/"):
        return samples.row(name, **given)
    sides = {"comp": 0.9 * ms, "comm": 0.5 * ms, "slowdown": 1 / 0.9} | fields
    return samples.overlap(name.removeprefix("Overlap/"), **(given | sides))


def rules_of(*results: Result) -> list[str]:
    return [one.rule for one in find(unite([*results]))]


def figures(**known: float) -> samples.Json:
    """Counters with intervals of 1 % on both sides."""
    ends = {
        f"{name}_{end}": value * factor
        for name, value in known.items()
        for end, factor in (("low", 0.99), ("high", 1.01))
    }
    return known | ends


def pair(slowdown: float, comp: float, comm: float, **fields: Any) -> samples.Json:
    known = figures(slowdown=slowdown, comp_slowdown=1.3, comm_slowdown=1.3) | fields
    known |= {"comm_sms": 24.0} | fields
    name = PAIR.removeprefix("Overlap/") + fields.pop("axes", "")
    known.pop("axes", None)
    known.pop("slowdown")
    return samples.overlap(name, slowdown, comp, comm, **known)


def step(name: str, ms: float = 2.0, **known: float) -> samples.Json:
    exact = {key: known.pop(key) for key in [*known] if key in _EXACT}
    return timed(name, ms, **figures(**known), **exact)
