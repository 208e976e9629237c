"""What a comparison shows: the table, and every format of output."""

import html
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

import made_runs
import samples
from comparing import SLOW, A, B, Capture, one, run, sides
from made_runs import NAMES
from overlapbench.view.comparison import FORMATS


@pytest.mark.parametrize(
    ("text", "noise", "reason"),
    [
        ("", 0.003, "the least floor"),
        ("", 0.02, "the spread of runs"),
        ('[[floor]]\npattern = "/n:80/"\npercent = 12', 0.003, "set for /n:80/"),
    ],
)
def test_the_json_says_where_a_floor_comes_from(
    text: str, noise: float, reason: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "floors.toml").write_text(text)
    documents = (made_runs.side(5, seed, noise=noise) for seed in (1, 2))
    arguments = [*sides(tmp_path, *documents), "--floors", str(tmp_path / "floors.toml")]
    assert run(*arguments, "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert [finding["floor_reason"] for finding in rows[SLOW]["findings"]] == [reason]


HOSTILE = "BM_<b>[red]x[/red]|`*_@me ::error::%0A,:"


@pytest.fixture
def hostile(tmp_path: Path) -> list[str]:
    """Two files whose names and reasons try to break out of every format."""
    row = {"run_name": HOSTILE, "name": HOSTILE, "run_type": "iteration", "real_time": 1.0}
    bad = {"error_occurred": True, "error_message": f"{HOSTILE}\n::error::\x1b[31m</failure>"}
    documents = [{"context": {}, "benchmarks": [row | extra]} for extra in ({}, bad)]
    return [str(samples.write(tmp_path / f"h{i}.json", d)) for i, d in enumerate(documents)]


def test_names_are_no_markup_in_any_format(hostile: list[str], capsys: Capture) -> None:
    texts = {}
    for form in FORMATS:
        assert run(*hostile, "--format", form) == 3
        texts[form] = capsys.readouterr().out
        assert "\x1b" not in texts[form]
    assert "[red]x[/red]" in texts["table"]
    assert "<b>" not in texts["markdown"]
    assert "@me" not in texts["markdown"]
    (line,) = (line for line in texts["markdown"].splitlines() if "**invalid**" in line)
    assert len(re.split(r"(?<!\\)\|", line)) == 2 + 8
    assert re.search(r"(?<!\\)[`_\[]", line) is None
    assert json.loads(texts["json"])["rows"][0]["name"] == HOSTILE
    case = ElementTree.fromstring(texts["junit"]).find("testcase")
    assert case is not None
    assert case.get("name") == HOSTILE
    lines = texts["github"].splitlines()
    assert len(lines) == 2
    assert all(line.startswith("::error title=") for line in lines)
    assert lines[0].startswith("::error title=invalid::BM_")
    assert "%250A" in lines[0]


def test_markdown_shows_a_name_as_it_is(tmp_path: Path, capsys: Capture) -> None:
    name = "a@b/c#d_e*f|<b>https://x/www.y`z`"
    bad = {"run_name": name, "name": name, "error_occurred": True, "error_message": name}
    file = str(samples.write(tmp_path / "a.json", {"context": {}, "benchmarks": [bad]}))
    run(file, file, "--format", "markdown")
    page = MarkdownIt("commonmark").enable("table").render(capsys.readouterr().out)
    assert "<a" not in page
    assert html.unescape(page).count(name) == 3  # the row, and its reason on both sides


def test_outputs_are_written_by_suffix(tmp_path: Path, capsys: Capture) -> None:
    arguments = sides(tmp_path, one(A), one(A))
    files = [tmp_path / f"diff{suffix}" for suffix in (".txt", ".md", ".json", ".xml")]
    outputs = [word for file in files for word in ("--output", str(file))]
    assert run(*arguments, *outputs) == 0
    text, markdown, document, junit = (file.read_text(encoding="utf-8") for file in files)
    assert capsys.readouterr().out == text
    assert markdown.startswith("## overlapbench: nothing is worse\n\n- on ")
    assert "\n- 1 benchmark: 1 same\n" in markdown
    assert json.loads(document)["counts"]["same"] == 1
    assert ElementTree.fromstring(junit).tag == "testsuite"
    assert not list(tmp_path.glob(".unfinished*"))


def test_colour_is_for_terminals_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    arguments = sides(tmp_path, one(A, B), one(A))
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for stream, coloured in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stdout", stream)
        assert run(*arguments) == 3
        assert ("\x1b[" in stream.getvalue()) == coloured


def test_a_closed_pipe_is_reported_in_one_line(tmp_path: Path) -> None:
    good = samples.write(tmp_path / "good.json", samples.document([A]))
    reader, writer = os.pipe()
    os.close(reader)
    command: list[str | Path] = [sys.executable, samples.TOOLS / "benchmark_compare.py", good, good]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 2
    assert done.stderr == "overlapbench compare: standard output: closed before all was written\n"


def test_a_long_table_counts_unchanged_rows(tmp_path: Path, capsys: Capture) -> None:
    rows = [samples.row(f"Compute/Gemm/n:{n}") for n in range(300)]
    assert run(*sides(tmp_path, one(*rows), one(*rows[1:]))) == 3
    text = capsys.readouterr().out
    assert "Compute/Gemm/n:0" in text
    assert "Compute/Gemm/n:7" not in text
    assert "299 rows are the same (--all lists)" in text
    assert run(*sides(tmp_path, one(*rows), one(*rows[1:])), "--all") == 3
    assert "Compute/Gemm/n:7" in capsys.readouterr().out


def test_inconclusive_rows_are_named_and_guard_nothing(tmp_path: Path, capsys: Capture) -> None:
    arguments = sides(tmp_path, made_runs.side(5, 1, noise=0.1), made_runs.side(5, 2, noise=0.1))
    assert run(*arguments) == 3
    out = capsys.readouterr().out
    assert "guards 0 of 12 rows\n" in out
    assert "nothing was decided: no row can be judged, or all are inconclusive" in out
    assert run(*arguments, "--max-floor", "90%") == 0
    out = " ".join(capsys.readouterr().out.split())
    told = r"found in any of them: (\S+) % in 80 %, (\S+) % in 95 % of cases or more"
    found = re.search(told, out)
    assert found
    assert float(found[1]) < float(found[2])


def test_a_vast_floor_has_no_figure(tmp_path: Path, capsys: Capture) -> None:
    run(*sides(tmp_path, made_runs.side(2, 1, noise=3), made_runs.side(2, 2, noise=3)))
    out = " ".join(capsys.readouterr().out.split())
    assert "a change beyond the limit of 10 % is not ruled out" in out
    assert " >1000 %" in out
    assert not re.search(r"\d{5,}\.\d %", out)


@pytest.mark.parametrize("scale", [1, 1e-5])
def test_a_table_of_vast_changes_is_80_columns_wide(
    scale: float, tmp_path: Path, capsys: Capture
) -> None:
    made = made_runs.side(2, 1, noise=3), made_runs.side(2, 2, {SLOW: 3e4}, noise=3)
    for documents in made:
        for document in documents:
            document["context"]["driver_version"] = "580.159.04" * 9
            for row in document["benchmarks"]:
                row["real_time"] *= scale
                row["busbw_GBps"] = row["pct_of_bound"] = 1e5 / row["real_time"]
    run(*sides(tmp_path, *made))
    out = capsys.readouterr().out
    assert " to >1000 %" in out
    assert re.search(r"% +vast\n", out)
    assert max(map(len, out.splitlines())) <= 80


def test_the_table_shows_judged_rows_worst_first_in_80_columns(
    tmp_path: Path, capsys: Capture
) -> None:
    slower = {SLOW: 1.05, NAMES[5]: 1.3, NAMES[2]: 0.8}
    long = "/".join(f"axis{n}:value" for n in range(20))
    documents = made_runs.side(5, 1), made_runs.side(5, 2, slower)
    for made in documents:
        for document in made:
            for row in document["benchmarks"]:
                row["run_name"] += f"/{long}"
    assert run(*sides(tmp_path, *documents)) == 1
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    names = [f"{name}/{long}" for name in (NAMES[5], SLOW, NAMES[2])]
    joined = "".join(line.strip() for line in text.splitlines())
    places = [joined.index(name) for name in names]  # whole, only broken
    assert places == sorted(places)
    figures = re.findall(r"^ .*er +time ms +(\S+) +(\S+) +(\S+) % +(\S+) to (\S+) %", text, re.M)
    assert len(figures) == 3
    for base, new, change, low, high in (map(float, found) for found in figures):
        assert change == pytest.approx(100 * (new / base - 1), abs=0.15)
        assert low < change < high
    assert "9 rows are the same (--all lists)" in text
