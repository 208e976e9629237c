"""The report: what the page holds, that nothing in a file can become markup, refusals."""

import base64
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import made_runs
import samples
from html_page import Page
from overlapbench.cli import report
from overlapbench.judge.floors import Floors
from overlapbench.judge.judgements import Verdict
from overlapbench.judge.side import Side
from overlapbench.judge.verdicts import compare_sides
from overlapbench.reading.counters import stored_table
from overlapbench.reading.names import family_of
from overlapbench.reading.program_run import read_program_runs
from overlapbench.reading.result import parse_result
from overlapbench.statistics.intervals import measured
from overlapbench.view.chart import CHARTS
from overlapbench.view.charts.finish import KNEE_MEANING
from overlapbench.view.page import inserted, render_page, vega_libraries
from overlapbench.view.report.runs import LARGEST_ROWS, merge_repeated, read_runs
from overlapbench.view.report.tables import figure
from overlapbench.view.vega import VERSION

REPOSITORY = Path(__file__).parents[2]
COMM = "Comm/AllReduce/bytes:1048576/cache:cold"
HOSTILE = """</script><img src=x onerror="alert('1')">&amp;{{7*7}}\u2028<!--"""


def run(*arguments: str | Path) -> int:
    return report.main([str(argument) for argument in arguments])


