"""The Python entry: what it refuses, with a stand-in for PyTorch, and what it computes on a GPU."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fake_torch
from fake_torch import Device, Tensor
from overlapbench import torch_kernels as kernels
from overlapbench.installation import kernels_path

X = Tensor((4, 32))
SQUARE = Tensor((32, 32))
Calls = list[tuple[Any, ...]]

# Refuses every call, and reports its arguments.
STAND_IN = """
#include <cstdint>
#include <cstdio>
char message[99];
extern "C" {
int32_t overlapbench_gelu_forward(int32_t, int32_t, int32_t, const void* input, void*,
                                  int64_t count, void*) {
  std::snprintf(message, sizeof message, "%p %lld", input, static_cast<long long>(count));
  return 5;
}
void overlapbench_gelu_backward() {}
void overlapbench_softmax_forward() {}
void overlapbench_grid_gemm() {}
const char* overlapbench_last_error() { return message; }
}
"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Put stand-ins in place of PyTorch and the library; return the calls that reached it."""
    made: Calls = []

    class Library:
        def __getattr__(self, name: str) -> Callable[..., int]:
            def function(*arguments: object) -> int:
                made.append((name.removeprefix("overlapbench_"), *arguments))
                return 0

            return function

    monkeypatch.setitem(sys.modules, "torch", fake_torch.module())
    monkeypatch.setattr(kernels, "load_library", lambda _path: Library())
    kernels._workspace_of_stream.cache_clear()
    return made


def test_every_function_passes_the_declared_arguments(calls: Calls) -> None:
    half = replace(X, dtype="torch.float16")
    kernels.gelu(half, "erf")
    kernels.gelu_backward(replace(X, address=0x2000), X, "tanh", out=X)
    kernels.softmax(replace(X, dtype="torch.bfloat16"))
    kernels.grid_gemm(SQUARE, replace(SQUARE, address=0x2000), (1, 2), "full")
    assert calls == [
        ("gelu_forward", 0, 1, 1, 0x1000, 0x5000, 128, 77),
        ("gelu_backward", 0, 0, 0, 0x1000, 0x2000, 0x1000, 128, 77),
        ("softmax_forward", 0, 2, 0x1000, 0x5000, 4, 32, 0x7000, 77),
        ("grid_gemm", 0, 0x1000, 0x2000, 0x5000, 32, 1, 2, 1, 77),
    ]
    assert [len(call) - 1 for call in calls] == [
        len(kernels._FUNCTIONS[str(call[0])][0]) for call in calls
    ]


def test_tiles_leave_the_rest_of_a_new_matrix_zero(calls: Calls) -> None:
    assert kernels.grid_gemm(SQUARE, SQUARE, (1, 1)).address == 0x6000
    assert calls[0][3] == 0x1000
    assert calls[0][4] == 0x6000


