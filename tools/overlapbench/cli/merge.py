"""Merge the results of several runs on one machine into one file.

    overlapbench merge -o result.json first.json second.json third.json
    overlapbench merge -o result.json    # only checks that it is writable

overlapbench run calls it for `--axis connections=1,8,32`, which needs a run for each value. The
context is the first run's, with the environment values of all runs. A benchmark in several runs is
taken from the first of them, and a line says how many such benchmarks there are. The result is
incomplete if a run ended early or its file is missing. Needs only Python's standard library.

Exit status: 0, or 2 if a file is not a result of this suite, if two runs were not measured in the
same way, if no file exists, or if the output is not writable.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from overlapbench.cli.command_line import command, manual_parser
from overlapbench.output import ResultError, counted, replace_file, require_file
from overlapbench.reading.counters import PARTS
from overlapbench.reading.source import (
    Document,
    check_context,
    failed_self_test,
    load,
    read_incomplete,
)

# Context keys that identify the machine and the build.
_ALIKE = ("backend", "device", "ranks", "hosts", "git_revision", "driver_version", "nccl_version")
_OF_ENVIRONMENT = "env_"


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    require_file(options.output, options.results)
    if options.results:
        merged, again = merge(options.results)
        replace_file(options.output, (json.dumps(merged, indent=2) + "\n").encode())
        if again:
            are = "is" if again == 1 else "are"
            line = f"{counted(again, 'benchmark')} {are} in several runs: only the first is kept"
            print(f"{program}: {line}", file=sys.stderr)


def merge(paths: Sequence[Path]) -> tuple[dict[str, Any], int]:
    """Return the document of all runs, and how many benchmarks are repeated in a later run."""
    documents = {path: _read(str(path)) for path in paths if path.exists()}
    if not documents:
        raise ResultError(f"{paths[0]}: missing, and so are the others: nothing to merge")
    first, *others = documents.values()
    for other in others:
        _require_alike(first, other)
    merged: dict[str, Any] = {"context": _context([*documents.values()])}
    merged |= {name: first.values[name] for name in PARTS if name in first.values}
    merged["benchmarks"], again = _united([*documents.values()])
    if reasons := [*_incomplete(paths, documents)]:
        merged["incomplete"] = "; ".join(reasons)
    return merged, again


def _read(source: str) -> Document:
    document = Document.parse(source, load(source))
    check_context(document.context)
    return document


def _require_alike(first: Document, other: Document) -> None:
    for key in _ALIKE:
        mine, theirs = first.context.line(key), other.context.line(key)
        if mine != theirs:
            raise other.context.error(key, f"{theirs!r}, but {mine!r} in {first.source}")
    for name in PARTS:
        if first.values.get(name) != other.values.get(name):
            raise ResultError(f"{other.source}: {name}: differs from {first.source}")


def _context(documents: Sequence[Document]) -> dict[str, object]:
    contexts = [document.context.values for document in documents]
    context = dict(contexts[0])
    for one in contexts[1:]:
        context |= {key: value for key, value in one.items() if key not in context}
    for key in context:
        if key.startswith(_OF_ENVIRONMENT):
            values = dict.fromkeys(str(one.get(key, "not set")) for one in contexts)
            context[key] = ", ".join(values)
    # If one run cannot be trusted, neither can the file.
    context |= next(({"self_test": c["self_test"]} for c in contexts if failed_self_test(c)), {})
    return context


def _united(runs: Sequence[Document]) -> tuple[list[Mapping[str, object]], int]:
    """Return the rows of all runs, each benchmark from only one of them."""
    rows: list[Mapping[str, object]] = []
    known: set[str] = set()
    again: set[str] = set()
    families = 0
    for run in runs:
        named = [(row.name(), row) for row in run.rows]
        again |= known.intersection(name for name, _ in named)
        first = families  # Google Benchmark counts families from 0 in each run.
        for name, row in named:
            family = int(row.number("family_index")) if "family_index" in row.values else 0
            if name not in known:
                rows.append({**row.values, "family_index": first + family})
                families = max(families, first + family + 1)
        known.update(name for name, _ in named)
    return rows, len(again)


def _incomplete(paths: Sequence[Path], documents: Mapping[Path, Document]) -> Iterator[str]:
    for path in paths:
        if path not in documents:
            yield f"{path.name}: missing"
        elif reason := read_incomplete(documents[path]):
            yield f"{path.name}: {reason}"


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    add("results", nargs="*", type=Path, metavar="RESULT.json", help="in the order of the runs")
    add("-o", "--output", required=True, type=Path, metavar="FILE.json")
    return parser
