"""Compare results of two builds, and fail if something got worse.

    overlapbench compare base.json new.json
    overlapbench compare --base base/*.json --new new/*.json
    overlapbench compare --base 'a?.json' --new - --output diff.md <new.json

A file is the output of `overlapbench run --benchmark_out=FILE`, or any JSON of Google Benchmark.
Each file is one run. With one run per side, the decision uses the backend's recorded spread
between runs; without a recording, nothing is decided. Five runs per side detect smaller
changes. docs/comparing.md explains the decision.

Exit status: 0 nothing is worse; 1 a regression; 2 bad usage, or an unreadable file; 3 inconclusive:
incomparable, missing or invalid rows, an inconclusive row that is worse by more than its limit, or
no row that could be decided. Improvements never fail.
"""

import argparse
from collections.abc import Sequence

from overlapbench.cli.command_line import command, manual_parser
from overlapbench.cli.judging import add_judging, add_outputs, complete, require_outputs, show
from overlapbench.judge.verdicts import compare


@command
def main(arguments: Sequence[str] | None, program: str) -> int:
    options = _parse(arguments, program)
    complete(options)
    require_outputs(options.output, [*options.base, *options.new, *options.floors])
    comparison = compare(
        options.base,
        options.new,
        across=options.across,
        max_floor=options.max_floor,
        floors=options.floors,
        allow_noise=options.allow_noise,
    )
    show(comparison, options)
    return comparison.status


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    add("files", nargs="*", metavar="BASE.json NEW.json", help="one run per side; - is stdin")
    add("--base", nargs="+", action="extend", default=[], metavar="FILE", help="base runs")
    add("--new", nargs="+", action="extend", default=[], metavar="FILE", help="new runs")
    add_judging(parser)
    text = "an inconclusive row fails only if noise does not explain it, given the number of rows"
    add("--allow-noise", action="store_true", help=text)
    add_outputs(parser)
    return parser


def _parse(arguments: Sequence[str] | None, program: str) -> argparse.Namespace:
    parser = make_parser(program)
    options = parser.parse_args(arguments)
    paired = len(options.files) == 2 and not options.base and not options.new
    named = options.base and options.new and not options.files
    if not paired and not named:
        parser.error("give BASE.json and NEW.json, or --base FILE... and --new FILE...")
    if paired:
        options.base, options.new = options.files[:1], options.files[1:]
    return options
