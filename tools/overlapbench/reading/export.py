"""The figures of a result in the formats of other systems: a function per format, and their table.

A figure is a row's time or one of its counters, with its 95 % interval. Rows that are invalid or
failed have no figures; formats with states report those. A counter's title, unit and better
direction come from the file's own table.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from overlapbench.grouping import grouped
from overlapbench.packages import packages
from overlapbench.reading.counters import TIME, Better, Counter, Table
from overlapbench.reading.result import Result, Row, State
from overlapbench.reading.source import ResultError
from overlapbench.statistics.intervals import Interval

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
_ABOUT = ("backend", "device", "ranks", "git_revision", "driver_version", "nccl_version", "date")
_NS_PER_MS = 1e6


@dataclass(frozen=True)
class Figure:
    """One figure of one row, in the counter's unit."""

    row: Row
    counter: Counter
    value: float
    interval: Interval | None

    @property
    def benchmark(self) -> str:
        return str(self.row.name)


def figures_of(result: Result, metrics: Sequence[str]) -> list[Figure]:
    """Return the figures of these counters, or of all; ResultError for an undefined counter."""
    table = result.table
    for metric in metrics:
        if table.find(metric) is None:
            raise ResultError(f"--metric {metric}: {result.label} has no such counter")
    wanted = {table.canonical(metric) for metric in metrics} or {*table.counters}
    return [
        Figure(row, table.counters[name], value, row.intervals.get(name))
        for row in result.rows
        if row.state.comparable
        for name, value in {TIME: row.time_ms, **row.counters}.items()
        if name in wanted
    ]


# ---- the formats


def to_csv(result: Result, figures: Sequence[Figure]) -> str:
    """Write a line for each figure, and one for each row without figures (RFC 4180)."""
    return csv_text(COLUMNS, _lines(result, figures))


def to_parquet(result: Result, figures: Sequence[Figure]) -> bytes:
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
    columns = zip(*_lines(result, figures), strict=True)
    file = io.BytesIO()
    parquet.write_table(pyarrow.table([*map(list, columns)], schema=schema), file)
    return file.getvalue()


def _lines(result: Result, figures: Sequence[Figure]) -> list[Sequence[str | float | None]]:
    """Return a line for each figure, and one for each row without figures, in COLUMNS."""
    by_row = grouped(figures, lambda figure: figure.benchmark)
    lines: list[Sequence[str | float | None]] = []
    for row in result.rows:
        origin = (str(row.name), row.state.value, row.reason)
        for one in by_row.get(str(row.name), ()):
            bounds = one.interval or (None, None)
            lines.append((*origin, one.counter.name, one.counter.unit, one.value, *bounds))
        if str(row.name) not in by_row:
            lines.append((*origin, *[None] * (len(COLUMNS) - len(origin))))
    return lines


def to_openmetrics(result: Result, figures: Sequence[Figure]) -> str:
    """Write OpenMetrics 1.0 text (https://prometheus.io/docs/specs/om/open_metrics_spec/).

    Each counter is a family in base units, and so is each end of its interval. The state of each
    row is a stateset, and the run's context an info. There are no timestamps: the specification
    leaves them to the scraper.
    """
    lines = [f"# TYPE {_PREFIX}_run info", f"# HELP {_PREFIX}_run What was measured, and where."]
    lines.append(f"{_PREFIX}_run_info{_labels(_run(result))} 1")
    lines += [f"# TYPE {_PREFIX}_state stateset", f"# HELP {_PREFIX}_state What a row is."]
    for row in result.rows:
        for state in State:
            labels = {"benchmark": str(row.name), f"{_PREFIX}_state": state.value}
            lines.append(f"{_PREFIX}_state{_labels(labels)} {int(row.state is state)}")
    for family, samples in grouped(_samples(result.table, figures), lambda one: one.family).items():
        name, unit, definition = family
        lines.append(f"# TYPE {name} gauge")
        lines += [f"# UNIT {name} {unit}"] if unit else []
        lines.append(f"# HELP {name} {_escaped(definition)}")
        for sample in samples:
            lines.append(f"{name}{_labels({'benchmark': sample.benchmark})} {sample.value!r}")
    return "\n".join((*lines, "# EOF", ""))


