"""The comparison as JSON, for programs. Figures that do not exist are null."""

import dataclasses
import math

import orjson

from overlapbench.compare.findings import Finding
from overlapbench.compare.verdicts import Comparison, Row
from overlapbench.source import harmless

SCHEMA = "1"


def format_json(comparison: Comparison) -> str:
    document = {
        "overlapbench_comparison_schema": SCHEMA,
        "status": comparison.status,
        "base": [harmless(source) for source in comparison.base.sources],
        "new": [harmless(source) for source in comparison.new.sources],
        "incomplete": list(comparison.incomplete),
        "differences": list(comparison.differences),
        "counts": {verdict.value: count for verdict, count in comparison.counts.items()},
        "matched": comparison.matched,
        "geometric_mean": _number(comparison.geometric_mean),
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
    values = dataclasses.asdict(finding) | {"verdict": finding.verdict.value}
    return {key: _number(v) if isinstance(v, float) else v for key, v in values.items()}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
