"""The operators for PyTorch: what loading refuses, and, on a GPU, what they compute and cost."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from overlapbench import torch_operators
from overlapbench.installation import kernels_path
from overlapbench.measurement.torch_kernels import KernelsError

TYPES = ("float32", "float16", "bfloat16")


def stand_in(version: str, folder: Path) -> ModuleType:
    torch = ModuleType("torch")
    torch.__version__ = version  # type: ignore[attr-defined]
    torch.__file__ = str(folder / "torch/__init__.py")
    torch.version = SimpleNamespace(cuda="13.0")  # type: ignore[attr-defined]
    return torch


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of kernels, a PyTorch and a compiler, none of which does anything."""
    library = tmp_path / "kernels.so"
    library.write_bytes(b"")
    monkeypatch.setenv("OVERLAPBENCH_KERNELS", str(library))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "torch", stand_in("2.11.0+cu130", tmp_path))
    monkeypatch.setattr(torch_operators, "load", torch_operators.load.__wrapped__)
    return library


def compiler(tmp_path: Path, script: str) -> str:
    path = tmp_path / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_pytorch_without_cuda_is_refused(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["torch"], "version", SimpleNamespace(cuda=None))
    with pytest.raises(KernelsError, match=r"PyTorch 2\.11\.0\+cu130 is built without CUDA"):
        torch_operators.load()


def test_a_missing_library_is_told(kernels: Path) -> None:
    kernels.unlink()
    with pytest.raises(KernelsError, match=r"kernels\.so is missing: where nvcc is, `\./bench"):
        torch_operators.load()


