"""How settings are made today, in PyTorch, Megatron-LM, NCCL and others: apply.toml.

docs/apply.md contains the same table; dev/update_apply.py writes it.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LIBRARIES = (
    *("PyTorch", "Megatron-LM", "TransformerEngine", "DeepSpeed", "NCCL", "CUDA", "cuBLASLt"),
)
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
        variables |= {key: filled(text, value) for key, text in entry.get("variables", {}).items()}
        config |= {key: filled(text, value) for key, text in entry.get("config", {}).items()}
    return Advice(variables, config, tuple(ways_of(settings)))


def ways_of(settings: Mapping[str, str]) -> list[str]:
    """Return a line for each library that has a setting, and notes."""
    return [
        f"{library}: {filled(entry[library], value)}"
        if library != "note"
        else filled(entry[library], value)
        for entry, value in _entries(settings)
        for library in (*_LIBRARIES, "note")
        if library in entry
    ]


def takes_a_kernel(settings: Mapping[str, str]) -> bool:
    """Tell whether settings take a kernel, or copies, of one's own."""
    return any(entry.get("kernel") for entry, _ in _entries(settings))


def _entries(settings: Mapping[str, str]) -> list[tuple[Mapping[str, Any], str]]:
    keys = ((f"{axis}:{value}", axis, value) for axis, value in settings.items())
    found = ((APPLY.get(exact, APPLY.get(axis)), value) for exact, axis, value in keys)
    return [(entry, value) for entry, value in found if entry is not None]


def filled(text: str, value: str) -> str:
    """Return a text of the table with the value of its setting; "" stands for any."""
    mebibytes = str(int(value) >> 20) if value.isdecimal() else "MIB"
    return text.replace("{MiB}", mebibytes).replace("{}", value or "N")
