"""The fixture's names, and what becomes of the rows and of tests in doubt; nothing is measured."""

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from overlapbench.measurement import measuring, pytest_plugin
from overlapbench.measurement.pytest_plugin import OverlapBenchmark
from overlapbench.output import ResultError
from overlapbench.reading.rows import Inconclusive, State

Config = Callable[..., Any]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return what makes a pytest.Config with such flags, in a folder without defaults."""
    (tmp_path / "pyproject.toml").write_text("[tool.overlapbench]\n")

    def make(**given: Any) -> Any:
        flags = {pytest_plugin._destination(flag): None for flag in pytest_plugin._FLAGS}
        flags |= {f"overlapbench_{name}": value for name, value in given.items()}
        return SimpleNamespace(getoption=flags.__getitem__, rootpath=tmp_path, stash=pytest.Stash())

    return make


def runs(folder: Path, *numbers: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / f"{number}.json").write_text("{}")
    return [folder / f"{number}.json" for number in numbers]


# ---- names


def test_a_row_is_named_after_its_test() -> None:
    def named(node: str, name: str, case: str = "") -> dict[str, str]:
        test: Any = SimpleNamespace(originalname=name, parent=SimpleNamespace(nodeid=node))
        if case:
            test.callspec = SimpleNamespace(id=case)
        return pytest_plugin._named_after(test)

    assert named("tests/test_lanes.py::TestSums", "test_hides_allSums") == {
        "name": "HidesAllSums",
        "test": "tests.test_lanes.TestSums.test_hides_allSums",
    }
    assert named("test_a.py", "test_2_lanes", case="a/b,c=d:e f") == {
        "name": "Test2Lanes",
        "test": "test_a.test_2_lanes",
        "case": "a-b-c-d-e-f",
    }
    plain: Any = SimpleNamespace(originalname="test_b", parent=None, callspec=SimpleNamespace())
    assert pytest_plugin._named_after(plain) == {"name": "B", "test": "test_b"}
    assert named("test_a.py", "test_é") == {"name": "Test", "test": "test_a.test_é"}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the calls of measuring functions, which return a good row."""
    calls: list[Any] = []

    def measure(*, comp: Any = None, name: str = "", **labels: Any) -> Any:
        calls.append(("measure", comp, name, labels))
        return SimpleNamespace(state=State.NOISY, name="Overlap/x", reason="it varies")

    def measure_alone(run: Any, *, name: str = "", **labels: Any) -> Any:
        calls.append(("measure_alone", run, name, labels))
        return SimpleNamespace(state=State.INVALID, name="Compute/x", reason="it is wrong")

    def measure_schedule(steps: Any, *, name: str = "", **labels: Any) -> Any:
        calls.append(("measure_schedule", steps, name, labels))
        return SimpleNamespace(state=State.OK, name="Schedule/x", reason="")

    for function in (measure, measure_alone, measure_schedule):
        monkeypatch.setattr(measuring, function.__name__, function)
    return calls


def test_rows_of_one_name_are_counted(measured: list[Any]) -> None:
    shown: list[str] = []
    fixture = OverlapBenchmark({"name": "Mine", "test": "t"}, Counter(), shown.append)
    for settings in ({}, {}, {"comp": 5}, {"n": 1}, {"n": 1}, {"name": "Own"}, {"nth": 2}):
        fixture(**settings)
    assert [(name, labels) for _, _, name, labels in measured] == [
        ("Mine", {"test": "t"}),
        ("Mine", {"test": "t", "nth": 2}),
        ("Mine", {"test": "t", "nth": 3}),  # `comp` is no label
        ("Mine", {"test": "t", "n": 1}),
        ("Mine", {"test": "t", "n": 1, "nth": 2}),
        ("Own", {"test": "t"}),
        ("Mine", {"test": "t", "nth": 4}),  # 2 is taken, and so is the test's second row with it
    ]
    assert len(shown) == 7


def test_the_kinds_of_rows_are_measured_and_counted_apart(measured: list[Any]) -> None:
    fixture = OverlapBenchmark({"name": "Mine"}, Counter(), lambda _text: None)
    assert fixture(comp=1).reason == "it varies"
    assert fixture.schedule([], n=2).state is State.OK
    with pytest.raises(pytest.fail.Exception, match=r"^Compute/x: invalid: it is wrong$"):
        fixture.alone(print, n=3)
    assert measured == [
        ("measure", 1, "Mine", {}),
        ("measure_schedule", [], "Mine", {"n": 2}),
        ("measure_alone", print, "Mine", {"n": 3}),
    ]


