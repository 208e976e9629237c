#!/usr/bin/env python3
"""Measure how much launches of one build differ, for comparisons of two files.

    dev/known_spread.py RUN.json AGAIN.json ...

Reads at least two launches of one build, with each row measured on one machine. Prints, for each
backend, the entry of KNOWN in tools/overlapbench/judge/known.py. Rows with a problem are ignored.

Exit status: 0, or 2 for bad usage, unreadable files, and a backend with a single launch.
"""

import sys
from collections.abc import Sequence

import checkout  # noqa: F401
from overlapbench.cli.command_line import manual_parser, refuse
from overlapbench.judge.known import measure_spreads
from overlapbench.judge.side import Side
from overlapbench.output import print_text
from overlapbench.reading.launch import read_launches
from overlapbench.reading.source import ResultError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = manual_parser("known_spread", __doc__)
    parser.add_argument("files", nargs="+", metavar="RUN.json", help="launches; globs")
    options = parser.parse_args(arguments)
    try:
        print_text(_measure(options.files))
    except ResultError as error:
        return refuse("known_spread", str(error))
    return 0


def _measure(files: Sequence[str]) -> str:
    launches = read_launches(files)
    lines = []
    for backend in dict.fromkeys(launch.context["backend"] for launch in launches):
        of_backend = [launch for launch in launches if launch.context["backend"] == backend]
        if len(of_backend) < 2:
            raise ResultError(
                f"{of_backend[0].source}: only one launch of {backend!r}: give at least 2"
            )
        lines.append(f'"{backend}": {{')
        spreads = measure_spreads(backend, Side.collect(backend, of_backend))
        for family, (spread, rows) in spreads.items():
            lines.append(
                f'    "{family}": Spread(relative={spread.relative:.4f},'
                f" absolute_ms={spread.absolute_ms:.5f}, freedom={spread.freedom:.1f}),"
                f"  # {rows} rows"
            )
        lines.append("},")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
