"""overlapbench in Python: measures your own callables, and reads, compares and draws results.

    import overlapbench as ob

    print(ob.measure(comp=lambda: torch.mm(a, b, out=c), comm=lambda: dist.all_reduce(g), n=4096))

The package exports what a notebook or script needs (docs/reference.md); `dir(overlapbench)` lists
it. Each name is imported on first use, so `import overlapbench` takes no time. These are the rooms
of the house; each uses only those above it:

output, packages, installation, grouping   files written whole; optional packages; where things are

statistics   intervals of figures, estimates of changes, lines, levels: pure functions on arrays
reading      result files: the one reader, names, counters, and other formats
judge        comparing two sides of runs, the gate, the history
traces       where the time of a step goes, from a profiler's trace
findings     what to change, and what it saves, from rows and traces; how settings are made today
measurement  measures callables as the suite measures its workloads; kernels for PyTorch's tensors;
             the fixture overlap_benchmark
prediction   what a step would take with other settings, networks and more GPUs
tune         finds the settings at which a pair takes the least time or energy
view         what people see: charts, report, timelines, tables and texts, and their theme
cli          the command `overlapbench`: one module per command

No room is called results, measure, predict or trace: it would hide the function of that name.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from overlapbench.judge.verdicts import Comparison as Comparison
    from overlapbench.judge.verdicts import compare as compare
    from overlapbench.measurement import torch_kernels as torch_kernels
    from overlapbench.measurement.bench import do_bench as do_bench
    from overlapbench.measurement.callables import Verdict as Verdict
    from overlapbench.measurement.callables import Work as Work
    from overlapbench.measurement.interface import MeasureError as MeasureError
    from overlapbench.measurement.measuring import Step as Step
    from overlapbench.measurement.measuring import configure as configure
    from overlapbench.measurement.measuring import init_torch_distributed as init_torch_distributed
    from overlapbench.measurement.measuring import measure as measure
    from overlapbench.measurement.measuring import measure_alone as measure_alone
    from overlapbench.measurement.measuring import measure_row as measure_row
    from overlapbench.measurement.measuring import measure_schedule as measure_schedule
    from overlapbench.measurement.measuring import results as results
    from overlapbench.prediction.answers import predict as predict
    from overlapbench.prediction.model import Prediction as Prediction
    from overlapbench.reading.result import Results as Results
    from overlapbench.reading.result import read as read
    from overlapbench.reading.rows import Figure as Figure
    from overlapbench.reading.rows import Inconclusive as Inconclusive
    from overlapbench.reading.rows import Row as Row
    from overlapbench.reading.rows import State as State
    from overlapbench.view.row_chart import plot as plot
    from overlapbench.view.tracing import TraceBreakdown as TraceBreakdown
    from overlapbench.view.tracing import Traces as Traces
    from overlapbench.view.tracing import trace as trace

# The module of each name; as above, which only type checkers read.
_HOMES = {
    name: home
    for home, names in {
        "judge.verdicts": "Comparison compare",
        "measurement.bench": "do_bench",
        "measurement.callables": "Verdict Work",
        "measurement.interface": "MeasureError",
        "measurement.measuring": "Step configure init_torch_distributed measure measure_alone"
        " measure_row measure_schedule results",
        "prediction.answers": "predict",
        "prediction.model": "Prediction",
        "reading.result": "Results read",
        "reading.rows": "Figure Inconclusive Row State",
        "view.row_chart": "plot",
        "view.tracing": "TraceBreakdown Traces trace",
    }.items()
    for name in names.split()
}
_MODULES = ("torch_kernels",)
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.measurement.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
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
    return sorted({*_HOMES, *_MODULES, "__version__"})
