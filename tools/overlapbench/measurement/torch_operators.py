"""overlapbench's kernels as operators of PyTorch, for models.

    from overlapbench import torch_operators

    operators = torch_operators.load()
    y = operators.gelu(x, "erf")                # or "tanh"
    p = operators.softmax(x)                    # over the last dimension

Tensors are float32, float16 or bfloat16, of any shape, on a CUDA device; the operators first copy
those that are not contiguous. Results are new contiguous tensors on the current stream. Autograd
records gradients, and `torch.compile` leaves the operators as they are. `torch_kernels` can instead
write to an existing tensor, and needs no compiler.

The operators are also registered as torch.ops.overlapbench.gelu, gelu_backward and softmax. A call
through torch.ops costs the host a microsecond or two more.

The first `load` compiles kernels/library/torch_operators.cc and torch_calls.cc with the C++
compiler (CXX, or c++) against the installed PyTorch, which takes about 30 seconds, and keeps the
result in ~/.cache/overlapbench (XDG_CACHE_HOME). If Python's headers are missing (Debian:
python3-dev), it omits torch_calls.cc, and calls go through torch.ops. The operators use the kernel
library that torch_kernels finds.

Errors: `load` raises KernelsError if the library, PyTorch or the compiler is missing or fails. An
operator raises TypeError for a wrong type, ValueError for a wrong form or shape,
NotImplementedError for another device and RuntimeError if CUDA fails, each with one line and
nothing launched.
"""

import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlapbench.installation import kernels_path, source_path, way_to_build
from overlapbench.measurement.torch_kernels import KernelsError, import_torch

_OPERATORS = "kernels/library/torch_operators.cc"
_CALLS = "kernels/library/torch_calls.cc"
_CALLS_MODULE = "overlapbench_torch_calls"
_TIMEOUT_S = 300


@dataclass(frozen=True)
class Operators:
    """The operators, as functions of the tensors that the module's docstring lists."""

    gelu: Callable[..., Any]
    """gelu(x, form="tanh"): GELU of every element, by "tanh" or "erf"."""
    softmax: Callable[[Any], Any]
    """softmax(x): softmax over the last dimension."""


@functools.cache
def load() -> Operators:
    """Compile the operators if necessary, register them, and return them."""
    torch = import_torch()
    if torch.version.cuda is None:
        raise KernelsError(f"PyTorch {torch.__version__} is built without CUDA")
    kernels = kernels_path()
    if not kernels.is_file():
        raise KernelsError(f"{kernels} is missing: where nvcc is, {way_to_build()}")
    has_calls = (_python_headers() / "Python.h").is_file()
    sources = [source_path(name) for name in ((_OPERATORS, _CALLS) if has_calls else (_OPERATORS,))]
    for source in sources:
        if not source.is_file():
            raise KernelsError(f"{source} is missing: install the package with its sources")
    command = _compile_command(torch, sources, kernels.resolve())
    built = _cache() / f"torch_operators-{_fingerprint(torch, sources, command)}.so"
    if not built.is_file():
        _compile(command, built)
    torch.ops.load_library(str(built))
    by_name = torch.ops.overlapbench
    if not has_calls:
        return Operators(by_name.gelu, by_name.softmax)
    return _direct(torch.compiler.is_compiling, by_name, _module(built))


def _direct(is_compiling: Callable[[], bool], by_name: Any, calls: Any) -> Operators:
    """Call the operators directly, or by name if PyTorch traces or a tensor is not plain."""

    def gelu(x: Any, form: str = "tanh") -> Any:
        if is_compiling():
            return by_name.gelu(x, form)
        y = calls.gelu(x, form)
        return by_name.gelu(x, form) if y is NotImplemented else y

    def softmax(x: Any) -> Any:
        if is_compiling():
            return by_name.softmax(x)
        y = calls.softmax(x)
        return by_name.softmax(x) if y is NotImplemented else y

    return Operators(gelu, softmax)


def _module(built: Path) -> Any:
    """Import the functions of torch_calls.cc."""
    loader = importlib.machinery.ExtensionFileLoader(_CALLS_MODULE, str(built))
    spec = importlib.util.spec_from_loader(_CALLS_MODULE, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _python_headers() -> Path:
    return Path(sysconfig.get_paths()["include"])


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "overlapbench"


def _fingerprint(torch: Any, sources: Sequence[Path], command: list[str]) -> str:
    """Return a hash of everything that the compiled operators depend on."""
    texts = [source.read_text(encoding="utf-8") for source in sources]
    parts = [torch.__version__, sys.version, *command, *texts]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _compile_command(torch: Any, sources: Sequence[Path], kernels: Path) -> list[str]:
    package = Path(torch.__file__).parent
    includes = (package / "include", package / "include/torch/csrc/api/include", _python_headers())
    libraries = ("torch_python", "torch_cuda", "torch_cpu", "c10")
    return [
        *shlex.split(os.environ.get("CXX") or "c++"),
        *("-std=c++20", "-O2", "-shared", "-fPIC"),
        *(part for folder in includes for part in ("-isystem", str(folder))),
        f"-I{sources[0].parent}",
        *map(str, sources),
        *(str(kernels), f"-Wl,-rpath,{kernels.parent}"),
        *(f"-L{package / 'lib'}", *(f"-l{name}" for name in libraries)),
    ]


def _compile(command: list[str], built: Path) -> None:
    """Compile to a temporary file first: several ranks may compile at the same time."""
    try:
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            new = Path(folder) / built.name
            print("compiling overlapbench's operators for PyTorch", file=sys.stderr)
            subprocess.run(
                [*command, "-o", str(new)],
                check=True,
                timeout=_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            new.replace(built)
    except OSError as error:
        raise KernelsError(f"the operators cannot be compiled into {built}: {error}") from None
    except subprocess.TimeoutExpired:
        raise KernelsError(
            f"{command[0]} took more than {_TIMEOUT_S} s to compile the operators"
        ) from None
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stderr.splitlines() if "error" in line), "no message")
        raise KernelsError(f"{command[0]} could not compile the operators: {first}") from None
