"""Result files of overlapbench as rows, for charts, reports and notebooks.

    results = ob.read("runs/*.json")
    results.filter("^Overlap/", n=4096)[0].slowdown.low    # of its 95 % interval
    results.to_pandas()

A result is Google Benchmark's JSON whose `context` contains `overlapbench_schema`. A file is either
accepted or refused as a whole, by a ResultError (source.py). A benchmark that failed, or that the
suite marked invalid in any repetition, is kept, with its `state` and `reason`.
"""

import itertools
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from overlapbench.output import ResultError, expand, harmless
from overlapbench.packages import packages
from overlapbench.reading.counters import TIME, VALID, Table, merge_tables
from overlapbench.reading.entries import ONLY_AGGREGATES, Entries, read_entries
from overlapbench.reading.names import BenchmarkName, chooser, spell_sizes
from overlapbench.reading.rows import Entry, Row, State, html_table, sum_up
from overlapbench.reading.source import load

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]

HOST_LABEL = "backend: host"  # in the label of every result of a CPU
_MOST_SHOWN = 200  # rows of a notebook's table


@dataclass(frozen=True)
class Result:
    """One result file."""

    label: str  # the file's name with backend and device, unique among the files read together
    backend: str
    context: Mapping[str, object]
    rows: tuple[Row, ...]
    table: Table
    incomplete: str  # why the run ended before all rows were measured; "" if all were
    measurement: object = field(compare=False)  # `measurement_of` the file

    @property
    def machine(self) -> str:
        """What the figures are of, in words: `2 × NVIDIA H200`."""
        ranks, device = (harmless(str(self.context.get(key, ""))) for key in ("ranks", "device"))
        return " × ".join(filter(None, (ranks, "CPU" if self.backend == "host" else device)))


