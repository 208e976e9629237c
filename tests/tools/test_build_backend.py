"""What pip is told to build: the program where nvcc is found, or what the user says."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Builder(SimpleNamespace):
    """A stand-in for scikit-build-core: keeps the settings that it gets, and fails on request."""

    settings: dict[str, Any]
    fails = False

    def build_wheel(self, folder: str, settings: dict[str, Any], metadata: str | None) -> str:
        self.settings = settings
        if self.fails:
            raise SystemExit(1)
        return f"{folder}/a.whl"

    def get_requires_for_build_wheel(self, settings: dict[str, Any]) -> list[str]:
        self.settings = settings
        return ["cmake"]


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    others = ("build_editable", "build_sdist")
    required = ("get_requires_for_build_editable", "get_requires_for_build_sdist")
    builder = Builder(**dict.fromkeys(others + required))
    package = ModuleType("scikit_build_core")
    package.build = builder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "scikit_build_core", package)
    monkeypatch.setitem(sys.modules, "scikit_build_core.build", builder)
    return builder


@pytest.fixture
def backend(builder: Builder) -> Iterator[Any]:
    yield importlib.import_module("build_backend")
    del sys.modules["build_backend"]


def with_nvcc(folder: Path) -> Path:
    folder.mkdir(parents=True)
    nvcc = folder / "nvcc"
    nvcc.touch(mode=0o755)
    return nvcc


@pytest.mark.parametrize("place", ["CUDACXX", "CUDA_HOME", "PATH"])
def test_the_program_is_built_where_nvcc_is(
    backend: Any, builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    nvcc = with_nvcc(tmp_path / "cuda/bin")
    value = {"CUDACXX": nvcc, "CUDA_HOME": nvcc.parents[1], "PATH": nvcc.parent}[place]
    monkeypatch.delenv("CUDACXX", raising=False)
    monkeypatch.setenv(place, str(value))
    assert backend.build_wheel("dist") == "dist/a.whl"
    assert builder.settings == {"wheel.cmake": "true"}
    assert backend.get_requires_for_build_wheel() == ["cmake"]
    assert builder.settings == {"wheel.cmake": "true"}


def test_without_nvcc_it_is_left_out(
    backend: Any, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDACXX", "/dev/null/nvcc")
    backend.build_wheel("dist", {"build.verbose": "true"})
    assert builder.settings == {"wheel.cmake": "false", "build.verbose": "true"}


@pytest.mark.parametrize("said", ["true", "false"])
def test_the_user_decides(
    backend: Any,
    builder: Builder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
) -> None:
    there = with_nvcc(tmp_path / "bin")
    monkeypatch.setenv("CUDACXX", str(there) if said == "false" else "/dev/null/nvcc")
    backend.build_wheel("dist", {"wheel.cmake": said})
    assert builder.settings == {"wheel.cmake": said}


def test_a_failed_build_says_how_to_do_without_the_program(
    backend: Any,
    builder: Builder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    builder.fails = True
    for said in ("true", "false"):
        with pytest.raises(SystemExit):
            backend.build_wheel("dist", {"wheel.cmake": said})
        hint = "add -C wheel.cmake=false\n"
        assert capsys.readouterr().err.endswith(hint) == (said == "true")
