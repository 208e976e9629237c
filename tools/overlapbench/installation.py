"""Where the parts of the suite are: the checkout, the program, its libraries and ./bench.

The package is part of a checkout, or pip installed it. An installed package has a folder `suite`
with the layout of a checkout. It contains ./bench, and the binaries if the wheel was built with
CMake. Binaries are searched for in this order:

1. at the path in OVERLAPBENCH_BINARY, OVERLAPBENCH_LIBRARY or OVERLAPBENCH_KERNELS;
2. in the folder `suite`, in build/release;
3. in the checkout of the package, or else of the current folder, in build/release.

The module also defines how ranks are started on one host.
"""

import os
import re
from pathlib import Path

# As in ./bench: for root, for containers, and for more ranks than cores.
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}
MPIRUN = ("mpirun", "--quiet", "--oversubscribe", "--bind-to", "none")

_PACKAGE = Path(__file__).resolve().parent
_BUILT = "build/release"
_VERSION = re.compile(r"^project\(overlapbench VERSION ([\d.]+)", re.MULTILINE)


def checkout() -> Path | None:
    """Return the checkout that the package is a part of."""
    root = _PACKAGE.parents[1]
    return root if _is_checkout(root) else None


def way_to_build() -> str:
    """Return the command that builds a missing program or library."""
    if checkout():
        return "`./bench --build-only` builds it"
    return "`pip install CHECKOUT -C wheel.cmake=true` installs it"


def version() -> str:
    """Return the version, from CMakeLists.txt or the metadata of the installed package."""
    root = checkout()
    if root is None:
        import importlib.metadata  # takes longer than the help of all commands

        return importlib.metadata.version("overlapbench")
    found = _VERSION.search((root / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert found
    return found[1]


def binary_path() -> Path:
    """Return the program's path; the file is missing if nothing is built."""
    return _built("overlapbench", "OVERLAPBENCH_BINARY")


def library_path() -> Path:
    """Return the path of the library for measuring (interface/overlapbench.h)."""
    return _built("liboverlapbench.so", "OVERLAPBENCH_LIBRARY")


def kernels_path() -> Path:
    """Return the path of the library of kernels."""
    return _built("liboverlapbench_kernels.so", "OVERLAPBENCH_KERNELS")


def bench_path(binary: Path) -> Path:
    """Return the path of ./bench, preferably in the folder that contains the program."""
    homes = [home for home in _homes() if (home / "bench").is_file()]
    own = [home for home in homes if binary.is_relative_to(home)]
    return (own or homes or [_PACKAGE / "suite"])[0] / "bench"


def _built(name: str, variable: str) -> Path:
    named = os.environ.get(variable)
    if named:
        return Path(named)
    places = [home / _BUILT / name for home in _homes()]
    return next((place for place in places if place.exists()), places[-1])


def _homes() -> list[Path]:
    """Return the folders with the layout of a checkout, nearest to the package first."""
    here = Path.cwd()
    around = next(filter(_is_checkout, (here, *here.parents)), None)
    own = checkout() or around
    return [_PACKAGE / "suite", *([own] if own else [])]


def _is_checkout(root: Path) -> bool:
    return (root / "bench").is_file() and (root / "CMakeLists.txt").is_file()
