"""What --traces and --predictable add to the report: timelines, and predictions."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import predictable
import samples
import traces
from html_page import Page
from test_report import COMM, HOSTILE, page_of, run


def traced(folder: Path, *rows: str, **about: Any) -> str:
    """Write traces of two ranks of each row, and return their folder."""
    for place, row in enumerate(rows):
        for rank in (0, 1):
            times = [
                traces.done("comp", "COMP", "comp", 0, 3 + rank),
                traces.done("comm", "COMM", "comm", 0, 1),
            ]
            document = traces.recorded(times, row=row, rank=rank, **about)
            traces.write(folder / f"{place:02}.rank{rank}.json", document)
    return str(folder)


def test_traced_rows_have_pictures_and_shares(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    folder = traced(tmp_path / "traces", "Overlap/A+B", COMM)
    page = page_of(tmp_path, samples.document([samples.row(COMM)]), extra=("--traces", folder))
    section = page.html.split('<section id="timelines">')[1].split("</section>")[0]
    assert re.findall('data-chart="(.*?)"', section) == ["timeline-0", "timeline-1"]
    assert re.findall("<h3>(.*?)</h3>", section) == ["Overlap/A+B", COMM]
    assert section.count("T 4.000 ms · sample 0 · 2 ranks · backend: host") == 2
    table = section.split("<tbody>")[1].split("</tbody>")[0]
    cells = re.findall("<td[^>]*>(.*?)</td>", table)
    assert cells[:3] == ["0", "3.000", "66.7"]
    assert cells[11:14] == ["1", "4.000", "75.0"]
    assert page.texts["th"].count("COMP only") == 2
    # Only the row that has figures leads to them.
    assert re.findall('href="#(.*?)"', section) == [COMM.replace(":", "%3A")]
    assert '<a href="#timelines">' in page.html
    assert "Not drawn" not in section
    (text,) = re.findall(r'id="chart-timeline-1">(.*)</script>', page.html)
    specification = json.loads(text)
    assert "title" not in specification
    assert "title" not in specification["concat"][0]
    assert '"sum"' not in text
    (policy,) = page.values("meta", "content")[:1]
    assert "unsafe" not in policy
    assert not {"src", "style"} & page.attributes


def test_traced_rows_beyond_twelve_are_named(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    folder = traced(tmp_path / "traces", *(f"Row/{place:02}" for place in range(14)))
    page = page_of(tmp_path, samples.document([samples.row(COMM)]), extra=("--traces", folder))
    assert len(page.values("figure", "data-chart")) == 12
    assert "<p>Not drawn, as there are more than 12: Row/12, Row/13.</p>" in page.html


def test_nothing_in_a_trace_becomes_markup(tmp_path: Path) -> None:
    pages: list[Page] = []
    for name in ("tame", f"{HOSTILE}\x1b[2J\ud800"):
        folder = tmp_path / str(len(pages))
        (folder / "traces").mkdir(parents=True)
        events = [traces.done(name, "COMP", name, 0, 3), traces.waits(name, 3, 1)]
        events.append(traces.done(f"a {name}", "COMM", "c", 4, 1))
        recorded = traces.recorded(events, row=f"A/{name}", backend=name, fault=name)
        for place in range(13):
            document = json.loads(json.dumps(recorded).replace('"A/', f'"{place:02}/'))
            traces.write(folder / f"traces/{place:02}.json", document)
        extra = ("--traces", str(folder / "traces"))
        pages.append(page_of(folder, samples.document([samples.row(COMM)]), extra=extra))
    tame, wild = pages
    assert [tag for tag, _ in wild.elements] == [tag for tag, _ in tame.elements]
    assert wild.attributes == tame.attributes
    assert "\x1b" not in wild.html
    for drawn in wild.values("figure", "data-chart"):
        (text,) = re.findall(rf'id="chart-{drawn}">(.*?)</script>', wild.html, flags=re.DOTALL)
        assert not {"<", ">", "&", "\u2028", "\x1b"} & set(text)
    assert any("onerror" in title for title in wild.texts["h3"])


def test_a_malformed_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = samples.write(tmp_path / "r.json", samples.document([samples.row(COMM)]))
    assert run(result, "--traces", result, "-o", tmp_path / "report.html") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"overlapbench report: {result}: traceEvents: missing: not a trace")
    assert error.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_steps_are_shown_beside_their_predictions(tmp_path: Path) -> None:
    machine = predictable.Machine()
    rows = [predictable.ddp(machine, 2, layers) for layers in (1, 2)]
    document = predictable.document([*rows, predictable.triple([[1.0] * 3] * 3, 1.2)])
    page = page_of(tmp_path, document)
    section = page.html.split('<section id="predictions">')[1].split("</section>")[0]
    # The gather slows the product down by 1.2, for 1 ms of 1.667, but not where they are a pair.
    assert "3 steps: 3.3 % off on average, 10.0 % at most." in section
    cells = re.findall("<td class=.number.>(.*?)</td>", section)
    assert cells[-8] == "1.500"
    assert cells[-2:] == ["1.667", "-10.0 %"]
    assert re.findall('href="#(.*?)"', section) == [
        quote(entry["name"]) for entry in document["benchmarks"]
    ]
    assert '<a href="#predictions">' in page.html
    plain = page_of(tmp_path, samples.document([samples.row(COMM)]))
    assert "predictions" not in plain.html
