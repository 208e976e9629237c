"""What the reader accepts, at the limits of each rule, and how a row is shown as a whole."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import samples
from overlapbench.output import ResultError
from overlapbench.reading.counters import Better, Counter, Range, stored_table
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.program_run import surroundings
from overlapbench.reading.project import read_defaults
from overlapbench.reading.result import parse_result, read_results
from overlapbench.reading.rows import Row, State, html_table, sum_up
from overlapbench.reading.source import Document, can_be_measured

# ---- numbers


@pytest.mark.parametrize(
    ("number", "fine"),
    [
        *((0, True), (1e-100, True), (1e100, True), (-1e100, True), (9e-101, False)),
        *((-9e-101, False), (1.1e100, False), (math.inf, False), (math.nan, False)),
    ],
)
def test_numbers_beyond_the_limits_cannot_have_been_measured(number: float, fine: bool) -> None:
    assert can_be_measured(number) == fine


FAULTS: dict[Range, dict[float, str]] = {
    Range.POSITIVE: {0.0: "0 is not above 0", -1.0: "-1 is not above 0", 1e-9: "", 5.0: ""},
    Range.NOT_NEGATIVE: {0.0: "", -0.5: "-0.5 is negative", 5.0: ""},
    Range.SIGNED: {-5.0: "", 0.0: "", 5.0: ""},
    Range.AT_MOST_1: {1.0: "", 1.5: "1.5 is above 1", -5.0: "", 0.0: ""},
    Range.FLAG: {0.0: "", 1.0: "", 0.5: "0.5 is neither 0 nor 1", 2.0: "2 is neither 0 nor 1"},
}


def counter(of: Range, name: str = "x", unit: str = "ms") -> Counter:
    return Counter(name, unit, Better.LOWER, of, False, "X", "What x is.")


@pytest.mark.parametrize("of", Range)
def test_a_counters_range_is_kept(of: Range) -> None:
    one = counter(of)
    assert {value: one.fault(value) for value in FAULTS[of]} == FAULTS[of]
    low, high = one.surely_fine()
    assert one.fault(low) == one.fault(high) == ""
    ends = {
        Range.POSITIVE: (1e-100, 1e100),
        Range.NOT_NEGATIVE: (0.0, 1e100),
        Range.SIGNED: (-1e100, 1e100),
        Range.AT_MOST_1: (-1e100, 1.0),
        Range.FLAG: (1.0, 1.0),
    }
    assert (low, high) == ends[of]
    assert one.can_be_judged == (of in (Range.POSITIVE, Range.NOT_NEGATIVE))
    assert counter(of, "efficiency").can_be_judged


def test_another_unit_or_direction_is_another_counter() -> None:
    one = counter(Range.SIGNED)
    assert one.difference(replace(one, unit="us")) == "unit is 'us', but 'ms'"
    assert one.difference(replace(one, better=Better.HIGHER)) == "better is higher, but lower"
    reworded = replace(one, range=Range.FLAG, judged=True, title="Y", definition="Else.")
    assert one.difference(reworded) == ""


TEXT = """{
 "context": {"a": 1,
  "b": [true]},
 "benchmarks": [
  {"x": 1},
  {"name": "n\\u0007", "y": 1e999,
   "z": 1e200, "flag": true, "text": "", "inner": {"deep": []}}
 ]
}"""


@pytest.mark.parametrize(
    ("index", "ask", "complaint"),
    [
        (1, ("number", "y"), "benchmarks[1].y: Infinity is not a finite number"),
        (1, ("number", "z"), "benchmarks[1].z: 1e+200 is out of range"),
        (1, ("number", "flag"), "benchmarks[1].flag: true is not a number"),
        (1, ("number", "gone"), "benchmarks[1].gone: missing"),
        (0, ("text", "x"), "benchmarks[0].x: 1 is not text"),
        (0, ("text", "gone"), "benchmarks[0].gone: missing"),
        (1, ("printable", "name"), 'benchmarks[1].name: "n\\u0007" is empty or contains control'),
        (1, ("printable", "text"), 'benchmarks[1].text: "" is empty or contains control characte'),
    ],
)
def test_a_field_is_refused_with_its_place(
    index: int, ask: tuple[str, str], complaint: str
) -> None:
    fields = Document.parse("f.json", TEXT).rows[index]
    with pytest.raises(ResultError) as raised:
        getattr(fields, ask[0])(ask[1])
    assert str(raised.value).startswith(f"f.json: {complaint}")


def test_fields_of_the_context_have_their_places() -> None:
    document = Document.parse("f.json", TEXT)
    with pytest.raises(ResultError, match=r"^f\.json: context\.b: \[true\] is not text$"):
        document.context.text("b")
    assert document.rows[1].line("gone") == ""
    assert document.rows[0].text("gone", "default") == "default"


@pytest.mark.parametrize(
    ("entry", "failure"),
    [
        ({}, ""),
        ({"error_occurred": False, "error_message": "x"}, ""),
        ({"error_occurred": True, "error_message": "a\nb"}, "a b"),
        ({"error_occurred": True}, "failed, giving no reason"),
        ({"skipped": "skip", "skip_message": "later"}, "later"),
        ({"error_occurred": True, "error_message": "first", "skipped": True}, "first"),
    ],
)
def test_why_an_entry_was_not_measured(entry: dict[str, Any], failure: str) -> None:
    text = json.dumps({"context": {}, "benchmarks": [entry]})
    found = Document.parse("f.json", text).rows[0].failure()
    assert found.replace("\N{REPLACEMENT CHARACTER}", " ") == failure


# ---- names


@pytest.mark.parametrize(
    ("name", "family", "workloads", "axes"),
    [
        ("Overlap/A+B/n:4", "Overlap", ("A", "B"), (("n", "4"),)),
        ("Lab/Link/A/n:4/m:x", "Lab/Link", ("A",), (("n", "4"), ("m", "x"))),
        ("Comm/A/n:4/repeats:3/manual_time", "Comm", ("A",), (("n", "4"),)),
        ("Comm/A/min_time:0.5/iterations:7/threads:2", "Comm", ("A",), ()),
        ("Comm/A/min_warmup_time:1/process_time/real_time", "Comm", ("A",), ()),
        ("Own/A+B", "Own", ("A", "B"), ()),
    ],
)
def test_a_name_has_its_parts(name: str, family: str, workloads: Any, axes: Any) -> None:
    parsed = BenchmarkName.parse(name)
    assert (parsed.family, parsed.workloads, parsed.axes) == (family, workloads, axes)
    assert name.startswith(parsed)
    assert [parsed.axis(axis) for axis, _ in axes] == [value for _, value in axes]
    assert parsed.axis("gone") is None


# ---- what must agree


def test_surroundings_are_written_on_one_line() -> None:
    context = {
        "backend": "cuda",
        "device": "GPU\x1b",
        "hosts": "a",
        "host_name": "b",
        "num_cpus": 64,
        "env_NCCL_B": "2",
        "env_NCCL_A": "1",
        "other": "not shown",
    }
    assert surroundings(context) == {
        "backend": "cuda",
        "device": "GPU\N{REPLACEMENT CHARACTER}",
        "driver_version": "",
        "nccl_version": "",
        "ranks": "",
        "hosts": "a",
        "num_cpus": "64",
        "host_cores": "",
        "gate": "",
        "injected_fault": "",
        "variables": "NCCL_A=1 NCCL_B=2",
    }
    assert surroundings({"host_name": "b"})["hosts"] == "b"


# ---- rows

TABLE = stored_table()
NAME = BenchmarkName.parse("Overlap/A+B/n:4/cache:cold")


def row(state: State = State.OK, reason: str = "", time_ms: float = 2.0, **counters: float) -> Row:
    return Row("run", NAME, counters, state, time_ms, reason, {}, TABLE)


@pytest.mark.parametrize(
    ("state", "trusted", "comparable", "line"),
    [
        (State.OK, True, True, "why"),
        (State.SERIALIZED, True, True, "serialized: why"),
        (State.CONTROL, False, True, "control: why"),
        (State.NOISY, False, True, "noisy: why"),
        (State.INVALID, False, False, "invalid: why"),
        (State.ERROR, False, False, "why"),
    ],
)
def test_a_state_says_what_the_figures_are_worth(
    state: State, trusted: bool, comparable: bool, line: str
) -> None:
    assert (state.trusted, state.comparable, state.line("why")) == (trusted, comparable, line)
    if state not in (State.OK, State.ERROR):
        assert state.line("") == f"{state.value}: no reason is given"
    one = row(state, "why")
    assert one.trusted == trusted
    assert one.bad == (not trusted and state is not State.CONTROL)
    assert one.problem == (
        "" if trusted else "control passed: why" * (state is State.CONTROL) or line
    )
    assert one.remark == (line if trusted else "")
    assert one.said == f"{state.value}: why"
    assert row(state).said == state.value


def test_a_row_without_its_counters_is_measured_and_shown() -> None:
    one = Row(
        *("run", NAME, {"comp_ms": 1.0, "slowdown": 1.25, "samples": 9.0}, State.NOISY, 2.5),
        *("load", {"slowdown": (1.2, 1.3), "time": (2.4, 2.6)}, TABLE),
    )
    assert str(one).splitlines()[1] == "  time               2.500 ms   2.400 to 2.600"
    assert one.to_dict() == {
        **{"file": "run", "benchmark": str(NAME), "family": "Overlap", "state": "noisy"},
        **{"reason": "load", "axis_n": 4, "axis_cache": "cold"},
        **{"time_ms": 2.5, "time_low_ms": 2.4, "time_high_ms": 2.6, "comp_ms": 1.0},
        **{"slowdown": 1.25, "slowdown_low": 1.2, "slowdown_high": 1.3, "samples": 9.0},
    }
    assert (float(one.C), float(one.T)) == (1.0, 2.5)
    with pytest.raises(KeyError, match="has no comm_ms: noisy: load"):
        _ = one.M
    with pytest.raises(KeyError, match=r"has no comm_ms: see counters"):
        row()["comm_ms"]
    assert math.isnan(row(State.ERROR, time_ms=math.nan).T)
    assert row(State.ERROR, time_ms=math.nan).figures == {}


def test_a_notebooks_table_is_escaped() -> None:
    assert html_table(("a", "<b>"), [("&", 1), ("x", 2.5)]) == (
        "<table><tr><th>a</th><th>&lt;b&gt;</th></tr><tr><td>&amp;</td><td>1</td></tr>"
        "<tr><td>x</td><td>2.5</td></tr></table>"
    )


@pytest.mark.parametrize(
    ("states", "state", "reason", "time_ms"),
    [
        ([State.OK, State.OK, State.OK], State.OK, "2 of 3 runs: b", 3.0),
        ([State.OK, State.SERIALIZED, State.OK], State.SERIALIZED, "1 of 3 runs: b", 3.0),
        ([State.OK, State.NOISY, State.OK], State.NOISY, "1 of 3 runs: b", 3.0),
        ([State.OK, State.INVALID, State.NOISY], State.INVALID, "2 of 3 runs: b", 3.0),
        ([State.ERROR, State.OK, State.OK], State.INVALID, "no", 3.0),
        ([State.ERROR, State.ERROR, State.ERROR], State.ERROR, "2 of 3 runs: b", math.nan),
    ],
)
def test_repetitions_have_the_worst_state_and_the_median(
    states: list[State], state: State, reason: str, time_ms: float
) -> None:
    runs = [
        row(one, why, math.nan if one is State.ERROR else time, x=time)
        for one, why, time in zip(states, ("", "b", "c"), (1.0, 3.0, 4.0), strict=True)
    ]
    summed = sum_up(runs, "runs")
    assert summed.state is state
    if reason != "no":
        assert summed.reason == reason
    if states[0] is State.ERROR and states[1] is not State.ERROR:
        assert (summed.time_ms, summed.counters) == (3.5, {"x": 3.5})
    else:
        assert summed.time_ms == pytest.approx(time_ms, nan_ok=True)
    assert sum_up(runs[:1], "runs") is runs[0]


def test_a_failed_repetition_makes_the_row_invalid_with_its_reason() -> None:
    runs = [row(State.ERROR, "it broke", math.nan), row(), row()]
    summed = sum_up(runs, "runs")
    assert (summed.state, summed.reason) == (State.INVALID, "1 of 3 runs: it broke")


# ---- a plain file


def test_rows_of_several_files_share_one_table(tmp_path: Path) -> None:
    document = samples.document([samples.row("Comm/A/n:1")])
    other = json.loads(json.dumps(document))
    for entry in other["counters"]:
        entry["judged"] = entry["name"] == "time"
    paths = [samples.write(tmp_path / f"{i}.json", one) for i, one in enumerate((document, other))]
    first, second = read_results([str(path) for path in paths])
    assert first.table == second.table == first.rows[0].table == second.rows[0].table
    assert first.table.judged == ("time",)


# ---- a project


def defaults_of(folder: Path, text: str) -> dict[str, Any]:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return read_defaults(folder)


def test_the_nearest_table_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    assert defaults_of(tmp_path, "[tool.overlapbench]\nbudget_ms = 1\n") == {"budget_ms": 1}
    assert defaults_of(inner, "[project]\nname = 'ä'\n") == {"budget_ms": 1}  # passed over
    assert defaults_of(inner, "[tool.other]\n") == {"budget_ms": 1}
    assert read_defaults(tmp_path / "a") == {"budget_ms": 1}
    assert defaults_of(inner.parent, "[tool.overlapbench]\n") == {}
    assert read_defaults(inner) == {}


def test_every_default_is_read(tmp_path: Path) -> None:
    values = {
        **{"backend": "host", "budget_ms": 200, "precision": 2.5, "timeout_s": 20},
        **{"host_cores": 2, "when_noisy": "skip", "storage": "x", "max_floor": 5},
        **{"min_guarded": 80.5, "across": ["driver"]},
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    assert defaults_of(tmp_path, "[tool.overlapbench]\n" + "\n".join(lines)) == values


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("backend = 'tpu'", "backend: is \"tpu\", must be 'auto' or 'cuda'"),
        ("precision = 'x'", 'precision: is "x", must be a number'),
        ("storage = 1", "storage: is 1, must be text"),
        ("across = 'x'", 'across: is "x", must be a list'),
        ("budget_ms = 1.5", "budget_ms: is 1.5, must be a whole number"),
        ("budget_ms = true", "budget_ms: is true, must be a whole number"),
        ("when_noisy = 'warn'", "when_noisy: is \"warn\", must be 'skip' or 'fail'"),
        ("zzz = 1", "zzz: must be one of backend, budget_ms, precision, "),
        ("budget = 3", "budget: unknown; did you mean budget_ms?"),
        ("=", "cannot be read: "),
        ("[tool]\noverlapbench = 5", "tool.overlapbench is 5, must be a table"),
    ],
)
def test_a_bad_default_is_refused_by_its_key(tmp_path: Path, line: str, fault: str) -> None:
    header = "" if line.startswith("[") else "[tool.overlapbench]\n"
    with pytest.raises(ResultError) as raised:
        defaults_of(tmp_path, f"{header}{line}\n")
    told = str(raised.value).removeprefix(f"{tmp_path}/pyproject.toml: ")
    assert told.removeprefix("tool.overlapbench.").startswith(fault)


def test_a_result_keeps_what_its_file_says() -> None:
    document = samples.document([samples.row("Comm/A/n:1", reason="fine")], device="H")
    result = parse_result("x/run.json", json.dumps(document | {"incomplete": "ended\nearly"}))
    assert result.label == "run (cuda, H)"
    assert result.incomplete.startswith("ended")
    assert "\n" not in result.incomplete
    (one,) = result.rows
    assert (one.reason, one.time_ms, one.file) == ("fine", 1.0, result.label)
