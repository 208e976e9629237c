"""The table of commands, one module each: `make_parser(program)`, and `main(arguments, program)`.

COMMANDS lists the commands of `overlapbench`. In a checkout, where no package is installed, a
script runs each of them. A module is imported only when its command runs: the chart libraries take
most of a second to import. `@command` (command_line.py) prints the errors that `main` raises.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path
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
        source = pkgutil.get_data(__package__, f"{self.module}.py")
        assert source is not None
        return source.decode().splitlines()[0].strip('"')


COMMANDS = (
    Command("run", "run", "./bench"),
    Command("compare", "compare", "tools/benchmark_compare.py"),
    Command("gate", "gate", "tools/perf_gate.py"),
    Command("tune", "tune", "tools/tune.py"),
    Command("chart", "chart", "tools/slowdown_chart.py"),
    Command("report", "report", "tools/report.py"),
    Command("history", "history", "tools/history.py"),
    Command("export", "export", "tools/export.py"),
    Command("merge", "merge", "tools/merge_results.py"),
    Command("trace", "trace", "tools/trace_breakdown.py"),
    Command("timeline", "timeline", "tools/timeline.py"),
    Command("peers", "peers", "tools/peers.py"),
    Command("completion", "completion", f"{PROGRAM} completion"),
)


def script_name(module: str) -> str:
    """Return the name of a module's script, or its own."""
    name = module.rpartition(".")[2]
    scripts = {one.module: Path(one.script).stem for one in COMMANDS if ".py" in one.script}
    return scripts.get(name, name)


def load(module: str) -> Any:
    """Import a command's module."""
    return importlib.import_module(f"{__package__}.{module}")
