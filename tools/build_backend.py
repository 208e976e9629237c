"""The build backend for pip: scikit-build-core, with the program and libraries if nvcc is found.

pip calls these functions (PEP 517). `pip install . -C wheel.cmake=false` omits the program even if
nvcc is found; `-C wheel.cmake=true` builds it without nvcc, for the host backend only. An editable
installation (`pip install -e .`) uses the program that ./bench builds in the checkout.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from scikit_build_core import build
from scikit_build_core.build import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

Settings = Mapping[str, Any] | None
_WITH_PROGRAM = "wheel.cmake"


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return the packages that the build needs: CMake and ninja only for the program."""
    return list(build.get_requires_for_build_wheel(_settings(config_settings)))


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel into the folder, and return its file's name."""
    settings = _settings(config_settings)
    try:
        return str(build.build_wheel(wheel_directory, settings, metadata_directory))
    except SystemExit:
        if settings[_WITH_PROGRAM] == "true":
            hint = f"to install only the Python tools, add -C {_WITH_PROGRAM}=false"
            print(f"The program could not be built, see above; {hint}", file=sys.stderr)
        raise


def _settings(given: Settings) -> dict[str, Any]:
    return {_WITH_PROGRAM: str(_finds_nvcc()).lower()} | dict(given or {})


def _finds_nvcc() -> bool:
    """Search the same places as cmake/enable_cuda.cmake."""
    named = os.environ.get("CUDACXX")
    if named is not None:
        return shutil.which(named) is not None
    folders = [os.environ.get("PATH", ""), "/usr/local/cuda/bin"]
    if "CUDA_HOME" in os.environ:
        folders.append(f"{os.environ['CUDA_HOME']}/bin")
    return shutil.which("nvcc", path=os.pathsep.join(folders)) is not None
