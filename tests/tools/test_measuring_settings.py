"""Where a setting of measuring comes from, and the flags that it becomes."""

from pathlib import Path
from typing import Any

import pytest

from overlapbench.measurement.interface import MeasureError
from overlapbench.measurement.settings import Settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project without defaults, and return its file."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.overlapbench]\n")
    return file


def test_a_call_comes_before_configure_and_that_before_the_project(project: Path) -> None:
    project.write_text("[tool.overlapbench]\nbudget_ms = 1\nprecision = 1\ntimeout_s = 1\n")
    settings = Settings()
    settings.update({"budget_ms": 2, "precision": 2, "timeout_s": None})
    call = {"budget_ms": 3, "precision": None, "timeout_s": None, "warmup_ms": 0}
    assert settings.flags_of_row(call) == [
        *("--budget_ms=3", "--precision=2", "--timeout_s=1", "--warmup_ms=0")
    ]
    assert settings.flags_of_row({}) == ["--budget_ms=2", "--precision=2", "--timeout_s=1"]
    assert Settings().flags_of_row({}) == ["--budget_ms=1", "--precision=1", "--timeout_s=1"]


def test_the_project_is_read_once(project: Path) -> None:
    settings = Settings()
    assert settings.value("budget_ms") is None
    project.write_text("[tool.overlapbench]\nbudget_ms = 1\n")
    assert settings.value("budget_ms") is None
    assert Settings().value("budget_ms") == 1


def test_a_setting_stays_until_it_is_given_again(project: Path) -> None:
    settings = Settings()
    settings.update({"budget_ms": 2})
    settings.update({"budget_ms": None, "precision": 0})
    assert settings.flags_of_row({}) == ["--budget_ms=2", "--precision=0"]


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ({}, []),
        ({"gate": True, "self_test": True}, []),
        ({"gate": False, "self_test": False}, ["--gate=off", "--no-self-test"]),
        ({"predictable": True}, ["--predictable"]),
        ({"predictable": False}, []),
        (
            {"precision": 3, "timeout_s": 4, "budget_ms": 2, "host_cores": 1, "backend": "host"},
            [
                *("--backend=host", "--host_cores=1", "--budget_ms=2", "--precision=3"),
                "--timeout_s=4",
            ],
        ),
    ],
)
def test_the_process_is_opened_with_all_its_settings(
    project: Path, given: dict[str, Any], flags: list[str]
) -> None:
    settings = Settings()
    settings.update(given)
    assert settings.flags_of_process() == flags


@pytest.mark.parametrize("name", ["backend", "host_cores", "gate", "self_test", "predictable"])
def test_what_belongs_to_the_process_cannot_change_later(project: Path, name: str) -> None:
    settings = Settings(opened=True)
    with pytest.raises(
        MeasureError, match=rf"^configure\({name}=\) comes before the first measurement$"
    ):
        settings.update({name: 5, "budget_ms": 5})
    assert settings.given == {}
    settings.opened = False
    settings.update({name: 5})
    settings.opened = True
    settings.update({name: 5})  # no change


@pytest.mark.parametrize("name", ["budget_ms", "precision", "timeout_s", "warmup_ms"])
def test_what_belongs_to_rows_can_change(project: Path, name: str) -> None:
    settings = Settings(opened=True)
    settings.update({name: 5})
    assert settings.value(name) == 5
