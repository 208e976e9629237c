"""overlapbench's kernels on PyTorch's CUDA tensors, without copying.

    from overlapbench import torch_kernels as kernels

    y = kernels.gelu(x, "erf")
    grad_x = kernels.gelu_backward(grad_y, x, "erf")
    p = kernels.softmax(x)                        # over the last dimension
    c = kernels.grid_gemm(a, b, grid=(16, 16))    # the grid chooses how many SMs it occupies

Each function enqueues one kernel on the current stream of the tensors' device and returns at once.
The result goes to `out`, or to a new tensor. They record nothing for autograd.

The library is liboverlapbench_kernels.so in build/release (a build with CUDA), or the file that
OVERLAPBENCH_KERNELS names (overlapbench/installation.py). The first call imports PyTorch.

A function refuses unsupported arguments with a one-line error and launches nothing: TypeError if an
argument is not a tensor of float32, float16 or bfloat16, ValueError for a wrong device, layout,
shape, form, grid or work. KernelsError: the library is missing or a launch failed.
"""

import ctypes
import functools
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from overlapbench.installation import kernels_path, way_to_build
from overlapbench.measurement.interface import Functions, open_library
from overlapbench.packages import packages

Tensor = Any  # torch.Tensor: PyTorch is not needed to import this module or to check its types

FORMS: Mapping[str, int] = {"tanh": 0, "erf": 1}
WORKS: Mapping[str, int] = {"tile": 0, "full": 1}
_TYPES: Mapping[str, int] = {"torch.float32": 0, "torch.float16": 1, "torch.bfloat16": 2}
_TILE = 16  # rows and columns of C that a block of grid_gemm computes
_WORKSPACE_BYTES = 1 << 21  # of a softmax
_CUDA_FAILED = 6  # the status of a failed CUDA call; the others are bad arguments

_INT, _LONG, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
_FUNCTIONS: Functions = {
    "gelu_forward": ([_INT, _INT, _INT, _POINTER, _POINTER, _LONG, _POINTER], _INT),
    "gelu_backward": ([_INT, _INT, _INT, _POINTER, _POINTER, _POINTER, _LONG, _POINTER], _INT),
    "softmax_forward": ([_INT, _INT, _POINTER, _POINTER, _LONG, _LONG, _POINTER, _POINTER], _INT),
    "grid_gemm": ([_INT, _POINTER, _POINTER, _POINTER, _LONG, _INT, _INT, _INT, _POINTER], _INT),
    "last_error": ([], ctypes.c_char_p),
}


class KernelsError(RuntimeError):
    """The library is missing or has another version, or CUDA refused the launch."""


@functools.cache
def load_library(path: Path) -> ctypes.CDLL:
    """Load the library of kernels; if it is missing, KernelsError says what to do."""
    remedy = f"where nvcc is, {way_to_build()}; or set OVERLAPBENCH_KERNELS to its path"
    return open_library(path, _FUNCTIONS, remedy, KernelsError)


def gelu(x: Tensor, form: str = "tanh", out: Tensor | None = None) -> Tensor:
    """Return gelu(x).

    x     of any shape, float32, float16 or bfloat16, contiguous on a CUDA device
    form  "tanh", the approximation, or "erf"
    out   of the type, shape and device of `x`; may be `x`; None: a new tensor

    TypeError     an argument is not a tensor, or has an unsupported type
    ValueError    an unsupported form, device, layout or shape, an empty tensor, or one that
                  requires a gradient while gradients are recorded
    KernelsError  the library or PyTorch is missing, or the launch failed
    """
    _check_choice("form", form, FORMS)
    _check("x", x)
    out = _result(x, out)
    _call("gelu_forward", x, _TYPES[str(x.dtype)], FORMS[form], x, out, x.numel())
    return out


def gelu_backward(
    grad_output: Tensor, x: Tensor, form: str = "tanh", out: Tensor | None = None
) -> Tensor:
    """Return grad_output·gelu'(x).

    grad_output  of the type, shape and device of `x`
    x            the input of gelu
    form         the form that gelu used
    out          as in gelu; may be `x` or `grad_output`

    TypeError, ValueError, KernelsError  as gelu
    """
    _check_choice("form", form, FORMS)
    _check("x", x)
    _check_like(x, "grad_output", grad_output)
    out = _result(x, out)
    type_code = _TYPES[str(x.dtype)]
    _call("gelu_backward", x, type_code, FORMS[form], x, grad_output, out, x.numel())
    return out


