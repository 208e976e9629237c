"""How a rank that torchrun has started gets its variables of MPI, and what it says if it cannot."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from overlapbench.measurement import ranks
from overlapbench.measurement.interface import MeasureError, Place


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    """Make this process rank 1 of 2 that torchrun has started here, with a short patience."""
    for name in [name for name in os.environ if name.startswith(("OMPI_", "PMIX_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "a")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(ranks, "TIMEOUT_S", 0.0)
    monkeypatch.setattr("shutil.which", lambda _name: "/there")
    monkeypatch.setattr(ranks, "_meeting_place", lambda: tmp_path)
    monkeypatch.setattr("atexit.register", lambda *_: None)
    monkeypatch.setenv("OMPI_MCA_x", "kept")  # restores the variables that `joined` sets
    monkeypatch.setenv("PMIX_RANK", "old")
    return 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("OMPI_COMM_WORLD_RANK", "0"), ("WORLD_SIZE", "1"), ("TORCHELASTIC_RUN_ID", "")],
)
def test_mpi_starts_by_itself_where_it_can(
    rank: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str
) -> None:
    assert ranks.has_started_us()
    if value:
        monkeypatch.setenv(name, value)
    else:
        monkeypatch.delenv(name)
    with ranks.joined():
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_mpi_that_runs_already_is_kept(
    rank: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", SimpleNamespace())
    with ranks.joined():
        pass
    assert list(tmp_path.iterdir()) == []


def test_several_hosts_and_a_missing_mpirun_are_refused(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(MeasureError) as raised, ranks.joined():
        pass
    assert str(raised.value) == (
        "the ranks need MPI, which torchrun does not start, and there is no mpirun"
    )
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    with pytest.raises(MeasureError) as raised, ranks.joined():
        pass
    assert str(raised.value) == "torchrun has started ranks on several hosts: use mpirun or srun"


def test_a_rank_takes_the_variables_of_its_placeholder(rank: int, tmp_path: Path) -> None:
    (tmp_path / "variables.1").write_text(json.dumps({"PMIX_RANK": "1"}))
    with ranks.joined():
        assert os.environ["PMIX_RANK"] == "1"
        assert json.loads((tmp_path / "pid.1").read_text()) == os.getpid()
    assert tmp_path.is_dir()  # rank 0 removes it


def test_rank_0_removes_the_folder_once_mpi_has_started(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    (tmp_path / "pid.1").write_text("1")

    def start(folder: Path, count: int) -> Any:
        assert count == 2
        ranks._write(folder / "variables.0", {"PMIX_RANK": "0"})
        return SimpleNamespace()

    monkeypatch.setattr(ranks, "_start_placeholders", start)
    with ranks.joined():
        assert os.environ["PMIX_RANK"] == "0"
        assert tmp_path.is_dir()
    assert not tmp_path.exists()


def test_a_rank_that_does_not_come_is_named(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MeasureError, match=r"^rank 1 of 2: rank 0 did not arrive within 0 s$"):
        ranks._variables_for(1, 2, tmp_path)
    with pytest.raises(MeasureError, match=r"^rank 0 of 3: rank 2 did not arrive within 0 s$"):
        ranks._variables_for(0, 3, tmp_path)


def test_all_ranks_report_the_failure_of_one(rank: int, tmp_path: Path) -> None:
    complaint = "rank 1 of 2: rank 0 did not arrive within 0 s"
    for _ in range(2):
        with pytest.raises(MeasureError) as raised, ranks.joined():
            pass
        assert str(raised.value) == complaint
        assert json.loads((tmp_path / "failed").read_text()) == complaint
    (tmp_path / "variables.1").write_text("{}")
    with pytest.raises(MeasureError, match="did not arrive"), ranks.joined():
        pass


def test_an_mpirun_that_ends_is_told_with_its_reason(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    monkeypatch.setattr(ranks, "TIMEOUT_S", 60.0)
    (tmp_path / "log").write_text("-----\n  No space\nmore\n")
    gone = SimpleNamespace(poll=lambda: 1, terminate=lambda: ended.append("terminated"))
    monkeypatch.setattr(ranks, "_start_placeholders", lambda *_: gone)
    with pytest.raises(MeasureError, match=r"^rank 0 of 1: mpirun did not start MPI: No space$"):
        ranks._variables_for(0, 1, tmp_path)
    assert ended == ["terminated"]
    (tmp_path / "log").write_text("-----\n")
    with pytest.raises(MeasureError, match=r"^rank 0 of 1: mpirun did not start MPI$"):
        ranks._variables_for(0, 1, tmp_path)


def test_a_file_is_awaited_until_it_is_there(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "TIMEOUT_S", 60.0)
    late = threading.Timer(0.05, ranks._write, (tmp_path / "file", 1))
    late.start()
    running: Any = SimpleNamespace(poll=lambda: None)
    assert ranks._await(tmp_path / "file", tmp_path, running)
    late.join()
    monkeypatch.setattr(ranks, "TIMEOUT_S", 0.0)
    assert ranks._await(tmp_path / "file", tmp_path)
    assert not ranks._await(tmp_path / "other", tmp_path)


def test_the_last_rank_to_leave_removes_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "meeting"
    folder.mkdir()
    for rank in (0, 1):
        ranks._write(folder / f"pid.{rank}", rank)
    assert sorted(file.name for file in folder.iterdir()) == ["pid.0", "pid.1"]
    ranks._leave(1, folder)
    assert [file.name for file in folder.iterdir()] == ["pid.0"]
    ranks._leave(0, folder)
    ranks._leave(0, folder)
    assert not folder.exists()


@pytest.fixture
def asleep() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_process_has_a_time_of_its_own_until_it_has_ended(
    asleep: "subprocess.Popen[bytes]",
) -> None:
    began = ranks._began(asleep.pid)
    assert int(began) > int(ranks._began(1))
    assert ranks._status(asleep.pid)[1] == str(os.getpid())  # its parent
    asleep.kill()
    deadline = time.monotonic() + 60
    while ranks._began(asleep.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ranks._began(asleep.pid) == ""  # a zombie
    asleep.wait()
    assert ranks._began(asleep.pid) == ""


def test_a_placeholder_gives_its_variables_and_stays_as_long_as_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asleep: "subprocess.Popen[bytes]"
) -> None:
    monkeypatch.setattr(ranks, "_LOOK_FOR_END_S", 0.01)
    for name, value in (("OMPI_COMM_WORLD_RANK", "1"), ("PMIX_A", "b"), ("OTHER", "no")):
        monkeypatch.setenv(name, value)
    ranks._write(tmp_path / "pid.1", asleep.pid)
    placeholder = threading.Thread(target=ranks.hold_place, args=(tmp_path,), daemon=True)
    placeholder.start()
    placeholder.join(0.1)
    assert placeholder.is_alive()
    asleep.kill()
    asleep.wait()
    placeholder.join(20)
    assert not placeholder.is_alive()
    variables = json.loads((tmp_path / "variables.1").read_text())
    assert variables["PMIX_A"] == "b"
    assert variables["OMPI_COMM_WORLD_RANK"] == "1"
    assert all(name.startswith(("OMPI_", "PMIX_")) for name in variables)


def test_the_meeting_place_is_of_one_start_and_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("MASTER_PORT", "29500")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    here = ranks._meeting_place()
    parent = os.getppid()
    assert here == tmp_path / f"overlapbench-{parent}-{ranks._began(parent)}-29500-0"
    assert here.stat().st_mode & 0o777 == 0o700
    assert ranks._meeting_place() == here
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    again = ranks._meeting_place()
    assert again != here
    again.chmod(0o750)
    with pytest.raises(MeasureError) as raised:
        ranks._meeting_place()
    assert str(raised.value) == f"{again} is not private to this user: remove it"
    again.rmdir()
    again.symlink_to(here)
    with pytest.raises(MeasureError, match="is not private"):
        ranks._meeting_place()


def test_mpirun_starts_a_placeholder_for_each_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script stands in for mpirun, and writes what it was given."""
    script = tmp_path / "mpirun"
    script.write_text('#!/bin/sh\necho "$PYTHONPATH"\necho "$@" >&2\n')
    script.chmod(0o755)
    monkeypatch.setattr(ranks, "MPIRUN", (str(script), "--quiet"))
    monkeypatch.setenv("PYTHONPATH", "/mine")
    assert ranks._start_placeholders(tmp_path, 3).wait(60) == 0
    path, words = (tmp_path / "log").read_text().splitlines()
    assert path == f"{Path(ranks.__file__).parents[1]}{os.pathsep}/mine"
    module = "overlapbench.measurement.ranks"
    monkeypatch.delenv("PYTHONPATH")
    assert ranks._start_placeholders(tmp_path, 3).wait(60) == 0
    assert (tmp_path / "log").read_text().splitlines()[0] == str(Path(ranks.__file__).parents[1])
    assert words == f"--quiet --host localhost:3 -n 3 {sys.executable} -m {module} {tmp_path}"


