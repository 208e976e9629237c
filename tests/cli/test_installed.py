"""The installed suite, and the out-of-tree example that is built with it and measured.

What is installed comes from the folder that the binary was built in; nothing of it is built again.
The example takes some 15 seconds to compile.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs/examples/own_workload"
HEADERS = ("workload/workload.h", "device/launch.h", "fixtures/schedule.h", "benchmarks/scenario.h")
(VERSION,) = re.findall(
    r"^project\(overlapbench VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE
)
C_HEADERS = ("interface/overlapbench.h", "kernels/library/overlapbench_kernels.h")


def cmake(*arguments: str | Path, timeout_s: float = 110) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["cmake", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def configure(source: Path, build: Path, prefix: Path, *flags: str) -> str:
    """Return CMake's complaint; "" if it has configured."""
    # One architecture of GPUs is enough to see that it compiles.
    flags = ("-DCMAKE_CUDA_ARCHITECTURES=90", *flags)
    done = cmake("-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", *flags)
    assert (done.returncode != 0) == ("CMake Error" in done.stderr), done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def prefix(launcher: "Launcher", tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    done = cmake("--install", launcher.build_folder(), "--prefix", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def bench(
    launcher: "Launcher", prefix: Path, tmp_path_factory: pytest.TempPathFactory
) -> "Launcher":
    """The example's program, built from a copy of the example that has no checkout around it."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copytree(EXAMPLE, folder / "source")
    assert configure(folder / "source", folder / "build", prefix) == ""
    built = cmake("--build", folder / "build")
    assert built.returncode == 0, built.stdout + built.stderr
    return type(launcher)(folder / "build/bench", launcher.mpirun)


def test_the_program_and_the_headers_are_installed(launcher: "Launcher", prefix: Path) -> None:
    program = type(launcher)(prefix / "bin/overlapbench", launcher.mpirun)
    shown = program.alone("--version").stdout
    assert shown == launcher.alone("--version").stdout
    assert shown.startswith(f"overlapbench {VERSION} ")
    for header in (*HEADERS, *C_HEADERS):
        assert (prefix / "include/overlapbench" / header).is_file()
    (measuring,) = prefix.glob("lib*/liboverlapbench.so")
    package = measuring.parent / "cmake/overlapbench"
    assert (package / "overlapbenchConfig.cmake").is_file()
    written = (package / "overlapbenchConfigVersion.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{VERSION}")' in written


def test_an_installed_suite_names_no_folder_of_its_build(prefix: Path) -> None:
    package = next(prefix.glob("lib*/cmake/overlapbench"))
    for file in package.iterdir():
        assert str(ROOT) not in file.read_text(), file


def test_an_own_workload_is_one_of_the_suite(bench: "Launcher") -> None:
    listed = bench.alone("--backend=host", "--benchmark_list_tests").stdout.split()
    assert "Compute/Transpose/n:1024/cache:cold" in listed
    assert any(name.startswith("Compute/Gemm/") for name in listed)


def test_an_own_workload_is_verified_and_measured(bench: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "own.json"
    done = bench.run(
        *("--benchmark_filter=Compute/Transpose", "--axis", "n=65", "--budget_ms=1"),
        f"--benchmark_out={out}",
        ranks=1,
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())["benchmarks"]
    assert row["name"].startswith("Compute/Transpose/n:65/cache:cold")
    assert row["valid"] == 1
    assert row["real_time"] > 0
    moved_bytes = 2 * 65 * 65 * 4
    assert row["GBps"] == pytest.approx(moved_bytes / row["real_time"] / 1e6, rel=1e-3)


def test_an_own_workload_is_a_side_of_a_pair(bench: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "pair.json"
    done = bench.run(
        *("--pair=AllReduce+Transpose", "--axis", "bytes=64K", "--axis", "n=64", "--budget_ms=1"),
        f"--benchmark_out={out}",
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())["benchmarks"]
    assert row["name"].startswith("Overlap/AllReduce+Transpose/bytes:65536/n:64/")
    assert row["comp_ms"] > 0


@pytest.mark.parametrize(
    ("package", "says"),
    [
        ("benchmark", "Google Benchmark was not found: install libbenchmark-dev"),
        ("MPI", "MPI was not found: install libopenmpi-dev"),
    ],
)
def test_a_missing_dependency_is_named(
    prefix: Path, tmp_path: Path, package: str, says: str
) -> None:
    error = configure(EXAMPLE, tmp_path, prefix, f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON")
    assert says in " ".join(error.split())
    assert error.count("was not found") == 1


@pytest.mark.parametrize("version", ["0.0", "99.0"])
def test_another_version_is_not_taken(prefix: Path, tmp_path: Path, version: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(own LANGUAGES NONE)\n"
        f"find_package(overlapbench {version} REQUIRED)\n"
    )
    error = configure(tmp_path, tmp_path / "build", prefix)
    assert f'compatible with requested version "{version}"' in " ".join(error.split())


def test_a_bench_without_workloads_is_refused(prefix: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "source")
    lists = tmp_path / "source/CMakeLists.txt"
    lists.write_text(lists.read_text().replace(" WORKLOADS Transpose", ""))
    error = configure(tmp_path / "source", tmp_path / "build", prefix)
    assert "bench: write SOURCES FILE... and WORKLOADS FUNCTION..." in " ".join(error.split())