def test_what_the_compiler_says_is_told(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "echo noise >&2; echo 'a.cc:3: error: no such thing' >&2; exit 1"
    monkeypatch.setenv("CXX", compiler(tmp_path, script))
    with pytest.raises(KernelsError, match=r"could not compile .*: a\.cc:3: error: no such thing"):
        torch_operators.load()
    assert not list(tmp_path.glob("cache/overlapbench/*"))


def test_a_missing_compiler_is_told(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/dev/null/compiler")
    with pytest.raises(KernelsError, match=r"cannot be compiled .*/dev/null/compiler"):
        torch_operators.load()


def test_they_are_compiled_once_for_the_library_and_pytorch(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        f'echo x >>{tmp_path}/runs; echo "$@" >{tmp_path}/arguments; for o; do :; done; : >"$o"'
    )
    monkeypatch.setenv("CXX", compiler(tmp_path, script))
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(torch_operators, "_python_headers", lambda: tmp_path)
    for _ in range(2):  # the stand-in for PyTorch cannot load what was compiled
        with pytest.raises(AttributeError):
            torch_operators.load()
    assert (tmp_path / "runs").read_text() == "x\n"
    arguments = (tmp_path / "arguments").read_text()
    assert f"-isystem {tmp_path}/torch/include" in arguments
    assert str(kernels) in arguments
    assert arguments.index("torch_operators.cc") < arguments.index("torch_calls.cc")
    monkeypatch.setitem(sys.modules, "torch", stand_in("2.12.0", tmp_path))
    with pytest.raises(AttributeError):
        torch_operators.load()
    assert (tmp_path / "runs").read_text() == "x\nx\n"


def test_without_pythons_headers_calls_go_through_torch_ops(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_name = SimpleNamespace(gelu=object(), softmax=object())
    ops = SimpleNamespace(load_library=lambda path: None, overlapbench=by_name)
    monkeypatch.setattr(sys.modules["torch"], "ops", ops, raising=False)
    monkeypatch.setattr(torch_operators, "_python_headers", lambda: tmp_path / "none")
    script = f'echo "$@" >{tmp_path}/arguments; for o; do :; done; : >"$o"'
    monkeypatch.setenv("CXX", compiler(tmp_path, script))
    operators = torch_operators.load()
    assert (operators.gelu, operators.softmax) == (by_name.gelu, by_name.softmax)
    assert "torch_calls.cc" not in (tmp_path / "arguments").read_text()


def test_the_compiler_is_told_all_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = stand_in("2.11.0", tmp_path)
    monkeypatch.setenv("CXX", "my c++ -x")
    monkeypatch.setattr(torch_operators, "_python_headers", lambda: Path("/headers"))
    package, sources = tmp_path / "torch", [Path("/s/a.cc"), Path("/s/b.cc")]
    command = torch_operators._compile_command(torch, sources, Path("/k/kernels.so"))
    assert command == [
        *("my", "c++", "-x", "-std=c++20", "-O2", "-shared", "-fPIC"),
        *("-isystem", f"{package}/include"),
        *("-isystem", f"{package}/include/torch/csrc/api/include", "-isystem", "/headers"),
        *("-I/s", "/s/a.cc", "/s/b.cc", "/k/kernels.so", "-Wl,-rpath,/k", f"-L{package}/lib"),
        *("-ltorch_python", "-ltorch_cuda", "-ltorch_cpu", "-lc10"),
    ]
    for unset in ("", None):
        if unset is None:
            monkeypatch.delenv("CXX")
        else:
            monkeypatch.setenv("CXX", unset)
        assert torch_operators._compile_command(torch, sources, Path("/k"))[0] == "c++"


def test_what_is_compiled_is_kept_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert torch_operators._cache() == Path("/cache/overlapbench")
    monkeypatch.setenv("HOME", str(tmp_path))
    for unset in ("", None):
        if unset is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert torch_operators._cache() == tmp_path / ".cache/overlapbench"


def test_whatever_changes_the_operators_changes_their_name(tmp_path: Path) -> None:
    source = tmp_path / "a.cc"
    source.write_text("int a;")
    torch = stand_in("2.11.0", tmp_path)
    first = torch_operators._fingerprint(torch, [source], ["c++"])
    assert len(first) == 16
    assert first == torch_operators._fingerprint(torch, [source], ["c++"])
    others = {
        torch_operators._fingerprint(torch, [source], ["clang"]),
        torch_operators._fingerprint(stand_in("2.12.0", tmp_path), [source], ["c++"]),
    }
    source.write_text("int b;")
    others.add(torch_operators._fingerprint(torch, [source], ["c++"]))
    assert len({first, *others}) == 4


def test_compiling_is_announced_beside_the_output_and_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built = tmp_path / "cache/operators.so"
    script = 'for o; do :; done; echo "$@" >"$o"'
    torch_operators._compile([compiler(tmp_path, script), "-x"], built)
    assert built.read_text().startswith("-x -o ")
    assert capsys.readouterr() == ("", "compiling overlapbench's operators for PyTorch\n")
    assert [file.name for file in built.parent.iterdir()] == ["operators.so"]
    monkeypatch.setattr(torch_operators, "_TIMEOUT_S", 0.05)
    slow = compiler(tmp_path, "exec sleep 60")
    with pytest.raises(KernelsError) as raised:
        torch_operators._compile([slow], built)
    assert str(raised.value) == f"{slow} took more than 0.05 s to compile the operators"
    silent = compiler(tmp_path, "exit 1")
    monkeypatch.setattr(torch_operators, "_TIMEOUT_S", 60)
    with pytest.raises(KernelsError) as raised:
        torch_operators._compile([silent], built)
    assert str(raised.value) == f"{silent} could not compile the operators: no message"


def called_by(compiling: bool, refuses: bool) -> list[str]:
    """Return who computes gelu and softmax: torch.ops, or the direct calls."""

    def named(by: str) -> SimpleNamespace:
        refused = refuses and by == "direct"
        return SimpleNamespace(
            gelu=lambda x, form: NotImplemented if refused else f"{by} {x} {form}",
            softmax=lambda x: NotImplemented if refused else f"{by} {x}",
        )

    operators = torch_operators._direct(lambda: compiling, named("by name"), named("direct"))
    return [operators.gelu("x"), operators.gelu("y", "erf"), operators.softmax("z")]


def test_calls_are_direct_unless_pytorch_must_see_them() -> None:
    by_name, direct = ([f"{by} x tanh", f"{by} y erf", f"{by} z"] for by in ("by name", "direct"))
    assert called_by(compiling=False, refuses=False) == direct
    assert called_by(compiling=True, refuses=False) == by_name
    assert called_by(compiling=False, refuses=True) == by_name


def gradient_tolerance(torch: Any, y: Any, grad: Any, dtype: Any) -> Any:
    """Return by how much softmax's gradient, y·(g - Σ g·y), may be off: all in double.

    PyTorch computes it from y as rounded to `dtype`, and rounds the products g·y as well. Terms
    cancel, so that the error is one of their magnitudes. Then there are float32's own errors.
    """
    info = torch.finfo(dtype)
    least = info.tiny * info.eps  # the smallest number, which rounding is not finer than
    off_y = info.eps / 2 * y + least / 2
    g_y = grad.abs() * y
    off_g_y = grad.abs() * off_y + info.eps / 2 * grad.abs() * (y + off_y) + least / 2
    total = (grad * y).sum(-1, keepdim=True)
    off_total = off_g_y.sum(-1, keepdim=True)
    off = off_g_y + off_y * total.abs() + (y + off_y) * off_total
    of_float32 = 1e-5 * (g_y + y * g_y.sum(-1, keepdim=True))
    gradient = (y * (grad - total)).abs()
    return off + of_float32 + info.eps / 2 * (gradient + off) + least / 2


class TestOnAGpu:
    """With PyTorch itself; elsewhere skipped."""

    @pytest.fixture
    def torch(self) -> Any:
        torch = pytest.importorskip("torch", reason="needs PyTorch")
        if not torch.cuda.is_available() or not kernels_path().is_file():
            pytest.skip("needs a GPU and the library")
        torch_operators.load()
        return torch

    @pytest.fixture(params=["direct", "by name"])
    def operators(self, torch: Any, request: pytest.FixtureRequest) -> Any:
        return torch_operators.load() if request.param == "direct" else torch.ops.overlapbench

    @pytest.mark.parametrize("dtype", TYPES)
    @pytest.mark.parametrize("form", ["tanh", "erf"])
    def test_gelu_and_its_gradient_are_those_in_double(
        self, torch: Any, operators: Any, dtype: str, form: str
    ) -> None:
        x = torch.randn((5, 4099), device="cuda").to(getattr(torch, dtype)).requires_grad_()
        exact = x.detach().double().requires_grad_()
        grad = torch.randn_like(x)
        y = operators.gelu(x, form)
        approximate = "none" if form == "erf" else "tanh"
        expected = torch.nn.functional.gelu(exact, approximate=approximate)
        y.backward(grad)
        expected.backward(grad.double())
        allowed = {"rtol": max(torch.finfo(x.dtype).eps, 2e-6), "atol": 2e-6}
        torch.testing.assert_close(y.double(), expected, **allowed)
        torch.testing.assert_close(x.grad.double(), exact.grad, **allowed)

    @pytest.mark.parametrize("dtype", TYPES)
    @pytest.mark.parametrize("columns", [77, 50257, 1000003])
    def test_softmax_and_its_gradient_are_those_in_double(
        self, torch: Any, operators: Any, dtype: str, columns: int
    ) -> None:
        x = torch.randn((3, columns), device="cuda").to(getattr(torch, dtype)).requires_grad_()
        exact = x.detach().double().requires_grad_()
        grad = torch.randn_like(x)
        for _ in range(2):  # the second finds the workspace as the first left it
            y = operators.softmax(x)
        expected = torch.softmax(exact, dim=-1)
        torch.testing.assert_close(y, expected.to(x.dtype))
        y.backward(grad)
        expected.backward(grad.double())
        off = (x.grad.double() - exact.grad).abs()
        assert bool((off <= gradient_tolerance(torch, expected, grad.double(), x.dtype)).all())

    @pytest.mark.parametrize("name", ["gelu", "softmax"])
    def test_pytorch_finds_no_fault_with_them(self, torch: Any, name: str) -> None:
        operators = torch.ops.overlapbench
        x = torch.randn((4, 300), device="cuda", requires_grad=True)
        torch.library.opcheck(getattr(operators, name).default, (x,))
        torch.library.opcheck(operators.gelu_backward.default, (x.detach(), x.detach(), "erf"))
        assert torch.autograd.gradcheck(
            lambda x: getattr(operators, name)(x.float()).double(),
            torch.randn((2, 7), device="cuda", dtype=torch.double, requires_grad=True),
            eps=1e-2,
            atol=1e-3,
        )

    def test_a_compiled_function_holds_the_operators(self, torch: Any, operators: Any) -> None:
        def layer(x: Any) -> Any:
            return operators.softmax(operators.gelu(x * 2, "erf") + 1)

        x = torch.randn((64, 500), device="cuda", requires_grad=True)
        compiled = torch.compile(layer, fullgraph=True)
        torch.testing.assert_close(compiled(x), layer(x))
        compiled(x)[:, 0].sum().backward()
        found = x.grad.clone()
        x.grad = None
        layer(x)[:, 0].sum().backward()
        torch.testing.assert_close(found, x.grad)

    def test_a_graph_holds_them(self, torch: Any, operators: Any) -> None:
        x = torch.randn((7, 1000003), device="cuda", dtype=torch.bfloat16)  # uses the workspace
        graph = torch.cuda.CUDAGraph()
        operators.softmax(x)
        with torch.cuda.graph(graph):
            y = operators.softmax(x)
        for _ in range(2):
            x.normal_()
            graph.replay()
            torch.testing.assert_close(y, torch.softmax(x, dim=-1))

    def test_any_layout_is_taken(self, torch: Any, operators: Any) -> None:
        x = torch.randn((40, 30), device="cuda").t()
        torch.testing.assert_close(
            operators.gelu(x), torch.nn.functional.gelu(x, approximate="tanh")
        )
        torch.testing.assert_close(operators.softmax(x), torch.softmax(x, dim=-1))
        assert operators.softmax(x[:0]).shape == (0, 40)

    def test_what_cannot_be_is_one_line(self, torch: Any, operators: Any) -> None:
        x = torch.randn(8, device="cuda")
        with pytest.raises(ValueError, match="form is 'none', must be 'tanh' or 'erf'"):
            operators.gelu(x, "none")
        with pytest.raises(TypeError, match="a tensor is Double, must be Float, Half or BFloat16"):
            operators.softmax(x.double())
        with pytest.raises(ValueError, match="no dimension to take the softmax over"):
            operators.softmax(x[0])
        with pytest.raises(ValueError, match="must have the type, shape and device of x"):
            torch.ops.overlapbench.gelu_backward(x[:4], x)
        with pytest.raises(NotImplementedError, match="'CPU' backend"):
            operators.gelu(x.cpu())

    def test_a_subclass_of_tensor_sees_the_call(self, torch: Any) -> None:
        class Watched(torch.Tensor):  # type: ignore[misc]
            calls = 0

            @classmethod
            def __torch_function__(cls, *call: Any) -> Any:
                Watched.calls += 1
                return super().__torch_function__(*call)

        operators = torch_operators.load()
        x = torch.randn(8, device="cuda")
        y = operators.softmax(x.as_subclass(Watched))
        assert Watched.calls >= 1
        torch.testing.assert_close(y.as_subclass(torch.Tensor), operators.softmax(x))

    def test_a_second_backward_pass_is_refused(self, torch: Any, operators: Any) -> None:
        x = torch.randn(8, device="cuda", requires_grad=True)
        for y in (operators.gelu(x), operators.softmax(x)):
            y.sum().backward()
            with pytest.raises(RuntimeError, match="second time"):
                y.sum().backward()

    def test_they_run_on_the_current_stream(self, torch: Any, operators: Any) -> None:
        x = torch.ones(1 << 20, device="cuda")
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(1 << 24)
            y = operators.gelu(x)
            assert not stream.query()
        stream.synchronize()
        torch.testing.assert_close(y, torch.nn.functional.gelu(x, approximate="tanh"))


def test_a_real_pytorch_loads_them(tmp_path: Path) -> None:
    """Without a GPU: a library that lacks nothing is compiled, linked and registered."""
    pytest.importorskip("torch", reason="needs PyTorch")
    if not kernels_path().is_file():
        pytest.skip("needs the library")
    code = (
        "from overlapbench import torch_operators as t; import torch; "
        "x = t.load().gelu(torch.empty(7, device='meta')); "
        "print(x.shape, torch.ops.overlapbench.gelu.default._schema)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": "tools"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "torch.Size([7]) overlapbench::gelu(Tensor x, str form=" in done.stdout
    assert list(tmp_path.glob("overlapbench/torch_operators-*.so"))
