"""The command lines, one module each: `make_parser(program)`, and `main(arguments, program)`.

COMMANDS lists the commands of `overlapbench`. In a checkout, where no package is installed, a
script runs each of them. A module is imported only when its command runs: the chart libraries take
most of a second to import. `@command` (command_line.py) prints the errors that `main` raises.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Any

PROGRAM = "overlapbench"


@dataclass(frozen=True)
class Command:
    name: str  # after `overlapbench`
    module: str
    script: str  # in a checkout

    @property
    def summary(self) -> str:
        """Return the first line of the manual, without importing the module."""
        source = pkgutil.get_data(__name__, f"{self.module}.py")
        assert source is not None
        return source.decode().splitlines()[0].strip('"')


COMMANDS = (
    Command("run", "run", "./bench"),
    Command("compare", "benchmark_compare", "tools/benchmark_compare.py"),
    Command("gate", "perf_gate", "tools/perf_gate.py"),
    Command("tune", "tune", "tools/tune.py"),
    Command("chart", "slowdown_chart", "tools/slowdown_chart.py"),
    Command("report", "report", "tools/report.py"),
    Command("history", "history", "tools/history.py"),
    Command("export", "export", "tools/export.py"),
    Command("merge", "merge_results", "tools/merge_results.py"),
    Command("trace", "trace_breakdown", "tools/trace_breakdown.py"),
    Command("timeline", "timeline", "tools/timeline.py"),
    Command("peers", "peers", "tools/peers.py"),
    Command("drill", "fault_drill", "tools/fault_drill.py"),
    Command("soak", "soak", "tools/soak.py"),
    Command("completion", "completion", f"{PROGRAM} completion"),
)


def load(module: str) -> Any:
    """Import a command's module."""
    return importlib.import_module(f"{__name__}.{module}")
