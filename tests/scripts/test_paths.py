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


def test_the_command_in_venv_runs_wherever_the_checkout_is(tmp_path: Path) -> None:
    """As ./bench makes it, with a Python that has only this package."""
    checkout = tmp_path / "it's R&D $HOME"
    packages = checkout / ".venv/lib/python3.99/site-packages"
    packages.mkdir(parents=True)
    (checkout / "tools").symlink_to(ROOT / "tools")
    python = checkout / ".venv/bin/python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
    python.chmod(0o755)
    text = "source tools/setup.sh; link_package"
    subprocess.run(["bash", "-c", text], cwd=checkout, check=True, timeout=60)
    (link,) = packages.glob("*.pth")
    assert (packages / link.read_text().strip()).resolve() == ROOT / "tools"
    command = [str(checkout / ".venv/bin/overlapbench"), "compare", "a b"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.splitlines() == [str(python), "-m", "overlapbench", "compare", "a b"]