def to_github_action(result: Result, figures: Sequence[Figure]) -> str:
    """Write the format that github-action-benchmark reads as `customSmallerIsBetter`.

    A list of objects with name, unit and value, and range and extra as text
    (https://github.com/benchmark-action/github-action-benchmark, README and src/extract.ts).
    """
    entries = []
    for one in figures:
        if one.counter.better is not Better.LOWER:
            raise ResultError(f"--metric {one.counter.name}: smaller is not better")
        timed = one.counter.name == TIME
        entry = {
            "name": one.benchmark if timed else f"{one.benchmark} {one.counter.name}",
            "unit": one.counter.printed_unit,
            "value": one.value,
        }
        if one.interval:
            entry["range"] = "{:.4g} to {:.4g}".format(*one.interval)
        if one.row.reason:
            entry["extra"] = one.row.state.line(one.row.reason)
        entries.append(entry)
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def to_bencher(result: Result, figures: Sequence[Figure]) -> str:
    """Write Bencher Metric Format (https://bencher.dev/docs/reference/bencher-metric-format/).

    Each benchmark and measure has a value and the ends of its interval. The time is Bencher's own
    measure `latency`, in nanoseconds (its page on custom benchmarks); other counters keep their
    names.
    """
    benchmarks: dict[str, dict[str, dict[str, float]]] = {}
    for one in figures:
        timed = one.counter.name == TIME
        scale = _NS_PER_MS if timed else 1.0
        measure = "latency" if timed else one.counter.name.lower().replace("_", "-")
        metric = {"value": one.value * scale}
        if one.interval:
            metric |= {
                "lower_value": one.interval[0] * scale,
                "upper_value": one.interval[1] * scale,
            }
        benchmarks.setdefault(one.benchmark, {})[measure] = metric
    return json.dumps(benchmarks, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Format:
    write: Callable[[Result, Sequence[Figure]], str | bytes]
    metrics: tuple[str, ...]  # without --metric; none: all


# In systems that alert, each figure is a chart and an alarm, so they get only the time.
FORMATS: Mapping[str, Format] = {
    "csv": Format(to_csv, ()),
    "parquet": Format(to_parquet, ()),
    "openmetrics": Format(to_openmetrics, ()),
    "github-action-benchmark": Format(to_github_action, (TIME,)),
    "bencher": Format(to_bencher, (TIME,)),
}


# ---- their parts


def _run(result: Result) -> dict[str, str]:
    """Return the context that identifies the run."""
    return {key: str(result.context[key]) for key in _ABOUT if key in result.context}


def csv_text(columns: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Write a table as CSV whose text no spreadsheet evaluates as a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_harmless(value) for value in line] for line in lines)
    return text.getvalue()


def _harmless(value: object) -> object:
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@"))
    return f"'{value}" if formula else value


class _Sample(NamedTuple):
    """A benchmark's value in an OpenMetrics family, given by name, base unit and definition."""

    family: tuple[str, str, str]
    benchmark: str
    value: float


def _samples(table: Table, figures: Sequence[Figure]) -> Iterator[_Sample]:
    """Yield each figure and the ends of its interval, each in its own family."""
    stems = family_stems(table)
    for one in figures:
        unit, scale, _ = _base_unit(one.counter)
        low, high = one.interval or (None, None)
        for end, value in (("", one.value), ("low", low), ("high", high)):
            if value is not None:
                name = "_".join(filter(None, (stems[one.counter.name], end, unit)))
                about = f"{end} end of the 95 % interval: " if end else ""
                family = name, unit, about + one.counter.definition
                yield _Sample(family, one.benchmark, value * scale)


def family_stems(table: Table) -> dict[str, str]:
    """Name the family of each counter as OpenMetrics does, without the base unit at the end.

    If two counters differ only in their units, the second also keeps its unit in the stem.
    """
    stems: dict[str, str] = {}
    taken = set()
    for counter in table.counters.values():
        unit, _, word = _base_unit(counter)
        bare = f"_{counter.name}_".replace(f"_{word}_", "_", 1) if word else counter.name
        if (bare.lower(), unit) in taken:
            bare = counter.name
        taken.add((bare.lower(), unit))
        stems[counter.name] = f"{_PREFIX}_{bare.strip('_').lower()}".rstrip("_")
    return stems


def _base_unit(counter: Counter) -> tuple[str, float, str]:
    return _BASE_UNITS.get(counter.unit, ("", 1.0, ""))


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
