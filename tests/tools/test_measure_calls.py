"""What the functions of measuring ask the suite for, and what they make of its answers."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import overlapbench as ob
from fake_suite import FakeSuite, suite
from overlapbench.measurement import callables, measuring, ranks
from overlapbench.measurement.callables import Work
from overlapbench.measurement.interface import ALONE, PAIR, SCHEDULE, MeasureError, Place
from overlapbench.measurement.interface import Step as StepPlace
from overlapbench.measurement.measuring import Step

__all__ = ["suite"]
COMP, COMM, COPY = 0, 1, 2
PAIR_ROW = "Overlap/mineComm+mineComp"


def nothing() -> None:
    pass


def other() -> None:
    pass


def test_a_pair_is_asked_for_with_its_works_labels_and_axes(suite: FakeSuite) -> None:
    suite.name = f"{PAIR_ROW}/n:4/cache:warm/first:comm"
    row = ob.measure(comp=nothing, comm=other, first="comm", cache="warm", n=4, m="x")
    ((kind, name, works, steps, labels, axes),) = suite.of("measure")
    assert (kind, name, steps) == (PAIR, "mine", [])
    assert works == [("comp", COMP, False), ("comm", COMM, False)]
    assert labels == ["n=4", "m=x"]
    assert axes == ["cache=warm", "first=comm"]
    assert row.name == suite.name
    assert (row.time_ms, row.samples_ms) == (1.0, [0.25, 0.5, 1.0])
    assert row.document["benchmarks"][0]["name"] == suite.name
    assert row.exception is None


def test_torch_distributed_is_initialized_with_the_ranks_of_the_suite(
    suite: FakeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(ranks, "init", lambda *these, **more: given.append((these, more)))
    ob.init_torch_distributed("gloo", timeout=5)
    ob.init_torch_distributed()
    assert given == [((suite, "gloo"), {"timeout": 5}), ((suite, None), {})]


def test_every_setting_of_a_pair_is_passed_on(suite: FakeSuite) -> None:
    ob.measure(
        comp=Work(nothing, kind="comm"),
        comm=Work(other, kind="copy"),
        name="Mine",
        first="none",
        streams=1,
        cache="cold",
        cadence="streaming",
        comp_sms=8,
        comp_priority=1,
        comm_priority=2,
        gated=False,
        budget_ms=7,
        precision=2.5,
        timeout_s=9,
    )
    ((_, name, works, _, labels, axes),) = suite.of("measure")
    assert name == "Mine"
    assert works == [("comp", COMP, True), ("comm", COPY, True)]
    assert (labels, axes) == (
        [],
        [
            *("cache=cold", "cadence=streaming", "first=none", "streams=1", "comp_sms=8"),
            *("comp_priority=1", "comm_priority=2"),
        ],
    )
    assert suite.of("configure") == [["--budget_ms=7", "--precision=2.5", "--timeout_s=9"]]


@pytest.mark.parametrize(("kind", "moves"), [("comp", COMM), ("comm", COMM), ("copy", COPY)])
def test_the_second_side_of_a_pair_is_a_communication_unless_it_copies(
    suite: FakeSuite, kind: str, moves: int
) -> None:
    ob.measure(comp=nothing, comm=Work(other, kind=kind))
    ((_, _, works, *_),) = suite.of("measure")
    assert works == [("comp", COMP, False), ("comm", moves, False)]


def test_one_callable_is_asked_for_under_its_name(suite: FakeSuite) -> None:
    ob.measure_alone(Work(nothing, kind="comm"), name="Sum", warmup_ms=30, cadence="isolated", n=1)
    ((kind, name, works, steps, labels, axes),) = suite.of("measure")
    assert (kind, name, works, steps) == (ALONE, "Sum", [("Sum", COMM, False)], [])
    assert (labels, axes) == (["n=1"], ["cadence=isolated"])
    assert suite.of("configure") == [["--warmup_ms=30"]]


def test_steps_that_share_a_callable_are_one_work(suite: FakeSuite) -> None:
    shared = Work(other, kind="comm")
    steps = [
        Step("load", "a", shared),
        Step("first", "b", nothing, after=["load"]),
        Step("again", "a", shared, after=("load", "first")),
    ]
    ob.measure_schedule(steps, name="Steps", gated=False, budget_ms=5, cache="warm")
    ((kind, name, works, asked, labels, axes),) = suite.of("measure")
    assert (kind, name) == (SCHEDULE, "Steps")
    assert works == [("load", COMM, True), ("first", COMP, True)]
    assert asked == [
        StepPlace("a", "load", 0, []),
        StepPlace("b", "first", 1, [0]),
        StepPlace("a", "again", 0, [0, 1]),
    ]
    assert (labels, axes) == ([], ["cache=warm"])
    assert suite.of("configure") == [["--budget_ms=5"]]


@pytest.mark.parametrize(
    ("measure", "given"),
    [(ob.measure_alone, nothing), (ob.measure_schedule, [Step("a", "x", nothing)])],
)
def test_every_setting_of_one_callable_and_of_steps_is_passed_on(
    suite: FakeSuite, measure: Callable[..., Any], given: Any
) -> None:
    settings = {"budget_ms": 7, "precision": 2.5, "timeout_s": 9}
    measure(given, cache="warm", cadence="streaming", **settings)
    ((*_, labels, axes),) = suite.of("measure")
    assert (labels, axes) == ([], ["cache=warm", "cadence=streaming"])
    assert suite.of("configure") == [[f"--{name}={value}" for name, value in settings.items()]]


@pytest.mark.parametrize(
    "measure",
    [
        lambda: ob.measure(comp=nothing, comm=other),
        lambda: ob.measure_alone(nothing),
        lambda: ob.measure_schedule([Step("a", "x", nothing)]),
        lambda: ob.measure_row("Compute/Gemm"),
    ],
)
def test_ranks_of_pytorch_that_mpi_does_not_have_are_refused_before_the_row(
    suite: FakeSuite, measure: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def differ(place: Place) -> None:
        raise MeasureError(f"rank {place.rank}")

    monkeypatch.setattr(ranks, "require_same", differ)
    with pytest.raises(MeasureError, match="rank 0"):
        measure()
    assert [call[0] for call in suite.calls] == ["open", "interrupt_with"]


@pytest.mark.parametrize(
    ("steps", "error", "complaint"),
    [
        ([Step("a", "x", nothing, after=["a"])], ValueError, "step 'a' waits for 'a', which is no"),
        ([Step("a", "x", nothing, after=["b"]), Step("b", "x", nothing)], ValueError, "waits for"),
        ([Step("a", "x", nothing, after=["no"])], ValueError, "waits for 'no', which is not an ea"),
        ([Step("a", "x", nothing), Step("a", "y", other)], ValueError, "two steps have the name"),
        ([Step("a b", "x", nothing)], ValueError, r"the name of steps\[0\] is 'a b'"),
        ([Step("a", "x", other), Step("b", "x/", nothing)], ValueError, r"lane of steps\[1\] is"),
        ([Step("a", "x", nothing), 5], TypeError, r"steps\[1\] is 5, must be a Step"),
        ([Step("a", "x", nothing, after="a")], TypeError, "`after` of step 'a' is 'a', must be a"),
    ],
)
def test_steps_that_cannot_be_are_refused_before_anything_is_opened(
    suite: FakeSuite, steps: list[Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        ob.measure_schedule(steps)
    assert suite.calls == []


@pytest.mark.parametrize(
    ("measure", "given"),
    [(ob.measure_alone, nothing), (ob.measure_schedule, [Step("a", "x", nothing)])],
)
def test_a_name_that_a_file_has_leaves_all_files_as_they_are(
    suite: FakeSuite, measure: Callable[..., Any], given: Any, tmp_path: Path
) -> None:
    suite.name = "Compute/mine/n:2/cache:cold"
    with ob.results(tmp_path / "rows.json") as rows:
        measure(given, n=2)
        before = (tmp_path / "rows.json").read_text()
        with (
            ob.results(tmp_path / "inner.json") as inner,
            pytest.raises(ValueError, match=r"rows\.json already has a row") as raised,
        ):
            measure(given, n=2)
        assert (tmp_path / "rows.json").read_text() == before
    assert (len(rows), inner) == (1, [])
    assert f" already has a row {suite.name}: give this one another name" in str(raised.value)


def test_one_of_the_suites_own_rows_is_measured_by_its_name(suite: FakeSuite) -> None:
    suite.name = "Comm/AllReduce/bytes:64M/cache:cold"
    row = ob.measure_row("Comm/AllReduce", budget_ms=3, precision=1, timeout_s=2)
    assert (row.name, row.time_ms) == (suite.name, 1.0)
    assert row.samples_ms == [0.25, 0.5, 1.0]
    assert suite.of("configure") == [["--budget_ms=3", "--precision=1", "--timeout_s=2"]]
    assert suite.of("measure_own") == [["Comm/AllReduce"]]
    with ob.results("rows.json") as rows:
        assert ob.measure_row("Comm/AllReduce").name == suite.name
        for name in ("Comm/AllReduce", suite.name):
            with pytest.raises(ValueError, match=f"already has a row {suite.name}"):
                ob.measure_row(name)
    assert [one.name for one in rows] == [suite.name]


def written(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def test_a_file_of_results_is_incomplete_until_the_block_ends(
    suite: FakeSuite, tmp_path: Path
) -> None:
    file = tmp_path / "rows.json"
    file.write_text("older")
    with ob.results(file):
        assert file.read_text() == "older"  # until the first row
        for suite.name in ("Compute/a/cache:cold", "Compute/b/cache:cold"):
            ob.measure_alone(nothing, name=suite.name.split("/")[1])
            assert written(file)["incomplete"] == "the run is still going, or was killed"
        assert file.read_text().startswith('{\n  "')
        assert file.read_text().endswith("}\n")
    document = written(file)
    assert "incomplete" not in document
    assert [row["name"] for row in document["benchmarks"]] == [
        "Compute/a/cache:cold",
        "Compute/b/cache:cold",
    ]
    assert document["context"]["backend"] == "cuda"
    ob.measure_alone(nothing, name="a")  # in no file
    assert written(file) == document


def test_a_block_that_raises_leaves_the_file_incomplete(suite: FakeSuite, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"

    def interrupted() -> None:
        with ob.results(file):
            ob.measure_alone(nothing)
            raise KeyboardInterrupt("by\nhand")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert written(file)["incomplete"] == "KeyboardInterrupt: by hand"
    assert measuring._process.files == []


def test_a_block_without_rows_writes_nothing(suite: FakeSuite, tmp_path: Path) -> None:
    with ob.results(tmp_path / "rows.json"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_only_rank_0_writes_and_all_ranks_follow_its_refusal(
    suite: FakeSuite, tmp_path: Path
) -> None:
    suite.place = Place(1, 2, 1, callables.HOST)
    with ob.results("/dev/null/rows.json") as rows:
        ob.measure_alone(nothing)
    assert len(rows) == 1
    suite.answer = "rank 0 cannot"
    with pytest.raises(ValueError, match=r"^rank 0 cannot$"), ob.results(tmp_path / "rows.json"):
        pass
    suite.place, suite.answer = Place(0, 2, 0, callables.HOST), None
    with (
        pytest.raises(ValueError, match=r"/dev/null/rows\.json"),
        ob.results("/dev/null/rows.json"),
    ):
        pass
    assert measuring._process.files == []


def test_what_a_callable_raises_is_the_rows_and_a_row_in_error_keeps_its_callbacks(
    suite: FakeSuite,
) -> None:
    def fail() -> None:
        raise OSError("no")

    suite.runs, suite.fields = True, {"error_occurred": True, "error_message": "OSError: no"}
    row = ob.measure_alone(fail)
    assert row.state.value == "error"
    assert math.isnan(row.time_ms)
    assert isinstance(row.exception, OSError)
    assert [kept.raised for kept in measuring._process.kept] == [[row.exception]]
    suite.fields = {}
    assert isinstance(ob.measure_alone(fail).exception, OSError)
    assert len(measuring._process.kept) == 1


def test_an_interruption_in_a_callable_ends_the_call_and_keeps_the_row(suite: FakeSuite) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    suite.runs = True
    with ob.results("rows.json") as rows:
        with pytest.raises(KeyboardInterrupt):
            ob.measure_alone(interrupt)
        assert len(rows) == 1


def test_the_suite_is_opened_once_with_the_flags_of_the_process(
    suite: FakeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(ranks, "require_all", waited.append)
    ob.configure(backend="host", host_cores=2, gate=False, self_test=False, budget_ms=4)
    for _ in range(2):
        ob.measure_alone(nothing)
    flags = ["--backend=host", "--host_cores=2", "--budget_ms=4", "--gate=off", "--no-self-test"]
    assert suite.of("open") == [flags]
    assert suite.of("interrupt_with") == [[callables.SIGNAL]]
    assert suite.at_exit == [suite.close]
    assert suite.of("configure") == [["--budget_ms=4"]] * 2
    assert waited == [60]


def test_ranks_wait_for_each_other_as_long_as_for_anything(
    suite: FakeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(ranks, "require_all", waited.append)
    ob.configure(timeout_s=5)
    ob.measure_alone(nothing)
    assert waited == [5]


def test_what_belongs_to_the_process_is_set_before_the_first_measurement(suite: FakeSuite) -> None:
    ob.configure(backend="host")
    ob.measure_alone(nothing)
    ob.configure(backend="host", budget_ms=9)
    with pytest.raises(MeasureError, match=r"configure\(backend=\) comes before the first"):
        ob.configure(backend="cuda", budget_ms=10)
    ob.measure_alone(nothing)
    assert suite.of("configure")[-1] == ["--budget_ms=9"]


@pytest.mark.parametrize("labels", [{"gate": "x"}, {"Bad": 1}, {"n": "a b"}])
def test_bad_labels_are_refused_before_anything_is_opened(
    suite: FakeSuite, labels: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"label|printable"):
        ob.measure_alone(nothing, **labels)
    assert suite.calls == []
