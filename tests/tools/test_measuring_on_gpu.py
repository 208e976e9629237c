"""Measuring callables on a GPU: PyTorch, CUDA graphs, Triton and CuPy, and what goes wrong there.

Every test is a program of its own, since a process measures with one configuration. Skipped where
PyTorch sees no GPU, or the library is not built.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overlapbench.installation import library_path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
Program = Callable[..., list[Any]]

PREAMBLE = """
import json, sys
import torch
import overlapbench as ob

ob.configure(backend="cuda", self_test=False, budget_ms=200, timeout_s=5)
x = torch.randn(1 << 26, device="cuda")
y = torch.empty_like(x)

def copy():
    y.copy_(x)

def tell(*values):
    print("told", json.dumps(values))

def said(row):
    return [row.state.value, row.reason]
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Return a function that runs a program, and returns what it tells."""
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    if not torch.cuda.is_available() or not library_path().is_file():
        pytest.skip("needs a GPU and the library")
    environment = os.environ | {"PYTHONPATH": str(TOOLS), "OMPI_MCA_pml": "ob1"}

    def run(text: str, *, status: int = 0, says: str = "") -> list[Any]:
        file = tmp_path / "program.py"
        file.write_text(PREAMBLE + text)
        done = subprocess.run(
            [sys.executable, str(file)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, done.stderr
        assert says in done.stderr
        told = [line for line in done.stdout.splitlines() if line.startswith("told ")]
        return [json.loads(line.removeprefix("told ")) for line in told]

    return run


def test_known_delays_are_found_on_one_stream_and_on_two(program: Program) -> None:
    [apart, together] = program("""
def long(): torch.cuda._sleep(8_000_000)
def short(): torch.cuda._sleep(4_000_000)
for streams in (2, 1):
    row = ob.measure(comp=long, comm=short, streams=streams, cache="warm")
    tell(row["comm_ms"] / row["comp_ms"], row["slowdown"])
""")
    assert apart == pytest.approx([0.5, 1.0], rel=0.01)
    assert together == pytest.approx([0.5, 1.5], rel=0.01)


def test_a_graph_takes_as_long_as_what_it_holds(program: Program) -> None:
    [[eager_ms, graph_ms]] = program("""
copy()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    copy()
tell(ob.do_bench(copy), ob.do_bench(graph.replay))
""")
    assert graph_ms == pytest.approx(eager_ms, rel=0.05)


def test_a_triton_kernel_is_measured_and_verified(program: Program) -> None:
    pytest.importorskip("triton", reason="needs Triton")
    [[copy_ms, triton_ms], right, wrong] = program("""
import triton
import triton.language as tl

@triton.jit
def add_one(source, target, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < count) + 1, mask=at < count)

def add():
    add_one[(x.numel() // 1024,)](x, y, x.numel(), BLOCK=1024)

def reset(): y.fill_(float("nan"))
def work(check): return ob.Work(add, reset=reset, verify=check)

tell(ob.do_bench(copy), ob.do_bench(add))
tell(*said(ob.measure_alone(work(lambda: bool((y == x + 1).all())), name="right")))
tell(*said(ob.measure_alone(work(lambda: bool((y == x + 2).all())), name="wrong")))
""")
    assert triton_ms == pytest.approx(copy_ms, rel=0.15)
    assert right == ["ok", ""]
    assert wrong[0] == "error"
    assert "the result is wrong" in wrong[1]


def test_cupy_enqueues_on_the_lane(program: Program) -> None:
    pytest.importorskip("cupy", reason="needs CuPy")
    [[torch_ms, cupy_ms]] = program("""
import cupy
source, target = cupy.from_dlpack(x), cupy.from_dlpack(y)
tell(ob.do_bench(copy), ob.do_bench(lambda: cupy.copyto(target, source)))
""")
    assert cupy_ms == pytest.approx(torch_ms, rel=0.1)


def test_an_empty_lane_is_noticed_while_work_elsewhere_keeps_the_memory_busy(
    program: Program,
) -> None:
    told = program("""
other = torch.cuda.Stream()
few = torch.zeros(1024, device="cuda")
def away():
    with torch.cuda.stream(other):
        copy()

tell(*said(ob.measure_alone(away)))
tell(*said(ob.measure(comp=lambda: few.add_(1), comm=away)))
tell(*said(ob.measure_schedule([ob.Step("away", "lane", away)])))
try:
    ob.do_bench(away)
except ob.MeasureError as error:
    tell("invalid", str(error).partition(": ")[2])
tell(ob.measure_alone(lambda: few.add_(1)).state.comparable)
tell(ob.measure_alone(copy).state.comparable)
""")
    for state, reason in told[:4]:
        assert state == "invalid"
        assert " left its lane empty: alone it took " in reason
    assert told[4:] == [[True], [True]]


def test_what_goes_wrong_is_the_rows_and_the_gpu_stays_usable(program: Program) -> None:
    elsewhere, raised, waits, ungated, after = program("""
other = torch.cuda.Stream()
few = torch.zeros(1024, device="cuda")
def on_another_stream():
    with torch.cuda.stream(other):
        few.add_(1)
def fail(): raise ValueError("no way")
def wait():
    copy()
    torch.cuda.current_stream().synchronize()

tell(*said(ob.measure(comp=copy, comm=on_another_stream, name="elsewhere")))
tell(*said(ob.measure(comp=copy, comm=fail, name="raises")))
tell(*said(ob.measure(comp=copy, comm=wait, name="waits")))
row = ob.measure_alone(wait, name="ungated", gated=False)
tell(row.state.comparable, row.name)
tell(ob.measure(comp=copy, comm=copy, name="after").state.comparable)
""")
    assert elsewhere[0] == "invalid"
    assert elsewhere[1].startswith("'comm' left its lane empty: alone it took ")
    assert raised == ["error", "comm: ValueError: no way"]
    assert waits[0] == "error"
    assert waits[1].startswith("'comm' waits for the device behind the closed start gate; ")
    assert ungated[0] is True
    assert "/gate:off/" in ungated[1]
    assert after == [True]


def test_a_first_call_that_does_not_return_is_interrupted(program: Program) -> None:
    looped, polled, late, after = program("""
import time
ob.configure(backend="cuda", self_test=False, budget_ms=200, timeout_s=2)
calls = 0
def loop():
    while True:
        pass
def poll():
    while True:
        time.sleep(0.01)
def hang_later():
    global calls
    calls += 1
    copy()
    if calls > 8:  # the first few are not samples
        loop()

tell(*said(ob.measure(comp=loop, comm=copy, name="loops")))
tell(*said(ob.measure(comp=copy, comm=poll, name="polls")))
tell(*said(ob.measure_alone(hang_later, name="late")))
tell(ob.measure(comp=copy, comm=copy, name="after").state.comparable)
""")
    for (state, reason), name in zip((looped, polled, late), ("comp", "comm", "late"), strict=True):
        assert state == "error"
        assert reason.startswith(f"'{name}' has not returned for ")
    assert after == [True]


def test_a_first_call_that_cannot_be_interrupted_ends_the_process(program: Program) -> None:
    told = program(
        """
ob.configure(backend="cuda", self_test=False, budget_ms=200, timeout_s=2)
def wait_for_a_long_kernel():
    torch.cuda._sleep(1 << 36)  # half a minute and more
    torch.cuda.current_stream().synchronize()

tell(ob.measure_alone(copy, name="before").state.comparable)
ob.measure_alone(wait_for_a_long_kernel, name="waits")
""",
        status=1,
        says="overlapbench: 'waits' has not returned for 7.",
    )
    assert told == [[True]]
