"""overlapbench's kernels as operators of PyTorch, for models.

    from overlapbench import torch_operators

    operators = torch_operators.load()          # torch.ops.overlapbench
    y = operators.gelu(x, "erf")                # or "tanh"
    p = operators.softmax(x)                    # over the last dimension

Tensors are float32, float16 or bfloat16, of any shape, on a CUDA device; what is not contiguous is
copied first. Results are new contiguous tensors on the current stream. Gradients are recorded, and
`torch.compile` keeps the operators as they are. `torch_kernels` writes to a tensor of yours
instead, and needs no compiler.

The first `load` compiles kernels/library/torch_operators.cc with the C++ compiler (CXX, or c++)
against the installed PyTorch, which takes about 20 seconds, and keeps the result in
~/.cache/overlapbench (XDG_CACHE_HOME). The library of the kernels is the one that torch_kernels
finds.

Errors: KernelsError where the library, PyTorch or the compiler is missing or fails. An operator
raises TypeError for a wrong type, ValueError for a wrong form or shape, NotImplementedError for
another device and RuntimeError where CUDA fails, each with one line and nothing launched.
"""

import functools
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from overlapbench.installation import kernels_path, source_path
from overlapbench.torch_kernels import KernelsError, import_torch

_SOURCE = "kernels/library/torch_operators.cc"
_TIMEOUT_S = 300


@functools.cache
def load() -> Any:
    """Compile and register the operators; return torch.ops.overlapbench."""
    torch = import_torch()
    if torch.version.cuda is None:
        raise KernelsError(f"PyTorch {torch.__version__} is built without CUDA")
    kernels = kernels_path()
    if not kernels.is_file():
        raise KernelsError(f"{kernels} is missing: where nvcc is, `./bench --build-only` builds it")
    source = source_path(_SOURCE)
    if not source.is_file():
        raise KernelsError(f"{source} is missing: install the package with its sources")
    command = _compile_command(torch, source, kernels.resolve())
    built = _cache() / f"torch_operators-{_fingerprint(torch, source, command)}.so"
    if not built.is_file():
        _compile(command, built)
    torch.ops.load_library(str(built))
    return torch.ops.overlapbench


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "overlapbench"


def _fingerprint(torch: Any, source: Path, command: list[str]) -> str:
    """Name what the compiled operators depend on."""
    parts = [torch.__version__, *command, source.read_text(encoding="utf-8")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _compile_command(torch: Any, source: Path, kernels: Path) -> list[str]:
    package = Path(torch.__file__).parent
    return [
        *shlex.split(os.environ.get("CXX") or "c++"),
        *("-std=c++20", "-O2", "-shared", "-fPIC"),
        *("-isystem", str(package / "include"), f"-I{source.parent}"),
        str(source),
        *(str(kernels), f"-Wl,-rpath,{kernels.parent}"),
        *(f"-L{package / 'lib'}", "-ltorch_cpu", "-lc10"),
    ]


def _compile(command: list[str], built: Path) -> None:
    """Compile to a file of its own first: several ranks may do so at the same time."""
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
        raise KernelsError(f"{command[0]} took more than {_TIMEOUT_S} s") from None
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stderr.splitlines() if "error" in line), "no reason")
        raise KernelsError(f"{command[0]} could not compile the operators: {first}") from None
