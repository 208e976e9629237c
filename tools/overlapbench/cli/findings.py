"""What to change, and what it would save: at most seven findings from results.

    overlapbench findings result.json
    overlapbench findings 'result.connections-*.json' --json

A finding is a sentence with its figure and 95 % interval, the figures behind it, and what to
change. It compares two rows of a file that differ in one setting, or says what one row could save
at most. There is none unless it surely saves 2 % of the time. Files of one machine that differ in
CUDA_DEVICE_MAX_CONNECTIONS are compared, too. Rows of --energy also tell whether hiding
communication saves energy, or only time. docs/apply.md says how changes are made today.

Exit status: 0, with findings or without; 2 if a file is not a result of this suite.
"""

import argparse
import json
from collections.abc import Sequence

from overlapbench.cli.command_line import command, manual_parser, screen
from overlapbench.findings.energy import energy_answer
from overlapbench.findings.finding import LEAST, text_of
from overlapbench.findings.rules import find
from overlapbench.output import print_text
from overlapbench.reading.result import read_results
from overlapbench.view.console import paragraph


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    results = read_results(options.results)
    found = find(results)
    if options.json:
        print_text(json.dumps([one.to_dict() for one in found], indent=1) + "\n")
    else:
        energy = paragraph(energy_answer(results), screen())
        told = text_of(found, screen().width) + (f"{energy}\n" if energy else "")
        if not told and not options.quiet and any(one.backend == "cuda" for one in results):
            told = f"No findings: no change surely saves {100 * LEAST:.0f} % of a row's time.\n"
        print_text(told)


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    parser.add_argument("results", nargs="+", metavar="RESULT.json", help="a result, a glob, or -")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--quiet", action="store_true", help="without findings, print nothing")
    return parser