@dataclass(frozen=True)
class Results:
    """The rows of one or more files, in their order; a sequence of Row.

    files    the Result of each file, with its context
    rows     the rows of all files, or those that `filter` chose
    sources  where the files are
    """

    files: tuple[Result, ...]
    rows: tuple[Row, ...]
    sources: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def filter(self, wanted: str | Callable[[Row], bool] = "", **axes: str | int) -> "Results":
        """Return the rows that an expression for their names, or a function, and all axes choose.

        wanted  a regular expression, as for --benchmark_filter: it may match anywhere in a name,
                `-` before it chooses all others, and sizes may be 64M; or a function, such as
                `lambda row: row.state is State.OK`
        axes    values that the name must contain, such as grid="16x16" or n=4096

        ResultError  the text is not a regular expression
        """
        if isinstance(wanted, str):
            chooses = chooser(wanted)
            return self.filter(lambda row: chooses(row.name), **axes)
        values = {axis: spell_sizes(str(value)) for axis, value in axes.items()}

        def chosen(row: Row) -> bool:
            return wanted(row) and all(row.name.axis(axis) == values[axis] for axis in values)

        return replace(self, rows=tuple(filter(chosen, self.rows)))

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a data frame with a line per row and the columns of Row.to_dict.

        ResultError  the package pandas is not installed
        """
        with packages(ResultError):
            import pandas
        return pandas.DataFrame([row.to_dict() for row in self.rows])

    def __repr__(self) -> str:
        return f"<Results: {len(self.rows)} rows of {len(self.files)} files>"

    def _repr_html_(self) -> str:
        table = merge_tables((one.label, one.table) for one in self.files)
        families = {row.name.family for row in self.rows}
        leads = [family.lead for family in table.families if family.name in families]
        wanted = dict.fromkeys((TIME, *itertools.chain(*leads)))
        shown = [name for name in wanted if any(name in row.figures for row in self.rows)]
        several = ("file",) * (len(self.files) > 1)
        lines = []
        for row in self.rows[:_MOST_SHOWN]:
            figures = row.figures
            cells = (figures.get(name, "") for name in shown)
            lines.append((*([row.file] if several else []), row.name, row.said, *cells))
        columns = (*several, "benchmark", "state", *(table.counters[name].label for name in shown))
        hidden = len(self.rows) - len(lines)
        return html_table(columns, lines) + (f"<p>and {hidden} more rows</p>" if hidden else "")


def read(source: str | Path | Iterable[str | Path]) -> Results:
    """Read result files; files of other Google Benchmark programs have a time and no counters.

    source  a path, a glob such as "runs/*.json", or several of them

    ResultError  a file cannot be read, is not a result, or has another table of counters: one line
                 with the file, the row and the field
    """
    given = [source] if isinstance(source, str | Path) else source
    sources = expand([str(one) for one in given])
    files = _read(sources, own=False)
    rows = tuple(row for file in files for row in file.rows)
    return Results(tuple(files), rows, tuple(sources))


def read_results(arguments: Sequence[str]) -> list[Result]:
    """Read files, globs and `-` (standard input); ResultError unless every one is a result."""
    return _read(arguments, own=True)


def _read(arguments: Sequence[str], *, own: bool) -> list[Result]:
    titles = source_titles(expand(arguments))
    return unite(
        [to_result(read_entries(one, load(one), own=own), title) for one, title in titles.items()]
    )


def parse_result(source: str, text: str) -> Result:
    """Validate the text of one result file; errors and the label name it by `source`."""
    return to_result(read_entries(source, text, own=True), _path(source).stem)


def to_result(entries: Entries, title: str) -> Result:
    """Make one row per configuration, in the order of the file."""
    context = entries.document.context
    label = _label(title, entries.backend, context.line("device") if entries.backend else "")
    rows = []
    for name, places in entries.places.items():
        runs = [_row(label, name, entries.rows[place], entries.table) for place in places]
        lonely = Row(label, name, {}, State.ERROR, reason=ONLY_AGGREGATES, table=entries.table)
        rows.append(sum_up(runs, "repetitions") if runs else lonely)
    about = entries.incomplete, entries.measurement
    return Result(label, entries.backend, context.values, tuple(rows), entries.table, *about)


def _row(label: str, name: BenchmarkName, entry: Entry, table: Table) -> Row:
    counters = {key: x for key, x in entry.figures.items() if key not in (TIME, VALID)}
    time_ms = entry.figures.get(TIME, math.nan)
    intervals = entry.intervals
    return Row(label, name, counters, entry.state, time_ms, entry.reason, intervals, table)


def unite(results: Sequence[Result]) -> list[Result]:
    """Return results that share one table; ResultError if the files' tables contradict."""
    table = merge_tables((result.label, result.table) for result in results)
    return [one if one.table == table else _under(table, one) for one in results]


def _under(table: Table, result: Result) -> Result:
    rows = tuple(replace(row, table=table) for row in result.rows)
    return replace(result, table=table, rows=rows)


def source_titles(sources: Sequence[str]) -> dict[str, str]:
    """Name files by their stems, preceded by as many folders as distinguish them.

    ResultError if a file is given twice.
    """
    paths = {source: _path(source) for source in sources}
    times = Counter(map(_path, sources))
    for source, path in paths.items():
        if times[path] > 1:
            raise ResultError(f"{source}: given twice")
    bare = {source: path.with_name(path.name.removesuffix(".gz")) for source, path in paths.items()}
    stems = {source: path.with_name(path.stem).parts for source, path in bare.items()}
    count = Counter(stems.values())
    names = {s: stems[s] if count[stems[s]] == 1 else path.parts for s, path in paths.items()}
    return {source: "/".join(_distinct_end(source, names)) for source in sources}


def _distinct_end(source: str, names: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the shortest end of a name that no other name ends in."""
    mine = names[source]
    others = [name for other, name in names.items() if other != source]
    ends = (mine[-length:] for length in itertools.count(1))
    return next(end for end in ends if all(other[-len(end) :] != end for other in others))


def _path(source: str) -> Path:
    # Not Path.resolve, which fails at a loop of links; reading one is refused in one line.
    return Path("standard input" if source == "-" else os.path.realpath(source))


def _label(title: str, backend: str, device: str) -> str:
    about = HOST_LABEL if backend == "host" else ", ".join(filter(None, (backend, device)))
    return f"{harmless(title)} ({about})" if about else harmless(title)
