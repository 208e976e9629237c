"""How settings are made today, in PyTorch, Megatron-LM, NCCL and others: apply.toml.

docs/apply.md contains the same table; dev/update_reference.py writes it.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overlapbench.output import ResultError

# The columns of docs/apply.md; a line begins with the first library that has the setting.
COLUMNS = {
    "PyTorch": ("PyTorch",),
    "Megatron-LM, TransformerEngine, DeepSpeed": ("Megatron-LM", "TransformerEngine", "DeepSpeed"),
    "NCCL, CUDA, cuBLASLt": ("NCCL", "CUDA", "cuBLASLt"),
}
ABSENT = "none known"
_STORED = Path(__file__).with_name("apply.toml")


@dataclass(frozen=True)
class Advice:
    """What to set, and what else to do."""

    variables: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)  # fields of ncclConfig_t
    notes: tuple[str, ...] = ()


def _load() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(_STORED.read_text(encoding="utf-8"))


APPLY = _load()


def advise(settings: Mapping[str, str]) -> Advice:
    """Return what settings that differ from the default mean."""
    variables: dict[str, str] = {}
    config: dict[str, str] = {}
    for entry, value in _entries(settings):
        variables |= {key: _filled(text, value) for key, text in entry.get("variables", {}).items()}
        config |= {key: _filled(text, value) for key, text in entry.get("config", {}).items()}
    return Advice(variables, config, tuple(ways_of(settings)))


def ways_of(settings: Mapping[str, str]) -> list[str]:
    """Return a line for each library that has a setting, and notes."""
    return [
        f"{library}: {_filled(entry[library], value)}"
        if library != "note"
        else _filled(entry[library], value)
        for entry, value in _entries(settings)
        for library in (*_LIBRARIES, "note")
        if library in entry
    ]


def takes_a_kernel(settings: Mapping[str, str]) -> bool:
    """Tell whether settings take a kernel, or copies, of one's own."""
    return any(entry.get("kernel") for entry, _ in _entries(settings))


_LIBRARIES = [library for column in COLUMNS.values() for library in column]


def _entries(settings: Mapping[str, str]) -> list[tuple[Mapping[str, Any], str]]:
    keys = ((f"{axis}:{value}", axis, value) for axis, value in settings.items())
    found = ((APPLY.get(exact, APPLY.get(axis)), value) for exact, axis, value in keys)
    return [(entry, value) for entry, value in found if entry is not None]


def _filled(text: str, value: str) -> str:
    mebibytes = str(int(value) >> 20) if value.isdecimal() else "MIB"
    return text.replace("{MiB}", mebibytes).replace("{}", value or "N")


# ---- docs/apply.md

_FIRST_LINE = f"| Setting | {' | '.join(COLUMNS)} |"


def with_table(page: str) -> str:
    """Return the page with its table replaced; ResultError if it has none."""
    before, found, after = page.partition(_FIRST_LINE)
    if not found:
        raise ResultError(f"docs/apply.md: no table begins with {_FIRST_LINE}")
    rest = after.partition("\n\n")[2]
    lines = [_FIRST_LINE, f"|{'---|' * (len(COLUMNS) + 1)}", *map(_line, APPLY)]
    return before + "\n".join(lines) + "\n\n" + rest


def _line(key: str) -> str:
    entry = APPLY[key]
    cells = [
        "<br>".join(_cell(entry, one, column) for one in column if _has(entry, one))
        for column in COLUMNS.values()
    ]
    note = f"<br>{entry['note'].replace('{}', 'N')}" if "note" in entry else ""
    own = "<br>needs code of your own" if entry.get("kernel") else ""
    return f"| `{key}`{own}{note} | {' | '.join(cell or ABSENT for cell in cells)} |"


def _has(entry: Mapping[str, Any], library: str) -> bool:
    return library in entry or (library == "NCCL" and "variables" in entry)


def _cell(entry: Mapping[str, Any], library: str, column: tuple[str, ...]) -> str:
    told = [_filled(entry[library], "")] if library in entry else []
    if library == "NCCL" and "variables" in entry:
        told += [f"`{key}={value.replace('{}', 'N')}`" for key, value in entry["variables"].items()]
        told += [f"`config.{key} = {x.replace('{}', 'N')}`" for key, x in entry["config"].items()]
    text = ", ".join(told)
    return text if column == (library,) else f"{library}: {text}"
