"""The history as text: its runs, one of them, and the changes of level."""

import io
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from overlapbench.cli.command_line import has_colours
from overlapbench.judge.changes import LEAST_RUNS, Change
from overlapbench.judge.database import Measured, Run
from overlapbench.judge.series import Series
from overlapbench.reading.counters import SHOWN, Counter, Table
from overlapbench.reading.source import Document, harmless
from overlapbench.statistics.levels import LEAST_SEGMENT
from overlapbench.view.comparison import broken, figure, percent

_WIDTH = 140  # if the output is not a terminal
_INDENT = " "
_COLOURS = {"worse": "bold red", "better": "green"}
Found = Sequence[tuple[Series, Sequence[Change] | None]]


class _Name:
    """A name in a cell, broken at a /, with remarks below it."""

    def __init__(self, name: str, note: str = "", style: str = "") -> None:
        self._name, self._note, self._style = name, note, style

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        pieces = [f"{_INDENT}{piece}/" for piece in self._name.split("/")]
        whole = max(len(self._name), len(_INDENT + self._note))
        return Measurement(max(map(len, pieces)), whole).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        lines = broken(self._name, options.max_width, _INDENT)
        lines += _folded(self._note, options.max_width, _INDENT)
        yield Text("\n".join(lines), self._style, overflow="fold")


def list_runs(runs: Sequence[Run]) -> str:
    """Return a line for each run."""
    table = _table("run", "date", "revision", "host", "machine", "file", right=("rows", "bad"))
    table.columns[1].no_wrap = True
    for run in runs:
        words = (str(run.id), run.date, run.revision, run.host, str(run.machine))
        counts = (str(run.benchmarks), str(run.problems or ""))
        table.add_row(*map(Text, words), _Name(run.source), *map(Text, counts))
    return _print(table)


def show_run(run: Run, document: bytes, measured: Iterable[Measured], counters: Table) -> str:
    """Return the origin of a run, its context, and its rows."""
    context = Document.parse(f"run {run.id}", document.decode()).context.values
    head = {"run": run.id, "added": run.added, "revision": run.revision, "file": run.source}
    told = [f"{key}: {_word(value)}" for key, value in (head | dict(context)).items()]
    # For programs that read them, each is on one line.
    lines = [line for one in told for line in _folded(one, _width())] if _terminal() else told
    rows = list(measured)
    shown = [counters.find(name) for name in dict.fromkeys((*counters.judged, *SHOWN))]
    columns = [c for c in shown if c and any(_figure(c, row) for row in rows)]
    table = _table("benchmark", right=[counter.label for counter in columns])
    for row in rows:
        name = _Name(row.benchmark, row.problem)
        table.add_row(name, *(Text(_figure(counter, row)) for counter in columns))
    return "\n".join(lines) + "\n\n" + _print(table)


def _figure(counter: Counter, row: Measured) -> str:
    """Write a figure, which a run may have under an earlier name."""
    names = (counter.name, *counter.aliases)
    return next((figure(row.figures[name]) for name in names if name in row.figures), "")


def list_changes(counter: Counter, found: Found) -> str:
    """Return a line for each change, and the series with too few runs."""
    titles = ("benchmark", "machine", "between revisions", "and dates")
    table = _table("verdict", *titles, right=("change", f"before {counter.label}", "after", "runs"))
    for series, changes in found:
        for change in changes or ():
            cells = (str(series.machine), *_between(change))
            figures = (percent(change.natural), figure(change.before), figure(change.after))
            counts = "{} / {}".format(*change.runs)
            style = _COLOURS.get(change.direction, "")
            table.add_row(
                Text(change.direction, style),
                _Name(series.benchmark, style=style),
                *(Text(cell, style) for cell in (*cells, *figures, counts)),
            )
    return (_print(table) if table.rows else "") + "\n".join(_summary(found)) + "\n"


def _summary(found: Found) -> list[str]:
    told = [changes for _, changes in found if changes is not None]
    lines = [
        f"{sum(map(len, told))} changes in {len(told)} series; detecting one"
        f" takes {LEAST_SEGMENT} runs at the new level"
    ]
    if short := len(found) - len(told):
        lines.append(f"inconclusive: {short} series have fewer than {LEAST_RUNS} usable runs")
    return lines


def _between(change: Change) -> tuple[str, str]:
    revisions = (change.last.revision or "unknown", change.first.revision or "unknown")
    return " … ".join(revisions), f"{change.last.date[:16]} … {change.first.date[:16]}"


def _word(value: object) -> str:
    return harmless(value if isinstance(value, str) else json.dumps(value))


def _table(*titles: str, right: Sequence[str]) -> Grid:
    table = Grid(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    for title in right:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _folded(text: str, width: int, indent: str = "") -> list[str]:
    """Break text at its spaces, and a longer word anywhere."""
    wrapped = textwrap.TextWrapper(
        max(width, 8),
        initial_indent=indent,
        subsequent_indent=indent or _INDENT,
        break_on_hyphens=False,
    )
    return wrapped.wrap(text)


def _print(table: Grid) -> str:
    text = io.StringIO()
    console = Console(file=text, width=_width(), force_terminal=has_colours(), highlight=False)
    console.print(table)
    return text.getvalue()


def _width() -> int:
    return shutil.get_terminal_size().columns if _terminal() else _WIDTH


def _terminal() -> bool:
    return sys.stdout.isatty()
