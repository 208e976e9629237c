"""Check whether this machine overlaps as it should, or find the node that differs among many.

    overlapbench doctor
    overlapbench doctor -o node1.json -o node1.svg -- --ranks 2
    overlapbench doctor --reference 'healthy*.json'
    overlapbench doctor --compare 'node*.json'

Measures links, copies, clocks, launches, priorities and overlapped pairs for at most two minutes,
and compares them with recorded results of this GPU model. A check is good, suspicious, bad or not
available. What is suspicious or too noisy is measured twice. docs/doctor.md explains each line.

--reference adds results of healthy machines; three or more where the model is unknown, as on the
host backend.

Arguments after -- go to the program.

Exit status: 0 if nothing is suspicious or bad; 1 if something is; 2 if the program did not run to
its end, or nothing could be judged.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from overlapbench.cli.command_line import (
    PROGRAM,
    command,
    exit_if_terminated,
    manual_parser,
    number_from,
    say,
    screen,
    split_at_dashes,
)
from overlapbench.cli.doctoring import specification, text_of_differences, text_of_outcomes
from overlapbench.doctor.checks import Outcome, confirmed, doubtful, judge
from overlapbench.doctor.nodes import Difference, compared, differences, require_comparable
from overlapbench.doctor.recordings import (
    SCHEMA,
    Recording,
    read_recording,
    stored,
    without_copies,
)
from overlapbench.doctor.rules import Verdict, all_rows
from overlapbench.doctor.visit import SIDE, Visit
from overlapbench.judge.runner import Runner, parse_command
from overlapbench.output import ResultError, deliver, expand, require_file
from overlapbench.view.vega import PICTURES, Spec

_GOOD, _ALARM, _NOTHING = 0, 1, 2
_OWN = ("--axis", "--pair", "--benchmark_", "--rank_times_out")  # flags that the doctor sets
_LEAST_LEFT = 0.6  # of the time of the first run: what a second look may need


@command
def main(arguments: Sequence[str] | None, program: str) -> int:
    exit_if_terminated()
    given, flags = split_at_dashes(arguments)
    options = make_parser(program).parse_args(given)
    for flag in flags:
        if flag.startswith(_OWN):
            raise ResultError(f"{flag}: the doctor sets it")
    for file in options.output:
        endings = (".json", *(() if options.compare else PICTURES))
        require_file(file, [*options.compare, *options.reference], endings)
    if any(file.suffix in PICTURES for file in options.output):
        from overlapbench.view import page  # before a minute of measuring

        options.render = page.render
    healthy = map(read_recording, expand(options.reference))
    references = without_copies([*stored(), *healthy])
    if options.compare:
        return _compare(options, references)
    return _examine(options, flags, references)


def _examine(
    options: argparse.Namespace, flags: Sequence[str], references: Sequence[Recording]
) -> int:
    began = time.monotonic()
    runner = Runner(
        {SIDE: parse_command(options.command)}, flags, options.timeout_s, lambda _: None
    )
    visit = Visit(runner, began + options.timeout_s, say)
    say(f"doctor: measuring, for at most {options.timeout_s} s")
    machine = visit.measure(all_rows())
    again = doubtful(machine, references)
    took_s = time.monotonic() - began
    if again and time.monotonic() + _LEAST_LEFT * took_s < visit.deadline:
        say(f"doctor: {len(again)} of {len(machine.figures)} rows measured again")
        machine = confirmed(machine, visit.measure(again), references)
    outcomes = judge(machine, references)
    verdict = max((one.verdict for one in outcomes if one.verdict.alarms), default=Verdict.GOOD)
    document = {
        "doctor_schema": SCHEMA,
        "verdict": str(verdict),
        "seconds": round(time.monotonic() - began, 1),
        "doubts": visit.doubts,
        "checks": [one.to_dict() for one in outcomes],
        "recording": asdict(machine),
    }
    text = text_of_outcomes(outcomes, machine, references, screen())
    text += "".join(f"{doubt}\n" for doubt in visit.doubts)
    _deliver(options, document, text, specification(outcomes, machine))
    return _status(verdict, outcomes, visit.doubts)


def _status(verdict: Verdict, outcomes: Sequence[Outcome], doubts: Sequence[str]) -> int:
    if verdict.alarms:
        return _ALARM
    figures = [one for one in outcomes if one.row and one.verdict is not Verdict.UNKNOWN]
    return _GOOD if figures and not doubts else _NOTHING


def _compare(options: argparse.Namespace, references: Sequence[Recording]) -> int:
    nodes = [read_recording(source) for source in expand(options.compare)]
    require_comparable(nodes)
    found = differences(nodes, references)
    document = {
        "doctor_schema": SCHEMA,
        "nodes": [one.file for one in nodes],
        "differences": [_told(one) for one in found],
    }
    checks = compared(nodes, references)
    text = text_of_differences(found, nodes, screen())
    _deliver(options, document, text + "no figure could be compared\n" * (not checks), {})
    return _ALARM if found else _GOOD if checks else _NOTHING


def _told(one: Difference) -> dict[str, object]:
    return vars(one) | {"verdict": str(one.verdict)}


def _deliver(options: argparse.Namespace, document: object, text: str, picture: Spec) -> None:
    written = json.dumps(document, indent=1) + "\n"
    files = {
        file: options.render(picture, file.suffix) if file.suffix in PICTURES else written.encode()
        for file in options.output
    }
    deliver(written if options.json else text, files)


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    text = "results of the doctor, each of a node: find the one that differs, and measure nothing"
    add("--compare", nargs="+", default=[], metavar="NODE.json", help=text)
    text = "results of the doctor on healthy machines, to compare with"
    add("--reference", nargs="+", default=[], metavar="HEALTHY.json", help=text)
    text = f"command that runs the program (default {PROGRAM} run)"
    add("--command", default=f"{PROGRAM} run", metavar="COMMAND", help=text)
    text = "seconds for everything (default 120)"
    add("--timeout-s", type=number_from(1), default=120, metavar="S", help=text)
    add("--json", action="store_true", help="print the result as JSON")
    text = f"also write the result as .json, or draw it as one of {', '.join(PICTURES)}; repeatable"
    add("-o", "--output", action="append", default=[], type=Path, metavar="FILE", help=text)
    return parser