# ---- the ranks of torch.distributed


def torch_of(rank: int, ranks: int, available: bool = True, initialized: bool = True) -> Any:
    distributed = SimpleNamespace(
        is_available=lambda: available,
        is_initialized=lambda: initialized,
        get_rank=lambda: rank,
        get_world_size=lambda: ranks,
    )
    return SimpleNamespace(distributed=distributed)


@pytest.mark.parametrize(
    "torch",
    [
        torch_of(1, 2),
        torch_of(0, 1, initialized=False),
        torch_of(0, 1, available=False),
        SimpleNamespace(),
        None,
    ],
)
def test_the_same_ranks_or_none_are_accepted(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    ranks.require_same(Place(1, 2, 1, 0))


@pytest.mark.parametrize(("rank", "world"), [(0, 2), (1, 3)])
def test_other_ranks_are_refused(rank: int, world: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_of(rank, world))
    with pytest.raises(MeasureError) as raised:
        ranks.require_same(Place(1, 2, 1, 0))
    assert str(raised.value) == (
        f"torch.distributed has rank {rank} of {world}, but MPI has rank 1 of 2: start with"
        f" `mpirun -n {world} python ...`, or with torchrun on one host, and call"
        " overlapbench.init_torch_distributed() in place of init_process_group()"
    )


@pytest.mark.parametrize(
    ("device", "backend", "expected"),
    [(-1, None, ("gloo", {})), (3, None, ("nccl", {"device_id": ("cuda", 3)})), (3, "mpi", None)],
)
@pytest.mark.parametrize("by_torchrun", [False, True])
def test_torch_is_initialized_with_mpis_ranks(
    device: int,
    backend: str | None,
    expected: Any,
    by_torchrun: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []
    torch = SimpleNamespace(
        cuda=SimpleNamespace(set_device=lambda number: given.append(number)),
        device=lambda kind, number: (kind, number),
        distributed=SimpleNamespace(
            init_process_group=lambda backend, **options: given.append((backend, options))
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    for name in variables:
        monkeypatch.setenv(name, "before")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    if by_torchrun:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "a")
    told: list[str] = []

    def broadcast(text: str) -> str:
        told.append(text)
        return "node:with:1234"

    suite: Any = SimpleNamespace(place=Place(5, 8, 1, device), broadcast=broadcast)
    ranks.init(suite, backend, timeout=7)
    if expected is None:
        expected = ("mpi", {"device_id": ("cuda", 3)})
    assert given[-1] == (expected[0], {"timeout": 7} | expected[1])
    assert given[:-1] == ([device] if device >= 0 else [])
    values = [os.environ[name] for name in variables]
    if by_torchrun:
        assert values == ["before"] * 5
        assert told == []
    else:
        assert values == ["5", "8", "1", "node:with", "1234"]
        host, _, port = told[0].rpartition(":")
        assert host
        assert 0 < int(port) < 65536
