"""Write a result in the format of another system: a database, a dashboard, a spreadsheet.

    overlapbench export result.json -o result.csv
    overlapbench export result.json -o result.parquet
    overlapbench export result.json -o result.prom
    overlapbench export result.json --format csv --metric time \\
        --metric busbw_GBps

- `csv` has a line for each figure, with its unit, its 95 % interval and the state of its row.
- `parquet` has the same columns, for data frames and databases; it needs the package pyarrow.
- `openmetrics` is the text that Prometheus and similar systems read, in base units; it needs the
  package prometheus_client.

Without --format, the ending of the output tells the format: .csv, .parquet or .prom.

They contain every figure unless --metric chooses some. Rows that are invalid or failed have no
figures. To compare results, no export is needed: see `overlapbench compare` and `overlapbench
history`.

Exit status: 0, or 2 for bad usage, a file that is not a result, a counter that is missing, a
missing package, or an output that is not writable. One line then says what is wrong.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from overlapbench.cli.command_line import command, manual_parser
from overlapbench.output import ResultError, print_text, replace_file, require_file
from overlapbench.reading.export import BY_SUFFIX, FORMATS, figures_of
from overlapbench.reading.result import read_results


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    name = options.format or _format_of(options.output)
    if options.output:
        require_file(options.output, [options.result])
    results = read_results([options.result])
    if len(results) > 1:
        raise ResultError(f"{options.result}: {len(results)} files: export one at a time")
    content = FORMATS[name](results[0], figures_of(results[0], options.metric))
    if options.output:
        replace_file(options.output, content.encode() if isinstance(content, str) else content)
    elif isinstance(content, str):
        print_text(content)
    else:
        raise ResultError(f"--format {name}: not text: name a file with -o")


def _format_of(output: Path | None) -> str:
    if output is None or output.suffix not in BY_SUFFIX:
        told = " or ".join(BY_SUFFIX)
        raise ResultError(f"--format: missing: only -o FILE that ends in {told} tells the format")
    return BY_SUFFIX[output.suffix]


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    add("result", metavar="RESULT.json", help="a result; - is standard input")
    add("--format", choices=FORMATS, metavar="FORMAT", help="one of those below")
    text = "a counter (docs/metrics.md), or time; repeatable"
    add("--metric", action="append", default=[], metavar="NAME", help=text)
    add("-o", "--output", type=Path, metavar="FILE", help="default standard output")
    return parser
