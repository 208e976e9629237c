"""Predict what a measured step would take with other settings, networks and more GPUs.

    overlapbench predict steps.json
    overlapbench predict steps.json --benchmark Fsdp --gpus 64,256 \\
        --network 50
    overlapbench predict steps.json --benchmark Ddp --transport nccl,copy \\
        --bucket-bytes 32M,64M
    overlapbench predict steps.json sms.json --benchmark Ddp --comm-sms 8,16
    overlapbench predict my_step.json steps.json --transport copy \\
        --bucket-bytes 64M
    overlapbench predict steps.json --benchmark Fsdp --gpus 16,64,256,1024 \\
        --network 25,50 -o scaling.svg

The files are results of `overlapbench run --predictable`, and outputs of --plan_ranks for schedules
that depend on the ranks. Traces, one per rank, are of a step of your own: it is predicted with
another transport, bucket size or prefetching, and results say what it lacks. With --comm-sms, the
kernels of collectives hold so many SMs (of NCCL: CTAs); results of Comm at several SMs say how long
they then take. Options take lists;
all combinations are predicted. A line has the time with its 95 % interval, and what it consists of:
computation; link, the communication that nothing hides; contention, works that slow each other
down; and prior, what more hosts cost by a law that was fitted to published tables and not measured
here. Where the step was measured, its time is beside it.

What was measured must suffice: a line on the error stream names what cannot be predicted, and what
to measure. docs/prediction.md has the equations, and how far predictions were off.

Exit status: 0, or 2 if a file has no schedules, if what was measured suffices for no prediction, or
if an argument is bad.
"""

import argparse
import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from overlapbench.cli.command_line import command, manual_parser, number_from, say, screen
from overlapbench.cli.trace import add_choices
from overlapbench.output import (
    ResultError,
    print_text,
    replace_file,
    require_file,
)
from overlapbench.prediction.answers import Traced, answers
from overlapbench.traces.rules import Rules
from overlapbench.view.prediction import advice, picture, text_of
from overlapbench.view.vega import PICTURES

_AXES = ("bucket_bytes", "prefetch", "comm_sms", "microbatches")


@command
def main(arguments: Sequence[str] | None, program: str) -> None:
    options = make_parser(program).parse_args(arguments)
    if options.output:
        require_file(options.output, options.files, PICTURES)
    found, refusals = answers(
        options.files,
        options.benchmark,
        gpus=options.gpus,
        nodes=options.nodes,
        network=options.network,
        latency_us=options.latency,
        transport=options.transport,
        traced=Traced(options.step, options.window, Rules(options.rules)),
        **{axis: getattr(options, axis) for axis in _AXES},
    )
    if not found:
        raise ResultError(refusals[0])
    for line in refusals:
        say(f"not predicted: {line}")
    if options.output:
        replace_file(options.output, picture(found, options.output.suffix))
    if options.json:
        documents = [dataclasses.asdict(one) | {"error": one.error} for one in found]
        print_text(json.dumps(documents, indent=1) + "\n")
    else:
        print_text(text_of(found, screen()) + advice(found, screen()))


def _list_of(read: Callable[[str], Any], what: str) -> Callable[[str], list[Any]]:
    def parse(text: str) -> list[Any]:
        try:
            return [read(part) for part in text.split(",")]
        except (ValueError, argparse.ArgumentTypeError):
            told = f"{text!r} is not {what}, or several separated by commas"
            raise argparse.ArgumentTypeError(told) from None

    return parse


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise ValueError(text)
    return value


def _word(text: str) -> str:
    if not text.isprintable() or not text or " " in text:
        raise ValueError(text)
    return text


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    counts = _list_of(number_from(1), "a whole number of at least 1")
    rates, words = _list_of(_positive, "a number above 0"), _list_of(_word, "a value")
    add("files", nargs="+", metavar="FILE", help="a result, a plan, a trace, or a glob")
    add("--benchmark", default="", metavar="REGEX", help="only these rows")
    add("--gpus", type=counts, metavar="N,...", help="how many (default: as measured)")
    add("--nodes", type=counts, metavar="N,...", help="on so many hosts (default: 8 GPUs each)")
    add("--network", type=rates, metavar="GB/s,...", help="of each GPU to other hosts, one way")
    add("--latency", type=_positive, default=5.0, metavar="US", help="of that network (default 5)")
    add("--transport", type=words, metavar="NAME,...", help="of the collectives")
    for axis in _AXES:
        flag = f"--{axis.replace('_', '-')}"
        add(flag, dest=axis, type=words, metavar="V,...", help=f"values of the axis {axis}")
    add_choices(parser)
    add("--json", action="store_true", help="print JSON")
    text = f"draw time and efficiency against the GPUs, as one of {', '.join(PICTURES)}"
    add("-o", "--output", type=Path, metavar="FILE", help=text)
    return parser
