"""The comparison as JSON, for programs. Figures that do not exist are null."""

import math

import orjson

from overlapbench.compare.findings import Finding
from overlapbench.compare.verdicts import Comparison, Row
from overlapbench.source import harmless

SCHEMA = "2"


def format_json(comparison: Comparison) -> str:
    document = {
        "overlapbench_comparison_schema": SCHEMA,
        "status": comparison.status,
        "base": [harmless(source) for source in comparison.base.sources],
        "new": [harmless(source) for source in comparison.new.sources],
        "doubts": list(comparison.doubts),
        "differences": list(comparison.differences),
        "counts": {verdict.value: count for verdict, count in comparison.counts.items()},
        "matched": comparison.matched,
        "geometric_mean": _number(comparison.geometric_mean),
        "guarded": len(comparison.guarded),
        "guardable": comparison.guardable,
        "smallest_change_seen": _number(comparison.smallest_seen),
        "rows": [_row(row) for row in comparison.rows],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _row(row: Row) -> dict[str, object]:
    return {
        "name": row.name,
        "verdict": row.verdict.value,
        "fails": bool(row.fails),
        "reason": row.reason,
        "launches": list(row.launches),
        "findings": [_finding(finding) for finding in row.findings],
        "not_judged": {metric: {"base": base, "new": new} for metric, base, new in row.shown},
    }


def _finding(finding: Finding) -> dict[str, object]:
    """Write a finding; changes, floor and limit are relative, as the table has them in percent."""
    counter = finding.counter
    low, high = finding.interval
    figures = {
        "base": finding.base,
        "new": finding.new,
        "change": finding.relative,
        "low": low,
        "high": high,
        "floor": finding.floor,
        "limit": finding.limit,
        "error": finding.error,
        "freedom": finding.freedom,
    }
    return {
        "metric": counter.name,
        "unit": counter.unit,
        "better": counter.better.value,
        "verdict": finding.verdict.value,
        "floor_reason": finding.floor_reason,
    } | {key: _number(value) for key, value in figures.items()}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
