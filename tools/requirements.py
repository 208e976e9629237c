"""The dependencies of the package, from tools/requirements.txt, for the build of a wheel.

The file pins what ./bench installs in .venv: first each package that the tools import, and behind
an empty line what those bring with them. A package that is installed beside others must leave them
room. So it requires the first ones alone, in these versions or later.

pyproject.toml names this module; the build calls it (scikit-build-core, "dynamic metadata").
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PINNED = Path(__file__).with_name("requirements.txt")


def dynamic_metadata(
    _settings: Mapping[str, Any], _project: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return what is to be known of the package."""
    imported, _, _ = _PINNED.read_text(encoding="utf-8").partition("\n\n")
    lines = [line for line in imported.splitlines() if not line.startswith("#")]
    return {"dependencies": [line.replace("==", ">=", 1) for line in lines]}
