"""`overlapbench peers` without PyTorch: cases, contestants, tables, refusals; with it, a run."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from overlapbench.cli import peers as command
from overlapbench.installation import MPI_ENVIRONMENT, MPIRUN, library_path
from overlapbench.measurement import measuring as ob
from overlapbench.measurement.callables import Work
from overlapbench.measurement.interface import MeasureError
from overlapbench.peers import training
from overlapbench.peers.training import (
    DDP,
    FSDP,
    MODELS,
    ORDERS,
    Case,
    Labels,
    Outcome,
    Stages,
    measure_cases,
    plan_layers,
    plan_pipelines,
    plan_steps,
)
from overlapbench.peers.training_table import render_training
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.result import State, read_results
from overlapbench.reading.rows import Row

ROOT = Path(__file__).resolve().parents[2]
STACK: Labels = {"layers": 24, "width": 4096, "tokens": 4096}
STAGES = Stages(8, 4096, virtual=2, product="CublasGemm", element_bytes=2)
TRANSPORTS = ["nccl", "copy"]


TOOLS = Path(__file__).resolve().parents[2] / "tools"


def row(
    name: str, time_ms: float = 1.0, state: State = State.OK, reason: str = "", **counters: float
) -> Row:
    """Make a row whose time is known to 1 %."""
    bounds = {"time": (0.99 * time_ms, 1.01 * time_ms)}
    return Row("", BenchmarkName.parse(name), counters, state, time_ms, reason, intervals=bounds)


class FakePeers:
    """Makes works that nobody runs; `failing` cannot be made here, `others` on another rank."""

    def __init__(self, failing: str = "", others: str = "") -> None:
        self.failing, self.others = failing, others
        self.said: list[str] = []

    def make(self, _case: Case, peer: str) -> Work:
        self.said.append(peer)
        if peer == self.failing:
            raise NotImplementedError("no\nsuch operator")
        return Work(lambda: None)

    def agree(self, problem: str) -> str:
        self.said.append("agree")
        return problem or self.others

    def forget(self) -> None:
        self.said.append("forget")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what is measured; the suite has no rows by copy."""
    asked: list[Any] = []

    def own(name: str) -> Row:
        asked.append(name)
        if name.endswith("copy"):
            raise ValueError("not available: no copies")
        return row(name)

    def alone(_work: Work, *, name: str, gated: bool, **labels: str | int) -> Row:
        asked.append((name, gated, labels))
        return row("/".join([f"Comm/{name}", *(f"{k}:{v}" for k, v in labels.items())]))

    monkeypatch.setattr(training, "measure_row", own)
    monkeypatch.setattr(training, "measure_alone", alone)
    return asked


def test_layers_are_planned_over_models_and_tokens() -> None:
    cases = list(plan_layers(["llama8b", "llama70b"], [256, 1024], TRANSPORTS))
    assert len(cases) == 2 * 2 * 2
    assert str(cases[0]) == "Tp/ColumnParallel/model:llama8b/tokens:256"
    assert cases[-1].suite == {
        one: f"Tp/RowParallel/model:llama70b/tokens:1024/chunks:auto/transport:{one}"
        for one in TRANSPORTS
    }
    assert cases[0].peers == ("sequence", "fused")


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


def outcomes_of(peers: FakePeers, cases: list[Case]) -> list[Outcome]:
    told: list[Outcome] = []
    outcomes = list(measure_cases(cases, peers, told.append))
    assert told == outcomes
    return outcomes


def test_contestants_are_measured_in_turn_and_each_has_its_own_problem(asked: list[Any]) -> None:
    peers = FakePeers(failing="sequence")
    cases = list(plan_layers(["llama8b"], [256], TRANSPORTS))[:1]
    outcomes = outcomes_of(peers, cases)
    labels = {"model": "llama8b", "tokens": 256}
    assert asked == [*cases[0].suite.values(), ("ColumnParallel", True, {"peer": "fused"} | labels)]
    assert [(one.contestant, one.problem) for one in outcomes] == [
        ("suite nccl", ""),
        ("suite copy", "not available: no copies"),
        ("sequence", "cannot run: NotImplementedError: no such operator"),
        ("fused", ""),
    ]
    assert peers.said == ["sequence", "agree", "forget", "fused", "agree", "forget"]


def test_an_error_on_one_rank_stops_all(asked: list[Any]) -> None:
    cases = list(plan_steps(DDP, STACK, [1 << 20], ["nccl"]))
    outcomes = outcomes_of(FakePeers(others="cannot run: elsewhere"), cases)
    assert [one.problem for one in outcomes] == ["", *["cannot run: elsewhere"] * 2]
    assert asked == [cases[0].suite["nccl"]]


def test_steps_are_not_gated(asked: list[Any]) -> None:
    outcomes_of(FakePeers(), list(plan_steps(FSDP, STACK, [1], [])))
    assert [gated for _, gated, _ in asked] == [False, False]


