"""Find the settings at which an overlapped pair takes the least time, or energy, on this machine.

    overlapbench run --tune 'Overlap/AllGather+CublasGemm/bytes:1G'
    overlapbench run --tune AllGather+CublasGemm/bytes:64M \\
        AllReduce+CublasGemm/bytes:64M -- --timeout_s=120
    overlapbench tune --command 'overlapbench run --no-build --ranks 2' \\
        AllReduce+Gemm/bytes:8M

The search varies the transport of a collective or the engine of a copy, its SMs or CTAs, the SMs of
the computation, which side starts first, and the priorities of the streams. Settings in the pair's
name stay fixed.

The search measures at most 15 % of all combinations (8 rows if there are few), and drops those
whose interval lies above that of the best. The best and the default are then run in turn
(unless --runs is 0), and the gain has a 95 % interval. docs/laboratory.md explains the output.

With --minimise energy, or energy_time for the product of both, each evaluation takes 4 s more: a
GPU's counter changes every tenth of a second.

Arguments after -- go to every run of the program.

Exit status: 0 if every search ended, whether or not a setting beats the default; 1 if one has no
answer, because the program failed or a row was invalid; 2 if none began, for bad usage, a pair that
the program refuses, or a program that fails before; 130 if interrupted. The results so far are
printed.
"""

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

from overlapbench.cli.command_line import (
    INTERRUPTED,
    PROGRAM,
    command,
    exit_if_terminated,
    manual_parser,
    number_from,
    say,
    split_at_dashes,
)
from overlapbench.judge.runner import Runner, parse_command
from overlapbench.output import ResultError, deliver, require_file
from overlapbench.reading.names import BenchmarkName
from overlapbench.tune.machine import COMMAND, OBJECTIVES, Machine
from overlapbench.tune.report import json_of, report_of
from overlapbench.tune.space import Wish
from overlapbench.tune.study import Study, spell_time

_OK, _UNANSWERED = 0, 1
_OWN = ("--axis", "--pair", "--benchmark_")  # flags that the search itself sets
_LEAST_RUNS = 3  # per side: fewer show no spread between processes


@command
def main(arguments: Sequence[str] | None, program: str) -> int:
    exit_if_terminated()
    given, flags = split_at_dashes(arguments)
    # Flags may stand between pairs.
    options, unknown = make_parser(program).parse_known_intermixed_args(given)
    options.flags = flags
    studies: list[Study] = []
    if unknown:
        raise ResultError(f"{unknown[0]}: {_hint_at(unknown[0])}")
    wishes = [Wish.parse(pair) for pair in options.pairs]
    if twice := [i for i, wish in enumerate(wishes) if wish in wishes[:i]]:
        raise ResultError(f"{options.pairs[twice[0]]}: this pair is given twice")
    if not options.pairs:
        raise ResultError("no pair to tune; write for example AllGather+Gemm/bytes:64M")
    if options.runs != 0 and options.runs < _LEAST_RUNS:
        least = f"at least {_LEAST_RUNS} per side, or noise decides"
        raise ResultError(f"--runs: {least} (0: confirm nothing)")
    for flag in options.flags:
        if flag.startswith(_OWN):
            raise ResultError(f"{flag}: the tuner sets it; write axes as A+B/bytes:1M/n:4096")
    if options.output:
        require_file(options.output)
    ended = _tune(options, wishes, studies)
    document = json_of(studies, interrupted=not ended)
    files = {options.output: document} if options.output else {}
    deliver(document.decode() if options.json else report_of(studies), files)
    if not ended:
        return INTERRUPTED
    return _UNANSWERED if any(study.problem for study in studies) else _OK


def _hint_at(flag: str) -> str:
    if flag.startswith("--axis"):
        return "write an axis as part of the pair: A+B/n:4096"
    if flag.startswith("--benchmark_out"):
        return "--output writes the result"
    return "not a flag of the tuner; put flags of the program after --"


def _tune(options: argparse.Namespace, wishes: Sequence[Wish], studies: list[Study]) -> bool:
    """Run a study of every row; tell whether all of them finished."""
    ends = time.monotonic() + 60 * options.budget_minutes
    command = {COMMAND: parse_command(options.command)}
    runner = Runner(command, options.flags, options.timeout_s, lambda _: None)
    machine = Machine(runner, options.unit_ms, OBJECTIVES[options.minimise])
    try:
        planned = [
            _study(machine, wish.of_row(row), row, options)
            for wish in wishes
            for row in machine.rows_of(wish)
        ]
        most = sum(study.race.limit for study in planned)
        expected = spell_time(sum(study.remaining_s() for study in planned))
        say(f"tune: {len(planned)} to tune, {most} evaluations at most, about {expected}")
        for number, study in enumerate(planned):
            now = time.monotonic()
            study.deadline = now + (ends - now) / (len(planned) - number)
            studies.append(study)
            say(f"tune: {number + 1} of {len(planned)}: {study.row}, {len(study.grid)} settings")
            study.run()
    except KeyboardInterrupt:
        say("tune: interrupted")
        return False
    return True


def _study(machine: Machine, wish: Wish, row: BenchmarkName, options: argparse.Namespace) -> Study:
    """Find the settings that can be varied around a row."""
    started = time.monotonic()
    context = machine.context_of(wish, row)
    run_s = time.monotonic() - started
    grid = machine.grid_of(wish, int(str(context.get("device_multiprocessors", 0))))

    def progress(line: str) -> None:
        say(f"tune: {wish.pair}: {line}")

    return Study(machine, wish, row, context, grid, options.runs, progress, run_s=run_s)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes above 0")
    return minutes


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    text = "what to tune, as Overlap/A+B/axis:value/...: every row that it matches"
    add("pairs", nargs="*", metavar="PAIR", help=text)
    text = f"command that runs the program (default {PROGRAM} run)"
    add("--command", default=f"{PROGRAM} run", metavar="COMMAND", help=text)
    text = "what to minimise (default time)"
    add("--minimise", choices=[*OBJECTIVES], default="time", help=text)
    text = "runs of default and best to confirm the gain; 0: claim none (default 5)"
    add("--runs", type=number_from(0), default=5, metavar="N", help=text)
    text = "total minutes; the search then decides with its results so far (default: no limit)"
    add("--budget-minutes", type=_minutes, default=math.inf, metavar="M", help=text)
    text = "milliseconds of measuring per evaluation (default 100)"
    add("--unit-ms", type=number_from(1), default=100, metavar="MS", help=text)
    text = "timeout of a run in seconds (default 3600)"
    add("--timeout-s", type=number_from(1), default=3600, metavar="S", help=text)
    add("--json", action="store_true", help="print the result as JSON")
    text = "also write the result as JSON"
    add("-o", "--output", type=Path, metavar="FILE.json", help=text)
    return parser
