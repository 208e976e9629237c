"""ob.trace: what `overlapbench trace` prints, as objects."""

from pathlib import Path

import pytest

import traces
from overlapbench.cli import trace as command
from overlapbench.view.tracing import trace
from traces import GEMM, NCCL, kineto, step, work


def two_ranks(folder: Path) -> list[Path]:
    events = [work(GEMM, 0, 60), work(NCCL, 40, 40, 8), step(3, 0, 100)]
    return [traces.write(folder / f"{rank}.json", kineto(events, rank)) for rank in (0, 1)]


def test_shares_of_classes_and_causes_are_all_of_a_step(tmp_path: Path) -> None:
    found = trace(two_ranks(tmp_path)).breakdown(step=3)
    assert found.classes.keys() == found.idle.keys() == {0, 1}
    assert (found.classes[1]["COMP"], found.classes[1]["COMP+COMM"]) == (40, 20)
    assert found.idle[1]["unknown"] == 20
    for rank in (0, 1):
        shares = (*found.classes[rank].values(), *found.idle[rank].values())
        assert sum(shares) == pytest.approx(100)
    assert found.worst.rank == 0
    assert found.to_dict()["ranks"][1]["pct"]["COMM"] == 20


def test_it_is_what_the_command_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = two_ranks(tmp_path)
    assert command.main([*map(str, files), "--class", "gemm=MEM"]) == 0
    assert str(trace(files, ["gemm=MEM"]).breakdown()) == capsys.readouterr().out


def test_a_notebook_shows_a_table_without_markup_from_a_file(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    events = [work(GEMM, 0, 4), traces.event("user_annotation", name, 0, 4)]
    file = traces.write(tmp_path / f"{name.replace('/', '')}.json", kineto(events))
    page = trace(file).breakdown(window=name)._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "100.0" in page


def test_what_cannot_be_read_or_is_not_there_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        trace(tmp_path / "none.json")
    with pytest.raises(ValueError, match="no step 4"):
        trace(two_ranks(tmp_path)).breakdown(step=4)
    with pytest.raises(ValueError, match="is not PATTERN=CLASS"):
        trace(two_ranks(tmp_path), ["gemm"])
