"""Packages that Python may lack, and the one line that says so.

with packages():
    import altair            # PackageError: Python has no altair: pip install altair
with packages(KernelsError):
    import torch             # KernelsError, with the same line
orjson = optional("orjson")  # None where it is missing
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any


class PackageError(ImportError):
    """One line: which package Python lacks."""


@contextlib.contextmanager
def packages(error: Callable[[str], BaseException] = PackageError) -> Iterator[None]:
    """Import in this context what may be missing; raise an error of that line where it is."""
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        raise error(f"Python has no {package}: pip install {package}") from missing


def optional(name: str) -> Any:
    """Return a module, or None where Python lacks it."""
    with contextlib.suppress(PackageError), packages():
        return importlib.import_module(name)
    return None
