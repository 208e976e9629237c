"""The wheel, as pip builds it, and what `pip install .` makes of a fresh virtual environment.

Another environment has the lowest versions that the package allows, and nothing else, as the
container of a machine without network: what measures, compares and explains must work there.

pip takes the backend of the build, and the packages that the wheel requires, from the package index
or from where else it is set to look. Where it finds none, the tests that need them are skipped and
say why; in CI (CI=true) they fail. Nothing of the Python that runs the tests is lent to the
environment, so a package that the wheel should require is missed.
"""

import ast
import importlib.util
import os
import re
import resource
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import pytest

import samples
import simulated_bench
import traces

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tools/overlapbench"
MOST_S = 60.0  # for `pip install .`
DEPENDENCIES = ["numpy>=1.26", "rich>=13"]
# Packages of the extras, and those that only users have who measure with them.
EXTRAS = {"altair", "jinja2", "markupsafe", "prometheus_client", "pyarrow", "vl_convert"}
OPTIONAL = EXTRAS | {"IPython", "pandas", "pytest", "torch", "zstandard"}
MISSING = """
import sys
from importlib.util import find_spec
print(*(name for name in sys.argv[1:] if find_spec(name) is None))
"""


@dataclass(frozen=True)
class Installed:
    bin: Path  # of the virtual environment
    took_s: float  # CPU time: a busy machine does not count

    def run(
        self, *arguments: str | Path, path: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command where no checkout is near."""
        return run(self.bin / "overlapbench", *arguments, cwd=self.bin, path=path)


def run(
    *command: str | Path, cwd: Path = ROOT, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without the variables that lead to modules and programs, but for the path.

    As on a machine without nvcc: building the program takes minutes.
    """
    own = ("PYTHON", "OVERLAPBENCH_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    kept["CUDACXX"] = "/dev/null/nvcc"
    return subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=kept | ({"PYTHONPATH": str(path)} if path else {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * MOST_S,
        check=False,
    )


def pip(*arguments: str | Path) -> None:
    """Run pip; give up where it finds a package nowhere, as on a machine without network."""
    if importlib.util.find_spec("pip") is None:
        give_up("Python has no pip")
    quiet = ("--disable-pip-version-check", "--quiet", "--retries=1")
    done = run(sys.executable, "-m", "pip", *quiet, *arguments)
    if missing := re.search("No matching distribution found for .*", done.stderr):
        give_up(missing[0])
    assert done.returncode == 0, done.stderr


def give_up(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", ROOT, "--no-deps", "--wheel-dir", folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    place = tmp_path_factory.mktemp("installed")
    venv.create(place, symlinks=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pip("--python", place / "bin/python", "install", ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    yield Installed(place / "bin", took_s)
    shutil.rmtree(place)  # a third of a GB, and pytest keeps the folders of three runs


def test_it_needs_no_compiler_and_has_every_file(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/")}
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    own = {name for name in packed if name.startswith("overlapbench/")}
    suite = {name for name in own if name.startswith("overlapbench/suite/")}
    written = {
        f"overlapbench/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert own - suite == written
    assert "overlapbench/reading/counters.json" in own
    # What ./bench calls beside it.
    called = re.findall(r"tools/\w+\.(?:py|sh)", (ROOT / "bench").read_text(encoding="utf-8"))
    assert suite == {f"overlapbench/suite/{name}" for name in ("bench", *called)}
    assert modes["overlapbench/suite/bench"] & 0o111


def test_version_and_dependencies_are_those_of_the_checkout(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    cmake = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    (version,) = re.findall(r"project\(\w+ VERSION (\S+)", cmake)
    assert metadata["Version"] == version
    requires = metadata.get_all("Requires-Dist", [])
    assert [line for line in requires if "extra" not in line] == DEPENDENCIES


def test_it_is_installed_within_a_minute_and_small_but_for_numpy(installed: Installed) -> None:
    assert installed.took_s < MOST_S
    (site,) = installed.bin.parent.glob("lib/python3*/site-packages")
    sizes = {
        path.name: sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
        for path in site.iterdir()
    }
    rest_mb = sum(size for name, size in sizes.items() if not name.startswith("numpy")) / 1e6
    assert sizes["overlapbench"] < 5e6
    assert rest_mb < 25, sizes


@pytest.fixture(scope="module")
def lowest(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    if sys.version_info >= (3, 13):
        pytest.skip("numpy 1.26 has no wheel for this Python")
    place = tmp_path_factory.mktemp("lowest")
    venv.create(place, symlinks=True)
    versions = [line.replace(">=", "==") + ".*" for line in DEPENDENCIES]
    pip("--python", place / "bin/python", "install", "--only-binary=:all:", wheel, *versions)
    yield Installed(place / "bin", 0.0)
    shutil.rmtree(place)


def imported() -> Iterator[str]:
    """Yield the packages that the modules import, also those imported in functions."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]


def test_it_brings_every_package_that_it_imports(installed: Installed) -> None:
    packages = sorted({*imported()})
    done = run(installed.bin / "python", "-c", MISSING, *packages, cwd=installed.bin)
    assert done.returncode == 0, done.stderr
    assert {*done.stdout.split()} <= OPTIONAL


def test_the_command_runs(installed: Installed) -> None:
    version = installed.run("--version")
    assert re.fullmatch(r"overlapbench \d+\.\d+\.\d+\n", version.stdout)
    listed = installed.run("--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "\n  compare   Compare results of two builds" in listed.stdout
    manual = installed.run("compare", "--help")
    assert manual.stdout.startswith("usage: overlapbench compare ")
    module = run(installed.bin / "python", "-m", "overlapbench", "--version", cwd=installed.bin)
    assert module.stdout == version.stdout


def test_pytest_finds_its_plugin(installed: Installed) -> None:
    """pytest is that of the tests: the package does not require it."""
    command = (installed.bin / "python", "-m", "pytest", "--help")
    pytest_help = run(*command, cwd=installed.bin, path=Path(pytest.__file__).parents[1])
    assert "--overlapbench-out=FILE" in pytest_help.stdout


def test_it_compares_and_says_what_charts_need(installed: Installed, tmp_path: Path) -> None:
    results = ROOT / "docs/results/h200"
    base, new = results / "families.json", results / "families-again.json"
    compared = installed.run("compare", base, new, "--output", tmp_path / "diff.json")
    assert compared.returncode in (0, 1, 3), compared.stderr
    assert compared.stderr == ""
    assert (tmp_path / "diff.json").stat().st_size > 1000
    page = installed.run("report", results / "kernels.json", "-o", tmp_path / "report.html")
    assert (page.returncode, page.stdout) == (2, "")
    (line,) = page.stderr.splitlines()
    assert re.match(r"overlapbench report: package \w+ is not installed: pip install ", line)


def test_without_a_program_it_says_how_to_get_one(installed: Installed) -> None:
    refused = installed.run("run", "--benchmark_filter=Comm")
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "overlapbench is missing: build with ./bench --build-only" in line
    assert installed.run("run", "--help").stdout.startswith("usage: overlapbench run ")


def steps(rank: int) -> samples.Json:
    """A trace of PyTorch's profiler of eight steps."""
    events = []
    for number in range(8):
        begin = 1000 * number
        events += [traces.step(number, begin, 900), traces.call(begin, 5, number)]
        events += [traces.work(traces.GEMM, begin + 50, 400, correlation=number)]
        events += [traces.work(traces.NCCL, begin + 300 + 30 * rank, 300, stream=9)]
    return traces.kineto(events, rank)


RESULTS = ROOT / "docs/results"
PROGRAM = f"{sys.executable} {simulated_bench.__file__}"  # has packages of its own
RECORDED = "#!/bin/sh\nfor flag; do :; done\ncp {} ${{flag#--benchmark_out=}}\n"
# Each command, a line that it prints, and its status.
CORE = {
    "compare OLD NEW --output OUT.md --output OUT.json --output OUT.xml": ("inconclusive:", 0),
    "gate baseline --command PLAYER --output BASE --runs 3": ("", 0),
    "gate run --baseline BASE --candidate PLAYER --runs 3": ("172 same", 0),
    "tune A+B --command PROGRAM --runs 0 --output OUT.json": ("best", 0),
    "trace STEPS0 STEPS1": ("Verdict: ", 0),
    "predict PLANS --benchmark prefetch:1 --gpus 16 --network 50": ("GPUs  nodes", 0),
    "findings OLD": ("Findings (2 × NVIDIA H200)", 0),
    "export OLD --format csv": ("benchmark,", 0),
    "history add OLD NEW --database HISTORY": ("run 1", 0),
    "doctor --command /dev/null/program": ("cannot be started", 2),
    "chart OLD -o OUT": ("package jinja2 is not installed: pip install", 2),
    "predict PLANS --benchmark prefetch:1 -o OUT.svg": (
        "package jinja2 is not installed: pip install",
        2,
    ),
    "export OLD --format parquet": ("package pyarrow is not installed: pip install", 2),
}


def test_the_lowest_versions_do_all_but_draw(lowest: Installed, tmp_path: Path) -> None:
    player = tmp_path / "player"
    player.write_text(RECORDED.format(RESULTS / "h200/kernels.json"))
    player.chmod(0o755)
    places = {
        "OLD": RESULTS / "h200x2/overlap.json",
        "NEW": RESULTS / "h200x2/overlap-again.json",
        "PLANS": RESULTS / "h100x2/predictions.json.gz",
        "PLAYER": player,
        "PROGRAM": PROGRAM,
    }
    for rank in range(2):
        places[f"STEPS{rank}"] = traces.write(tmp_path / f"{rank}.json", steps(rank))
    for command, (line, status) in CORE.items():
        words = [str(places.get(word, word)) for word in command.split()]
        words = [re.sub("^(OUT|BASE|HISTORY)", f"{tmp_path}/\\1", word) for word in words]
        done = lowest.run(*words, path=PACKAGE.parent)
        assert (done.returncode, command) == (status, command), done.stderr
        assert line in done.stdout + done.stderr, command
        assert "Traceback" not in done.stderr
