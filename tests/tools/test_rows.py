"""What a notebook reads: rows with typed figures, chosen, shown and turned into data frames."""

import copy
import json
import math
import pickle
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

import overlapbench
import samples
from overlapbench.output import ResultError
from overlapbench.reading.counters import stored_table
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.result import Results, read
from overlapbench.reading.rows import Figure, Inconclusive, Row, State
from overlapbench.reading.source import failed_self_test

PAIR = "AllToAll+Gemm/bytes:67108864/n:64"


@pytest.fixture
def results(tmp_path: Path) -> Results:
    rows = [
        samples.overlap(PAIR, 1.5),
        samples.row("Comm/AllReduce/bytes:1024", busbw_GBps=100.0, state="noisy", reason="<b>±9 %"),
        samples.row("Comm/AllReduce/bytes:2048", error_occurred=True, error_message="no GPU"),
    ]
    document = samples.with_intervals(samples.document(rows), 0.1)
    plain = {"context": {}, "benchmarks": [{"name": "BM_Copy/8", "real_time": 2e6}]}
    samples.write(tmp_path / "a.json", document)
    samples.write(tmp_path / "b.json", plain)
    return read(tmp_path / "*.json")


def test_a_path_a_glob_and_a_list_are_read(results: Results, tmp_path: Path) -> None:
    assert [str(row.name) for row in results] == [row.name for row in results.rows]
    assert [file.label for file in results.files] == ["a (cuda, NVIDIA H200)", "b"]
    paths: list[str | Path] = [tmp_path / "a.json", str(tmp_path / "b.json")]
    assert read(paths).rows == results.rows
    assert len(read(paths[0])) == 3
    with pytest.raises(ResultError, match=r"absent.json: cannot be read"):
        read(tmp_path / "absent.json")


def test_the_package_offers_it() -> None:
    assert overlapbench.read is read
    assert {"read", "measure"} <= set(dir(overlapbench))


