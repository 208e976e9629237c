"""A checkout builds wherever its path leads, or says why it does not."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def cmake(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["cmake", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


def configure(folder: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Configure this checkout under another path, without the cuda backend and the tests."""
    folder.mkdir()
    (folder / "checkout").symlink_to(ROOT)
    settings = ("-G", "Ninja", "-DOVERLAPBENCH_CUDA=OFF", "-DBUILD_TESTING=OFF")
    build = folder / "build"
    return build, cmake("-S", folder / "checkout", "-B", build, *settings)


def test_no_character_of_a_path_is_taken_for_a_command(tmp_path: Path) -> None:
    build, done = configure(tmp_path / "it's R&D (ä) $HOME `1`")
    assert done.returncode == 0, done.stderr
    made = cmake("--build", build, "--target", "git_revision")
    assert made.returncode == 0, made.stdout
    assert "kGitRevision" in (build / "generated/git_revision.h").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["a[1]", "a*", "what?"])
def test_a_path_that_cmake_would_take_for_a_pattern_is_refused(name: str, tmp_path: Path) -> None:
    _, done = configure(tmp_path / name)
    assert done.returncode != 0
    told = " ".join(done.stderr.split())
    assert 'The path of this checkout contains one of [ ] * ? ; " \\, which' in told
    assert told.count("CMake Error") == 1