def softmax(x: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the softmax over the last dimension.

    x    of at least one dimension, otherwise as in gelu
    out  as in gelu; must not overlap `x`

    ValueError               as gelu; or `x` has no dimension
    TypeError, KernelsError  as gelu
    """
    _check("x", x)
    if x.dim() == 0:
        raise ValueError("x has no dimension to take the softmax over")
    out = _result(x, out)
    columns = x.shape[-1]
    rows = x.numel() // columns
    workspace = _softmax_workspace(x.device)
    _call("softmax_forward", x, _TYPES[str(x.dtype)], x, out, rows, columns, workspace)
    return out


def grid_gemm(
    a: Tensor, b: Tensor, grid: tuple[int, int], work: str = "tile", out: Tensor | None = None
) -> Tensor:
    """Return A·B of float32 n×n matrices, with a grid of grid[0]×grid[1] blocks of 16×16 threads.

    With work "full" the grid strides over all of C. With "tile" each block computes one tile: the
    kernel writes the first 16·grid[1] rows and 16·grid[0] columns of C. The rest of `out` stays as
    it was, or is zero if `out` is not given.

    a     n×n, float32, contiguous on a CUDA device; n is a multiple of 16
    b     as `a`
    grid  columns and rows of blocks: with "tile" up to n/16 each, with "full" up to 32768
    work  "tile" or "full"
    out   as `a`; must overlap neither

    TypeError     an argument is not a tensor of float32
    ValueError    an unsupported shape, device, layout, grid or work
    KernelsError  as gelu
    """
    _check_choice("work", work, WORKS)
    _check("a", a)
    if str(a.dtype) != "torch.float32":
        raise TypeError(f"a is {a.dtype}, must be torch.float32")
    if a.dim() != 2 or a.shape[0] != a.shape[1] or a.shape[0] % _TILE:
        raise ValueError(f"a is {_shape(a)}, must be n×n with n a multiple of {_TILE}")
    _check_like(a, "b", b)
    n = int(a.shape[0])
    grid_x, grid_y = _checked_grid(grid, n // _TILE if work == "tile" else 32768)
    if out is None and work == "tile":
        out = import_torch().zeros_like(a)
    out = _result(a, out)
    _call("grid_gemm", a, a, b, out, n, grid_x, grid_y, WORKS[work])
    return out


def import_torch() -> Any:
    """Import PyTorch on the first call, and return it; KernelsError if it is missing."""
    with packages(KernelsError):
        return importlib.import_module("torch")


def _check(name: str, tensor: Tensor) -> None:
    if not isinstance(tensor, import_torch().Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}, must be a torch.Tensor")
    if str(tensor.dtype) not in _TYPES:
        raise TypeError(f"{name} is {tensor.dtype}, must be one of {', '.join(_TYPES)}")
    if tensor.device.type != "cuda":
        raise ValueError(f"{name} is on {tensor.device}, must be on a CUDA device")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous: pass {name}.contiguous()")
    if tensor.numel() == 0:
        raise ValueError(f"{name} is empty, of shape {_shape(tensor)}")
    if tensor.requires_grad and import_torch().is_grad_enabled():
        raise ValueError(f"{name} requires a gradient, which is not recorded: pass {name}.detach()")


def _check_like(model: Tensor, name: str, tensor: Tensor) -> None:
    """Refuse a tensor that differs in type, device or shape from `model`, which was checked."""
    _check(name, tensor)
    if tensor.dtype != model.dtype:
        raise TypeError(f"{name} is {tensor.dtype}, must be {model.dtype} like the other tensor")
    if tensor.device != model.device:
        raise ValueError(f"{name} is on {tensor.device}, the other tensor on {model.device}")
    if tensor.shape != model.shape:
        raise ValueError(f"{name} is {_shape(tensor)}, must be {_shape(model)}")


def _check_choice(name: str, value: object, choices: Mapping[str, int]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}, must be {' or '.join(map(repr, choices))}")


def _checked_grid(grid: object, most: int) -> tuple[int, int]:
    match grid:
        case (int(x), int(y)) if 1 <= x <= most and 1 <= y <= most:
            return x, y
    raise ValueError(f"grid is {grid!r}, must be two whole numbers from 1 to {most}")


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "a single number"


def _result(like: Tensor, out: Tensor | None) -> Tensor:
    if out is None:
        return import_torch().empty_like(like)
    _check_like(like, "out", out)
    return out


def _softmax_workspace(device: Any) -> Tensor:
    """Return memory, initially zero, that no softmax on another stream uses."""
    torch = import_torch()
    with torch.cuda.device(device):
        if torch.cuda.is_current_stream_capturing():  # then the graph must include the zeroing
            return torch.zeros(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
    return _workspace_of_stream(device, torch.cuda.current_stream(device).cuda_stream)


@functools.cache
def _workspace_of_stream(device: Any, stream: int) -> Tensor:
    torch = import_torch()
    return torch.zeros(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)


def _call(name: str, on: Tensor, *arguments: Any) -> None:
    """Call overlapbench_NAME(device, arguments..., stream) on the device of the tensor `on`."""
    torch = import_torch()
    library = load_library(kernels_path())
    function: Callable[..., int] = getattr(library, f"overlapbench_{name}")
    values = [value.data_ptr() if hasattr(value, "data_ptr") else value for value in arguments]
    with torch.cuda.device(on.device):
        stream = torch.cuda.current_stream().cuda_stream
        status = function(on.device.index, *values, stream)
    if status:
        message = library.overlapbench_last_error().decode()
        raise (KernelsError if status == _CUDA_FAILED else ValueError)(f"{name}: {message}")
