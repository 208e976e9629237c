"""Gate a change: fail if it makes a benchmark slower, and only then.

    overlapbench gate run --base old/bench --candidate 'overlapbench run' \\
        -- --benchmark_filter=Overlap
    overlapbench gate baseline --command 'overlapbench run' --output baseline \\
        -- --benchmark_filter=Overlap
    overlapbench gate run --baseline baseline --candidate 'overlapbench run' \\
        --output gate.md

- `run` runs base and candidate in turn, compares them, measures regressions again, and fails if
  one is confirmed.
- `baseline` records runs for later.

Arguments after -- go to every run. A candidate must accept Google Benchmark's flags.
docs/comparing.md explains the decision.

Exit status of run: 0 if nothing is worse; 1 for a confirmed regression; 2 for bad usage or a
command that ended without a result (only --keep writes files then); 3 if the comparison is
inconclusive (see overlapbench compare --help) or guards too few rows (--max-floor, --min-guarded).
"""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from overlapbench.cli.command_line import (
    command,
    exit_if_terminated,
    manual_parser,
    number_from,
    percentage,
    say,
    split_at_dashes,
)
from overlapbench.cli.judging import add_judging, add_outputs, complete, require_outputs, show
from overlapbench.judge.floors import read_floors
from overlapbench.judge.runner import Runner, parse_command
from overlapbench.judge.session import (
    BASE,
    CANDIDATE,
    MIN_GUARDED,
    Session,
    read_stored,
    store,
    stored_files,
)
from overlapbench.judge.verdicts import OK
from overlapbench.output import replace_files, require_folder

# With 2, one of 20 gates of a build against itself failed on a GPU (docs/comparing.md).
LEAST_RUNS = 3


@command
def main(arguments: Sequence[str] | None, program: str) -> int:
    exit_if_terminated()
    given, flags = split_at_dashes(arguments)
    options = make_parser(program).parse_args(given)
    options.flags = [f"--benchmark_repetitions={options.repetitions}", *flags]
    return int(options.action(options))


def _run(options: argparse.Namespace) -> int:
    complete(options)
    folder, stored = options.baseline, []
    require_outputs(options.output, [*options.floors, *(stored_files(folder) if folder else ())])
    if options.keep:
        require_folder(options.keep)
    if folder:
        stored = read_stored(folder)
    commands = {CANDIDATE: options.candidate} | ({} if folder else {BASE: options.base})
    runner = make_runner(options, commands)
    with ExitStack() as rest:
        if options.keep:  # also what was measured before an error or a signal ended it
            rest.callback(replace_files, options.keep, runner.files, outdated=())
        comparison = Session(
            runner.run,
            options.runs,
            read_floors(options.floors),
            options.across,
            stored,
            options.max_floor,
            options.min_guarded,
            say,
        ).run()
        show(comparison, options)
    return comparison.status


def _baseline(options: argparse.Namespace) -> int:
    require_folder(options.output)
    runner = make_runner(options, {BASE: options.command})
    for number in range(1, options.runs + 1):
        say(f"run {number} of {options.runs}")
        runner.run(BASE, number, "")
    store(options.output, list(runner.files.values()))
    say(f"wrote {len(runner.files)} runs to {options.output}")
    return OK


def make_runner(options: argparse.Namespace, commands: dict[str, str]) -> Runner:
    words = {side: parse_command(command) for side, command in commands.items()}
    return Runner(words, options.flags, options.timeout_s, say)


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    run = actions.add_parser("run", help="compare a candidate with a base; fail if it is worse")
    run.set_defaults(action=_run)
    base = run.add_mutually_exclusive_group(required=True)
    base.add_argument("--base", metavar="COMMAND", help="command that runs the base")
    base.add_argument("--baseline", type=Path, metavar="DIR", help="recorded runs of the base")
    add = run.add_argument
    add("--candidate", required=True, metavar="COMMAND", help="command that runs the candidate")
    add_judging(run)
    text = f"fail if fewer rows are guarded (default {100 * MIN_GUARDED:g} %% of rows)"
    add("--min-guarded", type=percentage, metavar="PERCENT", help=text)
    add("--keep", type=Path, metavar="DIR", help="keep the results of all runs here")
    add_outputs(run)
    add_running(run, LEAST_RUNS)

    record = actions.add_parser("baseline", help="record runs to compare with later")
    record.set_defaults(action=_baseline)
    record.add_argument("-o", "--output", required=True, type=Path, metavar="DIR")
    record.add_argument("--command", required=True, metavar="COMMAND")
    add_running(record, 1)
    return parser


def add_running(parser: argparse.ArgumentParser, least: int) -> None:
    numbers = (
        ("--runs", 5, least, "runs per side"),
        ("--repetitions", 3, 1, "repetitions per run"),
        ("--timeout-s", 3600, 1, "timeout of a run in seconds"),
    )
    for flag, default, lowest, text in numbers:
        text += f" (default {default})"
        parser.add_argument(flag, type=number_from(lowest), default=default, metavar="N", help=text)