@pytest.mark.parametrize(
    ("call", "error", "line"),
    [
        (lambda: kernels.gelu([1.0]), TypeError, "x is a list, must be a torch.Tensor"),
        (
            lambda: kernels.gelu(replace(X, dtype="torch.float64")),
            TypeError,
            "x is torch.float64, must be one of torch.float32, torch.float16, torch.bfloat16",
        ),
        (
            lambda: kernels.gelu(replace(X, device=Device("cpu"))),
            ValueError,
            "x is on cpu:0, must be on a CUDA device",
        ),
        (
            lambda: kernels.softmax(replace(X, contiguous=False)),
            ValueError,
            "x is not contiguous: pass x.contiguous()",
        ),
        (lambda: kernels.softmax(Tensor((3, 0))), ValueError, "x is empty, of shape 3×0"),
        (
            lambda: kernels.softmax(Tensor(())),
            ValueError,
            "x has no dimension to take the softmax over",
        ),
        (
            lambda: kernels.gelu(replace(X, requires_grad=True)),
            ValueError,
            "x requires a gradient, which is not recorded: pass x.detach()",
        ),
        (lambda: kernels.gelu(X, "none"), ValueError, "form is 'none', must be 'tanh' or 'erf'"),
        (
            lambda: kernels.gelu(X, out=replace(X, shape=(128,))),
            ValueError,
            "out is 128, must be 4×32",
        ),
        (
            lambda: kernels.gelu_backward(replace(X, dtype="torch.float16"), X),
            TypeError,
            "grad_output is torch.float16, must be torch.float32 like the other tensor",
        ),
        (
            lambda: kernels.gelu(X, out=replace(X, device=Device(index=1))),
            ValueError,
            "out is on cuda:1, the other tensor on cuda:0",
        ),
        (
            lambda: kernels.grid_gemm(replace(SQUARE, dtype="torch.float16"), SQUARE, (1, 1)),
            TypeError,
            "a is torch.float16, must be torch.float32",
        ),
        (
            lambda: kernels.grid_gemm(Tensor((40, 40)), Tensor((40, 40)), (1, 1)),
            ValueError,
            "a is 40×40, must be n×n with n a multiple of 16",
        ),
        (
            lambda: kernels.grid_gemm(SQUARE, Tensor((16, 16)), (1, 1)),
            ValueError,
            "b is 16×16, must be 32×32",
        ),
        (
            lambda: kernels.grid_gemm(SQUARE, SQUARE, (3, 1)),
            ValueError,
            "grid is (3, 1), must be two whole numbers from 1 to 2",
        ),
        (
            lambda: kernels.grid_gemm(SQUARE, SQUARE, (1, 32769), "full"),
            ValueError,
            "grid is (1, 32769), must be two whole numbers from 1 to 32768",
        ),
        (
            lambda: kernels.grid_gemm(SQUARE, SQUARE, (1.0, 1)),  # type: ignore[arg-type]
            ValueError,
            "grid is (1.0, 1), must be two whole numbers from 1 to 2",
        ),
        (
            lambda: kernels.grid_gemm(SQUARE, SQUARE, (1, 1), "half"),
            ValueError,
            "work is 'half', must be 'tile' or 'full'",
        ),
    ],
)
def test_unsupported_input_is_refused_before_a_call(
    calls: Calls, call: Callable[[], object], error: type[Exception], line: str
) -> None:
    with pytest.raises(error) as refused:
        call()
    assert str(refused.value) == line
    assert calls == []


@pytest.mark.parametrize(("status", "error"), [(7, ValueError), (6, kernels.KernelsError)])
@pytest.mark.usefixtures("calls")
def test_the_librarys_own_refusal_is_raised(
    status: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Library:
        overlapbench_last_error = staticmethod(lambda: b"output overlaps input")

        def __getattr__(self, _name: str) -> Callable[..., int]:
            return lambda *_: status

    monkeypatch.setattr(kernels, "load_library", lambda _path: Library())
    with pytest.raises(error, match="softmax_forward: output overlaps input"):
        kernels.softmax(X)


def test_streams_have_workspaces_of_their_own(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = sys.modules["torch"]
    made: list[int] = []

    def zeros(count: int, dtype: str, device: Device) -> Tensor:
        assert (dtype, device) == ("torch.uint8", X.device)
        made.append(count)
        return Tensor((count,), address=0x7000 + len(made))

    monkeypatch.setattr(torch, "zeros", zeros)
    for stream in (1, 2, 1):
        monkeypatch.setattr(
            torch.cuda,
            "current_stream",
            lambda _device=None, stream=stream: SimpleNamespace(cuda_stream=stream),
        )
        kernels.softmax(X)
    assert [call[7] for call in calls] == [0x7001, 0x7002, 0x7001]


def test_a_missing_library_is_named_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERLAPBENCH_KERNELS", str(tmp_path / "none.so"))
    with pytest.raises(kernels.KernelsError) as missing:
        kernels.load_library(kernels_path())
    assert str(missing.value) == (
        f"{tmp_path}/none.so is missing: where nvcc is, `./bench --build-only` builds it; or set"
        " OVERLAPBENCH_KERNELS to its path"
    )
    monkeypatch.delenv("OVERLAPBENCH_KERNELS")
    assert kernels_path().parts[-3:] == ("build", "release", "liboverlapbench_kernels.so")


def test_a_loaded_library_gets_whole_addresses_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, library = tmp_path / "library.cc", tmp_path / "library.so"
    source.write_text(STAND_IN)
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
    monkeypatch.setenv("OVERLAPBENCH_KERNELS", str(library))
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module())
    far = Tensor((1 << 31,), address=0x7FFF_1234_5678)
    with pytest.raises(ValueError, match="gelu_forward: 0x7fff12345678 2147483648"):
        kernels.gelu(far)


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(kernels.KernelsError, match="is not the library of this version: "):
        kernels.load_library(tmp_path / "text.so")


def test_without_pytorch_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        kernels.KernelsError, match="package torch is not installed: pip install torch"
    ):
        kernels.gelu(X)


