"""The overlap that Meta's HTA finds in traces of --trace_out, beside the one that we state.

    pip install holistictraceanalysis
    PYTHONPATH=tools python3 docs/examples/hta_overlap.py traces

Of each row and rank: the share of communication beside which something was computed, by HTA and by
overlapbench trace, in percent, and what they are apart. HTA takes kernels whose name begins
with `nccl` for communication; the last column names what else communicates. HTA would cut every
kernel down to whole microseconds. HTA_DISABLE_NS_ROUNDING=0 lets it.
"""

import logging
import math
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hta.trace_analysis import TraceAnalysis

from overlapbench.output import ResultError
from overlapbench.traces.breakdown import Breakdown, break_down
from overlapbench.traces.files import read_rows
from overlapbench.traces.model import Class, Trace
from overlapbench.traces.rules import Rules


def overlaps_by_hta(traces: Sequence[Trace]) -> dict[int, float]:
    """Return the overlap of each rank, once HTA has found all samples of all ranks."""
    with TemporaryDirectory() as folder:  # HTA takes all files of a folder for ranks of one run
        for trace in traces:
            (Path(folder) / Path(trace.source).name).symlink_to(Path(trace.source).resolve())
        analysis = TraceAnalysis(trace_dir=folder)
    found = {int(rank): analysis.t.get_iterations(rank) for rank in analysis.t.get_ranks()}
    ours = {t.rank: [w.number for w in t.windows if w.number is not None] for t in traces}
    if found != ours:
        sys.exit(f"{traces[0].row}: HTA finds the steps {found} of ranks, which are {ours}")
    table = analysis.get_comm_comp_overlap(visualize=False)
    return {int(r): float(o) for r, o in zip(*(table[c] for c in table.columns), strict=True)}


def unseen(one: Breakdown) -> str:
    """Return what communicates and is not one of NCCL's kernels."""
    others = {str(d.named) for d in one.differences if d.kind is Class.COMM}
    return ", ".join("copies" if named == Class.MEM else "kernels" for named in sorted(others))


logging.disable(logging.WARNING)
warnings.simplefilter("ignore", RuntimeWarning)  # of HTA, which divides by no communication
os.environ.setdefault("HTA_DISABLE_NS_ROUNDING", "1")
try:
    rows = read_rows(sys.argv[1:] or ["traces"], Rules())
except ResultError as error:
    sys.exit(f"hta_overlap: {error}")
width = max(map(len, rows))
print(f"{'row':<{width}} rank    HTA   ours  apart  not by name")
apart = []
for row, traces in rows.items():
    by_hta = overlaps_by_hta(traces)
    for one in break_down(traces):
        hta, ours, others = by_hta[one.rank], one.overlap_pct, unseen(one)
        if ours is None:
            continue  # no communication
        if not others:
            apart.append(abs(hta - ours))
        seen = "  none" if math.isnan(hta) else f"{hta:6.2f}"
        difference = "      " if others else f"{apart[-1]:6.2f}"
        print(f"{row:<{width}} {one.rank:4} {seen} {ours:6.2f} {difference}  {others}".rstrip())
if apart:
    print(f"{len(apart)} ranks with NCCL's kernels alone: at most {max(apart):.2f} points apart")
