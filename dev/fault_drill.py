#!/usr/bin/env python3
"""Inject faults into runs of the suite, and check that it keeps its promises.

    dev/fault_drill.py --backend host
    dev/fault_drill.py --backend cuda --ranks 2 --output faults.md
    dev/fault_drill.py --list --filter 'kill|stop'
    dev/fault_drill.py --ends --list
    dev/fault_drill.py --backend cuda --filter transport:
    dev/fault_drill.py --backend cuda --share-gpu \\
        --filter 'transport:(copy|sm_)'

Each drill is one job of real ranks. A fault strikes it in a phase (docs/internals/faults.md): a
process is killed or freezes, a disk fills up, a result is corrupted. The drill then compares the
time to the end, the exit status, the messages, the kept rows and the leftovers with the suite's
promises. With --ends, whole jobs are struck from outside: by a signal to the launcher, to mpirun or
to a rank, or by a full disk. It needs mpirun, and only Python's standard library.

Exit status: 0 if all promises were kept, 1 if one was broken, 2 for bad usage.
"""

import argparse
import itertools
import os
import platform
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import checkout  # noqa: F401
from drill import ends
from drill.drills import DRILLS, Drill
from drill.run import Setup, choose, run_all
from drill.table import markdown
from drill.verdict import Verdict
from overlapbench.cli.command_line import (
    command,
    ending_if_interrupted,
    exit_if_terminated,
    manual_parser,
    number_from,
)
from overlapbench.installation import bench_path, binary_path
from overlapbench.output import ResultError, print_text, replace_file, require_file

_OK, _BROKEN = 0, 1
_PROGRAM = "overlapbench_with_faults"
_BUILD = f"cmake --build --preset release --target {_PROGRAM}"


@command
def main(arguments: Sequence[str] | None, program: str) -> int:
    exit_if_terminated()
    options = make_parser(program).parse_args(arguments)
    if options.share_gpu and options.backend != "cuda":
        raise ResultError("--share-gpu needs --backend cuda")
    setup = Setup(
        options.binary, options.backend, options.ranks, options.timeout_s, options.share_gpu
    )
    try:
        wanted = re.compile(options.filter).search
    except re.error:
        raise ResultError(f"--filter: {options.filter!r} is not a regular expression") from None
    if options.ends:
        return _end(options, [end for end in ends.ENDS if wanted(end.cause)])
    drills = choose(setup, wanted)
    if not drills:
        raise ResultError(f"none of the {len(DRILLS)} drills matches --filter and --backend")
    if options.list:
        print_text("".join(f"{drill.title:60} {drill.outcome.value}\n" for drill in drills))
        return _OK
    return _strike(setup, drills, options)


def _end(options: argparse.Namespace, chosen: list[ends.End]) -> int:
    if options.list:
        print_text("".join(f"{end.cause:60} {end.says}\n" for end in chosen))
        return _OK
    _require_parts(options)
    verdicts = []
    for end in chosen:
        verdicts.append(ends.run(bench_path(options.binary), options.binary, end))
        print_text(verdicts[-1].told)
    return _conclude(options, ends.markdown(verdicts), [one.broken for one in verdicts])


def _require_parts(options: argparse.Namespace) -> None:
    if not os.access(options.binary, os.X_OK):
        raise ResultError(
            f"{options.binary} is missing or cannot be run: `{_BUILD}` builds it;"
            " or name another with --binary"
        )
    if shutil.which("mpirun") is None:
        raise ResultError("mpirun is not on PATH: install Open MPI")
    if options.output:
        require_file(options.output)


def _conclude(options: argparse.Namespace, table: str, broken: list[list[str]]) -> int:
    if options.output:
        replace_file(options.output, table.encode())
    count = sum(map(bool, broken))
    print_text(f"{len(broken)} drills, {count} broke a promise\n")
    return _BROKEN if count else _OK


def _strike(setup: Setup, drills: list[Drill], options: argparse.Namespace) -> int:
    _require_parts(options)
    numbers = itertools.count(1)
    verdicts = run_all(
        setup, drills, options.jobs, lambda one: _tell(f"[{next(numbers)}/{len(drills)}]", one)
    )
    machine = (
        f"{setup.ranks} ranks, backend {setup.backend}"
        f"{', sharing GPUs' if setup.share_gpu else ''}, {os.cpu_count()} cores, "
        f"{platform.system()} {platform.machine()}, --timeout_s={setup.timeout_s}"
    )
    return _conclude(options, markdown(verdicts, machine), [one.broken for one in verdicts])


def _tell(number: str, verdict: Verdict) -> None:
    ended, held = verdict.ended, "BROKEN" if verdict.broken else "kept"
    facts = f"{ended.seconds:5.1f} s, status {ended.status}, rows {verdict.kept}"
    print_text(f"{number} {held:6} {verdict.drill.title}: {facts}\n")
    print_text("".join(f"        {promise}\n" for promise in verdict.broken))


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    add("--backend", choices=("host", "cuda"), default="host", help="default host")
    add("--ranks", type=number_from(2), default=2, metavar="N", help="2 (default) or more")
    built = binary_path().parent / "tests" / _PROGRAM
    text = f"default build/release/tests/{_PROGRAM}"
    add("--binary", type=Path, default=built, help=text)
    text = "timeout of every wait in the jobs (default 3)"
    add("--timeout-s", type=number_from(1), default=3, metavar="N", help=text)
    text = "let ranks share GPUs: for drills of transports except NCCL's"
    add("--share-gpu", action="store_true", help=text)
    add("--filter", default="", metavar="REGEX", help="only drills whose line in --list matches")
    add("--jobs", type=number_from(1), default=1, metavar="N", help="drills at a time (default 1)")
    text = "strike whole jobs from outside, one at a time, on the host backend"
    add("--ends", action="store_true", help=text)
    add("--list", action="store_true", help="print the drills, and exit")
    add("--output", type=Path, metavar="FILE.md", help="write the table, in Markdown")
    return parser


if __name__ == "__main__":
    with ending_if_interrupted("fault_drill"):
        sys.exit(main(None, "fault_drill"))
