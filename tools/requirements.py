"""The dependencies of the package, from tools/requirements.txt, for the build of a wheel.

The file pins the packages that ./bench installs in .venv: first those that the tools import, then,
after an empty line, their dependencies. A package that is installed beside others must not restrict
them. So it requires only the former, in these versions or later.

pyproject.toml names this module; the build calls it (scikit-build-core, "dynamic metadata").
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PINNED = Path(__file__).with_name("requirements.txt")


def dynamic_metadata(
    _settings: Mapping[str, Any], _project: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the metadata of the package."""
    imported, _, _ = _PINNED.read_text(encoding="utf-8").partition("\n\n")
    lines = [line for line in imported.splitlines() if not line.startswith("#")]
    return {"dependencies": [line.replace("==", ">=", 1) for line in lines]}
