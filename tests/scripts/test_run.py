"""`overlapbench run`: ./bench with what is built, from an installed package."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scripts.conftest import ROOT, Outcome, World


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the package, which is part of no checkout."""
    folder = tmp_path / "site-packages"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tools/overlapbench", folder / "overlapbench", ignore=ignored)
    return folder


def run(world: World, package: Path, place: Path, *arguments: str, **variables: str) -> Outcome:
    world.calls_file.write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "overlapbench", "run", *arguments],
        cwd=place,
        env=world.environment | {"PYTHONPATH": str(package)} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Outcome(done, world.calls_file.read_text().splitlines())


@pytest.fixture
def checkout(world: World) -> Path:
    (world.repository / "CMakeLists.txt").touch()
    return world.repository


def test_in_a_checkout_it_runs_the_local_build(world: World, package: Path, checkout: Path) -> None:
    outcome = run(world, package, checkout, "--ranks=3", "--axis", "grid=1x1,2x2", STATUS="7")
    assert outcome.status == 7
    assert outcome.output == "[--axis=grid=1x1,2x2]"
    assert outcome.starts() == ["--start=bench --ranks=3 -- --axis=grid=1x1,2x2"]
    assert outcome.calls("cmake") == []


def test_a_named_program_is_run_anywhere(
    world: World, package: Path, checkout: Path, tmp_path: Path
) -> None:
    """A wheel has ./bench in its folder `suite`."""
    suite = package / "overlapbench/suite"
    (suite / "tools").mkdir(parents=True)
    for name in ("bench", "tools/setup.sh"):
        shutil.copy(ROOT / name, suite / name)
    outcome = run(world, package, tmp_path, "--backend=host", OVERLAPBENCH_BINARY=str(world.binary))
    assert (outcome.status, outcome.output) == (0, "[--backend=host]")


@pytest.mark.parametrize("name", ["myprog", "./build/release/myprog"])
def test_a_named_program_may_have_any_name(
    name: str, world: World, package: Path, checkout: Path
) -> None:
    mine = world.binary.with_name("myprog")
    world.binary.rename(mine)
    place = mine.parent if name == "myprog" else checkout
    outcome = run(world, package, place, "--ranks=3", "--x", OVERLAPBENCH_BINARY=name)
    assert (outcome.status, outcome.output) == (0, "[--x]")
    assert outcome.starts("myprog") == ["--start=bench --ranks=3 -- --x"]
    help_of_mine = run(world, package, place, "--help", OVERLAPBENCH_BINARY=name)
    assert help_of_mine.output.endswith("the flags of the binary\n")


@pytest.mark.parametrize(
    ("name", "lack"),
    [
        ("none", "is missing"),
        ("CMakeLists.txt", "is not an executable file"),
        ("build", "is not an executable file"),
    ],
)
def test_a_named_program_that_cannot_run_is_refused(
    name: str, lack: str, world: World, package: Path, checkout: Path
) -> None:
    outcome = run(world, package, checkout, "--x", OVERLAPBENCH_BINARY=name)
    assert outcome.status == 2
    refusal = f"overlapbench run: OVERLAPBENCH_BINARY: {checkout / name} {lack}"
    assert outcome.lines == [refusal]


def test_charts_are_drawn_by_the_python_that_runs_it(
    world: World, package: Path, checkout: Path, tmp_path: Path
) -> None:
    world.fake(world.binary, 'for last; do :; done; echo {} >"${last#*=}"')
    tool = checkout / "tools/overlapbench"
    tool.mkdir()
    (tool / "__init__.py").touch()
    (tool / "__main__.py").write_text("import sys\nprint(sys.argv[1:])\n")
    shutil.rmtree(world.venv)
    outcome = run(world, package, checkout, "--backend=host", "--charts", str(tmp_path / "charts"))
    assert outcome.status == 0, outcome.lines
    result = tmp_path / "charts/result.json"
    assert outcome.output.endswith(f"['chart', '{result}', '-o', '{tmp_path}/charts']\n")


def test_without_a_program_it_gives_advice(world: World, package: Path, checkout: Path) -> None:
    world.binary.unlink()
    outcome = run(world, package, checkout, "--x")
    assert outcome.status == 2
    (line,) = outcome.lines
    assert line.startswith(f"overlapbench run: {world.binary} is missing: build with ./bench ")
    assert outcome.starts() == []


def test_help_needs_no_program(world: World, package: Path, checkout: Path) -> None:
    world.binary.unlink()
    outcome = run(world, package, checkout, "--help")
    assert (outcome.status, outcome.lines) == (0, [])
    assert outcome.output.startswith("usage: overlapbench run [flags]\n")
    assert "./bench" not in outcome.output


def test_help_and_flags_tell_of_no_building(world: World, package: Path, checkout: Path) -> None:
    outcome = run(world, package, checkout, "--help")
    assert not re.search("install|--build|--no-|--binary", outcome.output)
    for flag in ("--build-only", "--build-dir=x", "--build-dir"):
        outcome = run(world, package, checkout, "--backend=host", flag, "x")
        refusal = (
            f"overlapbench run: {flag}: this command builds nothing; use ./bench in a checkout"
        )
        assert (outcome.status, outcome.lines) == (2, [refusal])


def test_help_in_an_ascii_locale_is_no_traceback(
    world: World, package: Path, checkout: Path
) -> None:
    world.fake(world.binary, "echo µs")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    outcome = run(world, package, checkout, "--help", **ascii_only)
    assert outcome.status == 2
    (line,) = outcome.lines
    assert line.endswith("cannot encode all of it: set PYTHONIOENCODING=utf-8")
    outcome = run(world, package, checkout, "--help", **ascii_only, PYTHONIOENCODING="utf-8")
    assert (outcome.status, outcome.output.endswith("µs\n")) == (0, True)
