"""Every help fits a terminal, and every example in it runs as it is printed.

An example is a line of the help that is indented as a block of commands, with those behind a
backslash. They run in the order of the help, typed into bash, in a folder with the files that a
user would have. A few programs on the
PATH are stand-ins (stand_ins.py): those that need a GPU, what is built, real ranks, or minutes.
"""

import argparse
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import doctor_machine
import histories
import predictable
import samples
import stand_ins
import traces
from overlapbench.cli.command_line import COMMANDS, fitted, load
from test_other_sms import curve, on

ROOT = samples.TOOLS.parent
COLUMNS = 80
SCRIPTS = sorted(
    path
    for path in (
        ROOT / "bench",
        ROOT / "check",
        *samples.TOOLS.iterdir(),
        *(ROOT / "dev").iterdir(),
    )
    if path.is_file() and os.access(path, os.X_OK)
)
STAND_INS = Path(stand_ins.__file__)
TRACES = ROOT / "docs/results/host/traces"
WITH_PARSER = sorted({*COMMANDS} - {"run"})  # its help is that of the program


def examples_in(text: str) -> Iterator[str]:
    """Return the commands of a help, the lines of blocks in which every line is one."""
    text = text.replace("\nExamples:\n", "\n\n")
    text = re.sub(r" \\\n +", " ", text)
    for paragraph in re.split(r"\n\n+", text.strip("\n")):
        lines = paragraph.splitlines()
        indent = min(len(line) - len(line.lstrip()) for line in lines)
        if indent in (2, 4) and all(line[indent] != " " for line in lines):
            yield from (line.strip() for line in lines if not line.lstrip().startswith("-"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder, with what the examples read."""
    home = tmp_path / "home"
    for name in ("base", "new", "nightly", "old", "results", "traces"):
        (home / name).mkdir(parents=True)
    for name, text in _programs().items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    shutil.copy(tmp_path / "built/overlapbench", home / "old/bench")
    _write_results(home)
    _write_traces(home)
    _write_schedules(home)
    for name in ("healthy1", "healthy2", "node2", "node3"):
        recorded = vars(doctor_machine.recording(seed=len(name) + int(name[-1])))
        told = json.dumps({"doctor_schema": "1", "recording": recorded})
        (home / f"{name}.json").write_text(told)
    (home / "hosts").write_text("node1 slots=8\nnode2 slots=8\n")
    (home / "resources.csv").write_text(stand_ins.RESOURCES)
    return home


def _programs() -> dict[str, str]:
    start = f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(STAND_INS))}"
    names = ("mpirun", "srun", "overlapbench")
    made = {f"bin/{name}": f'{start} {name} "$@"\n' for name in names}
    return made | {"built/overlapbench": f'{start} program "$@"\n'}


def _write_results(home: Path) -> None:
    one = json.dumps(samples.document(samples.sweep()))
    names = "result before after first second third base new a b a1 a2 base1 base2 new1 new2"
    jobs = (f"result.connections-{count}" for count in (1, 8))
    for name in (*names.split(), *jobs, "base/1", "base/2", "new/1", "new/2", "results/1"):
        (home / f"{name}.json").write_text(one)
    for number, document in enumerate(histories.nightly(8, 1, {})):
        document["context"]["date"] = f"2026-10-{10 + number}T03:00:00+00:00"
        document["benchmarks"].append(
            samples.row("Comm/AllReduce/bytes:1024", busbw_GBps=300.0, state="ok", reason="")
        )
        samples.write(home / f"nightly/{number}.json", document)


def _write_schedules(home: Path) -> None:
    machine = predictable.Machine()
    steps = [on(predictable.ddp(machine, 2, layers), 16) for layers in (1, 2)]
    steps += [predictable.ddp(machine, 2, layers, "copy") for layers in (1, 2)]
    steps += [predictable.fsdp(machine, 8, 1)]
    predictable.profiled(machine, steps[0], home / "my_step.json")
    for name in ("steps", "more"):
        predictable.write(home / f"{name}.json", steps)
    curve(home / "sms.json", "nccl", "comm_ctas")


def _write_traces(home: Path) -> None:
    steps = [
        event
        for number in (3, 12)
        for event in (
            traces.step(number, 1000 * number, 900),
            traces.work(traces.GEMM, 1000 * number + 10, 500),
            traces.work("my_fused_kernel", 1000 * number + 300, 400, stream=8),
        )
    ]
    for name in ("trace.json", "earlier.json"):
        traces.write(home / name, traces.kineto(steps))
    for rank in range(2):
        text = json.dumps(traces.kineto(steps, rank))
        (home / f"rank{rank}.json.gz").write_bytes(gzip.compress(text.encode()))
    window = f"INSERT INTO NVTX_EVENTS VALUES (0, 1000, 59, {traces.PROCESS + 1}, 'forward', NULL)"
    kernels = traces.kernel(1, 100, 600), traces.kernel(2, 300, 800, 8)
    traces.nsys(home / "report.sqlite", [window, *kernels])
    for path in TRACES.glob("*.gz"):
        (home / "traces" / path.stem).write_bytes(gzip.decompress(path.read_bytes()))


def environment(folder: Path, **changes: str) -> Mapping[str, str]:
    pair, *alone = stand_ins.ROWS_MS
    rows = [samples.overlap(pair.removeprefix("Overlap/")), *map(samples.row, alone)]
    kept = {name: value for name, value in os.environ.items() if "OVERLAPBENCH" not in name}
    own = {
        "HOME": str(folder),
        "OVERLAPBENCH_BINARY": str(folder.parent / "built/overlapbench"),
        "PATH": f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, (samples.TOOLS, STAND_INS.parent))),
        "TEMPLATE": json.dumps(samples.document(rows)),
    }
    return kept | own | changes


def typed(command: str, folder: Path, **changes: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(folder, **changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_run_as_printed(name: str, folder: Path) -> None:
    # Only the manual of `run` goes through ./bench, which takes longer.
    real = {"REAL_RUN": "1"} if name == "run" else {}
    told = typed(f"overlapbench {name} --help", folder, REAL_RUN="1")
    assert told.returncode == 0, told.stderr
    examples = list(examples_in(told.stdout))
    assert any(f"overlapbench {name} " in f"{example} " for example in examples), told.stdout
    for example in examples:
        done = typed(example, folder, **real)
        assert done.returncode == 0, f"{example}\n{done.stdout}{done.stderr}"


def helps_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for own in action.choices.values():
                yield from helps_of(own)


def require_fit(text: str) -> None:
    assert text
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []


@pytest.mark.parametrize("name", WITH_PARSER)
def test_the_help_of_a_command_fits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    for text in helps_of(load(name).make_parser(f"overlapbench {name}")):
        require_fit(text)


@pytest.mark.parametrize("name", WITH_PARSER)
def test_the_help_of_a_command_names_no_script(name: str) -> None:
    for text in helps_of(load(name).make_parser(f"overlapbench {name}")):
        assert re.findall(r"(?<![\w./])(?:\./bench|tools/\w+\.py|benchmark_compare)", text) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_help_of_a_script_fits(script: Path, folder: Path) -> None:
    words = [str(script), "--help"]
    if script.suffix == ".py":  # needs the packages
        words = [sys.executable, *words]
    done = typed(shlex.join(words), folder, COLUMNS=str(COLUMNS))
    assert done.returncode == 0, done.stderr
    require_fit(done.stdout)


def test_the_help_of_run_fits(folder: Path) -> None:
    require_fit(typed("overlapbench run --help", folder, REAL_RUN="1").stdout)


MANUAL = """What it does.

    tools/it.py --first 'one word' --second \\
        -- --third=3 word

- `first` is an item that
  goes on
- `second` is none

Prose that goes
on.
"""
NARROW = """What it does.

    tools/it.py --first 'one word' --second \\
        -- --third=3 word

- `first` is an item
  that goes on
- `second` is none

Prose that goes on."""


def test_lines_of_manuals_are_broken_where_they_may_be() -> None:
    assert fitted(MANUAL, 20) == NARROW


def test_on_a_wide_screen_manuals_have_lines_that_are_easily_read() -> None:
    assert fitted("word " * 40, 1000).index("\n") == 99
