"""Defaults of a project: the table [tool.overlapbench] of the nearest pyproject.toml.

    [tool.overlapbench]
    budget_ms = 200         # per row, for ob.measure and the fixture of pytest
    precision = 2           # percent
    timeout_s = 20
    backend = "host"
    host_cores = 2
    when_noisy = "fail"     # what an inconclusive check does in a test: "skip" or "fail"
    storage = "benchmarks"  # folder of saved baselines
    max_floor = 5           # percent: the limit of overlapbench compare and gate
    min_guarded = 80        # percent of rows, of gate
    across = ["driver"]     # what may differ between compared results

What a call or a flag says comes before these. The file is searched for in the current folder and
those above it; a file without the table is passed over. A key that is unknown, or has a wrong type
or value, is a ResultError of one line.
"""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overlapbench.output import ResultError
from overlapbench.reading.source import short

_FILE, _TABLE = "pyproject.toml", "overlapbench"
# The permitted values: types, or words.
KEYS: Mapping[str, tuple[Any, ...]] = {
    "backend": ("auto", "cuda", "host"),
    "budget_ms": (int,),
    "precision": (int, float),
    "timeout_s": (int,),
    "host_cores": (int,),
    "when_noisy": ("skip", "fail"),
    "storage": (str,),
    "max_floor": (int, float),
    "min_guarded": (int, float),
    "across": (list,),
}
_NAMES = {int: "a whole number", float: "a number", str: "text", list: "a list"}


def read_defaults(folder: Path | None = None) -> dict[str, Any]:
    """Return the defaults for programs that run in `folder`, by default the current one."""
    start = (folder or Path()).resolve()
    for one in (start, *start.parents):
        if (table := _table(one / _FILE)) is not None:
            return table
    return {}


def _table(file: Path) -> dict[str, Any] | None:
    """Return the checked table of a file; None if there is no file, or no table in it."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ResultError(f"{file}: cannot be read: {error}") from None
    table = document.get("tool", {}).get(_TABLE)
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ResultError(f"{file}: tool.{_TABLE} is {short(table)}, must be a table")
    for key, value in table.items():
        if fault := _fault(key, value):
            raise ResultError(f"{file}: tool.{_TABLE}.{key}: {fault}")
    return table


def _fault(key: str, value: object) -> str:
    """Return what is wrong with an entry; "" if nothing is."""
    if key not in KEYS:
        meant = difflib.get_close_matches(key, KEYS, n=1)
        return (
            f"unknown; did you mean {meant[0]}?" if meant else f"must be one of {', '.join(KEYS)}"
        )
    allowed = KEYS[key]
    if value in allowed or type(value) in allowed:
        return ""
    names = [_NAMES[one] if one in _NAMES else repr(one) for one in allowed]
    known = names[-1] if _NAMES.keys() & set(allowed) else " or ".join(names)
    return f"is {short(value)}, must be {known}"
