"""overlapbench in Python: measures your own callables, and reads, compares and draws results.

    import overlapbench as ob

    print(ob.measure(comp=lambda: torch.mm(a, b, out=c), comm=lambda: dist.all_reduce(g), n=4096))

The package exports the public names of `measuring`, imported on first use. `__version__` is looked
up on access. The command lines share the other modules:

commands      one module per command, and the table of those that `overlapbench` offers
cli           the command `overlapbench`
command_line  what all commands share
script        what the scripts in tools/ share, which run the commands in a checkout
installation  where the program, its libraries and ./bench are

measuring    measures callables as the suite measures its workloads; callables turns them into
             callbacks of the C interface, which interface declares for ctypes
torch_ranks  matches the ranks of torch.distributed and MPI; torchrun lets MPI start under torchrun
meeting      names ranks that do not reach the first measurement
pytest_plugin  the fixture overlap_benchmark, for tests of other repositories

source    files, globs and standard input, as JSON with locations for error messages
names     the parts of a benchmark's name: family, workloads, axes
counters  the table of counters in a result: units, ranges, better direction; counters.json is used
          for files without one
result    result files, validated, for charts
launch    result files, validated, for comparing: one file is one launch;
          entries and columns read its rows, all good ones at once; plain reads other suites' rows
intervals  the 95 % intervals of figures, pooled over launches
series    rows grouped into curves: their labels, and the knee of a curve
theme     colours, fonts and sizes of all charts, light and dark
charts    one file per chart: the rows it selects, and its specification;
          curves, panels and plot contain what several share
chart     the table of charts, and how an entry becomes pictures
compare   comparing two sides of launches, from statistics to outputs
gate      launching two builds in turn, and failing on confirmed regressions
history   results over time: the database, trends, changes of level
drill     injects faults into jobs, and checks that each job ends as promised
page      the HTML page that contains all charts and needs no network
picture   one drawing as a file: a picture or a page, by its suffix
packages  optional Python packages
output    files written completely or not at all
export    results in the formats of other systems, one function per format

torch_kernels  our kernels on PyTorch's tensors
torch_operators  the same kernels as PyTorch operators, compiled on first use
trace          where the time of a step goes, from a profiler's trace
peers          the measurements of tools/peers.py, our kernels against others, and of
               torch_training.py, training steps against PyTorch's
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
