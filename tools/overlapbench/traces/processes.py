"""The processes whose events a file contains, and which of them launched what.

Usually it is one. Mergers put several into one file, whose devices and correlations may have the
same numbers. Some write a name of each process into `pid` ("[TP01] 100"), on the host and on the
device. A span then belongs to the process of that name. Otherwise it belongs to the process whose
call launched it; if calls of several have its correlation, to the last one before it in the file.
"""

import re
from collections import defaultdict
from collections.abc import Hashable
from typing import NamedTuple

from overlapbench.traces.intervals import Interval

Process = Hashable  # a `pid`; in our own files, a rank
_NUMBER = re.compile(r"\s*\d+$")


class Call(NamedTuple):
    """A call of the host that launched work."""

    event: int  # its place in the file
    returned_ns: int
    process: Process


def name_of(process: Process) -> Process:
    """Return what the pids of a process have in common, on the host and on devices."""
    if isinstance(process, str):
        return _NUMBER.sub("", process)
    return "" if isinstance(process, int) else process


class Calls:
    """All calls of a file."""

    def __init__(self) -> None:
        self._found: dict[Process, dict[int, Call]] = defaultdict(dict)
        self._named: dict[Process, list[dict[int, Call]]] = defaultdict(list)

    def add(self, correlation: int, call: Call) -> None:
        if call.process not in self._found:
            self._named[name_of(call.process)].append(self._found[call.process])
        self._found[call.process][correlation] = call

    def launch_of(self, correlation: int | None, process: Process, event: int) -> Call | None:
        """Return the call that launched a span; `process` is the pid of its device."""
        if correlation is None:
            return None
        known = self._named.get(name_of(process)) or list(self._found.values())
        calls = [of_process[correlation] for of_process in known if correlation in of_process]
        if len(calls) > 1:
            calls.sort(key=lambda call: (call.event < event, call.event))
        return calls[-1] if calls else None

    def only_process(self, process: Process) -> Process | None:
        """Return the process that must have launched a device's work; None if several may have."""
        known = [one for one in self._found if name_of(one) == name_of(process)] or [*self._found]
        return known[0] if len(known) == 1 else None

    def hull(self) -> list[Interval]:
        """Return the time from the first return of a call to the last; empty without calls."""
        times = [call.returned_ns for calls in self._found.values() for call in calls.values()]
        return [(min(times), max(times))] if times else []
