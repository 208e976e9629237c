"""Ranks that wait for each other before MPI starts, in the folder of mpirun's job."""

import threading
from pathlib import Path

import pytest

from overlapbench.measurement import ranks
from overlapbench.measurement.interface import MeasureError


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make this process rank 1 of 3 that mpirun has started here."""
    for name, value in (("RANK", "1"), ("SIZE", "3"), ("LOCAL_SIZE", "3")):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    monkeypatch.setenv("PMIX_SERVER_TMPDIR", str(tmp_path))
    return tmp_path


def arrive(job: Path, *ranks: int) -> Path:
    folder = job / "overlapbench"
    folder.mkdir(exist_ok=True)
    for rank in ranks:
        (folder / str(rank)).touch()
    return folder


def test_the_last_rank_decides_for_all(job: Path) -> None:
    folder = arrive(job, 0, 2)
    ranks.require_all(0.0)
    assert sorted(file.name for file in folder.iterdir()) == ["0", "1", "2", "outcome"]
    assert (folder / "outcome").read_text() == ""


def test_a_rank_waits_for_the_others(job: Path) -> None:
    folder = arrive(job)
    late = threading.Timer(0.1, arrive, (job, 0, 2))
    late.start()
    ranks.require_all(60.0)
    late.join()
    assert (folder / "outcome").read_text() == ""


@pytest.mark.parametrize(
    ("there", "who"), [([0], "rank 2 of 3"), ([], "ranks 0, 2 of 3"), ([2], "rank 0 of 3")]
)
def test_the_missing_ranks_are_named_after_the_timeout(
    job: Path, there: list[int], who: str
) -> None:
    arrive(job, *there)
    complaint = f"{who} did not reach the first measurement within 0.02 s"
    for _ in range(2):  # it stays so, even for ranks that come later
        with pytest.raises(MeasureError) as raised:
            ranks.require_all(0.02)
        assert str(raised.value) == complaint
        arrive(job, 0, 1, 2)


def test_the_first_outcome_counts(job: Path) -> None:
    folder = arrive(job, 0, 1, 2)
    ranks._decide(folder, "first")
    ranks._decide(folder, "second")
    with pytest.raises(MeasureError, match=r"^first$"):
        ranks.require_all(60.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMPI_COMM_WORLD_SIZE", "1"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),  # the others are elsewhere
        ("PMIX_SERVER_TMPDIR", "."),
        ("PMIX_SERVER_TMPDIR", "/dev/null"),
    ],
)
def test_ranks_of_another_launcher_are_not_awaited(
    job: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.chdir(job)
    monkeypatch.setenv(name, value)
    ranks.require_all(0.0)
    assert list(job.iterdir()) == []


def test_without_a_launcher_nobody_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "SIZE", "LOCAL_SIZE"):
        monkeypatch.delenv(f"OMPI_COMM_WORLD_{name}", raising=False)
    monkeypatch.delenv("PMIX_SERVER_TMPDIR", raising=False)
    ranks.require_all(0.0)


def test_two_ranks_are_enough_to_wait(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SIZE", "LOCAL_SIZE"):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", "2")
    with pytest.raises(MeasureError, match="rank 0 of 2 did not"):
        ranks.require_all(0.0)
