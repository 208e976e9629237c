"""Compare our GELU and softmax with PyTorch's, torch.compile's and Triton's on one GPU.

    overlapbench peers -o peers
    overlapbench peers -o gelu --what gelu --types float32 --sizes 2^22,2^26 --directions forward
    overlapbench peers -o softmax --what softmax --columns 1K,50257,256K
    overlapbench peers --from peers/peers.json -o charts
    overlapbench peers --host

All peers of a case, and a device copy that moves the same bytes, work on the same tensors. Their
samples alternate, each with a cold L2. Before a peer is timed, its whole result is compared with
the definition in double precision. A peer that is wrong, or cannot run, gets no time and is named.

The tool writes peers.json, the table as peers.txt and, if Altair is installed, a chart for each
operation as PNG and SVG. --from draws figures that were measured elsewhere. --host prints the
host's time per call. Needs PyTorch with CUDA, Triton and liboverlapbench_kernels.so
(overlapbench/measurement/torch_kernels.py says where).

Exit status: 0; 1 if a peer was wrong or failed; 2 if a requirement is missing, an argument is bad,
or a file is not readable or writable. One line then says what is wrong.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from overlapbench import torch_kernels
from overlapbench.cli.command_line import manual_parser, refuse
from overlapbench.installation import kernels_path
from overlapbench.output import print_text, replace_files, require_folder
from overlapbench.packages import PackageError, packages
from overlapbench.peers.arguments import list_of, one_of, size
from overlapbench.peers.cases import (
    COPY,
    DIRECTIONS,
    ELEMENT_BYTES,
    Case,
    Figure,
    plan_gelu,
    plan_softmax,
    summarize,
)
from overlapbench.peers.reader import read_figures
from overlapbench.peers.report import render_table, to_json
from overlapbench.reading.source import ResultError, load

_PICTURES = {f"peers_{what}.{kind}" for what in ("gelu", "softmax") for kind in ("png", "svg")}


def main(arguments: Sequence[str] | None = None, program: str = "overlapbench peers") -> int:
    options = make_parser(program).parse_args(arguments)
    try:
        if options.host:
            return _compare_host_costs(options.rounds)
        if options.figures:
            context, figures = read_figures(options.figures, load(options.figures))
        else:
            _require_machine()
            require_folder(options.output)
            context, figures = _context(), _measure(_cases(options), options.rounds)
        table = render_table(figures)
        files = {"peers.json": to_json(context, figures), "peers.txt": table.encode()}
        pictures, lacking = _pictures(figures, context)
        files |= pictures
        replace_files(options.output, files, outdated=_PICTURES - files.keys())
        lacks = f"{lacking}\n" if lacking else ""
        print_text(f"{table}wrote {', '.join(sorted(files))} to {options.output}\n{lacks}")
    except (ResultError, OSError, torch_kernels.KernelsError) as error:
        return refuse(program, str(error))
    return 1 if any(figure.problem for figure in figures) else 0


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = manual_parser(program, __doc__)
    add = parser.add_argument
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("-o", "--output", type=Path, metavar="DIR")
    form.add_argument("--host", action="store_true", help="compare the host time per call")
    add("--what", choices=("gelu", "softmax", "all"), default="all")
    add("--types", type=list_of(one_of(ELEMENT_BYTES)), default=list(ELEMENT_BYTES), metavar="T,T")
    add("--directions", type=list_of(one_of(DIRECTIONS)), default=list(DIRECTIONS), metavar="D,D",
        help="for GELU: forward, backward")  # fmt: skip
    add("--sizes", type=list_of(size), default=[1 << p for p in (22, 24, 26, 28)], metavar="N,N",
        help="elements of GELU: 4096, 64M, 2^26")  # fmt: skip
    add("--columns", type=list_of(size), default=[1 << p for p in range(10, 19)], metavar="N,N",
        help="row lengths of softmax")  # fmt: skip
    add("--matrix-bytes", type=size, default=1 << 29, metavar="BYTES",
        help="size of softmax's matrix: 512M")  # fmt: skip
    add("--rounds", type=size, default=21, metavar="N", help="samples of each peer")
    add("--from", dest="figures", metavar="FILE", help="draw this file's figures; measure nothing")
    return parser


def _compare_host_costs(rounds: int) -> int:
    _require_machine()
    import torch

    from overlapbench.peers.host_cost import render, time_calls, works_on_gpu

    context = _context()
    costs = time_calls(works_on_gpu(), torch.cuda.synchronize, rounds)
    print_text(f"{context['device']}, {context['torch']}, {rounds} batches\n{render(costs)}")
    return 0


def _cases(options: argparse.Namespace) -> list[Case]:
    cases: list[Case] = []
    if options.what != "gelu":
        cases += plan_softmax(options.types, options.columns, options.matrix_bytes)
    if options.what != "softmax":
        cases += plan_gelu(options.types, options.sizes, options.directions)
    return cases


def _require_machine() -> None:
    with packages(ResultError):
        import torch
        import triton  # noqa: F401

    if not torch.cuda.is_available():
        raise ResultError("PyTorch sees no CUDA device")
    torch_kernels.load_library(kernels_path())


def _context() -> dict[str, str]:
    import torch
    import triton

    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name(),
        "torch": f"PyTorch {torch.__version__}",
        "cuda": str(torch.version.cuda),
        "triton": str(triton.__version__),
    }


def _measure(cases: Sequence[Case], rounds: int) -> list[Figure]:
    from overlapbench.peers.timing import ColdSampler

    sampler = ColdSampler()
    figures: list[Figure] = []
    for number, case in enumerate(cases, 1):
        of_case = list(_measure_case(case, sampler, rounds))
        figures += of_case
        line = f"[{number}/{len(cases)}] {case.series} {case.rows}×{case.columns}:"
        told = (f"{one.peer} {one.problem or f'{one.ms:.4f} ms'}" for one in of_case)
        print(line, ", ".join(told), file=sys.stderr, flush=True)
    return figures


def _measure_case(case: Case, sampler: Any, rounds: int) -> Iterator[Figure]:
    import torch

    from overlapbench.peers.contestants import Contest
    from overlapbench.peers.timing import time_alternately

    torch.compiler.reset()  # it compiles a function only for a few shapes
    contest = Contest(case)
    works = contest.works()
    errors, problems = {COPY: 0.0}, {}
    for peer, work in works.items():
        try:
            errors[peer] = contest.error(work)
            if errors[peer] > 1:
                problems[peer] = f"wrong result: {errors[peer]:.3g} times the allowed error"
        except Exception as error:  # a failure of one peer must not stop the others
            problems[peer] = f"failed: {type(error).__name__}: {str(error).splitlines()[0]}"
    good = {peer: work for peer, work in works.items() if peer not in problems}
    times = time_alternately(sampler, {COPY: contest.copy(), **good}, rounds)
    for peer in (COPY, *works):
        if peer in problems:
            yield Figure(case, peer, problem=problems[peer])
        else:
            yield Figure(case, peer, *summarize(times[peer]), len(times[peer]), errors[peer])


def _pictures(figures: Sequence[Figure], context: dict[str, str]) -> tuple[dict[str, bytes], str]:
    """Return the charts, or the reason why there are none."""
    try:
        with packages():
            from overlapbench.view.peers_chart import draw
    except PackageError as missing:
        return {}, f"no chart: {missing.lack}: draw elsewhere with --from"
    return draw(figures, context), ""