def page_of(path: Path, *documents: samples.Json, extra: tuple[str, ...] = ()) -> Page:
    """Write the documents and their report, and read it."""
    sources = [samples.write(path / f"run{i}.json", d) for i, d in enumerate(documents)]
    assert run(*sources, "-o", path / "report.html", *extra) == 0
    return Page((path / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Page:
    document = samples.document(samples.full_run())
    return page_of(tmp_path_factory.mktemp("full"), document, extra=("--title", "Two <b>H200</b>"))


def test_every_row_is_in_a_table_under_its_name(full: Page) -> None:
    names = [row["run_name"] for row in samples.full_run()]
    assert sorted(full.values("tr", "id")) == sorted(names)


def test_every_chart_is_drawn_once_with_its_data(full: Page) -> None:
    assert full.values("figure", "data-chart") == [
        *("slowdown", "pairs", "families-Comm", "families-Copy", "priority"),
        *("families-Supply", "families-Launch", "families-Gelu", "families-Softmax"),
        *("tokens", "steps-Tp-Block", "families-Ddp", "steps-Fsdp"),
        *("steps-Layers", "families-Pp-GPipe", "families-Pp-OneFOneB", "families-Pp-Interleaved"),
        *("link", "partition", "matrix", "triple", "attribution"),
    ]
    drawn = {name.partition("-")[0] for name in full.values("figure", "data-chart")}
    assert drawn == {kind.name for kind in CHARTS}
    for name in full.values("figure", "data-chart"):
        (text,) = re.findall(rf'<script type="application/json" id="chart-{name}">(.*)<', full.html)
        specification = json.loads(text)
        assert '"values"' in text
        assert "title" not in specification, "the page writes it itself"


def test_the_summary_counts_rows_and_names_the_worst(full: Page) -> None:
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", full.html.split('id="Overlap"')[0]))
    assert f"{len(samples.full_run())} rows of 1 run" in text
    assert "2 not to be trusted" in text
    assert " 2.333 worst slowdown " in text
    assert "NVIDIA H200" in text
    assert "0123456789ab" in text


def test_every_family_has_its_section_in_the_order_of_the_table(full: Page) -> None:
    measured = {family_of(row["run_name"]) for row in samples.full_run()}
    families = [family.name for family in stored_table().families if family.name in measured]
    sections = full.values("section", "id")
    assert sections == ["summary", *families, "bad", "reading", "machine"]
    for family in ("Gelu", "Softmax"):
        section = full.html.split(f'<section id="{family}">')[1].split("</section>")[0]
        assert f'data-chart="families-{family}"' in section
    for family in ("Lab/Link", "Lab/Matrix"):
        section = full.html.split(f'<section id="{family}">')[1].split("</section>")[0]
        assert f'data-chart="{family.partition("/")[2].lower()}"' in section
        assert f'<a href="#{family}">{family}</a>' in full.html


def test_bad_rows_stand_with_their_reasons(full: Page) -> None:
    bad = full.html.split('id="bad"')[1].split("</section>")[0]
    assert "not overlapped: coverage 0.03" in bad
    assert "needs 4 GPUs, 2 are visible" in bad
    assert bad.count('class="chip invalid"') == 1
    assert bad.count('class="chip failed"') == 1


def test_the_policy_allows_only_the_pages_own_content(full: Page) -> None:
    (policy,) = [a["content"] for _, a in full.elements if "http-equiv" in a]
    allowed = set(re.findall(r"'(sha256-[^']+)'", policy))
    inline = [*re.findall(r"<script>(.*?)</script>", full.html, flags=re.DOTALL)]
    inline += re.findall(r"<style>(.*?)</style>", full.html, flags=re.DOTALL)
    hashes = {
        f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
        for text in inline
    }
    assert hashes == allowed
    assert len(hashes) == 4
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_page_loads_nothing_and_holds_no_code_in_attributes(full: Page) -> None:
    assert not {"link", "iframe", "img", "object", "base", "form"} & full.tags
    assert not {"src", "srcset", "data", "style"} & full.attributes
    assert not {name for name in full.attributes if name.startswith("on")}
    assert all(link.startswith("#") for link in full.values("a", "href"))
    assert "url(" not in full.texts["style"][0]
    assert "@import" not in full.texts["style"][0]


def test_the_title_is_escaped(full: Page) -> None:
    assert full.texts["h1"] == ["Two <b>H200</b>"]


def test_every_link_of_the_page_leads_somewhere(full: Page) -> None:
    anchors = {a["id"] for _, a in full.elements if "id" in a}
    for link in full.values("a", "href"):
        assert unquote(link.removeprefix("#")) in anchors


def page_with(path: Path, value: str, note: str, device: str) -> Page:
    """Make a page that shows these texts wherever a file's texts are shown."""
    rows = [
        *(samples.overlap(f"A+B/grid:{g}x{g}/x:{value}", label=note) for g in (1, 2)),
        samples.overlap(f"A+B/grid:4x4/x:{value}", valid=0.0, label=note),
        samples.row(f"Other/Thing/x:{value}", error_occurred=True, error_message=note),
    ]
    return page_of(path, samples.document(rows, device=device))


@pytest.fixture(scope="module")
def tame(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_with(tmp_path_factory.mktemp("tame"), "1", "note", "H200")


# Not of spaces alone: a reason that is empty has no elements.
_hostile = st.one_of(
    st.just(HOSTILE), st.text(min_size=1, max_size=30).filter(lambda text: text.strip() != "")
)
_value = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters="/"), min_size=1, max_size=20
)


def strings_of(data: Any) -> Iterator[str]:
    """Yield every string in what json.loads returned, keys too."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from strings_of(value)
    elif isinstance(data, list):
        for value in data:
            yield from strings_of(value)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(label="label", device="device", value="\\")
@given(label=_hostile, device=_hostile, value=st.one_of(st.just("</script><img"), _value))
def test_nothing_in_a_file_becomes_markup(
    tame: Page, tmp_path: Path, label: str, device: str, value: str
) -> None:
    value = value.replace("/", "").replace(" ", "")
    wild = page_with(tmp_path, value, label, device)
    assert [tag for tag, _ in wild.elements] == [tag for tag, _ in tame.elements]
    assert wild.attributes == tame.attributes
    assert f"Other/Thing/x:{value}" in wild.values("tr", "id")
    for name in wild.values("figure", "data-chart"):
        (text,) = re.findall(rf'id="chart-{name}">(.*?)</script>', wild.html, flags=re.DOTALL)
        assert not {"<", ">", "&", "\u2028"} & set(text)
        assert any(value in string for string in strings_of(json.loads(text)))


def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    page = page_of(tmp_path, samples.document([samples.row(COMM)], git_revision="a\ud800"))
    assert "<dt>git_revision</dt><dd>a?</dd>" in page.html


def test_a_page_of_one_family(tmp_path: Path) -> None:
    page = page_of(tmp_path, samples.document(samples.sweep()), extra=("--title", "Two <b>"))
    assert page.texts["title"] == ["Two <b>"]
    assert KNEE_MEANING in re.sub(r"\s+", " ", page.html)
    section = page.html.split('<section id="Overlap">')[1].split("</section>")[0]
    assert 'data-chart="slowdown"' in section
    (style,) = page.texts["style"]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = page.values("meta", "content")[0]
    assert f"style-src 'sha256-{digest}'" in policy
    assert "--line: " in style


def test_a_page_of_charts_names_untrusted_rows() -> None:
    bad = samples.row(COMM, valid=0.0, label="invalid: <lost>")
    results = [
        parse_result(f"{name}.json", json.dumps(samples.document([row], backend=name, device=name)))
        for name, row in (("host", bad), ("cuda", samples.row(COMM)))
    ]
    page = render_page("A & <b> \ud800", results, []).decode()
    assert "<h1>A &amp; &lt;b&gt; ?</h1>" in page
    (line,) = re.findall("Figures of .*", page)
    assert line == f"Figures of {results[0].label} are those of a CPU and its MPI; they"
    rows = re.findall(r"<tr><td>(.*)</td><td>(.*)</td><td>(.*)</td></tr>", page)
    assert rows == [(results[0].rows[0].file, COMM, "invalid: &lt;lost&gt;")]
    assert f"<script>{inserted('charts.js')}</script>" in page
    assert [text for text in ("load_avg", "caches", "executable") if f">{text}<" in page] == []
    first, second = (page.index(f'<th scope="row">{key}<') for key in ("backend", "date"))
    assert first < second
    assert "backend: host" not in render_page("A", results[1:], []).decode()
    assert "Rows not to be trusted" not in render_page("A", results[1:], []).decode()


def test_libraries_cannot_end_their_element(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def bundle(*arguments: str) -> str:
        asked.append(arguments)
        return "a</script>b</SCRIPT c<!--<script/d<p><"

    monkeypatch.setattr("overlapbench.view.page.vl_convert.javascript_bundle", bundle)
    vega_libraries.cache_clear()
    try:
        assert vega_libraries() == r"a\x3C/script>b\x3C/SCRIPT c\x3C!--\x3Cscript/d<p><"
    finally:
        vega_libraries.cache_clear()
    assert asked == [("window.vegaEmbed = vegaEmbed;", VERSION)]


def test_repeated_runs_are_shown_by_their_medians(tmp_path: Path) -> None:
    documents = [
        samples.document([samples.row(COMM, real_time=time, busbw_GBps=100 * time)], date=str(time))
        for time in (3.0, 1.0, 2.0)
    ]
    page = page_of(tmp_path, *documents)
    assert page.values("tr", "id") == [COMM]
    assert page.figures(COMM)[1:] == ["2.000", "200.0"]
    assert "medians of 3 runs" in page.html


def test_a_copy_of_a_file_is_no_other_run(tmp_path: Path) -> None:
    one, other = (
        samples.document([samples.row(COMM, real_time=time)], date=str(time)) for time in (1.0, 3.0)
    )
    page = page_of(tmp_path, one, one, other, one)
    assert page.figures(COMM)[1:] == ["2.000"]
    assert "medians of 2 runs" in page.html
    assert "<b>run0, run2</b>: Copies count once: run1, run3.</p>" in page.html
    alone = page_of(tmp_path, one, one)
    assert "<b>run0</b>: Copies count once: run1.</p>" in alone.html


@pytest.mark.parametrize(
    ("context", "name"), [({"git_revision": "b"}, COMM), ({}, COMM.replace("cold", "warm"))]
)
def test_other_builds_and_other_benchmarks_are_other_runs(
    tmp_path: Path, context: dict[str, str], name: str
) -> None:
    one = samples.document([samples.row(COMM, busbw_GBps=1.0)])
    other = samples.document([samples.row(name, busbw_GBps=2.0)], **context)
    paths = [str(samples.write(tmp_path / f"{x}.json", d)) for x, d in (("a", one), ("b", other))]
    runs, _ = read_runs(paths, compared=False)
    assert [run.result.label for run in merge_repeated(runs)] == ["a", "b"]


def test_a_run_that_failed_spoils_the_row_and_not_the_median(tmp_path: Path) -> None:
    good = samples.document([samples.row(COMM, real_time=2.0)])
    bad = samples.document([samples.row(COMM, error_occurred=True, error_message="no peer")])
    page = page_of(tmp_path, good, bad)
    assert page.figures(COMM)[1:] == ["2.000"]
    assert "1 of 2 runs: no peer" in page.figures(COMM)[0]


def test_rows_of_one_name_in_two_runs_have_two_anchors(tmp_path: Path) -> None:
    documents = [
        samples.document([samples.row(COMM)], git_revision=revision) for revision in ("a", "b")
    ]
    assert page_of(tmp_path, *documents).values("tr", "id") == [COMM, f"{COMM}@run1"]


def test_caveats_about_the_figures_are_announced(tmp_path: Path) -> None:
    host = samples.document([samples.row(COMM)], backend="host", injected_delay="grid:1:20")
    ungated = samples.document([samples.row(COMM)], gate="off")
    page = page_of(tmp_path, host, ungated | {"incomplete": "rank 1 did not answer"})
    assert "The run is incomplete: rank 1 did not answer." in page.html
    assert "backend: host. These figures are those of a CPU" in page.html
    assert "A delay was injected on purpose: grid:1:20." in page.html
    assert "The start gate was off" in page.html
    assert "run0 (2 × CPU · backend: host)" in page.figures(COMM)[1]


def test_a_run_not_to_be_trusted_is_announced_though_others_are_good(tmp_path: Path) -> None:
    good = samples.document([samples.row(COMM)], self_test="passed: slowdown 1.00 of 1.00")
    failed = "failed: slowdown 1.39 of 1.00"
    bad = samples.document([samples.row(COMM)], date="later", self_test=failed, busy="no")
    page = page_of(tmp_path, good, bad)
    assert "the self-test failed: slowdown 1.39 of 1.00." in page.html
    assert "The machine was busy before the run: no." in page.html
    assert "self-test" not in page_of(tmp_path, good, good).html


def test_the_context_separates_differences_from_common_fields(tmp_path: Path) -> None:
    documents = [
        samples.document([samples.row(COMM)], driver_version=driver) for driver in ("1.0", "2.0")
    ]
    differing, same = page_of(tmp_path, *documents).html.split('id="machine"')[1].split("<dl")
    assert re.search(r"driver_version</th><td>1\.0</td><td>2\.0</td>", differing)
    assert "<dt>num_cpus</dt><dd>64</dd>" in same
    assert "load_avg" not in same


def test_verdicts_are_those_of_the_comparison(tmp_path: Path) -> None:
    slower = {made_runs.NAMES[0]: 1.2, made_runs.NAMES[1]: 0.8}
    base = made_runs.write_side(tmp_path, "base", made_runs.side(5, seed=1))
    new = made_runs.write_side(tmp_path, "new", made_runs.side(5, seed=2, slower=slower))
    out = tmp_path / "report.html"
    assert run(*new, "--base", str(tmp_path / "base*.json"), "-o", out) == 0
    page = Page(out.read_text(encoding="utf-8"))
    before, now = (Side.collect("x", read_program_runs(files)) for files in (base, new))
    for row in compare_sides(before, now, Floors()).rows:
        assert page.figures(row.name)[1] == row.verdict.value
        listed = (
            f"{row.name.split('/')[2]}<wbr>"
            in page.html.split('id="changes"')[1].split("</section>")[0]
        )
        assert listed == (row.verdict is not Verdict.SAME)
    assert page.figures(made_runs.NAMES[0])[1] == "slower"
    assert page.figures(made_runs.NAMES[1])[1] == "faster"
    change = float(page.figures(made_runs.NAMES[0])[2].removesuffix(" %"))
    assert change == pytest.approx(20, abs=1.5)


def test_rows_missing_from_the_new_results_are_listed_without_a_link(tmp_path: Path) -> None:
    gone = "Compute/Gemm/n:1/cache:cold"
    base = samples.document([samples.row(COMM), samples.row(gone)])
    source = str(samples.write(tmp_path / "base.json", base))
    page = page_of(tmp_path, samples.document([samples.row(COMM)]), extra=("--base", source))
    changes = page.html.split('id="changes"')[1].split("</section>")[0]
    assert "not in the new results" in changes
    assert gone not in page.values("tr", "id")
    assert "one run per side: 5 per side detect smaller changes" in changes


def test_without_traces_there_are_no_timelines(full: Page) -> None:
    assert "imelines</" not in full.html


def test_other_versions_are_compared_when_asked(tmp_path: Path) -> None:
    base = samples.document([samples.row(COMM)], driver_version="1")
    new = samples.document([samples.row(COMM)], driver_version="2")
    source = str(samples.write(tmp_path / "base.json", base))
    page = page_of(tmp_path, new, extra=("--base", source))
    assert page.figures(COMM)[1] == "incomparable"
    page = page_of(tmp_path, new, extra=("--base", source, "--across", "driver"))
    assert page.figures(COMM)[1] == "same"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((float("nan"), ""), (0.0, "0"), (1.0, "1"), (1.05, "1.050"), (-0.03, "-0.03000")),
        *((12345.6, "12346"), (999.96, "1000"), (3e-6, "3.000e-06"), (2e15, "2.000e+15")),
        *((127551.02, "127551"), (0.0001234, "0.0001234")),
    ],
)
def test_figures_have_four_digits(value: float, text: str) -> None:
    assert figure(value) == text


def test_times_and_rates_keep_the_zeros_at_their_ends() -> None:
    assert [figure(value, "ms") for value in (1.7, 3, 120)] == ["1.700", "3.000", "120.0"]
    assert figure(3, "count") == "3"


def test_figures_of_several_machines_say_so_everywhere(tmp_path: Path) -> None:
    rows = [samples.overlap(f"AllGather+Gemm/grid:{n}x{n}", 1.1 + n / 100) for n in (1, 2)]
    other = {"device": "NVIDIA H100", "ranks": "4"}
    page = page_of(tmp_path, samples.document(rows), samples.document(rows, **other))
    machines = ("2 × NVIDIA H200", "4 × NVIDIA H100")
    assert f"<b>Several machines</b>: {', '.join(machines)}." in page.html
    tile = page.html.split("worst slowdown</a>")[1].split("</div>")[0]
    assert "run0 (2 × NVIDIA H200)" in tile
    notes = re.findall(r"<figcaption>.*?</figcaption>", page.html, flags=re.DOTALL)
    assert notes
    assert all(f"{machines[0]} and {machines[1]}: compare figures only" in one for one in notes)
    same = page_of(tmp_path, samples.document(rows), samples.document(rows, git_revision="b"))
    assert "Several machines" not in same.html
    assert "compare figures only" not in same.html


def test_the_worst_slowdown_is_that_of_all_families(tmp_path: Path) -> None:
    names = [f"AllGather+Gemm/n:{n}" for n in range(6)]
    rows = [samples.overlap(name, 1.1 + n / 100) for n, name in enumerate(names)]
    other = [samples.overlap(name, 2.1 + n / 100) for n, name in enumerate(names[:3])]
    for row in other:
        row["name"] = row["run_name"] = row["run_name"].replace("Overlap", "Lab/Partition")
    page = page_of(tmp_path, samples.document([*rows, *other]))
    assert "<b>2.120</b>" in page.html.split('class="tiles"')[1].split("worst slowdown")[0]


def test_standard_input_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(samples.document(samples.sweep())).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    base = samples.write(tmp_path / "base.json", samples.document(samples.sweep()))
    assert run("-", "--base", base, "-o", tmp_path / "report.html") == 0
    assert "standard input" in (tmp_path / "report.html").read_text(encoding="utf-8")


def _too_many() -> samples.Json:
    row = samples.row(COMM)
    rows = [row | {"run_name": f"{COMM}/x:{i}"} for i in range(LARGEST_ROWS + 1)]
    return samples.document(rows)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param('{"context": {}}', "context.overlapbench_schema: missing", id="foreign"),
        pytest.param("{", "not JSON, or cut short", id="cut short"),
        pytest.param(
            json.dumps(samples.document([samples.row(COMM, real_time=-1.0)]), indent=1),
            "benchmarks[0].real_time: -1 is not above 0",
            id="bad field",
        ),
        pytest.param(
            json.dumps(_too_many()), "benchmarks: above 20000 rows in all: give fewer", id="many"
        ),
    ],
)
def test_a_refusal_is_one_line_with_status_2_and_writes_nothing(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = samples.write(tmp_path / "good.json", samples.document(samples.sweep()))
    bad, out = tmp_path / "bad.json", tmp_path / "report.html"
    bad.write_text(text)
    assert run(good, bad, "-o", out) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith(f"overlapbench report: {bad}: {complaint}")
    assert captured.out == ""
    assert not out.exists()


def test_standard_input_on_both_sides_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("-", "--base", "-", "-o", tmp_path / "report.html") == 2
    assert (
        capsys.readouterr().err == "overlapbench report: -: standard input can be read only once\n"
    )


def test_recorded_results_make_one_report(tmp_path: Path) -> None:
    sources = sorted((REPOSITORY / "docs/results").glob("*/*.json"))
    assert sources, "docs/results holds no results"
    assert run(*sources, "-o", tmp_path / "report.html") == 0
    assert (tmp_path / "report.html").stat().st_size < 10_000_000


def test_results_of_this_build_make_a_report(tmp_path: Path) -> None:
    folder = os.environ.get("OVERLAPBENCH_RESULTS")
    if not folder:
        pytest.skip("OVERLAPBENCH_RESULTS names no folder of results; ./check sets it")
    sources = sorted(Path(folder).glob("*.json"))
    assert sources, f"{folder} holds no results"
    assert run(*sources, "-o", tmp_path / "report.html") == 0
    assert "backend: host" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_figure_is_written_with_its_interval(tmp_path: Path) -> None:
    row = samples.row(COMM, real_time=2.0, busbw_GBps=100.0)
    document = samples.with_intervals(samples.document([row]), 0.012)
    page = page_of(tmp_path, document)
    assert page.figures(COMM)[1:] == ["2.00 ±0.02", "100 ±1"]
    assert not [header for header in page.values("th", "data-counter") if "_low" in header]
    wide = page_of(tmp_path, samples.with_intervals(samples.document([row]), 0.6))
    assert wide.figures(COMM)[1:] == ["?", "?"]  # they say nothing


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (1.4512, 1.4412, 1.4612, "1.45 ±0.01"),
        (1.45, 1.45, 1.54, "1.45 -0.00 +0.09"),
        (2.0, 1.9, 9.7, "2 -0 +8"),
        (1234.5, 1200.0, 1250.0, "1234 -34 +16"),
        (2.0, 2.0, 2.0, "2.000 ±0"),
        (1e-8, 0.9e-8, 1.1e-8, "1.000e-08 ±1e-09"),
    ],
)
def test_an_interval_says_how_many_digits_tell(
    value: float, low: float, high: float, text: str
) -> None:
    assert measured(value, low, high) == text


def test_noisy_rows_are_counted_and_a_passed_control_is_not(
    tmp_path: Path,
) -> None:
    document = samples.document(samples.sweep())
    for place, width in ((0, 12.5), (2, 30)):
        reason = f"interval of {width} %: clocks changed"
        document["benchmarks"][place] = samples.noisy(document["benchmarks"][place], reason)
    document["benchmarks"].append(samples.control())
    page = page_of(tmp_path, document)
    summary = page.html.split('id="Overlap"')[0]
    assert '<b>2</b> <a href="#bad">not to be trusted</a>' in summary
    assert "<b>1</b> negative control passed" in summary
    bad = page.html.split('id="bad"')[1].split("</section>")[0]
    assert bad.count('class="chip noisy"') == 2
    assert "streams:1" not in bad
    passed = document["benchmarks"][-1]
    told = page.figures(passed["run_name"])[0]
    assert f"passed negative control: {passed['reason']}" in told
