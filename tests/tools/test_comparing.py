"""`compare` for scripts and notebooks, and what pyproject.toml sets for the commands."""

from pathlib import Path

import pytest

import made_runs
import samples
from comparing import SLOW, A, Capture, compared, one, run, sides
from made_runs import write_side
from overlapbench.cli import gate
from overlapbench.judge.judgements import Verdict
from overlapbench.judge.verdicts import compare
from overlapbench.output import ResultError
from overlapbench.reading.result import read


def test_a_script_compares_as_the_command_does(tmp_path: Path, capsys: Capture) -> None:
    arguments = sides(tmp_path, made_runs.side(5, 1), made_runs.side(5, 2, {SLOW: 1.05}))
    status, document = compared(capsys, *arguments)
    found = compare(f"{tmp_path}/b*.json", sorted(tmp_path.glob("n*.json")))
    assert (found.status, found.ok, status) == (1, False, 1)
    assert [(row.name, row.verdict.value) for row in found.rows] == [
        (row["name"], row["verdict"]) for row in document["rows"]
    ]
    assert found.rows[0].name == SLOW
    assert found.rows[0].worst is not None
    assert found.rows[0].worst.relative == document["rows"][0]["findings"][0]["change"]
    assert compare(f"{tmp_path}/b*.json", f"{tmp_path}/b*.json").ok


def test_what_was_read_is_compared_and_only_the_rows_that_were_chosen(tmp_path: Path) -> None:
    base = write_side(tmp_path, "b", made_runs.side(5, 1))
    new = write_side(tmp_path, "n", made_runs.side(5, 2, {SLOW: 1.05}))
    whole = compare(read(base), read(new))
    assert whole.rows == compare(base, new).rows
    chosen = compare(read(base).filter(SLOW), read(new).filter(SLOW))
    assert [(row.name, row.verdict) for row in chosen.rows] == [(SLOW, Verdict.SLOWER)]
    assert chosen.rows[0].runs == (5, 5)


def test_limits_and_differences_are_parameters(tmp_path: Path) -> None:
    base = write_side(tmp_path, "b", one(A, driver_version="1"))
    new = write_side(tmp_path, "n", one(A, driver_version="2"))
    assert compare(base, new).rows[0].verdict is Verdict.INCOMPARABLE
    assert compare(base, new, across=["driver"]).rows[0].verdict is Verdict.SAME
    tight = compare(base, new, across=["driver"], max_floor=0.001)
    assert tight.rows[0].judgements[0].limit == 0.02  # the least floor
    floors = tmp_path / "floors.toml"
    floors.write_text('[[floor]]\npattern = ""\npercent = 12')
    wide = compare(base, new, across=["driver"], floors=[floors])
    assert wide.rows[0].judgements[0].floor == 0.12


def test_a_notebook_shows_sentences_and_the_rows_worth_a_line(tmp_path: Path) -> None:
    rows = [{"name": name, "real_time": 1.0} for name in ("BM_<b>x", "BM_y")]
    base, new = ({"context": {}, "benchmarks": some} for some in (rows, rows[1:]))
    found = compare(write_side(tmp_path, "b", [base]), write_side(tmp_path, "n", [new]))
    shown = found._repr_html_()
    assert "<td>missing</td><td>BM_&lt;b&gt;x</td><td>not in the new results</td>" in shown
    assert "<td>inconclusive</td><td>BM_y</td>" in shown  # a spread that nobody knows
    assert "2 benchmarks: 1 missing, 1 inconclusive<br>" in shown
    assert repr(found).startswith("2 benchmarks: 1 missing, 1 inconclusive\n")
    good = samples.write(tmp_path / "good.json", samples.document([A]))
    assert "<table>" not in compare(good, good)._repr_html_()


def test_standard_input_is_one_side() -> None:
    with pytest.raises(ResultError, match=r"^-: standard input can be read only once$"):
        compare("-", ["a.json", "-"])


# ---- the project's defaults


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the pyproject.toml of a folder above the current one."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path / "pyproject.toml"


def limit(capsys: Capture, *arguments: str) -> float:
    _, document = compared(capsys, *arguments)
    return float(document["rows"][0]["findings"][0]["limit"])


def test_a_project_sets_what_the_command_line_does_not_say(project: Path, capsys: Capture) -> None:
    base, new = (one(A, driver_version=version) for version in "12")
    arguments = sides(project.parent, base, new)
    assert run(*arguments) == 3
    project.write_text('[tool.overlapbench]\nmax_floor = 30\nacross = ["driver"]')
    assert limit(capsys, *arguments) == 0.3
    assert limit(capsys, *arguments, "--max-floor", "40") == 0.4
    assert run(*arguments, "--across", "NCCL") == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("max_floor = 200", "max_floor: '200' is not a percentage from 0 to 100"),
        ('max_floor = "wide"', 'max_floor: is "wide", must be a number'),
        ('across = ["drivers"]', "across: 'drivers' is not one of backend, GPU, driver, "),
        ("max_flor = 3", "max_flor: unknown; did you mean max_floor?"),
    ],
)
def test_a_wrong_default_is_one_line(
    text: str, complaint: str, project: Path, capsys: Capture
) -> None:
    project.write_text(f"[tool.overlapbench]\n{text}\n")
    arguments = sides(project.parent, one(A), one(A))
    assert run(*arguments) == gate.main(["run", "--base", "x", "--candidate", "y"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(f"pyproject.toml: tool.overlapbench.{complaint}" in line for line in lines)
