"""The table of counters: one that no code knows is found everywhere; tables that contradict."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import made_runs
import samples
from overlapbench.cli import chart as slowdown_chart
from overlapbench.cli import compare as benchmark_compare
from overlapbench.cli import history, report
from overlapbench.judge.floors import Floors, SetFloor
from overlapbench.judge.judgements import Verdict
from overlapbench.judge.session import Session
from overlapbench.judge.side import Side
from overlapbench.judge.verdicts import compare_sides
from overlapbench.output import ResultError
from overlapbench.reading.counters import Table, merge_tables, parse_table, stored_table
from overlapbench.reading.program_run import ProgramRun, parse_program_run
from overlapbench.reading.result import Result, parse_result
from overlapbench.reading.rows import State
from overlapbench.reading.source import Document
from overlapbench.view.chart import draw_charts
from samples import Json

Capture = pytest.CaptureFixture[str]
Change = Callable[[Json], object]
RECORDED = Path(__file__).parents[2] / "docs" / "results"
NAME = "Weave/Loom/shafts:8"
WEFT: Json = {
    "name": "weft_rate",
    "unit": "picks/s",
    "better": "higher",
    "range": "positive",
    "judged": True,
    "title": "weft rate",
    "definition": "picks that the loom beats up in a second",
}
WEAVE: Json = {"name": "Weave", "about": "How fast a loom weaves.", "lead": ["weft_rate", "time"]}


def woven(rate: float, run: int = 0, counter: Json = WEFT) -> Json:
    """Make a result of a family and a counter that no code has ever heard of."""
    row = samples.row(NAME, weft_rate=rate)
    date, revision = f"2026-01-{run + 1:02}", f"r{run}"
    document = samples.document([row], date=date, git_revision=revision)
    document["counters"].append(dict(counter))
    document["families"].insert(0, dict(WEAVE))
    return document


def rates(level: float, seed: int) -> list[float]:
    noise = random.Random(seed)
    return [level * noise.gauss(1, 0.003) for _ in range(5)]


def write_all(folder: Path, name: str, documents: list[Json]) -> list[str]:
    return made_runs.write_side(folder, name, documents)


def parsed(document: Json, source: str = "run.json") -> Result:
    return parse_result(source, json.dumps(document))


def table_of(document: Json) -> Table:
    return parse_table(Document.parse("run.json", json.dumps(document)))


# ---- a counter that no code knows


def test_a_comparison_judges_it_by_its_direction(tmp_path: Path, capsys: Capture) -> None:
    base = write_all(tmp_path, "base", [woven(rate) for rate in rates(50.0, 1)])
    new = write_all(tmp_path, "new", [woven(rate) for rate in rates(40.0, 2)])
    sides = ["--base", *base, "--new", *new]
    assert benchmark_compare.main([*sides, "--format", "json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    judgement = {f["metric"]: f for f in row["findings"]}["weft_rate"]
    assert judgement["verdict"] == "slower"
    assert (judgement["unit"], judgement["better"]) == ("picks/s", "higher")
    assert benchmark_compare.main(["--base", *new, "--new", *base]) == 0
    out = capsys.readouterr().out
    assert "faster" in out
    assert "weft_rate picks/s" in out


def test_the_other_direction_is_the_other_verdict(tmp_path: Path) -> None:
    lower = WEFT | {"better": "lower"}
    base, new = (
        Side.collect(name, [run_of(woven(rate, 0, lower), f"{name}{i}") for i, rate in found])
        for name, found in (
            ("base", enumerate(rates(50.0, 1))),
            ("new", enumerate(rates(40.0, 2))),
        )
    )
    (row,) = compare_sides(base, new, Floors()).rows
    assert row.verdict is Verdict.FASTER


def run_of(document: Json, source: str) -> ProgramRun:
    return parse_program_run(source, json.dumps(document))


def test_the_report_shows_it_in_its_familys_section(tmp_path: Path) -> None:
    source = samples.write(tmp_path / "run.json", woven(50.0))
    assert report.main([str(source), "-o", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    section = page.split('<section id="Weave">')[1].split("</section>")[0]
    assert WEAVE["about"] in section
    assert ">weft rate<small>picks/s</small>" in section
    assert "higher is better" in section
    assert '<td class="number">50</td>' in section


def test_the_history_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    noise = random.Random(3)
    figures = [(50.0 if run < 8 else 40.0) * noise.gauss(1, 0.002) for run in range(16)]
    paths = write_all(tmp_path, "run", [woven(rate, run) for run, rate in enumerate(figures)])
    assert history.main(["add", *paths]) == 0
    capsys.readouterr()
    assert history.main(["changes", "--metric", "weft_rate"]) == 0
    out = capsys.readouterr().out
    assert "1 changes in 1 series" in out
    assert "worse" in out
    assert "picks/s" in out
    assert history.main(["trend", "--metric", "weft_rate", "-o", "trend.svg"]) == 0
    assert "1 change of weft_rate picks/s in 1 series" in Path("trend.svg").read_text(
        encoding="utf-8"
    )


def test_a_key_that_the_table_does_not_have_is_no_counter() -> None:
    document = woven(50.0)
    document["counters"].pop()
    (row,) = parsed(document).rows
    assert "weft_rate" not in row.counters


def test_a_family_of_two_words_has_its_section(tmp_path: Path) -> None:
    document = woven(50.0)
    document["families"].insert(0, WEAVE | {"name": "Weave/Twill"})
    name = "Weave/Twill/Loom/threads_up:2/cache:cold"
    document["benchmarks"].append(document["benchmarks"][0] | {"name": name, "run_name": name})
    source = samples.write(tmp_path / "run.json", document)
    assert report.main([str(source), "-o", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<a href="#Weave/Twill">Weave/Twill</a>' in page
    section = page.split('<section id="Weave/Twill">')[1].split("</section>")[0]
    assert f'<tr id="{name}"' in section
    assert f'<tr id="{NAME}"' not in section


def test_an_unknown_family_is_in_the_last_section(tmp_path: Path) -> None:
    document = woven(50.0)
    del document["families"][0]
    source = samples.write(tmp_path / "run.json", document)
    assert report.main([str(source), "-o", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    section = page.split('<section id="Other-families">')[1].split("</section>")[0]
    assert f'<tr id="{NAME}"' in section


# ---- files together


def test_files_that_define_a_counter_differently_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, counter in (("a", WEFT), ("b", WEFT | {"unit": "picks/min"})):
        samples.write(Path(f"{name}.json"), woven(50.0, ord(name), counter) | {"date": name})
    pairs = {
        "compare": benchmark_compare.main(["a.json", "b.json"]),
        "report": report.main(["a.json", "b.json", "-o", "report.html"]),
        "chart": slowdown_chart.main(["a.json", "b.json", "-o", "charts"]),
    }
    assert set(pairs.values()) == {2}
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(pairs)
    for tool, line in zip(pairs, lines, strict=True):
        assert line.startswith(f"overlapbench {tool}: b")
        assert "counters: weft_rate: unit is 'picks/min', but 'picks/s' in a" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_another_direction_is_refused_and_another_wording_is_not() -> None:
    one = table_of(woven(1.0))
    with pytest.raises(ResultError, match=r"^b: counters: weft_rate: better is lower, but higher"):
        merge_tables([("a", one), ("b", table_of(woven(1.0, 0, WEFT | {"better": "lower"})))])
    reworded = table_of(woven(1.0, 0, WEFT | {"definition": "picks a second"}))
    assert merge_tables([("a", one), ("b", reworded)]).counters["weft_rate"].judged


def test_a_counter_that_one_file_does_not_judge_is_not_judged() -> None:
    documents = [woven(50.0), woven(10.0, 0, WEFT | {"judged": False})]
    for first, second in (documents, documents[::-1]):
        base, new = (
            Side.collect(name, [run_of(document, name)])
            for name, document in (("base", first), ("new", second))
        )
        (row,) = compare_sides(base, new, Floors()).rows
        assert [judgement.metric for judgement in row.judgements] == ["time"]


def test_a_floor_for_an_unknown_metric_is_refused_after_one_run() -> None:
    made: list[str] = []

    def measure(side: str, number: int, names: str) -> ProgramRun:
        made.append(side)
        return run_of(samples.document([samples.row(NAME)]), f"{side}-{number}.json")

    floors = Floors((SetFloor("*", "weft", 0.1, "f.toml: floor[0]"),))
    with pytest.raises(ResultError, match=r"^f.toml: floor\[0\].metric: 'weft' is not one of the"):
        Session(measure, 3, floors, say=lambda line: None).run()
    assert len(made) == 1


# ---- the stored table


def test_the_stored_table_knows_every_counter_of_the_recorded_results() -> None:
    for path in RECORDED.glob("*/*.json"):
        document = json.loads(path.read_bytes())
        known = {counter["name"] for counter in document["counters"]}
        keys = {key for row in document["benchmarks"] for key in row}
        assert keys & known <= stored_table().counters.keys(), path


def test_families_lead_with_counters_that_there_are() -> None:
    table = stored_table()
    for family in table.families:
        assert family.lead
        assert set(family.lead) <= table.counters.keys()


# Each limit just kept, and just passed, as in tests/value_test.cc.
@pytest.mark.parametrize(
    ("counter", "value", "longest"),
    [
        ("efficiency", -12.48, 1.0),
        ("slowdown", 0.7, 1.0),
        ("comm_slowdown", 12.0, 12.0),
        ("step_overhead_pct", 400.0, 100.0),
        ("pct_of_bound", 3.0, 100.0),
        ("exposed_comm_ms", 0.1, 10.0),
        ("device_us_per_launch", 0.1, 10000.0),
        ("comm_ms", 3.0, 3.0),
        ("busbw_GBps", 300.0, 300.0),
    ],
)
def test_an_interval_that_reaches_too_far_says_nothing(
    counter: str, value: float, longest: float
) -> None:
    def says_nothing(length: float) -> bool:
        low, high = value - length / 2, value + length / 2
        return stored_table().counters[counter].says_nothing(value, low, high, 10.0)

    assert not says_nothing(0.99 * longest)
    assert says_nothing(1.01 * longest)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("time", "time ms"),
        ("busbw_GBps", "busbw_GBps"),
        ("TFLOPs", "TFLOPs"),
        ("pct_of_copy", "pct_of_copy"),
        ("batches_per_s", "batches_per_s"),
        ("us_per_fragment", "us_per_fragment"),
        ("slowdown", "slowdown"),
        ("samples", "samples"),
    ],
)
def test_a_unit_appears_once(name: str, label: str) -> None:
    assert stored_table().counters[name].label == label


def test_a_workload_of_several_files_has_the_axes_of_all() -> None:
    table = stored_table()
    full, less, other = (
        replace(table, workloads={"Weave": axes})
        for axes in (("bytes", "transport"), ("bytes",), ("transport",))
    )
    for one, two in ((full, less), (less, other)):
        merged = merge_tables([("a", one), ("b", two)])
        assert merged.workloads["Weave"] == ("bytes", "transport")


@pytest.mark.parametrize(
    ("name", "unit", "earlier"),
    [("straggler_rank", "count", ""), ("chunks", "count", ""), ("direct", "bool", "")],
)
def test_a_count_is_whole_also_where_an_earlier_table_lacks_its_unit(
    name: str, unit: str, earlier: str
) -> None:
    document = samples.document([samples.row("Compute/Gemm/n:64") | {name: 1}])
    (entry,) = (one for one in document["counters"] if one["name"] == name)
    assert entry["unit"] == unit
    entry["unit"] = earlier
    result = parse_result("run.json", json.dumps(document))
    (row,) = result.rows
    assert (str(row[name]), repr(row[name])) == ("1", f"{name} 1")
    assert merge_tables([("a", result.table), ("b", stored_table())]) is result.table
    assert row.table.counters["foreign_cores"].text(0.5) == "0.5000"


# ---- refusals


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d.pop("counters"), "counters: missing, or not a list"),
        (lambda d: d.update(counters={}), "counters: missing, or not a list"),
        (lambda d: d.update(counters=[]), "counters: no judged counter time"),
        (lambda d: d["counters"][0].update(judged=False), "counters: no judged counter time"),
        (lambda d: d["counters"].insert(0, 1), "counters[0]: 1 is not an object"),
        (lambda d: d["counters"][-1].pop("name"), "counters[{last}].name: missing"),
        (lambda d: d["counters"][-1].update(name="a b"), 'counters[{last}].name: "a b" is not a'),
        (
            lambda d: d["counters"][-1].update(name="time"),
            "counters[{last}].name: time is already at counters[0]",
        ),
        (lambda d: d["counters"][-1].update(unit=1), "counters[{last}].unit: 1 is not text"),
        (lambda d: d["counters"][-1].pop("unit"), "counters[{last}].unit: missing"),
        (lambda d: d["counters"][-1].pop("better"), "counters[{last}].better: missing"),
        (lambda d: d["counters"][-1].update(range=[]), "counters[{last}].range: [] is not text"),
        (
            lambda d: d["counters"][-1].update(better="up"),
            'counters[{last}].better: "up" is not one of lower, higher, neither',
        ),
        (
            lambda d: d["counters"][-1].update(range="any"),
            'counters[{last}].range: "any" is not one',
        ),
        (
            lambda d: d["counters"][-1].update(judged=1),
            "counters[{last}].judged: 1 is neither true nor false",
        ),
        (
            lambda d: d["counters"][-1].update(better="neither"),
            "counters[{last}].judged: weft_rate has no ratios, or no direction",
        ),
        (
            lambda d: d["counters"][-1].update(range="signed"),
            "counters[{last}].judged: weft_rate has no ratios, or no direction",
        ),
        (lambda d: d["counters"][-1].update(title=1), "counters[{last}].title: 1 is not text"),
        (lambda d: d.pop("families"), "families: missing, or not a list"),
        (lambda d: d["families"][0].update(lead="x"), 'families[0].lead: "x" is not a list'),
        (lambda d: d["families"][0].update(name="Lab/"), 'families[0].name: "" is not a name'),
        (
            lambda d: d["families"][0].update(name="Lab/Link/Way"),
            'families[0].name: "Link/Way" is not a name',
        ),
        (lambda d: d["families"][0].update(lead=[1]), "families[0].lead: 1 is not a name"),
        (lambda d: d.pop("workloads"), "workloads: missing, or not a list"),
        (lambda d: d.update(workloads=1), "workloads: missing, or not a list"),
        (lambda d: d["workloads"][0].pop("axes"), "workloads[0].axes: null is not a list"),
        (
            lambda d: d["benchmarks"][0].update(weft_rate=-1),
            "benchmarks[0].weft_rate: -1 is not above 0",
        ),
        (lambda d: d["benchmarks"][0].pop("state"), "benchmarks[0].state: missing"),
        (
            lambda d: d["benchmarks"][0].update(state="odd"),
            'benchmarks[0].state: "odd" is not one of',
        ),
        (
            lambda d: d["benchmarks"][0].update(state="invalid"),
            'benchmarks[0].state: "invalid" contradicts valid: 1',
        ),
        (lambda d: d["benchmarks"][0].update(reason=1), "benchmarks[0].reason: 1 is not text"),
    ],
)
def test_a_malformed_table_or_state_is_refused(change: Change, complaint: str) -> None:
    document = woven(50.0)
    names = [counter["name"] for counter in document["counters"]]
    places = {"last": len(names) - 1}
    change(document)
    text = json.dumps(document, indent=1)
    readers: tuple[Callable[[str, str], object], ...] = (parse_result, parse_program_run)
    for read in readers:
        with pytest.raises(ResultError) as refusal:
            read("run.json", text)
        line = str(refusal.value)
        assert line.startswith("run.json: ")
        assert complaint.format(**places) in line
        assert len(line.splitlines()) == 1


def test_a_row_without_a_counter_of_its_family_names_it() -> None:
    document = samples.document([samples.overlap("A+B/n:1")])
    document["counters"] = [c for c in document["counters"] if c["name"] != "comm_ms"]
    with pytest.raises(ResultError, match=r"benchmarks\[0\].comm_ms: not in the file's table"):
        parsed(document)


# ---- states


def test_the_state_decides_and_no_text() -> None:
    rows = [
        samples.row("Comm/AllReduce/bytes:1") | {"state": "ok", "reason": "invalid: not so"},
        samples.row("Comm/AllReduce/bytes:2")
        | {"state": "serialized", "reason": "invalid: odd", "label": "invalid: x"},
        samples.row("Comm/AllReduce/bytes:6") | {"state": "control", "reason": "no overlap"},
        samples.row("Comm/AllReduce/bytes:5") | {"state": "noisy", "reason": "clocks changed"},
        samples.row("Comm/AllReduce/bytes:3", valid=0.0) | {"state": "invalid", "reason": ""},
        samples.row("Comm/AllReduce/bytes:4") | {"state": "error", "reason": "no peer"},
    ]
    document = samples.document(rows[:0])
    document["benchmarks"] = rows
    found = parsed(document).rows
    assert [row.state for row in found] == list(State)
    assert [row.trusted for row in found] == [True, True, False, False, False, False]
    assert [row.passed_control for row in found] == [False, False, True, False, False, False]
    remarks = ["invalid: not so", "serialized: invalid: odd", "", "", "", ""]
    assert [row.remark for row in found] == remarks
    unusable = ["invalid: no reason is given", "no peer"]
    problems = ["control passed: no overlap", "noisy: clocks changed", *unusable]
    assert [row.problem for row in found] == ["", "", *problems]
    # A comparison accepts uncertain rows, and reports them as inconclusive if they are.
    assert run_of(document, "x").problems == ["", "", "", "", *unusable]


def test_repetitions_take_the_worst_state() -> None:
    def summed(*states: tuple[str, str]) -> tuple[State, str]:
        rows = [
            samples.row("Comm/AllReduce/bytes:1", i, valid=float(state != "invalid"))
            | {"state": state, "reason": reason}
            for i, (state, reason) in enumerate(states)
        ]
        document = samples.document([])
        document["benchmarks"] = rows
        (row,) = parsed(document).rows
        return row.state, row.reason

    ok, waited, bad, failed = ("ok", "x"), ("serialized", "y"), ("invalid", "z"), ("error", "w")
    assert summed(ok, ok) == (State.OK, "x")
    assert summed(ok, waited) == (State.SERIALIZED, "1 of 2 repetitions: y")
    assert summed(ok, waited, bad) == (State.INVALID, "1 of 3 repetitions: z")
    assert summed(ok, failed) == (State.INVALID, "1 of 2 repetitions: w")
    assert summed(failed, failed) == (State.ERROR, "w")


# ---- the axes of a pair's sides


def sides_of(name: str, change: Change = lambda document: None) -> tuple[str, str]:
    other = samples.overlap("AllReduce+Gemm/bytes:4/n:64")  # shares no axis, so that all are named
    document = samples.document([samples.overlap(name), other])
    change(document)
    (chart,) = (chart for chart in draw_charts([parsed(document)], "") if chart.name == "pairs")
    cells = chart.spec["data"]["values"]
    cell = next(cell for cell in cells if cell["name"] == f"Overlap/{name}")
    return cell["across"], cell["down"]


def test_an_engine_is_the_copys() -> None:
    name = "HostToDevice+Gemm/bytes:1024/memory:pageable/engine:sm/n:32/grid:2x2/work:tile"
    assert sides_of(name) == (
        "HostToDevice · 1 KiB · pageable · engine sm",
        "Gemm · n 32 · work tile",
    )


def test_the_file_assigns_axes_to_workloads() -> None:
    def add(document: Json) -> None:
        document["workloads"].append({"name": "Weave", "axes": ["bytes", "n"]})

    assert sides_of("Weave+Gemm/bytes:1024/n:32/work:tile", add) == (
        "Weave · 1 KiB · n 32",
        "Gemm · work tile",
    )


def test_an_unknown_communication_has_the_axes_before_the_computations() -> None:
    assert sides_of("Weave+Gemm/bytes:1024/warp:3/n:32/work:tile") == (
        "Weave · 1 KiB · warp 3",
        "Gemm · n 32 · work tile",
    )
    assert sides_of("Weave+Loom/bytes:1024/warp:3") == ("Weave · 1 KiB", "Loom · warp 3")


# ---- the history


def test_a_metric_that_no_run_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    samples.write(Path("run.json"), samples.document(samples.pipelines()))
    assert history.main(["add", "run.json"]) == 0
    capsys.readouterr()
    assert history.main(["changes", "--metric", "weft_rate"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("overlapbench history: --metric weft_rate: is not one of time, ")
    assert len(err.splitlines()) == 1
