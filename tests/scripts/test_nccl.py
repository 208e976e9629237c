"""Older versions of NCCL: which of them CMake accepts, and that the code compiles with these."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "comm/cuda/nccl_communicator.cc"
# Only in NCCL 2.27 and 2.28.
NEW = re.compile(r"\b(p?nccl\w*Window\w*|p?ncclAlltoAll|CTAPolicy|NCCL_WIN_\w+|NCCL_CTA_\w+)\b")


def version_lines(version: str) -> str:
    numbers = zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    return "".join(f"#define NCCL_{name} {number}\n" for name, number in numbers)


def found(folder: Path, version: str, required: str = "2.19") -> str:
    """Return what CMake says of an NCCL of this version in NCCL_HOME."""
    (folder / "include").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "include/nccl.h").write_text(version_lines(version), encoding="utf-8")
    (folder / "lib/libnccl.so").touch()
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(look NONE)\n"
        f"set(CMAKE_MODULE_PATH {ROOT}/cmake)\n"
        f"find_package(NCCL {required} QUIET)\n"
        'message(STATUS "found ${NCCL_FOUND}, version ${NCCL_VERSION}")\n',
        encoding="utf-8",
    )
    done = subprocess.run(
        ["cmake", "-S", folder, "-B", folder / "build"],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "NCCL_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = re.findall(r"-- (found .*)", done.stdout)
    return str(line)


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("2.28.3", "found TRUE, version 2.28.3"),
        ("2.19.0", "found TRUE, version 2.19.0"),
        ("2.18.3", "found FALSE, version 2.18.3"),
    ],
)
def test_only_a_new_enough_nccl_is_found(tmp_path: Path, version: str, line: str) -> None:
    assert found(tmp_path, version) == line


def test_documents_and_cmake_name_the_same_version() -> None:
    (required,) = re.findall(
        r"find_package\(NCCL (\S+) ", (ROOT / "cmake/cuda.cmake").read_text(encoding="utf-8")
    )
    document = (ROOT / "docs/running.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"\| NCCL ≥ ([\d.]+)", document)
    assert named == required


def test_the_code_compiles_with_an_older_nccl(tmp_path: Path) -> None:
    commands = ROOT / "build/release/compile_commands.json"
    entries = json.loads(commands.read_text(encoding="utf-8")) if commands.exists() else []
    flags = next(
        (shlex.split(one["command"]) for one in entries if one["file"] == str(ROOT / SOURCE)), None
    )
    if flags is None:
        pytest.skip("this build has no NCCL")
    folders = [flags[i + 1] for i, flag in enumerate(flags) if flag == "-isystem"]
    headers = [path for folder in folders if (path := Path(folder) / "nccl.h").exists()]
    if not headers:
        headers = [Path("/usr/include/nccl.h")]
    text = NEW.sub(r"gone_\1", headers[0].read_text(encoding="utf-8"))
    text = re.sub(r"#define NCCL_(MAJOR|MINOR|PATCH) .*\n", "", text)
    text = re.sub(r"#define NCCL_VERSION_CODE .*", "#define NCCL_VERSION_CODE 21903", text)
    (tmp_path / "nccl.h").write_text(version_lines("2.19.3") + text, encoding="utf-8")
    defines = [flag for flag in flags if flag.startswith(("-D", "-I", "-std"))]
    others = [f"-isystem{folder}" for folder in folders]
    done = subprocess.run(
        [flags[0], "-fsyntax-only", f"-I{tmp_path}", *defines, *others, SOURCE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
