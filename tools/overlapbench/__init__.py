"""overlapbench in Python: measures your own callables, and reads, compares and draws results.

    import overlapbench as ob

    print(ob.measure(comp=lambda: torch.mm(a, b, out=c), comm=lambda: dist.all_reduce(g), n=4096))

The package exports what a notebook or script needs (docs/reference.md); `dir(overlapbench)` lists
it. Each name is imported on first use, so `import overlapbench` takes no time. These are the rooms
of the house; each uses only those above it:

output, packages, installation, grouping   files written whole; optional packages; where things are

statistics   intervals of figures, estimates of changes, lines, levels: pure functions on arrays
reading      result files: the one reader, names, counters, and other formats
judge        comparing two sides of launches, the gate, the history
traces       where the time of a step goes, from a profiler's trace
measurement  measures callables as the suite measures its workloads; kernels and operators for
             PyTorch's tensors; the fixture overlap_benchmark
tune         finds the settings at which a pair takes the least time
view         what people see: charts, report, timelines, tables and texts, and their theme
cli          the command `overlapbench`: one module per command

No room is called results, measure or trace: it would hide the function of that name.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from overlapbench.judge.comparing import compare
    from overlapbench.judge.verdicts import Comparison
    from overlapbench.measurement import torch_kernels as torch_kernels
    from overlapbench.measurement import torch_operators as torch_operators
    from overlapbench.measurement.bench import do_bench
    from overlapbench.measurement.measuring import (
        MeasureError,
        Step,
        Verdict,
        Work,
        configure,
        init_torch_distributed,
        measure,
        measure_alone,
        measure_row,
        measure_schedule,
        results,
    )
    from overlapbench.reading.result import Results, read
    from overlapbench.reading.rows import Figure, Inconclusive, Row, State
    from overlapbench.view.row_chart import plot
    from overlapbench.view.tracing import TraceBreakdown, Traces, trace

__all__ = [
    "Comparison",
    "Figure",
    "Inconclusive",
    "MeasureError",
    "Results",
    "Row",
    "State",
    "Step",
    "TraceBreakdown",
    "Traces",
    "Verdict",
    "Work",
    "compare",
    "configure",
    "do_bench",
    "init_torch_distributed",
    "measure",
    "measure_alone",
    "measure_row",
    "measure_schedule",
    "plot",
    "read",
    "results",
    "trace",
]
_MODULES = ("torch_kernels", "torch_operators")
# Where a name is defined, if not in measurement.measuring.
_HOMES = {
    "Comparison": "judge.verdicts",
    "compare": "judge.comparing",
    "do_bench": "measurement.bench",
    "plot": "view.row_chart",
    **dict.fromkeys(("Results", "read"), "reading.result"),
    **dict.fromkeys(("Figure", "Inconclusive", "Row", "State"), "reading.rows"),
    **dict.fromkeys(("TraceBreakdown", "Traces", "trace"), "view.tracing"),
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.measurement.{name}")
    if name in __all__:
        home = _HOMES.get(name, "measurement.measuring")
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    if name == "__version__":
        from overlapbench import installation

        return installation.version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _picture_of(row: Any) -> str:
    """Return the picture of a row as SVG; "" without the packages of the extra `charts`."""
    from overlapbench.packages import PackageError

    try:
        return str(importlib.import_module(f"{__name__}.{_HOMES['plot']}").to_svg(row))
    except (ImportError, PackageError):
        return ""


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "__version__"})
