"""How rows are measured: what a call says, what `configure` has said, and the project's defaults.

Each setting has three places, and the first one that has a value decides: the call's parameter,
`configure`, and [tool.overlapbench] in pyproject.toml (reading/project.py). Without any, the
default is that of ./bench.

AXES and OF_ROWS may differ from row to row. The others belong to the process: the backend is
opened, and known delays are measured, once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from overlapbench.measurement.interface import MeasureError
from overlapbench.reading.project import read_defaults

AXES = ("cache", "cadence", "first", "streams", "comp_sms", "comp_priority", "comm_priority")
OF_ROWS = ("budget_ms", "precision", "timeout_s", "warmup_ms")
OF_PROCESS = ("backend", "host_cores", "gate", "self_test", "predictable")
DEFAULT_TIMEOUT_S = 60  # that of ./bench


@dataclass
class Settings:
    """The settings of this process, and those of its next rows."""

    given: dict[str, Any] = field(default_factory=dict)
    opened: bool = False
    _defaults: dict[str, Any] | None = None

    def update(self, values: Mapping[str, Any]) -> None:
        """Keep the values that are not None; MeasureError for one that comes too late."""
        changed = {name: value for name, value in values.items() if value is not None}
        late = [name for name in OF_PROCESS if self.opened and name in changed]
        if late and changed[late[0]] != self.value(late[0]):
            raise MeasureError(f"configure({late[0]}=) comes before the first measurement")
        self.given |= changed

    def value(self, name: str) -> Any:
        """Return a setting; None: the default of ./bench."""
        if self._defaults is None:
            self._defaults = read_defaults()
        return self.given.get(name, self._defaults.get(name))

    def flags_of_process(self) -> list[str]:
        """Return the flags with which the suite is opened."""
        flags = _flags({name: self.value(name) for name in ("backend", "host_cores", *OF_ROWS)})
        if self.value("gate") is False:
            flags.append("--gate=off")
        if self.value("self_test") is False:
            flags.append("--no-self-test")
        if self.value("predictable"):
            flags.append("--predictable")
        return flags

    def flags_of_row(self, of_call: Mapping[str, Any]) -> list[str]:
        """Return the flags of a row; a call's None leaves a setting as it is."""
        of_call = {name: value for name, value in of_call.items() if value is not None}
        return _flags({name: of_call.get(name, self.value(name)) for name in OF_ROWS})


def _flags(values: Mapping[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items() if value is not None]
