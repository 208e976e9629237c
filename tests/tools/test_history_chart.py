"""Trends as pictures and pages, with their changes marked, and changes as a table."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

import histories
import samples
from overlapbench.cli import history
from overlapbench.judge.history import Machine
from overlapbench.judge.series import Found, find_changes
from overlapbench.output import ResultError
from overlapbench.reading.counters import TIME, stored_table
from overlapbench.view.history import MOST_PANELS, draw_trend
from samples import Json

Capture = pytest.CaptureFixture[str]
TIME_MS = stored_table().counters[TIME]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Path:
    """Return a current folder with the history of the example."""
    monkeypatch.chdir(tmp_path)
    histories.main(tmp_path / "runs")
    assert history.main(["add", "runs/*.json"]) == 0
    capsys.readouterr()
    return tmp_path


def found(*values: list[float]) -> Found:
    series = [histories.series(part) for part in values]
    return [(part, find_changes(part)) for part in series]


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<svg"), (".html", b"<!DOCTYPE html>")]
)
def test_a_trend_is_written_by_suffix(suffix: str, start: bytes, folder: Path) -> None:
    assert history.main(["trend", "-o", f"trend{suffix}", "--title", "made up"]) == 0
    assert Path(f"trend{suffix}").read_bytes().startswith(start)


def test_the_picture_names_benchmarks_machine_and_changes(folder: Path) -> None:
    assert history.main(["trend", "-o", "trend.svg"]) == 0
    text = Path("trend.svg").read_text(encoding="utf-8")
    for name in histories.TIMES_MS:
        assert f"Overlap/{name}+Gemm" in text
    assert "host, simulated, ranks 2" in text
    assert len(re.findall(r">[+-][4-9]\.\d %<", text)) == 2 * 3  # the text, and its halo


def test_changes_are_listed_where_they_were_made(folder: Path, capsys: Capture) -> None:
    assert history.main(["changes"]) == 0
    text = capsys.readouterr().out
    assert re.findall("^  (worse|better) ", text, re.M) == ["worse", "better", "worse"]
    told = " ".join(text.split())
    for name, steps in histories.EXAMPLE.items():
        for start in steps:
            last, first = map(histories.revision, (start - 1, start))
            assert re.search(rf"between {last} \(\S+Z\) and {first} \(", told), name
    assert "3 changes in 3 series" in text


def printed(capsys: Capture, *words: str) -> Json:
    capsys.readouterr()
    assert history.main([*words, "--json"]) == 0
    document: Json = json.loads(capsys.readouterr().out)
    assert document["overlapbench_history"] == "1"
    return document


def test_runs_and_changes_are_printed_as_json(folder: Path, capsys: Capture) -> None:
    runs = printed(capsys, "list", "--since", "2026-04-01")["runs"]
    assert {run["machine"]["backend"] for run in runs} == {"host"}
    assert all(run["date"] >= "2026-04-01" for run in runs)
    document = printed(capsys, "changes")
    assert (document["metric"], document["inconclusive"]) == ("time", [])
    told = [
        (one["verdict"], one["change"] > 0, one["last"]["revision"], one["first"]["revision"])
        for one in document["changes"]
    ]
    worse = {"worse": True, "better": False}
    starts = [start for steps in histories.EXAMPLE.values() for start in steps]
    assert [(last, first) for *_, last, first in told] == [
        (histories.revision(start - 1), histories.revision(start)) for start in starts
    ]
    assert all(rises == worse[verdict] for verdict, rises, *_ in told)
    short = printed(capsys, "changes", "--since", "2026-04-20")
    assert (short["changes"], len(short["inconclusive"])) == ([], 3)


def test_a_history_that_is_too_short_says_so(folder: Path, capsys: Capture) -> None:
    assert history.main(["changes", "--since", "2026-04-20"]) == 0
    text = capsys.readouterr().out
    assert "0 changes in 0 series" in text
    assert "inconclusive: 3 series have fewer than 10 usable runs" in text


def test_a_signed_metric_is_drawn_without_changes(folder: Path) -> None:
    rows = [
        samples.row(
            "Overlap/A+B/n:1",
            comp_ms=1.0,
            comm_ms=1.0,
            overlap_ms=1.5,
            slowdown=1.5,
            exposed_comm_ms=0.5,
        )
    ]
    samples.write(Path("x.json"), samples.document(rows))
    assert history.main(["add", "x.json"]) == 0
    assert history.main(["trend", "-o", "x.svg", "--metric", "exposed_comm_ms"]) == 0


def test_one_run_is_a_trend_too() -> None:
    specification = draw_trend(TIME_MS, found([1.0]), "")
    assert len(specification["concat"]) == 1


def test_two_machines_are_two_curves_with_a_legend() -> None:
    one = histories.series([1.0, 2.0])
    two = dataclasses.replace(one, machine=Machine((("GPU", "NVIDIA B200"),)))
    text = json.dumps(draw_trend(TIME_MS, [(one, None), (two, None)], ""))
    assert "NVIDIA B200" in text
    assert '"legend": null' not in text


def test_of_too_many_benchmarks_those_are_drawn_that_changed_most() -> None:
    """A history of a suite with hundreds of rows has a trend, too."""
    steps = {3: 1.1, MOST_PANELS + 2: 1.5, MOST_PANELS + 5: 1.3}
    all_found = []
    for n in range(MOST_PANELS + 6):
        values = [1.0] * 8 + [steps.get(n, 1.0)] * 8
        one = dataclasses.replace(histories.series(values), benchmark=f"Compute/Gemm/n:{n}")
        all_found.append((one, find_changes(one)))
    drawn = draw_trend(TIME_MS, all_found, "")
    titles = [str(panel["title"]["text"]) for panel in drawn["concat"]]
    sizes = [int(found[0]) for title in titles for found in [re.findall(r"\d+", title)]]
    assert sizes == [*range(58), 62, 65]
    told = " ".join(drawn["title"]["subtitle"])
    assert f"{MOST_PANELS} of {MOST_PANELS + 6} benchmarks: those that changed most" in told
    with pytest.raises(ResultError, match="no matching benchmark"):
        draw_trend(TIME_MS, [], "")


def test_a_page_holds_no_markup_from_results(folder: Path) -> None:
    name = "BM_</script><script>alert(1)</script>"
    row = {"run_name": name, "run_type": "iteration", "real_time": 1.0}
    context = {"date": "2026-03-01T00:00:00+00:00", "host_name": "<b>"}
    samples.write(Path("x.json"), {"context": context, "benchmarks": [row]})
    assert history.main(["add", "x.json"]) == 0
    title = "</title><script>alert(2)</script>"
    assert history.main(["trend", "-o", "x.html", "--benchmark", "BM_", "--title", title]) == 0
    page = Path("x.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "https://" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