class TestOnAGpu:
    """With PyTorch itself; elsewhere skipped."""

    @pytest.fixture
    def torch(self) -> Any:
        torch = pytest.importorskip("torch", reason="needs PyTorch")
        if not torch.cuda.is_available() or not kernels_path().is_file():
            pytest.skip("needs a GPU and the library")
        return torch

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
    def test_results_are_those_of_pytorch_in_double(self, torch: Any, dtype: str) -> None:
        x, grad = (torch.randn((5, 50257), device="cuda").to(getattr(torch, dtype)) for _ in "xg")
        allowed = {"rtol": max(torch.finfo(x.dtype).eps, 2e-6), "atol": 2e-6}
        for form, approximate in (("tanh", "tanh"), ("erf", "none")):
            expected = torch.nn.functional.gelu(x.double(), approximate=approximate)
            torch.testing.assert_close(kernels.gelu(x, form).double(), expected, **allowed)
            expected = torch.ops.aten.gelu_backward(
                grad.double(), x.double(), approximate=approximate
            )
            result = kernels.gelu_backward(grad, x, form)
            torch.testing.assert_close(result.double(), expected, **allowed)
        expected = torch.softmax(x.double(), dim=-1)
        for _ in range(2):  # the second finds the workspace as the first left it
            torch.testing.assert_close(kernels.softmax(x).double(), expected, **allowed)

    def test_the_grid_decides_how_much_is_computed(self, torch: Any) -> None:
        a, b = (torch.randint(-8, 8, (64, 64), device="cuda").float() for _ in "ab")
        expected = a @ b  # of small whole numbers: exact
        assert torch.equal(kernels.grid_gemm(a, b, (3, 1), "full"), expected)
        tiles = kernels.grid_gemm(a, b, (3, 1))
        assert torch.equal(tiles[:16, :48], expected[:16, :48])
        assert not tiles[16:].any()
        assert not tiles[:, 48:].any()

    def test_work_goes_to_the_current_stream_of_the_tensors_device(self, torch: Any) -> None:
        device = torch.device("cuda", torch.cuda.device_count() - 1)
        stream = torch.cuda.Stream(device)
        with torch.cuda.device(0), torch.cuda.stream(stream):
            torch.cuda.set_device(0)  # entering the stream made the other device the current one
            x = torch.ones(1 << 20, device=device)
            out = torch.empty_like(x)
        with torch.cuda.device(device), torch.cuda.stream(stream):
            torch.cuda._sleep(1 << 24)
            kernels.gelu(x, out=out)
            assert not stream.query()
        stream.synchronize()
        torch.testing.assert_close(out, torch.nn.functional.gelu(x, approximate="tanh"))

    def test_partial_overlap_is_refused_by_the_library(self, torch: Any) -> None:
        x = torch.ones(1 << 10, device="cuda")
        with pytest.raises(ValueError, match="output overlaps input"):
            kernels.gelu(x[:100], out=x[50:150])