def test_peers_of_pipelines_are_named_by_their_order(asked: list[Any]) -> None:
    outcomes_of(FakePeers(), list(plan_pipelines(STAGES, [4], []))[:1])
    labels = {"microbatches": 4, "n": 4096, "layers": 8, "bytes": 33554432}
    assert asked == [("GPipe", False, {"peer": peer} | labels) for peer in ("computation", "pp")]


def layer_outcomes() -> list[Outcome]:
    """Make two shapes; in the second the operator is wrong, and nothing of the suite's is there."""
    small, large = list(plan_layers(["llama8b"], [256, 4096], TRANSPORTS))[:2]
    chosen: dict[str, Any] = {"sequential_ms": 0.25, "chunks": 1.0}
    wrong = "wrong result of COMM in run 'ColumnParallel': its relative error is 1.41, and 0.03 is"
    return [
        Outcome(small, "suite nccl", row("Tp/ColumnParallel", 0.3, **chosen)),
        Outcome(small, "suite copy", row("Tp/ColumnParallel", 0.2, **chosen | {"chunks": 4.0})),
        Outcome(small, "sequence", row("Comm/ColumnParallel", 0.26)),
        Outcome(small, "fused", row("Comm/ColumnParallel", 0.25)),
        Outcome(large, "suite nccl", failure="not available: no memory"),
        Outcome(large, "sequence", row("Comm/ColumnParallel", 2.5)),
        Outcome(large, "fused", row("Comm/ColumnParallel", 1, State.ERROR, f"{wrong} allowed")),
    ]


def step_outcomes() -> list[Outcome]:
    (case,) = plan_steps(DDP, STACK, [25 << 20], ["nccl"])
    return [
        Outcome(case, "suite nccl", row("Ddp/Buckets", 12.0, exposed_comm_ms=2.0)),
        Outcome(case, "computation", row("Compute/Buckets", 10.0)),
        Outcome(case, "ddp", row("Comm/Buckets", 13.0)),
    ]


def pipeline_outcomes() -> list[Outcome]:
    small, large = list(plan_pipelines(STAGES, [4, 16], ["copy"]))[:2]
    return [
        Outcome(small, "suite copy", row("Pp/GPipe/CublasGemm", 12.5, exposed_comm_ms=2.5)),
        Outcome(small, "computation", row("Compute/GPipe", 10.0)),
        Outcome(small, "pp", row("Comm/GPipe", 15.0)),
        Outcome(large, "suite copy", row("Pp/GPipe/CublasGemm", 45.0, exposed_comm_ms=5.0)),
        Outcome(large, "pp", failure="cannot run: ValueError: no"),
    ]


