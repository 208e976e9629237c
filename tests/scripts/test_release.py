"""tools/release.sh: where the version is written, and the files of a release.

A repository with only what the script reads is released; its Python is a fake that makes a wheel.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READ = ("tools/release.sh", "tools/setup.sh", "cmake/git_revision.cmake", "CMakeLists.txt")
CHANGELOG = """# Changelog

## [Unreleased]

This will be the first release, 0.1.0.

### Added

- Something.
"""
PYTHON = """#!/bin/sh
for word; do
  [ "$before" != --wheel-dir ] || wheels=$word
  before=$word
done
grep '^project' "$word/CMakeLists.txt" >"$wheels/fake.whl"
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def commit(repository: Path) -> None:
    for words in (["add", "."], ["commit", "--quiet", "--message", "All"]):
        author = ("-c", "user.name=Someone", "-c", "user.email=someone@example.org")
        done = run("git", *author, *words, cwd=repository)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in READ:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    lists = tmp_path / "CMakeLists.txt"
    lists.write_text(
        re.sub(r"(overlapbench VERSION )[\d.]+", r"\g<1>0.1.0", lists.read_text(encoding="utf-8"))
    )
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / ".gitignore").write_text("/build/\n/.venv/\n")
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    run("git", "init", "--quiet", cwd=tmp_path)
    commit(tmp_path)
    return tmp_path


def release(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(repository / "tools/release.sh", *arguments, cwd=repository)


def version(lists: str) -> str:
    (found,) = re.findall(r"^project\(overlapbench VERSION (\S+)", lists, re.MULTILINE)
    return str(found)


def test_the_places_agree() -> None:
    """What reads CMakeLists.txt is checked where it is tested: wheel, program, CMake package."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - ", changelog, re.MULTILINE)
    first = re.findall(r"^This will be the first release, (\S+)\.$", changelog, re.MULTILINE)
    assert [*released, *first][0] == version((ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert not (released and first)


def test_a_version_is_written_in_both_places(repository: Path) -> None:
    assert release(repository, "name", "1.20.3").returncode == 0
    assert version((repository / "CMakeLists.txt").read_text(encoding="utf-8")) == "1.20.3"
    changelog = (repository / "CHANGELOG.md").read_text()
    heading = r"## \[Unreleased\]\n\n## \[1\.20\.3\] - \d{4}-\d\d-\d\d\n\n### Added\n\n- Something"
    assert re.search(heading, changelog)
    again = release(repository, "name", "1.20.3")
    assert again.returncode == 1
    assert again.stderr == "release.sh: CHANGELOG.md already has a section for 1.20.3\n"
    assert (repository / "CHANGELOG.md").read_text() == changelog


@pytest.mark.parametrize("bad", ["1.2", "v1.2.3", "1.2.3rc1", "01.2.3", ""])
def test_a_malformed_version_is_refused(repository: Path, bad: str) -> None:
    done = release(repository, "name", bad)
    assert done.returncode == 2
    assert done.stderr == f"release.sh: a version is three numbers, as in 0.2.0, not '{bad}'\n"
    assert run("git", "status", "--porcelain", cwd=repository).stdout == ""


def test_the_archive_has_the_revision_and_the_wheel_is_made_from_it(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    release(repository, "name", "0.1.0")
    commit(repository)
    done = release(repository, "build")
    assert done.returncode == 0, done.stderr
    dist = repository / "build/dist"
    assert version((dist / "fake.whl").read_text()) == "0.1.0"
    sums = run("sha256sum", "--check", "SHA256SUMS", cwd=dist).stdout
    assert sums == "fake.whl: OK\noverlapbench-0.1.0.tar.gz: OK\n"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    run("tar", "-xzf", dist / "overlapbench-0.1.0.tar.gz", cwd=elsewhere)
    source = elsewhere / "overlapbench-0.1.0"
    header = repository / "build/git_revision.h"
    variables = (f"-DSOURCE={source}", f"-DOUTPUT={header}", "-DVERSION=0.1.0")
    run("cmake", *variables, "-P", source / "cmake/git_revision.cmake", cwd=source)
    revision = run("git", "describe", "--always", "--abbrev=12", cwd=repository).stdout.strip()
    assert len(revision) == 12
    assert f'kGitRevision = "{revision}"' in header.read_text()


def test_uncommitted_changes_are_not_released(repository: Path) -> None:
    release(repository, "name", "0.1.0")
    done = release(repository, "build")
    assert done.returncode == 1
    assert done.stderr == "release.sh: uncommitted changes: a release is made of HEAD\n"
    assert not (repository / "build").exists()


def test_a_version_that_the_changelog_lacks_is_not_released(repository: Path) -> None:
    done = release(repository, "build")
    assert done.returncode == 1
    assert "has no section for 0.1.0; first run tools/release.sh name 0.1.0" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["name"], ["build", "0.2.0"], ["publish"]])
def test_other_arguments_are_refused_in_one_line(repository: Path, arguments: list[str]) -> None:
    done = release(repository, *arguments)
    assert done.returncode == 2
    assert done.stderr == "release.sh: tools/release.sh takes name VERSION or build; see --help\n"
