"""Gate a change: fail if it makes a benchmark slower, and only then.

    tools/perf_gate.py run --base old/bench --candidate './bench' -- --benchmark_filter=Overlap
    tools/perf_gate.py baseline --command './bench' --output baseline -- --benchmark_filter=Overlap
    tools/perf_gate.py calibrate --command './bench' --output baseline/spreads.toml
    tools/perf_gate.py run --baseline baseline --candidate './bench' --output gate.md
    tools/perf_gate.py trial --command './bench' --slower 'Compute/Gemm/.*grid:16x16/work:tile=3,5'

- `run` launches base and candidate in turn, compares them, measures regressions again, and fails if
  one is confirmed.
- `baseline` records launches for later.
- `calibrate` measures how much launches of one build differ.
- `trial` gates one build against itself, and against benchmarks slowed by some percent, and counts
  how often the gate was right.

Arguments after -- go to every launch. A candidate must accept Google Benchmark's flags.
docs/comparing.md explains the decision.

Exit status of run: 0 if nothing is worse; 1 for a confirmed regression; 2 for bad usage or a
command that ended without a result (no file is written); 3 if the comparison is inconclusive (see
tools/benchmark_compare.py --help) or guards too few rows (--max-floor, --min-guarded). Of trial: 0
if every gate was right, 1 if one was not, 2 as above.
"""

import argparse
import re
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from overlapbench.cli.command_line import (
    exit_if_terminated,
    manual_parser,
    number_from,
    refuse,
    split_at_dashes,
)
from overlapbench.cli.judging import (
    add_judging,
    add_outputs,
    complete,
    percentage,
    require_outputs,
    show,
)
from overlapbench.judge import baseline, trials
from overlapbench.judge.floors import format_spreads, read_floors
from overlapbench.judge.runner import Runner, parse_command
from overlapbench.judge.session import BASE, CANDIDATE, MIN_GUARDED, Session
from overlapbench.judge.verdicts import OK, REGRESSION, Comparison
from overlapbench.output import deliver, replace_file, replace_files, require_file, require_folder
from overlapbench.reading.launch import Launch
from overlapbench.reading.source import ResultError

# With 2, one of 20 gates of a build against itself failed on a GPU (docs/comparing.md).
_LEAST_LAUNCHES = 3


def main(arguments: Sequence[str] | None = None, program: str = "perf_gate") -> int:
    exit_if_terminated()
    given, flags = split_at_dashes(arguments)
    options = make_parser(program).parse_args(given)
    options.flags = [f"--benchmark_repetitions={options.repetitions}", *flags]
    try:
        return int(options.action(options))
    except ResultError as error:
        return refuse(program, str(error))
    except OSError as error:
        return refuse(program, f"{error.filename}: cannot be written: {error.strerror}")


def _run(options: argparse.Namespace) -> int:
    complete(options)
    stored_files = baseline.files_of(options.baseline) if options.baseline else []
    spreads = baseline.spreads_of(options.baseline) if options.baseline else []
    require_outputs(options.output, [*options.floors, *stored_files])
    if options.keep:
        require_folder(options.keep)
    _require_launches(options)
    stored = baseline.read_baseline(options.baseline) if options.baseline else []
    commands = {CANDIDATE: options.candidate}
    if options.base is not None:
        commands[BASE] = options.base
    runner = _runner(options, commands)
    comparison = Session(
        runner.launch,
        options.launches,
        read_floors([*spreads, *options.floors]),
        options.across,
        stored,
        options.max_floor,
        options.min_guarded,
        _say,
    ).run()
    with ExitStack() as rest:
        if options.keep:
            rest.callback(replace_files, options.keep, runner.files, outdated=())
        show(comparison, options.format, options.output, options.all)
    return comparison.status


def _baseline(options: argparse.Namespace) -> int:
    require_folder(options.output)
    runner = _runner(options, {BASE: options.command})
    _measure(runner, options.launches)
    baseline.store(options.output, list(runner.files.values()))
    _say(f"wrote {len(runner.files)} launches to {options.output}")
    return OK


def _calibrate(options: argparse.Namespace) -> int:
    if options.launches < 3:
        raise ResultError("--launches: a spread needs at least 3 launches; 10 is a good choice")
    require_file(options.output)
    launches = _measure(_runner(options, {BASE: options.command}), options.launches)
    spreads = baseline.calibrate(launches)
    replace_file(options.output, format_spreads(spreads).encode())
    _say(f"wrote the spreads of {len(spreads)} benchmarks to {options.output}")
    return OK


