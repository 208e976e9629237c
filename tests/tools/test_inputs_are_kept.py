"""A file that a command reads is never replaced by what it writes: one line, and status 2."""

import os
from pathlib import Path

import pytest

import histories
import samples
import traces
from overlapbench import cli
from overlapbench.cli import history
from overlapbench.output import ResultError, require_file

COMMANDS = {
    "compare": "compare run.json run.json --output run.json",
    "compare floors.json": "compare run.json run.json --floors floors.json --output floors.json",
    "gate": "gate run --candidate no --baseline kept --output kept/run-1.json",
    "gate floors.json": "gate run --base no --candidate no --floors run.json --output run.json",
    "chart": "chart charts/index.html -o charts",
    "report": "report page.html -o page.html",
    "report base": "report run.json --base page.html -o page.html",
    "report traces": "report run.json --traces page.html -o page.html",
    "report floors": "report run.json --floors page.html -o page.html",
    "history json": "history export --database run-1.json -o .",
    "history trend": "history trend --database page.html -o page.html",
    "export": "export run.json --format csv -o run.json",
    "trace": "trace trace.json -o trace.json",
    "trace folder": "trace kept -o kept/run-1.json",
    "timeline": "timeline page.html -o page.html",
    "a glob": "report *.html -o page.html",
    "another spelling": "export run.json --format csv -o kept/../run.json",
    "a link": "export run.json --format csv -o link.json",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "kept").mkdir()
    (folder / "charts").mkdir()
    result = samples.document(samples.bandwidths()[:1])
    names = "run.json floors.json page.html charts/index.html kept/run-1.json"
    for name in names.split():
        samples.write(folder / name, result)
    (folder / "link.json").symlink_to("run.json")
    traces.write(folder / "trace.json", traces.kineto([traces.work("all_reduce", 0, 1)]))
    samples.write(folder / "night.json", histories.nightly(1, 1, {})[0])
    for name in ("history.sqlite", "run-1.json"):
        database = folder / name
        database.unlink(missing_ok=True)
        assert history.main(["add", str(folder / "night.json"), "--database", str(database)]) == 0
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_an_output_that_is_an_input_is_refused(
    command: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = contents(folder)
    words = command.split()
    assert cli.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"overlapbench {words[0]}: ")
    assert line.endswith(": cannot be written: it is an input; name another file")
    assert contents(folder) == before


def test_standard_input_is_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.json"
    path.touch()
    reader = os.open(path, os.O_RDONLY)
    try:
        monkeypatch.setattr("overlapbench.output._STDIN", f"/dev/fd/{reader}")
        with pytest.raises(ResultError, match="it is an input"):
            require_file(path, ["-"])
    finally:
        os.close(reader)


@pytest.mark.parametrize("name", ["x.pdf", "x", "x.HTML"])
def test_a_report_is_a_page(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "none.json", "-o", str(tmp_path / name)]) == 2
    refusal = f"overlapbench report: -o {tmp_path / name}: the name must end in .html\n"
    assert capsys.readouterr().err == refusal
