"""dev/release.sh: where the version is written, and the files of a release.

A repository with only what the script reads is released; its Python is a fake that makes a wheel.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READ = ("dev/release.sh", "tools/setup.sh", "cmake/git_revision.cmake", "CMakeLists.txt")
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


# A fake engine: its variable sets whether it works. It logs what it should build, and the version.
ENGINE = """#!/bin/sh
case $(basename "$0")$1 in $ENGINES) ;; *) echo "no engine" && exit 1 ;; esac
[ "$1" = build ] || exit 0
for word; do :; done
echo "$(basename "$0")" "$@" "$(grep ^project "$word/CMakeLists.txt")" >"$NOTES"
"""


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
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


def release(
    repository: Path, *arguments: str, engines: str = "none"
) -> subprocess.CompletedProcess[str]:
    """Run the script; docker and podman work for the calls that the pattern `engines` matches."""
    programs = repository / "build/programs"
    programs.mkdir(parents=True, exist_ok=True)
    for name in ("docker", "podman"):
        (programs / name).write_text(ENGINE.replace("$ENGINES", engines))
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    notes = str(repository / "build/notes")
    script = repository / "dev/release.sh"
    return run(script, *arguments, cwd=repository, PATH=path, NOTES=notes)


def version(lists: str) -> str:
    (found,) = re.findall(r"^project\(overlapbench VERSION (\S+)", lists, re.MULTILINE)
    return str(found)


def test_the_places_agree() -> None:
    """The tests of wheel, program and CMake package check that these read CMakeLists.txt."""
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


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_the_image_is_built_from_the_archive_where_an_engine_runs(
    repository: Path, engine: str
) -> None:
    release(repository, "name", "0.3.0")
    commit(repository)
    done = release(repository, "build", engines=f"{engine}*")
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(f"release.sh: {engine} has the image overlapbench:0.3.0\n")
    revision = run("git", "describe", "--always", "--abbrev=12", cwd=repository).stdout.strip()
    words = (repository / "build/notes").read_text().split()
    expected = [engine, "build", "--tag", "overlapbench:0.3.0", "--build-arg"]
    assert words[:6] == [*expected, f"OVERLAPBENCH_REVISION={revision}"]
    assert words[6].endswith("/overlapbench-0.3.0")
    assert words[7:10] == ["project(overlapbench", "VERSION", "0.3.0"]
    assert not Path(words[6]).exists()


def test_without_an_engine_the_image_is_left_out(repository: Path) -> None:
    release(repository, "name", "0.1.0")
    commit(repository)
    done = release(repository, "build")
    assert done.returncode == 0
    assert done.stderr == "release.sh: left out the image: neither docker nor podman runs here\n"
    assert (repository / "build/dist/SHA256SUMS").exists()


def test_an_image_that_cannot_be_built_is_told(repository: Path) -> None:
    release(repository, "name", "0.1.0")
    commit(repository)
    done = release(repository, "build", engines="podmaninfo")
    assert done.returncode == 1
    told = "podman could not build the image, see above; archive and wheel are in build/dist/"
    assert done.stderr == f"no engine\nrelease.sh: {told}\n"


def test_uncommitted_changes_are_not_released(repository: Path) -> None:
    release(repository, "name", "0.1.0")
    done = release(repository, "build")
    assert done.returncode == 1
    assert done.stderr == "release.sh: uncommitted changes: a release is made of HEAD\n"
    assert not (repository / "build/dist").exists()


def test_a_version_that_the_changelog_lacks_is_not_released(repository: Path) -> None:
    done = release(repository, "build")
    assert done.returncode == 1
    assert "has no section for 0.1.0; first run dev/release.sh name 0.1.0" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["name"], ["build", "0.2.0"], ["publish"]])
def test_other_arguments_are_refused_in_one_line(repository: Path, arguments: list[str]) -> None:
    done = release(repository, *arguments)
    assert done.returncode == 2
    assert done.stderr == "release.sh: dev/release.sh takes name VERSION or build; see --help\n"
