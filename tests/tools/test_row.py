"""Rows of ob.measure: figures with intervals, what they can say of limits, tables of notebooks."""

import json
import pickle
from typing import Any

import pytest

import overlapbench
from overlapbench.measurement.row import Figure, Inconclusive, Row
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.project import read_defaults
from overlapbench.reading.result import Row as ReadRow
from overlapbench.reading.result import State

NAME = "Overlap/mineComm+mineComp/n:4/cache:cold"


def row(state: State = State.OK) -> Row:
    read = ReadRow(
        file="mine",
        name=BenchmarkName.parse(NAME),
        counters={"comp_ms": 2.0, "comm_ms": 1.5, "overlap_ms": 3.0, "slowdown": 1.5},
        state=state,
        time_ms=3.0,
        reason="<b>",
        intervals={"slowdown": (1.4, 1.6)},
    )
    return Row(read, {}, {"slowdown": ("slowdown", "x")})


def test_a_figure_judges_its_whole_interval() -> None:
    figure = row().slowdown
    assert figure == 1.5
    assert (figure.low, figure.high) == figure.interval == (1.4, 1.6)
    assert figure.below(1.61) is True
    assert figure.below(1.4) is False
    assert figure.above(1.39) is True
    assert figure.above(1.6) is False
    for limit in (1.41, 1.5, 1.6):
        with pytest.raises(Inconclusive, match=r"slowdown 1.5 \(1.4 to 1.6\) against .*uncertain"):
            figure.below(limit)


def test_a_figure_of_a_noisy_row_or_without_an_interval_is_not_judged() -> None:
    with pytest.raises(Inconclusive, match="noisy"):
        row(State.NOISY).slowdown.below(9)
    with pytest.raises(Inconclusive, match="no interval"):
        row().C.below(9)


def test_a_figure_is_a_number() -> None:
    figure = Figure(1.5, "slowdown", (1.4, 1.6))
    assert json.dumps(figure) == "1.5"
    assert f"{figure:.1f} {figure}" == "1.5 1.5"
    assert pickle.loads(pickle.dumps(figure)).high == 1.6


def test_counters_are_attributes() -> None:
    measured = row()
    assert "slowdown" in dir(measured)
    assert "comp_ms" in dir(measured)
    with pytest.raises(AttributeError, match="no attribute 'slow'"):
        _ = measured.slow


def test_a_row_becomes_a_line_of_a_data_frame_and_a_table() -> None:
    told = row().to_dict()
    assert told["benchmark"] == NAME
    assert (told["axis_n"], told["axis_cache"], told["state"]) == ("4", "cold", "ok")
    assert (told["time_ms"], told["slowdown"], told["slowdown_low"]) == (3.0, 1.5, 1.4)
    shown = row()._repr_html_()
    assert "<td>1.4 to 1.6</td>" in shown
    assert "&lt;b&gt;" in shown


def test_completion_shows_the_api() -> None:
    assert {"measure", "do_bench", "read", "compare", "trace", "plot"} <= set(dir(overlapbench))
    assert not {"annotations", "importlib", "Any"} & set(dir(overlapbench))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = overlapbench.nothing


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("budget = 3", "budget: unknown; did you mean budget_ms?"),
        ("budget_ms = 2.5", "budget_ms: is 2.5, must be a whole number"),
        ("budget_ms = true", "budget_ms: is true, must be a whole number"),
        ('when_noisy = "warn"', "when_noisy: is .warn., must be 'skip' or 'fail'"),
        ("=", "cannot be read: "),
    ],
)
def test_bad_defaults_are_refused(tmp_path: Any, line: str, fault: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.overlapbench]\n{line}\n")
    (tmp_path / "inner").mkdir()
    with pytest.raises(ValueError, match=f"pyproject.toml: (tool.overlapbench.)?{fault}"):
        read_defaults(tmp_path / "inner")
