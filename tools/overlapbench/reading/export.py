"""The figures of a result in the formats of other systems: a function per format, and their table.

Rows that are invalid or failed have no figures; formats with states report those. A counter's unit,
definition and better direction come from the file's own table.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from overlapbench.grouping import grouped
from overlapbench.output import ResultError
from overlapbench.packages import packages
from overlapbench.reading.counters import Counter, Table
from overlapbench.reading.result import Result
from overlapbench.reading.rows import Figure, Row, State

COLUMNS = ("benchmark", "state", "reason", "metric", "unit", "value", "low", "high")
_NUMBERS = COLUMNS[5:]
_PREFIX = "overlapbench"
# By unit: OpenMetrics' base unit, how many of them it is, and the word for it in counters' names.
_BASE_UNITS: Mapping[str, tuple[str, float, str]] = {
    "ms": ("seconds", 1e-3, "ms"),
    "us": ("seconds", 1e-6, "us"),
    "B": ("bytes", 1.0, "bytes"),
    "GB/s": ("bytes_per_second", 1e9, "GBps"),
    "TFLOP/s": ("flops_per_second", 1e12, "TFLOPs"),
    "1/s": ("per_second", 1.0, "per_s"),
    "%": ("ratio", 1e-2, "pct"),
    "": ("ratio", 1.0, ""),
}
_NO_UNIT = ("", 1.0, "")
_ABOUT = ("backend", "device", "ranks", "git_revision", "driver_version", "nccl_version", "date")


class Exported(NamedTuple):
    """One figure of one row, in the counter's unit."""

    row: Row
    counter: Counter
    figure: Figure


def figures_of(result: Result, metrics: Sequence[str]) -> list[Exported]:
    """Return the figures of these counters, or of all; ResultError for an undefined counter."""
    table = result.table
    for metric in metrics:
        if metric not in table.counters:
            raise ResultError(f"--metric {metric}: {result.label} has no such counter")
    wanted = {*metrics} or {*table.counters}
    return [
        Exported(row, table.counters[name], figure)
        for row in result.rows
        if row.state.comparable
        for name, figure in row.figures.items()
        if name in wanted
    ]


# ---- the formats


def to_csv(result: Result, exported: Sequence[Exported]) -> str:
    """Write a line for each figure, and one for each row without figures (RFC 4180).

    No spreadsheet evaluates its text as a formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(_harmless, line) for line in _lines(result, exported))
    return text.getvalue()


def to_parquet(result: Result, exported: Sequence[Exported]) -> bytes:
    """Write the lines of the CSV as a Parquet file, with the run's context as schema metadata.

    Figures are doubles, and missing values are null.
    """
    with packages(ResultError):
        import pyarrow
        from pyarrow import parquet
    schema = pyarrow.schema(
        [(name, pyarrow.float64() if name in _NUMBERS else pyarrow.string()) for name in COLUMNS],
        metadata=_run(result),
    )
    columns = zip(*_lines(result, exported), strict=True)
    file = io.BytesIO()
    parquet.write_table(pyarrow.table([*map(list, columns)], schema=schema), file)
    return file.getvalue()


def _lines(result: Result, exported: Sequence[Exported]) -> list[Sequence[str | float | None]]:
    """Return a line for each figure, and one for each row without figures, in COLUMNS."""
    by_row = grouped(exported, lambda one: one.row.name)
    lines: list[Sequence[str | float | None]] = []
    for row in result.rows:
        origin = (str(row.name), row.state.value, row.reason)
        for _, counter, figure in by_row.get(row.name, ()):
            ends = figure.interval or (None, None)
            lines.append((*origin, counter.name, counter.unit, figure.value, *ends))
        if row.name not in by_row:
            lines.append((*origin, *[None] * (len(COLUMNS) - len(origin))))
    return lines


def to_openmetrics(result: Result, exported: Sequence[Exported]) -> str:
    """Write OpenMetrics 1.0 text (https://prometheus.io/docs/specs/om/open_metrics_spec/).

    Each counter is a family in base units, and so is each end of its interval. The state of each
    row is a stateset, and the run's context an info. There are no timestamps: the specification
    leaves them to the scraper.
    """
    with packages(ResultError):
        from prometheus_client import core
        from prometheus_client.openmetrics.exposition import generate_latest
    run = core.InfoMetricFamily(f"{_PREFIX}_run", "What was measured, and where.", _run(result))
    states = core.StateSetMetricFamily(f"{_PREFIX}_state", "What a row is.", labels=["benchmark"])
    for row in result.rows:
        states.add_metric([row.name], {state.value: row.state is state for state in State})
    stems = family_stems(result.table)
    gauges: dict[str, Any] = {}
    for row, counter, figure in exported:
        unit, scale, _ = _BASE_UNITS.get(counter.unit, _NO_UNIT)
        ends = {"low": figure.low, "high": figure.high} if figure.interval else {}
        for end, value in {"": figure.value, **ends}.items():
            name = "_".join(filter(None, (stems[counter.name], end, unit)))
            about = (f"{end} end of the 95 % interval: " if end else "") + counter.definition
            gauge = core.GaugeMetricFamily(name, about, labels=["benchmark"], unit=unit)
            gauges.setdefault(name, gauge).add_metric([row.name], value * scale)
    families = SimpleNamespace(collect=lambda: [run, states, *gauges.values()])
    text: bytes = generate_latest(families)  # type: ignore[no-untyped-call]
    return text.decode()


def family_stems(table: Table) -> dict[str, str]:
    """Name the family of each counter as OpenMetrics does, without the base unit at the end.

    If two counters differ only in their units, the second also keeps its unit in the stem.
    """
    stems: dict[str, str] = {}
    taken = set()
    for counter in table.counters.values():
        unit, _, word = _BASE_UNITS.get(counter.unit, _NO_UNIT)
        bare = f"_{counter.name}_".replace(f"_{word}_", "_", 1) if word else counter.name
        if (bare.lower(), unit) in taken:
            bare = counter.name
        taken.add((bare.lower(), unit))
        stems[counter.name] = f"{_PREFIX}_{bare.strip('_').lower()}".rstrip("_")
    return stems


def _run(result: Result) -> dict[str, str]:
    """Return the context that identifies the run."""
    return {key: str(result.context[key]) for key in _ABOUT if key in result.context}


def _harmless(value: object) -> object:
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@"))
    return f"'{value}" if formula else value


FORMATS: Mapping[str, Callable[[Result, Sequence[Exported]], str | bytes]] = {
    "csv": to_csv,
    "parquet": to_parquet,
    "openmetrics": to_openmetrics,
}
BY_SUFFIX = {".csv": "csv", ".parquet": "parquet", ".prom": "openmetrics"}
