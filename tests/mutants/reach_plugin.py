"""pytest's side of generated_mutants.py: which mutants each test of tests/cli reaches.

MUTANTS_BY_TEST names a folder. While a test runs, the programs that it starts append to a file
there, and so does a fixture that several tests share; what that reaches counts for each of them. At
the end, `index.json` in the folder maps each test that passed to its seconds and its files.
"""

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

FOLDER = Path(os.environ["MUTANTS_BY_TEST"])
_VARIABLE = "MUTANTS_REACHED"
_files: dict[str, str] = {}  # of each test or shared fixture
_began: dict[str, float] = {}
_index: dict[str, tuple[float, list[str]]] = {}


def file_of(name: str) -> str:
    return _files.setdefault(name, str(FOLDER / f"reached-{len(_files)}"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    os.environ[_VARIABLE] = file_of(item.nodeid)
    _began[item.nodeid] = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    before = os.environ[_VARIABLE]
    if fixturedef.scope != "function":
        os.environ[_VARIABLE] = file_of(f"{fixturedef.baseid}::{fixturedef.argname}")
    try:
        return (yield)
    finally:
        os.environ[_VARIABLE] = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.passed:
        names = [item.nodeid]
        for name in getattr(item, "fixturenames", ()):
            names += [known for known in _files if known.endswith(f"::{name}")]
        seconds = time.monotonic() - _began[item.nodeid]
        _index[item.nodeid] = (seconds, [_files[name] for name in names])
    return report


def pytest_sessionfinish() -> None:
    (FOLDER / "index.json").write_text(json.dumps(_index))