def _trial(options: argparse.Namespace) -> int:
    _require_launches(options)
    if options.output:
        require_file(options.output)
    started = time.monotonic()
    first = _runner(options, {BASE: options.command}).launch(BASE, 1, "")
    planned = [*[trials.Trial()] * options.gates, *trials.delays(options.slower, first)]

    ended: list[trials.Ended] = []
    for number, trial in enumerate(planned, 1):
        if time.monotonic() - started > 60 * options.minutes:
            _say(f"{len(planned) - len(ended)} gates skipped: the time limit (--minutes) is over")
            break
        _say(f"gate {number} of {len(planned)}: {trial}")
        ended.append(trials.Ended.of(trial, _gate_on(trial, options)))
        _say(f"  {ended[-1]}")
    text = trials.table(ended)
    deliver(text, {options.output: text.encode()} if options.output else {})
    return OK if all(one.right for one in ended) else REGRESSION


def _gate_on(trial: trials.Trial, options: argparse.Namespace) -> Comparison:
    slowed = shlex.join([*parse_command(options.command), *trial.flags])
    runner = _runner(options, {BASE: options.command, CANDIDATE: slowed})

    def measure(side: str, number: int, names: str) -> Launch:
        # A second measurement may have only other benchmarks: the program would refuse the delay.
        return runner.launch(side if trial.concerns(names) else BASE, number, names)

    return Session(measure, options.launches, say=_say).run()


def _require_launches(options: argparse.Namespace) -> None:
    if options.launches < _LEAST_LAUNCHES:
        raise ResultError(
            f"--launches: a gate needs at least {_LEAST_LAUNCHES} launches per side, or it fails"
            " without cause; 5 is a good choice"
        )


def _runner(options: argparse.Namespace, commands: dict[str, str]) -> Runner:
    words = {side: parse_command(command) for side, command in commands.items()}
    return Runner(words, options.flags, options.timeout_s, _say)


def _measure(runner: Runner, launches: int) -> list[Launch]:
    made = []
    for number in range(1, launches + 1):
        _say(f"launch {number} of {launches}")
        made.append(runner.launch(BASE, number, ""))
    return made


def _say(line: str) -> None:
    """Report progress."""
    print(line, file=sys.stderr, flush=True)


def _slower(text: str) -> tuple[str, list[float]]:
    pattern, _, percents = text.rpartition("=")
    try:
        re.compile(pattern)
        numbers = [float(percent) for percent in percents.split(",")]
    except (re.error, ValueError):
        numbers = []
    if not pattern or not numbers or not all(0 < number <= 1000 for number in numbers):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not REGEX=PERCENT,... with percentages up to 1000"
        )
    return pattern, numbers


def _add_number(parser: argparse.ArgumentParser, flag: str, default: int, meaning: str) -> None:
    text = f"{meaning} (default {default})"
    parser.add_argument(flag, type=number_from(1), default=default, metavar="N", help=text)


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    run = actions.add_parser("run", help="compare a candidate with a base; fail if it is worse")
    base = run.add_mutually_exclusive_group(required=True)
    base.add_argument("--base", metavar="COMMAND", help="command that launches the base")
    base.add_argument("--baseline", type=Path, metavar="DIR", help="recorded launches of the base")
    add = run.add_argument
    add("--candidate", required=True, metavar="COMMAND", help="command that launches the candidate")
    add_judging(run)
    text = f"fail if fewer rows are guarded (default {100 * MIN_GUARDED:g} %% of rows)"
    add("--min-guarded", type=percentage, metavar="PERCENT", help=text)
    add("--all", action="store_true", help="also list unchanged rows")
    add("--keep", type=Path, metavar="DIR", help="keep the results of all launches here")
    add_outputs(run)

    record = actions.add_parser("baseline", help="record launches to compare with later")
    record.add_argument("-o", "--output", required=True, type=Path, metavar="DIR")

    measure = actions.add_parser("calibrate", help="measure how far launches of one build differ")
    measure.add_argument("-o", "--output", required=True, type=Path, metavar="FILE.toml")

    trial = actions.add_parser("trial", help="count how often the gate is right on this machine")
    _add_number(trial, "--gates", 20, "gates of the command against itself")
    add = trial.add_argument
    text = "also gate with the matching benchmark slowed by each percentage; repeatable"
    percents = "REGEX=PERCENT,..."
    add("--slower", action="append", default=[], type=_slower, metavar=percents, help=text)
    _add_number(trial, "--minutes", 24 * 60, "minutes after which no new gate starts")
    add("-o", "--output", type=Path, metavar="FILE.md", help="write the table, in Markdown")

    kinds = (
        (run, _run, 5),
        (record, _baseline, 5),
        (measure, _calibrate, 10),
        (trial, _trial, 5),
    )
    for action, function, launches in kinds:
        action.set_defaults(action=function)
        if action is not run:
            action.add_argument("--command", required=True, metavar="COMMAND")
        _add_number(action, "--launches", launches, "launches per side")
        _add_number(action, "--repetitions", 3, "repetitions per launch")
        _add_number(action, "--timeout-s", 3600, "timeout of a launch in seconds")
    return parser