def test_the_table_has_80_columns_and_names_unmeasured_peers() -> None:
    table = render_training([*layer_outcomes(), *step_outcomes(), *pipeline_outcomes()])
    assert table.splitlines() == [
        "Tp/ColumnParallel/model:llama8b",
        "      tokens suite ms by       sequence  PyTorch operator  ratio (95 %)",
        "         256   0.2000 copy 4     0.2500   0.2600   0.2500  1.25 1.23-1.28",
        "        4096        - -               -   2.5000        -  -",
        "  4096 suite nccl: not available: no memory",
        "  4096 fused: error: wrong result of COMM in run 'ColumnParallel': its relative",
        "    error is 1.41, and 0.03 is allowed",
        "",
        "Ddp/Buckets/layers:24/width:4096/tokens:4096",
        "bucket_bytes suite ms by        added %  PyTorch  added %  ratio (95 %)",
        "    26214400  12.0000 nccl         20.0  13.0000     30.0  1.08 1.06-1.11",
        "",
        "Pp/GPipe/CublasGemm/n:4096/layers:8/bytes:33554432",
        "microbatches suite ms by        added %  PyTorch  added %  ratio (95 %)",
        "           4  12.5000 copy         25.0  15.0000     50.0  1.20 1.18-1.22",
        "          16  45.0000 copy         12.5        -        -  -",
        "  16 pp: cannot run: ValueError: no",
    ]
    assert max(map(len, table.splitlines())) <= 80


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Put a PyTorch in place that is rank 0 of two, and a suite that measures nothing."""
    distributed = SimpleNamespace(
        get_rank=lambda: 0, get_backend=lambda: "nccl", barrier=lambda: None, ended=[]
    )
    distributed.destroy_process_group = lambda: distributed.ended.append(1)
    module = SimpleNamespace(distributed=distributed)
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    peers = SimpleNamespace(TorchPeers=FakePeers)
    monkeypatch.setitem(sys.modules, "overlapbench.peers.torch_peers", peers)
    monkeypatch.setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

    @contextmanager
    def results(path: Path) -> Iterator[None]:
        path.write_text("{}")
        yield

    for name in ("configure", "init_torch_distributed"):
        monkeypatch.setattr(ob, name, lambda **_: None, raising=False)
    monkeypatch.setattr(ob, "results", results, raising=False)
    return distributed


def run(*arguments: object) -> int:
    return command.main([str(argument) for argument in arguments])


@pytest.mark.parametrize(("outcomes", "status"), [(step_outcomes(), 0), (layer_outcomes(), 1)])
def test_the_table_and_the_status_report_the_measurements(
    outcomes: list[Outcome],
    status: int,
    torch: SimpleNamespace,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "measure_cases", lambda *_: outcomes)
    assert run("-o", tmp_path / "out") == status
    assert torch.ended == [1]
    table = (tmp_path / "out/training-peers.txt").read_text()
    assert table == render_training(outcomes)
    assert capsys.readouterr().out.startswith(table)
    assert (tmp_path / "out/training-peers.json").exists()


def test_after_measuring_ends_the_remaining_peers_are_named(
    torch: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(*_: object) -> Iterator[Outcome]:
        yield from step_outcomes()
        raise MeasureError("an earlier row ended the measuring: fused has not returned")

    monkeypatch.setattr(command, "measure_cases", measure)
    assert run("-o", tmp_path) == 1
    table = (tmp_path / "training-peers.txt").read_text()
    assert table.startswith("Ddp/Buckets")
    assert table.endswith("the run is incomplete: an earlier row ended the measuring: fused has not"
                          " returned\n")  # fmt: skip
    assert torch.ended == []  # it would wait for what hangs


def test_only_requested_shapes_are_measured(
    torch: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def measure(cases: list[Case], *_: object) -> list[Outcome]:
        asked.extend(map(str, cases))
        return []

    monkeypatch.setattr(command, "measure_cases", measure)
    run("-o", tmp_path, "--what", "tp,fsdp,pp", "--models", "small", "--tokens", "4K",
        "--prefetch", "0,3", "--layers", 2, "--width", 16, "--step-tokens", 8,
        "--microbatches", 6, "--stage-layers", 3, "--virtual", 3)  # fmt: skip
    assert asked == [
        "Tp/ColumnParallel/model:small/tokens:4096",
        "Tp/RowParallel/model:small/tokens:4096",
        "Fsdp/Prefetch/layers:2/width:16/tokens:8/prefetch:0",
        "Fsdp/Prefetch/layers:2/width:16/tokens:8/prefetch:3",
        "Pp/GPipe/CublasGemm/microbatches:6/n:16/layers:3/bytes:512",
        "Pp/OneFOneB/CublasGemm/microbatches:6/n:16/layers:3/bytes:512",
        "Pp/Interleaved/CublasGemm/microbatches:6/virtual:3/n:16/layers:3/bytes:512",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the following arguments are required: -o/--output"),
        (["-o", "x", "--what", "tp,ep"], "'ep' is not one of tp, ddp, fsdp, pp"),
        (["-o", "x", "--models", "gpt"], "'gpt' is not one of llama8b, llama70b, small"),
        (["-o", "x", "--tokens", "0"], "'0' is no size from 1 to 2^31"),
    ],
)
def test_usage_errors_have_status_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]


def test_the_command_runs_in_a_bare_python(tmp_path: Path) -> None:
    bare = subprocess.run(
        [sys.executable, "-S", "-m", "overlapbench", "peers", "-o", tmp_path / "out"],
        env=os.environ | {"PYTHONPATH": str(TOOLS)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = r"overlapbench peers: package (numpy|torch) is not installed: pip install \1\n"
    assert bare.returncode == 2
    assert re.fullmatch(said, bare.stderr)
    assert not (tmp_path / "out").exists()


def test_a_whole_run_on_the_host(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    mpirun = shutil.which(MPIRUN[0])
    if mpirun is None or not library_path().is_file():
        pytest.skip("needs mpirun and the library")
    small = ["--models", "small", "--tokens", "128", "--layers", "3", "--width", "64",
             "--step-tokens", "32", "--buckets", "16K", "--prefetch", "1", "--stage-layers", "2",
             "--microbatches", "4"]  # fmt: skip
    done = subprocess.run(
        [mpirun, *MPIRUN[1:], "-n", "2", sys.executable, "-m", "overlapbench", "peers", "-o",
         tmp_path, "--backend", "host", "--budget_ms", "20", *small],
        env=os.environ | MPI_ENVIRONMENT | {"PYTHONPATH": str(TOOLS)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr  # the operators exist on GPUs only
    (result,) = read_results([str(tmp_path / "training-peers.json")])
    good = [str(one.name.axis("peer")) for one in result.rows if one.state.comparable]
    assert set(good) == {"None", "sequence", "computation", "ddp", "fsdp", "pp"}
    assert good.count("pp") == len(ORDERS)
    assert "NotImplementedError" in (tmp_path / "training-peers.txt").read_text()
