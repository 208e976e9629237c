"""The example training_peers without PyTorch: cases, contestants, lines; with it, a run."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import overlapbench as ob
from apply_table import gains_of
from expert_choices import experts_of
from overlapbench.installation import MPI_ENVIRONMENT, MPIRUN, library_path
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.result import read_results
from training_cases import (
    DDP,
    FSDP,
    MODELS,
    ORDERS,
    Case,
    Labels,
    Stages,
    plan_decode,
    plan_experts,
    plan_layers,
    plan_pipelines,
    plan_steps,
)
from training_table import lines_of

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs/examples/training_peers/training_peers.py"
STACK: Labels = {"layers": 24, "width": 4096, "tokens": 4096}
EXPERTS: Labels = {"layers": 4, "hidden": 4096, "tokens": 16384, "experts": 8, "topk": 2}
STAGES = Stages(8, 4096, virtual=2, product="CublasGemm", element_bytes=2)
TRANSPORTS = ["nccl", "copy"]


def row(
    name: str,
    time_ms: float = 1.0,
    state: ob.State = ob.State.OK,
    reason: str = "",
    **counters: float,
) -> ob.Row:
    """Make a row whose time is known to 1 %."""
    bounds = {"time": (0.99 * time_ms, 1.01 * time_ms)}
    name_ = BenchmarkName.parse(name)
    return ob.Row("", name_, counters, state, time_ms, reason, intervals=bounds)


def test_layers_are_planned_over_models_and_tokens() -> None:
    cases = list(plan_layers(["llama8b", "llama70b"], [256, 1024], TRANSPORTS))
    assert len(cases) == 2 * 2 * 2
    assert str(cases[0]) == "Tp/ColumnParallel/model:llama8b/tokens:256"
    assert cases[-1].suite == {
        one: f"Tp/RowParallel/model:llama70b/tokens:1024/chunks:auto/transport:{one}"
        for one in TRANSPORTS
    }
    assert cases[0].peers == ("sequence", "fused")


def test_decode_steps_are_planned_over_batches() -> None:
    cases = list(plan_decode(["llama8b"], [1, 64], 512, TRANSPORTS))
    assert [str(case) for case in cases] == [
        f"Decode/Layer/model:llama8b/layers:1/tokens:{tokens}/context:512" for tokens in (1, 64)
    ]
    assert cases[0].suite["copy"] == f"{cases[0]}/batches:1/transport:copy"
    assert (cases[0].gated, cases[0].peers) == (True, ("graph", "one_shot", "two_shot"))


def test_experts_are_planned_over_skews_and_microbatches() -> None:
    cases = list(plan_experts(EXPERTS, [0, 50], [1, 2], TRANSPORTS))
    layer = "Moe/DispatchCombine/layers:4/hidden:4096/tokens:16384/experts:8/topk:2"
    assert [str(case) for case in cases] == [
        f"{layer}/skew:{skew}/microbatches:{count}" for skew in (0, 50) for count in (1, 2)
    ]
    assert cases[0].suite["copy"] == f"{cases[0]}/transport:copy"
    assert [case.peers for case in cases[:2]] == [("sequence",), ("sequence", "overlapped")]
    assert cases[0].gated


def test_tokens_have_the_experts_of_the_suites_row() -> None:
    """Rows of two ranks recorded the load of the popular expert's rank, and the largest block."""
    (recorded,) = read_results([str(ROOT / "docs/results/h100x2/training-skew.json")])
    assert len(recorded.rows) == 5
    for of in recorded.rows:
        skew, count = (int(str(of.name.axis(axis))) for axis in ("skew", "microbatches"))
        chosen = np.stack([experts_of(rank, 16384, 8, 2, skew) for rank in (0, 1)])
        assert np.all(chosen[..., 0] != chosen[..., 1])
        ranks = chosen // 4  # of their experts
        assert np.mean(ranks == 1) * 2 == of.counters["straggler_load"]
        blocks = (ranks == 1).reshape(2, count, -1).sum(axis=2)
        largest = max(blocks.max(), 16384 * 2 // count - blocks.min())
        rows = 2 * count * -(-largest // 16) * 16  # in units of 16
        assert 100 * (1 - 2 * 16384 / rows) == pytest.approx(of.counters["padding_pct"])


def test_steps_are_planned_over_buckets_and_depths() -> None:
    [small, _] = plan_steps(DDP, STACK, [1 << 20, 1 << 25], TRANSPORTS)
    step = "layers:24/width:4096/tokens:4096"
    assert small.suite["copy"] == f"Ddp/Buckets/{step}/bucket_bytes:1048576/transport:copy"
    assert small.peers == ("computation", "ddp")
    [none, _] = plan_steps(FSDP, STACK, [0, 2], TRANSPORTS)
    assert none.suite["nccl"] == f"Fsdp/Prefetch/{step}/prefetch:0/transport:nccl"
    assert none.peers == ("computation", "fsdp")


def test_pipelines_are_planned_in_every_order() -> None:
    cases = list(plan_pipelines(STAGES, [4, 16], TRANSPORTS))
    assert [str(case) for case in cases[::2]] == [
        "Pp/GPipe/CublasGemm/microbatches:4/n:4096/layers:8/bytes:33554432",
        "Pp/OneFOneB/CublasGemm/microbatches:4/n:4096/layers:8/bytes:33554432",
        "Pp/Interleaved/CublasGemm/microbatches:4/virtual:2/n:4096/layers:8/bytes:33554432",
    ]
    last = cases[-1]
    assert last.suite["copy"] == f"{last}/transport:copy"
    assert (last.family, last.workload, last.peers) == ("Pp", "Interleaved", ("computation", "pp"))


def test_models_are_those_of_the_suite() -> None:
    source = (ROOT / "benchmarks/training.cc").read_text()
    found = re.findall(r'\{"(\w+)", (\d+), (\d+), \d+\}', source)
    assert {name: (int(hidden), int(ffn)) for name, hidden, ffn in found} == MODELS


# ---- contestants


class World(SimpleNamespace):
    """The example on rank 0 of two without GPUs, where the suite has no rows by copy."""

    def contest(self, case: Case) -> list[tuple[str, str]]:
        ranks = SimpleNamespace(ranks=2, device=SimpleNamespace(type="cpu"))
        found = self.example.measure_case(case, ranks)
        return [(name, one if isinstance(one, str) else "") for name, one in found]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(asked=[], failing="", elsewhere="")

    def make(_case: Case, peer: str, _ranks: object) -> object:
        if peer == world.failing:
            raise NotImplementedError("no\nsuch operator")
        return object()

    def gather(problems: list[str], problem: str) -> None:
        problems[:] = [problem, world.elsewhere]

    def own(name: str) -> ob.Row:
        world.asked.append(name)
        if name.endswith("copy"):
            raise ValueError("not available: no copies")
        return row(name)

    def alone(_work: object, *, name: str, gated: bool, **labels: str | int) -> ob.Row:
        world.asked.append((name, gated, labels))
        return row(f"Comm/{name}")

    fakes: dict[str, dict[str, Any]] = {
        "torch": {},
        "torch.distributed": {"all_gather_object": gather},
        "torch_decode": {"make_decode": make},
        "torch_experts": {"make_experts": make},
        "torch_layers": {"make_layer": make, "Ranks": object},
        "torch_pipelines": {"make_pipeline": make},
        "torch_steps": {"make_step": make},
    }
    for name, values in fakes.items():
        fake = ModuleType(name)
        vars(fake).update(values)
        monkeypatch.setitem(sys.modules, name, fake)
    monkeypatch.setattr(sys.modules["torch"], "distributed", sys.modules["torch.distributed"],
                        raising=False)  # fmt: skip
    monkeypatch.setattr(ob, "measure_row", own, raising=False)
    monkeypatch.setattr(ob, "measure_alone", alone, raising=False)
    monkeypatch.delitem(sys.modules, "training_peers", raising=False)
    world.example = importlib.import_module("training_peers")
    return world


def test_contestants_are_measured_in_turn_and_each_has_its_own_problem(world: World) -> None:
    world.failing = "sequence"
    (case, *_) = plan_layers(["llama8b"], [256], TRANSPORTS)
    assert world.contest(case) == [
        ("suite nccl", ""),
        ("suite copy", "not available: no copies"),
        ("sequence", "cannot run: NotImplementedError: no such operator"),
        ("fused", ""),
    ]
    labels = {"peer": "fused", "model": "llama8b", "tokens": 256}
    assert world.asked == [*case.suite.values(), ("ColumnParallel", True, labels)]


def test_an_error_on_one_rank_stops_all(world: World) -> None:
    world.elsewhere = "cannot run: elsewhere"
    (case,) = plan_steps(DDP, STACK, [1 << 20], ["nccl"])
    assert [problem for _, problem in world.contest(case)] == ["", *[world.elsewhere] * 2]
    assert world.asked == [case.suite["nccl"]]


def test_steps_are_not_gated_and_pipelines_are_named_by_their_order(world: World) -> None:
    (step,) = plan_steps(FSDP, STACK, [1], [])
    (pipeline, *_) = plan_pipelines(STAGES, [4], [])
    world.contest(step)
    world.contest(pipeline)
    assert [(name, gated) for name, gated, _ in world.asked] == [
        ("Prefetch", False), ("Prefetch", False), ("GPipe", False), ("GPipe", False)
    ]  # fmt: skip


def test_only_requested_shapes_are_measured(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def cases(*arguments: object) -> Sequence[str]:
        monkeypatch.setattr(sys, "argv", ["training_peers", "-o", "x", *map(str, arguments)])
        return [str(one) for one in world.example.cases_of(world.example.parse(), on_gpus=True)]

    assert len(cases()) == 2 * 2 * 3 + 2 * 4 + 2 * 2 + 3 + 3 + 3 * 2
    assert cases("--what", "tp,fsdp", "--models", "small", "--tokens", "64,128", "--prefetch", "3",
                 "--layers", 2, "--width", 16, "--step-tokens", 8) == [
        *(f"Tp/{layer}/model:small/tokens:{tokens}" for layer in ("ColumnParallel", "RowParallel")
          for tokens in (64, 128)),
        "Fsdp/Prefetch/layers:2/width:16/tokens:8/prefetch:3",
    ]  # fmt: skip
    for wrong in (["--what", "tp,ep"], ["--models", "gpt"], ["--tokens", "many"]):
        with pytest.raises(SystemExit):
            cases(*wrong)


# ---- what is printed


def test_a_step_adds_to_its_computation_and_is_compared_with_the_suites() -> None:
    (case,) = plan_steps(DDP, STACK, [25 << 20], ["nccl"])
    outcomes: dict[str, ob.Row | str] = {
        "suite nccl": row("Ddp/Buckets", 12.0, exposed_comm_ms=2.0),
        "computation": row("Compute/Buckets", 10.0),
        "ddp": row("Comm/Buckets", 13.0),
    }
    assert list(lines_of(case, outcomes)) == [
        "Ddp/Buckets/layers:24/width:4096/tokens:4096/bucket_bytes:26214400",
        "  suite nccl        12.0000 ms ±0.1200, adds 20.0 %",
        "  computation       10.0000 ms ±0.1000",
        "  ddp               13.0000 ms ±0.1300, adds 30.0 %, 1.08 (1.06 to 1.11) of the suite's",
    ]


def test_a_layer_is_compared_with_the_suites_fastest_and_problems_are_told() -> None:
    (case, *_) = plan_layers(["llama8b"], [256], TRANSPORTS)
    outcomes: dict[str, ob.Row | str] = {
        "suite nccl": row("Tp/ColumnParallel", 0.3, chunks=1.0, sequential_ms=0.25),
        "suite copy": row("Tp/ColumnParallel", 0.2, chunks=4.0, direct=1.0, sequential_ms=0.25),
        "sequence": row("Comm/ColumnParallel", 1, ob.State.ERROR, "wrong result"),
        "fused": row("Comm/ColumnParallel", 0.25),
    }
    assert list(lines_of(case, outcomes))[1:] == [
        "  suite nccl         0.3000 ms ±0.0030, 1 chunks, 0.2500 ms without",
        "  suite copy         0.2000 ms ±0.0020, 4 chunks directly, 0.2500 ms without",
        "  sequence        error: wrong result",
        "  fused              0.2500 ms ±0.0025, 1.25 (1.23 to 1.28) of the suite's",
    ]
    assert list(lines_of(case, {"fused": "cannot run"}))[1:] == ["  fused           cannot run"]


def run_on_the_host(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run an example on two ranks of the host backend, with PyTorch."""
    pytest.importorskip("torch", reason="needs torch")
    mpirun = shutil.which(MPIRUN[0])
    if mpirun is None or not library_path().is_file():
        pytest.skip("needs mpirun and the library")
    return subprocess.run(
        [mpirun, *MPIRUN[1:], "-n", "2", sys.executable, *words, "--backend", "host",
         "--budget-ms", "20"],
        env=os.environ | MPI_ENVIRONMENT | {"PYTHONPATH": str(ROOT / "tools")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_whole_run_on_the_host(tmp_path: Path) -> None:
    small = ["--models", "small", "--tokens", "128", "--batch", "1", "--context", "16",
             "--layers", "3", "--width", "64", "--step-tokens", "32", "--buckets", "16384",
             "--prefetch", "1", "--stage-layers", "2", "--microbatches", "4",
             "--expert-tokens", "32"]  # fmt: skip
    done = run_on_the_host(EXAMPLE, "-o", tmp_path, *small)
    assert done.returncode == 1, done.stderr  # the operators exist on GPUs only
    (result,) = read_results([str(tmp_path / "training-peers.json")])
    good = [str(one.name.axis("peer")) for one in result.rows if one.state.comparable]
    counts = {"sequence": 2 + 4, "graph": 1, "overlapped": 2, "computation": 2 + len(ORDERS),
              "ddp": 1, "fsdp": 1, "pp": len(ORDERS)}  # fmt: skip
    assert {peer: good.count(peer) for peer in set(good) - {"None"}} == counts
    assert "NotImplementedError" in done.stdout


def test_settings_are_measured_by_default_and_set(tmp_path: Path) -> None:
    """Those of docs/examples/apply; one that this machine lacks says so."""
    script, file = ROOT / "docs/examples/apply/measure_apply.py", tmp_path / "apply.json"
    done = run_on_the_host(script, "-o", file, "--only", "bucket_bytes,transport_nccl_ce,batch")
    assert done.returncode == 1, done.stderr
    (result,) = read_results([str(file)])
    assert [(gain.setting, len(gain.rows)) for gain in gains_of(result.rows)] == [
        ("bucket_bytes", 2), ("batch", 2)
    ]  # fmt: skip
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == ["bucket_bytes", "transport_nccl_ce", "batch"]
    assert "\ntransport_nccl_ce    cannot run: RuntimeError: " in done.stdout
    wrong = run_on_the_host(script, "-o", file, "--only", "none")
    assert wrong.returncode == 1
    assert "measure_apply: 'none' is not one of first_comm, " in wrong.stderr
