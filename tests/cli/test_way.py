"""The way of a row: CONTRIBUTING's stops are where it says, and a debugger shows them."""

import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

ROOT = Path(__file__).resolve().parents[2]

STOP = re.compile(r"^\| (\d+) \| `([\w:]+)` \| `([\w/]+\.\w+)` \|", re.MULTILINE)
MOST = (10, 6)  # stops down, and back
Stops = list[tuple[str, str]]


def ways() -> list[Stops]:
    """Return the tables of stops of CONTRIBUTING, each as functions and files."""
    found = STOP.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    tables: list[Stops] = []
    for number, function, file in found:
        if number == "1":
            tables.append([])
        tables[-1].append((function, file))
        assert int(number) == len(tables[-1])
    return tables


def is_defined(function: str, file: str) -> bool:
    """Tell whether the file has the function's body; a header has it within the class."""
    name = function if file.endswith(".cc") else function.rpartition(":")[2]
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.search(rf"^ *[\w:<>]+ {name}\([^;]*\{{", text, re.MULTILINE) is not None


def test_the_ways_are_short_and_their_stops_exist() -> None:
    assert [len(way) for way in ways()] == [*MOST]
    assert [stop for way in ways() for stop in way if not is_defined(*stop)] == []


def test_a_missing_stop_is_noticed() -> None:
    assert is_defined("Session::Take", "fixtures/session.cc")
    assert not is_defined("Session::Take", "fixtures/sampler.cc")
    assert not is_defined("Session::TakeTwo", "fixtures/session.cc")


def shown_by_gdb(launcher: "Launcher") -> list[str]:
    """Return the suite's functions at the first sample that counts, the outermost first."""
    gdb = shutil.which("gdb")
    if gdb is None:
        pytest.skip("gdb is not installed")
    steps = (
        "set breakpoint pending on",
        "tbreak overlapbench::TimedFixture::MeasureIteration_ms",
        "run",
        "break overlapbench::Sampler::Take",
        "continue",
        "backtrace",
    )
    command = [gdb, "--quiet", "--batch", "-nx"]
    command += [word for step in steps for word in ("-ex", step)]
    command += ["--args", str(launcher.binary), "--backend=host", "--no-self-test"]
    command += ["--benchmark_filter=^Compute/Gemm/n:64/", "--axis", "n=64", "--budget_ms=1"]
    done = subprocess.run(
        command,
        env=launcher.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if re.search("ptrace|not permitted", done.stdout + done.stderr):
        pytest.skip("gdb may not trace processes here")
    frames = re.findall(r"^#\d+ +(?:0x\w+ in )?(.*)", done.stdout, re.MULTILINE)
    own = [frame for frame in frames if re.match(rf"main |overlapbench::|.* at {ROOT}/", frame)]
    plain = [frame.replace("(anonymous namespace)::", "") for frame in own]
    names = [re.sub(r"^overlapbench::| ?\(.*", "", frame) for frame in plain]
    assert names, done.stdout + done.stderr
    return names[::-1]


@pytest.mark.alone
def test_a_breakpoint_in_the_sampler_shows_the_way_down(launcher: "Launcher") -> None:
    """The compiler may have inlined some stops, but there is none that the list does not have."""
    down = [function for function, _ in ways()[0]]
    shown = shown_by_gdb(launcher)
    assert (shown[0], shown[-1]) == (down[0], down[-1])
    assert [name for name in shown if name not in down] == []
    places = [down.index(name) for name in shown]
    assert all(before < after for before, after in pairwise(places))
    assert len(shown) >= len(down) - 3
