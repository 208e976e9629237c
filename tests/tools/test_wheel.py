"""The wheel, as pip builds it, in a virtual environment that has nothing else of the checkout.

The build takes its backend from the package index, or from pip's cache. Where neither has it, these
tests are skipped and say why; in CI (CI=true) they fail. The packages that the wheel requires are
those of the Python that runs the tests.
"""

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tools/overlapbench"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Installed:
    wheel: Path
    bin: Path  # of the virtual environment

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the command where no checkout is near."""
        return run(self.bin / "overlapbench", *arguments, cwd=self.bin)


def run(
    *command: str | Path, cwd: Path = ROOT, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without the variables that lead to modules and programs, but for the path."""
    own = ("PYTHON", "OVERLAPBENCH_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=kept | ({"PYTHONPATH": str(path)} if path else {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def pip(*arguments: str | Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return run(*command, path=path)


def give_up(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    if importlib.util.find_spec("pip") is None:
        give_up("Python has no pip")
    folder = tmp_path_factory.mktemp("wheel")
    requires = PROJECT["build-system"]["requires"]
    got = pip("install", "--quiet", "--retries=1", "--target", folder / "backend", *requires)
    if got.returncode != 0:
        give_up(f"no {' '.join(requires)}: {got.stderr.strip().splitlines()[-1]}")
    built = pip(
        *("wheel", ROOT, "--no-deps", "--no-build-isolation", "--wheel-dir", folder),
        path=folder / "backend",
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    place = folder / "venv"
    venv.create(place, symlinks=True)
    python = place / "bin/python"
    done = pip("--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    (site_packages,) = place.glob("lib/python*/site-packages")
    (site_packages / "pinned.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(wheel, place / "bin")


def test_it_needs_no_compiler_and_has_every_file(installed: Installed) -> None:
    assert installed.wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(installed.wheel) as wheel:
        packed = {name for name in wheel.namelist() if not name.endswith("/")}
        modes = {info.filename: info.external_attr >> 16 for info in wheel.infolist()}
    own = {name for name in packed if name.startswith("overlapbench/")}
    suite = {name for name in own if name.startswith("overlapbench/suite/")}
    written = {
        f"overlapbench/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert own - suite == written
    assert "overlapbench/counters.json" in own
    # What ./bench calls beside it.
    called = re.findall(r"tools/\w+\.(?:py|sh)", (ROOT / "bench").read_text(encoding="utf-8"))
    # What torch_operators.py compiles.
    compiled = [
        f"kernels/library/{name}"
        for name in ("torch_operators.cc", "torch_calls.cc", "overlapbench_kernels.h")
    ]
    assert suite == {f"overlapbench/suite/{name}" for name in ("bench", *called, *compiled)}
    assert modes["overlapbench/suite/bench"] & 0o111


def test_version_and_dependencies_are_those_of_the_checkout(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(wheel.read(name))
    cmake = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    (version,) = re.findall(r"project\(\w+ VERSION (\S+)", cmake)
    assert metadata["Version"] == version
    pinned = (ROOT / "tools/requirements.txt").read_text(encoding="utf-8").splitlines()
    requires = metadata.get_all("Requires-Dist", [])
    assert [line for line in requires if "extra" in line] == ['pyarrow; extra == "parquet"']
    required = [line.replace(">=", "==", 1) for line in requires if "extra" not in line]
    assert len(required) >= 10
    assert {*required} < {*pinned}
    assert "rich==15.0.0" in required


def test_the_command_runs(installed: Installed) -> None:
    version = installed.run("--version")
    assert re.fullmatch(r"overlapbench \d+\.\d+\.\d+\n", version.stdout)
    listed = installed.run("--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "\n  compare     Compare results of two builds" in listed.stdout
    manual = installed.run("compare", "--help")
    assert manual.stdout.startswith("usage: overlapbench compare ")
    module = run(installed.bin / "python", "-m", "overlapbench", "--version", cwd=installed.bin)
    assert module.stdout == version.stdout


def test_pytest_finds_its_plugin(installed: Installed) -> None:
    pytest_help = run(installed.bin / "python", "-m", "pytest", "--help", cwd=installed.bin)
    assert "--overlapbench-out=FILE" in pytest_help.stdout


def test_it_compares_and_reports(installed: Installed, tmp_path: Path) -> None:
    results = ROOT / "docs/results/h200"
    base, new = results / "families.json", results / "families-again.json"
    compared = installed.run("compare", base, new, "--output", tmp_path / "diff.json")
    assert compared.returncode in (0, 1, 3), compared.stderr
    assert compared.stderr == ""
    assert (tmp_path / "diff.json").stat().st_size > 1000
    page = installed.run("report", results / "kernels.json", "-o", tmp_path / "report.html")
    assert (page.returncode, page.stderr) == (0, "")
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_without_a_program_it_says_how_to_get_one(installed: Installed) -> None:
    refused = installed.run("run", "--benchmark_filter=Comm")
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "overlapbench is missing: build with ./bench --build-only" in line
    assert installed.run("run", "--help").stdout.startswith("usage: overlapbench run ")
