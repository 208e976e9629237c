"""overlapbench in Python: measures your own callables, and reads, compares and draws results.

    import overlapbench as ob

    print(ob.measure(comp=lambda: torch.mm(a, b, out=c), comm=lambda: dist.all_reduce(g), n=4096))

The package exports the public names of `measurement.measuring`, imported on first use, and the
modules `torch_kernels` and `torch_operators`. `__version__` is looked up on access. These are the
rooms of the house; each uses only those above it:

output, packages, installation, grouping   files written whole; optional packages; where things are

statistics   intervals of figures, estimates of changes, lines, levels: pure functions on arrays
reading      result files: the one reader, names, counters, and other formats
judge        comparing two sides of launches, the gate, the history
traces       where the time of a step goes, from a profiler's trace
measurement  measures callables as the suite measures its workloads; kernels and operators for
             PyTorch's tensors; the fixture overlap_benchmark
tune         finds the settings at which a pair takes the least time
peers        our kernels against others, and training steps against PyTorch's
view         what people see: charts, report, timelines, tables and texts, and their theme
cli          the command `overlapbench`: one module per command

No room is called results, measure or trace: it would hide the function of that name.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from overlapbench.measurement import torch_kernels as torch_kernels
    from overlapbench.measurement import torch_operators as torch_operators
    from overlapbench.measurement.measuring import (
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
_MODULES = ("torch_kernels", "torch_operators")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"overlapbench.measurement.{name}")
    if name in __all__:
        return getattr(importlib.import_module("overlapbench.measurement.measuring"), name)
    if name == "__version__":
        from overlapbench import installation

        return installation.version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
