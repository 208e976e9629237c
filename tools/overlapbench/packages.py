"""Optional packages, and the one-line error if one is missing.

with packages():
    import altair            # PackageError: package altair is not installed: pip install altair
with packages(KernelsError):
    import torch             # KernelsError, with the same line
orjson = optional("orjson")  # None if it is missing
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any


class PackageError(ImportError):
    """A package is missing; one line says which, and how to get it."""

    def __init__(self, package: str | None) -> None:
        self.lack = f"package {package} is not installed"
        super().__init__(f"{self.lack}: pip install {package}")


@contextlib.contextmanager
def packages(error: Callable[[str], BaseException] | None = None) -> Iterator[None]:
    """Import optional packages; if one is missing, raise `error` or else PackageError."""
    try:
        yield
    except ModuleNotFoundError as missing:
        told = PackageError(missing.name)
        raise (error(str(told)) if error else told) from None


def optional(name: str) -> Any:
    """Return a module, or None if it is missing."""
    with contextlib.suppress(PackageError), packages():
        return importlib.import_module(name)
    return None