# ---- the plan


def test_without_flags_nothing_is_planned_until_the_fixture_is_used(config: Config) -> None:
    one = config()
    pytest_plugin.pytest_configure(one)
    assert pytest_plugin._PLAN not in one.stash
    plan = pytest_plugin._plan(one)
    assert (plan.fails_noisy, plan.outputs, plan.baseline) == (False, [], [])
    assert pytest_plugin._plan(one) is plan


@pytest.mark.parametrize(
    ("given", "project", "fails"),
    [
        (None, "", False),
        (None, "skip", False),
        (None, "fail", True),
        ("skip", "fail", False),
        ("fail", "skip", True),
    ],
)
def test_the_flag_decides_about_noisy_tests_before_the_project(
    config: Config, tmp_path: Path, given: str | None, project: str, fails: bool
) -> None:
    if project:
        (tmp_path / "pyproject.toml").write_text(f'[tool.overlapbench]\nwhen_noisy = "{project}"\n')
    flags = {"when_noisy": given}
    assert pytest_plugin._make_plan(config(**flags)).fails_noisy is fails


def test_a_run_is_saved_beside_the_others_and_in_the_file(config: Config, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    first = config(out=out, save="new")
    pytest_plugin.pytest_configure(first)
    folder = tmp_path / ".overlapbench/new"
    assert pytest_plugin._plan(first).outputs == [out, folder / "1.json"]
    runs(folder, 1, 2)
    assert pytest_plugin._make_plan(config(save="new")).outputs == [folder / "3.json"]


def test_the_project_says_where_baselines_are(config: Config, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.overlapbench]\nstorage = "kept/here"\n')
    saved = runs(tmp_path / "kept/here/main", 2, 1)
    plan = pytest_plugin._make_plan(config(compare="main"))
    assert plan.baseline == saved[::-1]
    (output,) = plan.outputs
    assert output.name == "1.json"
    assert output.parent.name.startswith("overlapbench-")
    output.parent.rmdir()
    out = tmp_path / "rows.json"
    assert pytest_plugin._make_plan(config(compare="main", out=out)).outputs == [out]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (
            {"compare_fail": True},
            "--overlapbench-compare-fail needs --overlapbench-compare=NAME",
        ),
        ({"save": "a", "compare": "a"}, "a cannot be compared with itself"),
        (
            {"compare": "no"},
            "TMP/.overlapbench/no has no run: --overlapbench-save=no makes one",
        ),
        ({"out": Path("/dev/null/x.json")}, "/dev/null/x.json: "),
    ],
)
def test_a_plan_that_cannot_be_is_refused_at_once(
    config: Config, tmp_path: Path, flags: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(pytest.UsageError) as raised:
        pytest_plugin.pytest_configure(config(**flags))
    told = str(raised.value).replace(str(tmp_path), "TMP")
    assert told.startswith(f"overlapbench: {complaint}")


# ---- tests in doubt


def run(config: Any, error: Exception | None, fixtures: tuple[str, ...]) -> object:
    """Run a test as pytest does, and return its result."""
    item: Any = SimpleNamespace(fixturenames=fixtures, config=config)
    hook = pytest_plugin.pytest_pyfunc_call(item)
    next(hook)
    try:
        if error:
            hook.throw(error)
        else:
            hook.send("result")
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the hook goes on")


def test_a_test_in_doubt_is_skipped_or_fails(config: Config) -> None:
    doubt, ours = Inconclusive("slowdown 1.2"), ("overlap_benchmark",)
    with pytest.raises(pytest.skip.Exception, match=r"^inconclusive: slowdown 1\.2$"):
        run(config(), doubt, ours)
    with pytest.raises(pytest.fail.Exception, match=r"^inconclusive: slowdown 1\.2$"):
        run(config(when_noisy="fail"), doubt, ours)
    with pytest.raises(Inconclusive):
        run(config(), doubt, ("tmp_path",))
    with pytest.raises(ResultError, match="other"):
        run(config(), ResultError("other"), ours)
    assert run(config(), None, ours) == "result"
    assert run(config(), None, ()) == "result"


# ---- the comparison at the end


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Let a comparison end with `status`; `commands` are those that ran."""
    made = SimpleNamespace(status=0, commands=[])

    def run(command: list[str], **settings: Any) -> Any:
        assert settings == {"capture_output": True, "text": True, "timeout": 300, "check": False}
        made.commands.append(command[1:])
        return SimpleNamespace(stdout="out\n", stderr="err\n", returncode=made.status)

    monkeypatch.setattr(subprocess, "run", run)
    return made


@pytest.mark.parametrize("saves", [False, True])
def test_the_run_or_all_that_are_saved_are_compared(
    config: Config, tmp_path: Path, compared: SimpleNamespace, saves: bool
) -> None:
    base = runs(tmp_path / ".overlapbench/main", 1, 2)
    out = tmp_path / "out/rows.json"
    out.parent.mkdir()
    new = runs(tmp_path / ".overlapbench/new", 1)
    one = config(compare="main", out=out, save="new" if saves else None)
    plan = pytest_plugin._plan(one)
    session: Any = SimpleNamespace(config=one, exitstatus=0)
    pytest_plugin.pytest_sessionfinish(session)
    assert compared.commands == []  # no test has measured anything
    assert plan.compared == ""
    plan.outputs[-1].write_text("{}")
    pytest_plugin.pytest_sessionfinish(session)
    expected = [*new, plan.outputs[-1]] if saves else [out]
    sides = ["--base", *map(str, base), "--new", *map(str, expected)]
    assert compared.commands == [["-m", "overlapbench", "compare", *sides]]
    assert plan.compared == "out\nerr\n"


@pytest.mark.parametrize(
    ("status", "noisy", "fails", "before", "after"),
    [
        (1, None, True, 0, 1),
        (1, None, False, 0, 0),
        (1, None, True, 2, 2),
        (0, "fail", True, 0, 0),
        (2, "fail", True, 0, 0),
        (3, None, True, 0, 0),
        (3, "fail", True, 0, 1),
        (1, "fail", True, 0, 1),
    ],
)
def test_a_slower_row_fails_the_session_if_it_is_asked_to(
    config: Config,
    tmp_path: Path,
    compared: SimpleNamespace,
    status: int,
    noisy: str | None,
    fails: bool,
    before: int,
    after: int,
) -> None:
    runs(tmp_path / ".overlapbench/main", 1)
    out = tmp_path / "rows.json"
    one = config(compare="main", out=out, when_noisy=noisy, compare_fail=fails)
    pytest_plugin.pytest_configure(one)
    out.write_text("{}")
    compared.status = status
    session: Any = SimpleNamespace(config=one, exitstatus=before)
    pytest_plugin.pytest_sessionfinish(session)
    assert session.exitstatus == after


def test_a_session_without_a_comparison_ends_as_it_is(
    config: Config, tmp_path: Path, compared: SimpleNamespace
) -> None:
    out = tmp_path / "rows.json"
    for one in (config(), config(out=out)):
        pytest_plugin.pytest_configure(one)
        out.write_text("{}")
        session: Any = SimpleNamespace(config=one, exitstatus=0)
        pytest_plugin.pytest_sessionfinish(session)
    assert compared.commands == []


def test_the_comparison_is_shown_under_its_baseline(config: Config, tmp_path: Path) -> None:
    shown: list[Any] = []
    reporter: Any = SimpleNamespace(
        section=lambda title: shown.append(("section", title)), write=shown.append
    )
    folder = tmp_path / ".overlapbench/main"
    runs(folder, 1)
    one = config(compare="main", out=tmp_path / "rows.json")
    pytest_plugin.pytest_terminal_summary(reporter, one)
    plan = pytest_plugin._plan(one)
    pytest_plugin.pytest_terminal_summary(reporter, one)
    assert shown == []
    plan.compared = "table\n"
    pytest_plugin.pytest_terminal_summary(reporter, one)
    assert shown == [("section", f"compared with {folder}"), "table\n"]


def test_the_flags_are_those_of_the_manual() -> None:
    added: dict[str, Any] = {}
    group = SimpleNamespace(addoption=lambda flag, **settings: added.update({flag: settings}))
    parser: Any = SimpleNamespace(getgroup=lambda name: group if name == "overlapbench" else None)
    pytest_plugin.pytest_addoption(parser)
    assert {flag: settings["dest"] for flag, settings in added.items()} == {
        "--overlapbench-out": "overlapbench_out",
        "--overlapbench-when-noisy": "overlapbench_when_noisy",
        "--overlapbench-save": "overlapbench_save",
        "--overlapbench-compare": "overlapbench_compare",
        "--overlapbench-compare-fail": "overlapbench_compare_fail",
    }
    assert added["--overlapbench-when-noisy"]["choices"] == ("skip", "fail")
    assert added["--overlapbench-out"]["type"] is Path
    assert added["--overlapbench-compare-fail"]["action"] == "store_true"
