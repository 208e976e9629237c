"""Standard output that cannot be written: one line and status 2 of every tool, never a verdict."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import histories
import samples
import traces
from overlapbench.cli import history
from test_growth import piece

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "compare": ["run.json", "run.json"],
    "fault_drill": ["--list"],
    "history": ["list"],
    "report": ["run.json", "-o", "é.html"],
    "simulate_compare": ["--trials", "1"],
    "chart": ["run.json", "-o", "é"],
    "soak": ["--read", "r.csv"],
    "timeline": ["é.json", "-o", "é.svg"],
    "trace": ["é.json"],
}
STREAMS = {
    "full": "cannot be written: No space left on device",
    "closed": "closed before all was written",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands read."""
    folder = tmp_path_factory.mktemp("inputs")
    samples.write(folder / "run.json", samples.document(samples.bandwidths()[:1]))
    samples.write(folder / "night.json", histories.nightly(1, 1, {})[0])
    path = str(folder / "history.sqlite")
    assert history.main(["add", str(folder / "night.json"), "--database", path]) == 0
    (folder / "r.csv").write_text(piece(40))
    traces.write(folder / "é.json", traces.kineto([traces.work("é_all_reduce", 0, 1)]))
    return folder


def complaint(tool: str, folder: Path, stdout: int, **environment: str) -> str:
    """Run a tool, which must end with status 2, and return the last line that it said."""
    script = ROOT / "dev" / f"{tool}.py"
    words = [str(script)] if script.exists() else ["-m", "overlapbench", tool]
    done = subprocess.run(
        [sys.executable, *words, *COMMANDS[tool]],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tools")} | environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    *progress, last = done.stderr.splitlines()
    assert all(line.startswith("simulated: ") for line in progress)
    return last


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("tool", COMMANDS)
def test_an_output_error_is_not_a_verdict(tool: str, stream: str, folder: Path) -> None:
    if stream == "full":
        stdout = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, stdout = os.pipe()
        os.close(reader)
    try:
        said = complaint(tool, folder, stdout)
    finally:
        os.close(stdout)
    assert said.removeprefix("overlapbench ") == f"{tool}: standard output: {STREAMS[stream]}"


@pytest.mark.parametrize("tool", ["report", "chart", "timeline"])
def test_a_path_that_standard_output_cannot_spell_is_one_line(tool: str, folder: Path) -> None:
    said = complaint(tool, folder, subprocess.DEVNULL, PYTHONIOENCODING="ascii")
    assert said.startswith(f"overlapbench {tool}: standard output: ascii cannot encode all of it: ")
