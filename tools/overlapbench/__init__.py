"""overlapbench in Python: measuring your own callables, and all that reads and draws results.

    import overlapbench as ob

    print(ob.measure(comp=lambda: torch.mm(a, b, out=c), comm=lambda: dist.all_reduce(g), n=4096))

What this package exports is measuring's, which is imported by its first use. `__version__` is found
when it is asked for. The rest is shared by the command lines:

commands      a module each, and the table of those that `overlapbench` offers
cli           the command `overlapbench`
command_line  what all of them share
script        what the scripts in tools/ share, which run them in a checkout
installation  where the program, its libraries and ./bench are

measuring    measuring callables as the suite measures its workloads; callables makes them the
             callbacks of the C interface, which interface declares for ctypes
torch_ranks  the ranks of torch.distributed and those of MPI; torchrun lets MPI start under torchrun
meeting      a rank that does not come to the first measurement
pytest_plugin  the fixture overlap_benchmark, for tests of other repositories

source    files, globs and standard input, as JSON that can say where it is wrong
names     what a benchmark's name says: family, workloads, axes
counters  the table of counters that a result carries: units, ranges, which way is better;
          counters.json stands for that of files which have none
result    result files, validated, for charts
launch    result files, validated, for comparing: one file is one launch;
          entries and columns read its rows, the many good ones at once
series    rows grouped into curves: their labels, and the knee of a curve
theme     colours, fonts and sizes of all charts, light and dark
charts    one chart a file: which rows it takes, and its specification;
          curves, panels and sweep hold what several share
chart     the table of charts, and how an entry becomes pictures
compare   comparing two sides of launches, from statistics to outputs
gate      launching two builds in turn, and failing on what is confirmed
history   results over time: the database, trends, changes of level
drill     striking jobs with faults, and holding their end against what is promised
page      the HTML page that holds all charts and needs no network
picture   one drawing as a file, a picture or a page by its suffix
packages  packages that Python may lack
output    files written whole or not at all
export    results in the formats of other systems, a function each

torch_kernels  our kernels on PyTorch's tensors
torch_operators  the same as operators of PyTorch, compiled when first used
trace          where the time of a step goes, from a trace of a profiler
peers          what tools/peers.py measures, our kernels against others, and torch_training.py,
               training steps against PyTorch's
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from overlapbench.measuring import (
        MeasureError,
        Row,
        Step,
        Verdict,
        Work,
        configure,
        do_bench,
        init_torch_distributed,
        measure,
        measure_alone,
        measure_row,
        measure_schedule,
        results,
    )

__all__ = [
    "MeasureError",
    "Row",
    "Step",
    "Verdict",
    "Work",
    "configure",
    "do_bench",
    "init_torch_distributed",
    "measure",
    "measure_alone",
    "measure_row",
    "measure_schedule",
    "results",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("overlapbench.measuring"), name)
    if name == "__version__":
        from overlapbench import installation

        return installation.version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