def test_a_counter_is_an_attribute_that_knows_its_interval(results: Results) -> None:
    row = results[0]
    assert isinstance(row.slowdown, float)
    assert row.slowdown == row["slowdown"] == 1.5
    assert [row.slowdown.value, row.slowdown.low] == pytest.approx([1.5, 1.35])
    assert row.slowdown.interval == (row.slowdown.low, row.slowdown.high)
    assert f"{row.slowdown} {row.slowdown:.1f}" == "1.500 (1.350 to 1.650) 1.5"
    assert (row.time, row.T, row.C, row.M) == (1.0, 1.0, 0.3, 0.2)
    assert results[3].time == 2.0
    assert results[3].time.interval is None
    assert {"slowdown", "time", "to_dict"} <= set(dir(row))
    for again in (copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        assert again == row
        assert again.slowdown.high == row.slowdown.high


def test_a_missing_counter_says_why(results: Results) -> None:
    with pytest.raises(AttributeError, match=r"^Overlap/.* has no busbw_GBps: see counters$"):
        _ = results[0].busbw_GBps
    with pytest.raises(AttributeError, match=r"has no busbw_GBps: no GPU$"):
        _ = results[2].busbw_GBps
    with pytest.raises(AttributeError, match=r"^a row has no attribute 'slowdwon'$"):
        _ = results[0].slowdwon  # type: ignore[attr-defined]
    assert not hasattr(results[0], "__array__")


def test_a_figure_is_judged_with_its_interval(results: Results) -> None:
    slowdown = results[0].slowdown
    assert slowdown.below(1.7)
    assert not slowdown.below(1.2)
    assert slowdown.above(1.2)
    assert not slowdown.above(1.7)
    assert slowdown.below(slowdown.low) is slowdown.above(slowdown.high) is False
    for judge, end in ((slowdown.below, slowdown.high), (slowdown.above, slowdown.low)):
        for limit in (slowdown.low + 0.01, 1.5, slowdown.high - 0.01, end):
            with pytest.raises(Inconclusive, match=r"^slowdown 1.500 .* against .* uncertain$"):
                judge(limit)
    with pytest.raises(Inconclusive, match=r"^slowdown 1.000 against 1.5: no interval is known$"):
        Figure(1.0, "slowdown").below(1.5)
    with pytest.raises(Inconclusive, match=r"against 500: noisy: <b>±9 %$"):
        results[1].busbw_GBps.below(500.0)


def test_type_checkers_know_the_attributes_of_every_counter() -> None:
    stub = Path(samples.STORED).with_name("attributes.pyi").read_text(encoding="utf-8")
    declared = [line.split(":")[0].strip() for line in stub.splitlines() if ": Figure" in line]
    assert declared == list(stored_table().counters)
    assert stored_table().counters.keys().isdisjoint({*dir(Row), *Row.__dataclass_fields__})


def test_a_figure_is_a_number(results: Results) -> None:
    figure = results[0].slowdown
    assert json.dumps(figure) == "1.5"
    assert f"{figure:.1f} {figure}" == "1.5 1.500 (1.350 to 1.650)"
    assert pickle.loads(pickle.dumps(figure)).high == figure.high
    assert repr(Figure(1.23456, "x")) == "x 1.235"


def test_completion_shows_the_api() -> None:
    assert {"measure", "do_bench", "read", "compare", "trace", "plot"} <= set(dir(overlapbench))
    assert not {"annotations", "importlib", "Any"} & set(dir(overlapbench))
    for name in dir(overlapbench):
        if name != "torch_kernels":  # needs PyTorch
            assert getattr(overlapbench, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = overlapbench.nothing


def test_rows_are_chosen_by_name_axis_and_function(results: Results) -> None:
    assert [row.time for row in results.filter("^Overlap/")] == [1.0]
    assert len(results.filter("bytes:64M")) == len(results.filter(bytes="64M")) == 1
    assert len(results.filter("Comm", bytes=2048)) == 1
    assert len(results.filter(n=64).filter("Comm/AllReduce")) == 0
    with pytest.raises(ResultError, match=r"'Comm/[*]{2}' is not a regular expression: multiple"):
        results.filter("Comm/**")
    assert [row.name.family for row in results.filter(lambda row: row.time_ms > 1)] == ["BM_Copy"]


def test_a_row_is_a_flat_dictionary(results: Results) -> None:
    told = results[0].to_dict()
    assert told["benchmark"] == f"Overlap/{PAIR}"
    assert (told["family"], told["state"], told["axis_n"]) == ("Overlap", "ok", 64)
    assert (told["time_ms"], told["time_low_ms"]) == (1.0, 0.9)
    assert (told["slowdown"], told["slowdown_high"]) == (1.5, pytest.approx(1.65))
    json.dumps(told, allow_nan=False)
    assert not any(key.startswith("time") for key in results[2].to_dict())


def test_pandas_is_asked_for_only_when_it_is_needed(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ResultError, match=r"^package pandas is not installed: pip install pandas$"):
        results.to_pandas()
    stand_in = ModuleType("pandas")
    stand_in.DataFrame = list  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", stand_in)
    frame: object = results.to_pandas()
    assert frame == [row.to_dict() for row in results]


class Cells(HTMLParser):
    """The rows of the tables in a page, as texts of their cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[list[str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("b", "p", "table", "tr", "th", "td"), "text of a file, not escaped"
        if tag == "tr":
            self.lines.append([])
        elif tag in ("th", "td"):
            self.lines[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.lines and self.lines[-1]:
            self.lines[-1][-1] += data


PRINTED = """\
Overlap/A+B/n:1  serialized: it waited
  C                  1.000 ms   0.9000 to 1.200
  M                  2.000 ms
  T                  3.000 ms
  slowdown           4.000
  efficiency         5.000
  coverage           6.000
  comp ×             7.000
  comm ×             8.000
  sequential         9.000 ms
  bound              10.00 ms
  of the bound       11.00 %
  speedup            12.00
  exposed comm       13.00 ms"""


def test_a_row_is_printed_with_what_it_shows_first() -> None:
    names = (
        *("comp_ms", "comm_ms", "overlap_ms", "slowdown", "efficiency", "coverage"),
        *("comp_slowdown", "comm_slowdown", "sequential_ms", "bound_ms", "pct_of_bound"),
        *("speedup", "exposed_comm_ms"),
    )
    counters = {name: float(place) for place, name in enumerate(names, 1)}

    def printed(name: str, figures: dict[str, float]) -> str:
        state = State.SERIALIZED if name.startswith("Overlap") else State.OK
        reason = "it waited" if state is State.SERIALIZED else ""
        parsed = BenchmarkName.parse(name)
        return str(Row("f", parsed, figures, state, 2.0, reason, {"comp_ms": (0.9, 1.2)}))

    assert printed("Overlap/A+B/n:1", counters | {"samples": 9.0}) == PRINTED
    assert printed("Comm/A/n:1", {"GBps": 3.0}) == (
        "Comm/A/n:1  ok\n  time               2.000 ms\n  bandwidth          3.000 GB/s"
    )


@pytest.mark.parametrize(
    ("told", "failed"),
    [("failed: a delay of 2 ms", True), ("passed, none failed", False), ("", False)],
)
def test_a_failed_self_test_is_told_with_its_reason(told: str, failed: bool) -> None:
    assert failed_self_test({"self_test": told}) is failed
    assert not failed_self_test({})


def test_a_notebook_shows_tables(results: Results) -> None:
    head, *lines = Cells(results._repr_html_()).lines
    assert head[:4] == ["file", "benchmark", "state", "time ms"]
    assert len(lines) == 4
    assert lines[0][1:3] == [f"Overlap/{PAIR}", "ok"]
    assert lines[0][head.index("slowdown")] == "1.500 (1.350 to 1.650)"
    assert lines[1][2] == "noisy: <b>±9 %"
    assert lines[2][3:] == [""] * (len(head) - 3)
    table, _, picture = results[0]._repr_html_().partition("<svg")
    assert picture
    assert ["slowdown", "1.500", "", "1.350 to 1.650"] in Cells(table).lines
    assert "\n  slowdown           1.500      1.350 to 1.650" in str(results[0])
    assert math.isnan(results[2].time_ms)
    assert "no GPU" in results[2]._repr_html_()
    assert repr(results) == "<Results: 4 rows of 2 files>"
    assert repr(results[0]) == f"<Row Overlap/{PAIR}: ok, 1.000 ms>"


def test_a_long_table_is_cut(tmp_path: Path) -> None:
    rows = [samples.row(f"Comm/AllReduce/bytes:{n}") for n in range(205)]
    page = read(samples.write(tmp_path / "a.json", samples.document(rows)))._repr_html_()
    assert page.count("<tr>") == 201
    assert page.endswith("<p>and 5 more rows</p>")
