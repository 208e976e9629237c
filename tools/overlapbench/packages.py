"""Optional packages, and the one-line error if one is missing.

with packages():
    import altair            # PackageError: package altair is not installed: pip install ...
with packages(KernelsError):
    import torch             # KernelsError, with the same line
zstandard = optional("zstandard")  # None if it is missing
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

# The extra of ours that brings a package; others are installed by their own names.
_EXTRAS = {
    **dict.fromkeys(("altair", "jinja2", "markupsafe", "vl_convert"), "charts"),
    "pyarrow": "parquet",
    "prometheus_client": "openmetrics",
}


class PackageError(ImportError):
    """A package is missing; one line says which, and which extra of ours, or package, to get."""

    def __init__(self, package: str | None) -> None:
        self.lack = f"package {package} is not installed"
        extra = _EXTRAS.get(package or "")
        wanted = f"'overlapbench[{extra}]'" if extra else package
        super().__init__(f"{self.lack}: pip install {wanted}")


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
