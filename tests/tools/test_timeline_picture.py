"""The picture of timelines: bars where the work was, short ones too, names that fit; the tool."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import pytest

import traces
from overlapbench.cli import timeline
from overlapbench.traces.files import read_rows
from overlapbench.traces.model import Class, Span
from overlapbench.traces.rules import Rules
from overlapbench.view import theme
from overlapbench.view.timeline import Bar, Lane, Timeline, make_timelines
from overlapbench.view.timeline_picture import (
    MOST_BARS,
    draw_timelines,
    merged,
    with_strokes,
)
from test_timeline import HELD, STEP
from traces import COPY, GEMM, ROW, Json, done, kineto, recorded, waits
from traces import work as kernel_of

HOSTILE = """</script><img src=x onerror="alert('1')">&amp;{{7*7}}\u2028\x1b[2J<!--]]>"""


def rows_of(folder: Path, *documents: Json) -> list[Timeline]:
    for place, document in enumerate(documents):
        traces.write(folder / f"{place:03}.json", document)
    return make_timelines(read_rows([str(folder)], Rules()))[0]


def spec_of(folder: Path, *documents: Json, one_scale: bool = False) -> dict[str, Any]:
    return draw_timelines(rows_of(folder, *documents), "", one_scale).spec


def data(spec: dict[str, Any], panel: int, mark: str, style: str | None = None) -> list[Json]:
    """Return the records of a panel's layers of a mark, or of one with a style."""
    found, records = [], spec["concat"][panel]["data"]["values"]
    for layer in spec["concat"][panel]["layer"]:
        if layer["mark"]["type"] == mark and layer["mark"].get("style") == style:
            own = layer.get("data", {}).get("values", records)
            (step,) = layer.get("transform", [{"filter": ""}])
            found += [record for record in own if shows(step["filter"], record)]
    return found


def shows(where: str, record: Json) -> bool:
    """Tell whether the filter of a layer holds for a record."""
    if where.startswith("datum.look"):
        return bool(record["look"] == where.split("'")[1])
    if where.startswith("datum['longest path']"):
        return bool(record["longest path"] and record["look"] != "held")
    return not where or "label" in record


def test_every_bar_is_a_span_at_its_times(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, recorded(STEP), recorded([done("x", "MEM", "m", 0, 1)], row="B"))
    wide = data(spec, 0, "bar", "edge")
    assert [(r["track"], r["step"], r["kind"], r["from"], r["to"]) for r in wide] == [
        ("comm", "sum", "communication", 2.5, 6.5),
        ("comp", "one", "computation", 0, 2),
        ("comp", "two", "computation", 2, 3),
        ("comp", "three", "computation", 6.75, 7.75),
    ]
    assert [(r["from"], r["to"], r["kind"]) for r in data(spec, 0, "bar")] == [
        (0, 2, "waits"),
        (3, 6.5, "waits"),
    ]
    outlined = [(r["track"], r["from"], r["to"]) for r in data(spec, 0, "bar", "outline")]
    assert outlined == [("comm", 2.5, 6.5), ("comp", 0, 2), ("comp", 6.75, 7.75)]
    assert data(spec, 0, "rule", "outline") == [
        {"from": 2, "track": "comp", "reach": 2.5, "into": "comm"},
        {"from": 6.5, "track": "comm", "reach": 6.75, "into": "comp"},
    ]
    assert {r["label"] for r in data(spec, 0, "text")} == {"sum", "one", "two", "three"}
    alt.ConcatChart.from_dict(spec)  # which checks it against the schema


def test_an_arrow_between_ranks_is_at_the_moment_at_which_the_wait_ended(tmp_path: Path) -> None:
    joint = {"communication": 1}
    early, late = done("sum", "COMM", "c", 0, 5, **joint), done("sum", "COMM", "c", 4, 1, **joint)
    spec = spec_of(tmp_path, recorded([early]), recorded([late], rank=1))
    arrow = {"from": 4, "track": "rank 1 c", "reach": 4, "into": "rank 0 c"}
    assert data(spec, 0, "rule", "arrow") == [arrow]


def test_a_tooltip_shows_the_known_fields(tmp_path: Path) -> None:
    work = done("s", "COMM", "comm", 0.25, 2, bytes=1 << 20, blocks=24)
    work["name"] = "ncclDevKernel"
    (record,) = data(spec_of(tmp_path, recorded([work])), 0, "bar", "edge")
    assert {key: record[key] for key in ("step", "work", "class", "bytes", "blocks", "lane")} == {
        "step": "s",
        "work": "ncclDevKernel",
        "class": "COMM",
        "bytes": "1,048,576",
        "blocks": "24",
        "lane": "comm",
    }
    assert record["begin (ms)"] == "0.250000"
    assert record["duration (ms)"] == "2.000000"
    assert (record["rank"], record["longest path"]) == (0, "yes")
    pytorch = kernel_of(GEMM, 0, 5, grid=[4, 3, 2]), kernel_of(COPY, 5, 5, bytes=4096)
    (tmp_path / "p").mkdir()
    first, second = data(spec_of(tmp_path / "p", kineto(pytorch)), 0, "bar", "edge")
    assert (first["blocks"], first["bytes"], second["bytes"]) == ("24", "", "4,096")


def test_a_tooltip_shows_where_work_ran_if_its_record_says_so(tmp_path: Path) -> None:
    copy = done("send", "COMM", "comm", 0, 2, engine="copy", peer=0)
    product = done("gemm", "COMP", "comp", 0, 2, engine="SM", sms=108)
    old = done("old", "COMP", "comp", 2, 1)
    everyone = done("sum", "COMM", "comm", 2, 1, peer="all")
    keys = ("engine", "peer", "SMs", "sample")
    longer = done("longer", "COMP", "comp", 0, 9)
    spec = spec_of(tmp_path, recorded([longer], [copy, product, old, everyone]))
    found = {r["step"]: [r[key] for key in keys] for r in data(spec, 0, "bar", "edge")}
    assert found == {
        "send": ["copy", 0, "", 1],
        "gemm": ["SM", "", 108, 1],
        "old": ["", "", "", 1],
        "sum": ["", "all", "", 1],
    }
    tooltips = [layer["encoding"].get("tooltip", []) for layer in spec["concat"][0]["layer"]]
    assert any({*keys} <= {told["field"] for told in shown} for shown in tooltips)
    (tmp_path / "p").mkdir()
    (other,) = data(spec_of(tmp_path / "p", kineto([kernel_of(GEMM, 0, 5)])), 0, "bar", "edge")
    assert [other[key] for key in keys] == [""] * 4


def domains_of(panel: dict[str, Any]) -> set[tuple[float, ...]]:
    x = (layer["encoding"]["x"] for layer in panel["layer"])
    return {tuple(one["scale"]["domain"]) for one in x if "scale" in one}


@pytest.mark.parametrize("one_scale", [False, True])
def test_each_row_has_its_scale_of_time_unless_all_share_one(
    one_scale: bool, tmp_path: Path
) -> None:
    short = recorded([done("x", "MEM", "m", 0, 1)], row="B")
    spec = spec_of(tmp_path, recorded(STEP), short, one_scale=one_scale)
    ends = (7.75, 7.75) if one_scale else (7.75, 1)
    assert [domains_of(panel) for panel in spec["concat"]] == [{(0, end)} for end in ends]
    for pan in spec["params"]:
        assert (pan["bind"], pan["select"]["encodings"]) == ("scales", ["x"])
    views = [panel["layer"][0]["name"] for panel in spec["concat"]]
    moved = [views] if one_scale else [[view] for view in views]
    assert [pan["views"] for pan in spec["params"]] == moved
    assert spec["resolve"] == {"scale": {"x": "shared" if one_scale else "independent"}}
    titles = [panel["title"] for panel in spec["concat"]]
    assert [title["text"] for title in titles] == [[ROW], ["B"]]
    assert titles[0]["subtitle"] == [
        "T 7.750 ms · sample 0 · 1 rank · backend: host",
        "Longest path: computation 3.000 ms, communication 4.000 ms, gaps 0.750 ms",
    ]
    # Colours are those of other charts, and the same in all panels, whatever is in them.
    scales = [
        layer["encoding"]["color"]["scale"]
        for panel in spec["concat"]
        for layer in panel["layer"]
        if "legend" in layer["encoding"].get("color", {})
    ]
    assert all(scale == scales[0] for scale in scales)
    assert scales[0]["domain"] == ["computation", "communication", "copy", "waits"]
    assert scales[0]["range"][:3] == [theme.BLUE, theme.GREEN, theme.ORANGE]


def test_rows_on_one_scale_of_time_say_so_below(tmp_path: Path) -> None:
    rows = [recorded(STEP, row="A")]
    rows += [recorded([done("x", "MEM", "m", 0, 1)], row=row) for row in ("B", "C")]
    spec = spec_of(tmp_path, *rows, one_scale=True)
    axes = [panel["layer"][0]["encoding"]["x"] for panel in spec["concat"]]
    assert [x["title"] for x in axes] == [None, None, "time (ms)"]
    assert {tuple(x["scale"]["domain"]) for x in axes} == {(0, 7.75)}
    alt.ConcatChart.from_dict(spec)


def test_a_wait_for_sms_is_a_bar_of_its_lane_and_no_gap(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, recorded(HELD))
    (wait,) = data(spec, 0, "bar")
    assert (wait["kind"], wait["step"], wait["from"], wait["to"]) == ("waited for SMs", "sum", 0, 5)
    assert spec["concat"][0]["title"]["subtitle"][1] == (
        "Longest path: computation 1.000 ms, communication 3.000 ms, waited for SMs 5.000 ms"
    )
    outlined = [record["step"] for record in data(spec, 0, "bar", "outline")]
    assert outlined == ["sum", "product"]
    assert "another kernel held them" in " ".join(spec["title"]["subtitle"])


def test_text_above_and_beside_a_row_fits_its_panel(tmp_path: Path) -> None:
    name = "Overlap/AllToAll+Gemm/bytes:67108864/n:4096/grid:16x16/work:tile/cache:cold"
    name += "/repeat:12345678901234567890"
    events = [done("twelve_chars", "COMP", f"{'x' * 30}{i}", 9 * i, 9) for i in (0, 1)]
    events.append(done("end", "COMP", "c", 18, 31))
    rows = [recorded(events, row=f"{name}/first:{row}", backend="word " * 20) for row in "ab"]
    spec = spec_of(tmp_path, *rows)
    title = spec["concat"][0]["title"]
    assert title["text"] == [f"{name}/", "first:a"]
    assert max(map(len, title["subtitle"])) <= 118
    tracks = spec["concat"][0]["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert tracks == ["c", f"{'x' * 25}…", f"{'x' * 21}…#2"]
    assert [r["label"] for r in data(spec, 0, "text")] == ["end", "twelve_chars", "twelve_chars"]


def test_a_short_step_neither_vanishes_nor_lies(tmp_path: Path) -> None:
    # 670 pixels are 100 ms.
    events = [done("long", "COMP", "c", 0, 60), done("short", "COMP", "c", 70, 0.02)]
    events += [done("many", "COMP", "c", 80 + i / 10, 0.01) for i in range(100)]
    events += [done("end", "COMP", "c", 99, 1)]
    spec = spec_of(tmp_path, recorded(events))
    short = data(spec, 0, "bar")
    assert (short[0]["from"], short[0]["to"]) == (70, 70.02)  # as long as it was
    assert short[0]["duration (ms)"] == "0.020000"
    assert len(short) == 101
    strokes = [record["from"] for record in data(spec, 0, "tick")]
    assert strokes[:2] == [70, 80]
    apart = [b - a for a, b in pairwise(strokes)]
    assert min(apart) >= 4 * 100 / 670
    assert len(strokes) < 20
    assert {record["label"] for record in data(spec, 0, "text")} == {"long"}


def test_names_are_cut_where_there_is_little_room_and_left_out_where_there_is_none(
    tmp_path: Path,
) -> None:
    name = "a_kernel_of_a_long_name"
    events = [done(name, "COMP", "c", t, d) for t, d in ((0, 50), (50, 10), (60, 4), (99, 1))]
    labels = [record["label"] for record in data(spec_of(tmp_path, recorded(events)), 0, "text")]
    assert labels == [name, "a_kerne…"]


def test_lanes_have_names_unlike_each_other(tmp_path: Path) -> None:
    names = ["x" * 30 + tail for tail in ("1", "2", "3")] + ["a", "a\x07", "a\x08"]
    events = [done("s", "COMP", name, 0, 1) for name in names]
    spec = spec_of(tmp_path, recorded(events))
    tracks = spec["concat"][0]["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert len(set(tracks)) == 6
    assert max(map(len, tracks)) <= 26
    assert all(track.isprintable() for track in tracks)
    two = [recorded([done("s", "COMP", "rank 1 c", 0, 1)], rank=rank) for rank in (0, 1)]
    (tmp_path / "two").mkdir()
    spec = spec_of(tmp_path / "two", *two)
    tracks = spec["concat"][0]["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert tracks == ["rank 0 rank 1 c", "rank 1 c"]


def bars_of(times: list[tuple[int, int]], lane: str = "c") -> list[Bar]:
    where = Lane(0, lane)
    spans = [Span("s", Class.COMP, begin, end, lane) for begin, end in times]
    return [Bar(where, s, s.begin_ns, s.begin_ns, s.end_ns, s.end_ns - s.begin_ns) for s in spans]


def test_very_many_bars_become_one_where_they_cannot_be_told_apart() -> None:
    few = bars_of([(i, i + 1) for i in range(0, 2 * MOST_BARS, 2)])
    assert merged(few, 400) == few
    many = [*few, *bars_of([(1, 251)])]
    found = merged(many, 400)  # a quarter of a pixel is 100 ns
    assert len(found) == 2 * MOST_BARS / 100 + 1
    assert {(bar.count, bar.busy_ns, bar.end_ns - bar.begin_ns) for bar in found[:-1]} == {
        (50, 50, 99)
    }
    assert found[-1] == many[-1]  # longer than that
    other = bars_of([(1, 2)], "d")
    assert other[0] in merged([*many, *other], 400)
    assert with_strokes([], 400) == []


def test_a_merged_bar_is_as_pale_as_it_leaves_time(tmp_path: Path) -> None:
    events = [kernel_of(GEMM, 10 * i, 2.5) for i in range(MOST_BARS + 1)]
    (tmp_path / "a").mkdir()
    spec = spec_of(tmp_path / "a", kineto(events))
    records = data(spec, 0, "bar")
    assert 2000 < len(records) < 3000
    shares = [record["share"] for record in records if "more" in record["step"]]
    assert len(shares) > 2000
    assert 0.2 < sum(shares) / len(shares) < 0.5
    assert data(spec, 0, "text") == []


def run(*arguments: object) -> int:
    return timeline.main([str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<svg"), (".html", b"<!DOCTYPE html>")]
)
def test_the_picture_is_written_by_suffix(
    suffix: str, start: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces.write(tmp_path / "0.json", recorded(STEP))
    output = tmp_path / f"step{suffix}"
    assert run(tmp_path, "-o", output, "--title", "A step") == 0
    assert output.read_bytes().startswith(start)
    assert capsys.readouterr().out == f"wrote {output}: 1 of 1 rows\n"
    if suffix != ".png":
        text = output.read_text(encoding="utf-8")
        assert "A step" in text
        assert ROW in text
        assert "src=" not in text.replace('"src="', "").split("<script>")[0]


def test_rows_that_are_left_out_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in range(13):
        document = recorded([done("c", "COMP", "C", 0, 1)], row=f"Row/{place:02}")
        traces.write(tmp_path / f"{place:02}.json", document)
    output = tmp_path / "a.svg"
    assert run(tmp_path, "-o", output) == 0
    assert capsys.readouterr().out == f"wrote {output}: 12 of 13 rows\nleft out: Row/12\n"


def hostile() -> Json:
    events = [done(HOSTILE, "COMP", HOSTILE, 0, 2), waits(HOSTILE, 2, 1)]
    events.append(done("s" + HOSTILE, "COMM", "c", 2, 2))
    return recorded(events, row=f"Overlap/{HOSTILE}", backend=HOSTILE, fault=HOSTILE)


def test_nothing_in_a_trace_becomes_markup_of_a_picture(tmp_path: Path) -> None:
    traces.write(tmp_path / "0.json", hostile())
    for suffix in (".svg", ".html"):
        assert run(tmp_path, "-o", tmp_path / f"a{suffix}", "--title", HOSTILE) == 0
    tree = ElementTree.parse(tmp_path / "a.svg")
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert tags <= {"svg", "g", "path", "rect", "text", "line", "defs", "clipPath", "tspan"}
    texts = "".join(tree.getroot().itertext())
    assert "<img src=x" in texts
    assert "\x1b" not in texts
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    # The libraries write elements of their own.
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "<img" not in outside
    assert page.count("</script>") == 4
    assert "\x1b" not in page


def test_a_file_s_name_is_text(tmp_path: Path) -> None:
    path = traces.write(tmp_path / "a\x1b[2J<b>.json", kineto([kernel_of(GEMM, 0, 1)]))
    assert run(path, "-o", tmp_path / "a.svg", "--title", "x\x1b") == 0
    text = "".join(ElementTree.parse(tmp_path / "a.svg").getroot().itertext())
    assert "a\ufffd[2J<b>.json" in text
    assert "x\ufffd" in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["none.json", "-o", "a.svg"], "none.json: cannot be read: No such file or directory"),
        (["0.json", "-o", "a.pdf"], "-o a.pdf: the name must end in .png, .svg, .html"),
        (["0.json", "-o", "no/a.svg"], "no/a.svg: cannot be written: No such file or directory"),
        (["0.json", "-o", "a.svg", "--step", "9"], "0.json: no step 9: the "),
        (["0.json", "-o", "a.svg", "--window", "x"], "0.json: no window x: there are "),
        (
            ["lanes.json", "-o", "a.svg"],
            "Overlap/A+B/cache:cold: 130 lanes with 130 bars are too many",
        ),
        (["0.json", "0.json", "-o", "a.svg"], "0.json: rank 0 occurs twice"),
    ],
)
def test_a_refusal_is_one_line_and_writes_nothing(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    traces.write(Path("0.json"), recorded(STEP))
    lanes = [done("s", "COMP", f"lane {i}", 0, 1) for i in range(130)]
    traces.write(Path("lanes.json"), recorded(lanes))
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"overlapbench timeline: {complaint}")
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.json", "lanes.json"]


def test_classes_can_be_changed(tmp_path: Path) -> None:
    traces.write(tmp_path / "0.json", recorded(STEP))
    assert run(tmp_path, "-o", tmp_path / "a.html", "--class", "sum=MEM") == 0
    assert '"kind": "copy"' in (tmp_path / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("picture", "files", "flags", "line"),
    [
        (
            "host/timeline.svg",
            ["*"],
            ["--title", "Two pipelines"],
            "T 23.05 ms · sample 1, the median of 3 · 2 ranks · backend: host",
        ),
        (
            "h200x2/knee.svg",
            ["Overlap*cold.rank?.json.gz", "Overlap*first=comm.rank?.json.gz"],
            ["--one-scale", "--title", "The 16x16 grid beside an all-to-all, two H200"],
            "T 0.4365 ms · sample 1, the median of 3 · 2 ranks · backend: cuda",
        ),
    ],
)
def test_a_picture_of_the_documents_is_that_of_the_recorded_traces(
    picture: str, files: list[str], flags: list[str], line: str, tmp_path: Path
) -> None:
    kept = Path(__file__).parents[2] / "docs/results" / picture
    output = tmp_path / "drawn.svg"
    assert run(*(kept.parent / "traces" / name for name in files), "-o", output, *flags) == 0
    now, then = (ElementTree.parse(path).getroot() for path in (output, kept))
    assert now.get("width") == then.get("width")
    drawn, recorded = ([t for t in root.itertext() if t.strip()] for root in (now, then))
    assert drawn == recorded
    assert line in drawn
    assert int(now.get("width", "0")) <= theme.WIDTH


def test_the_same_trace_gives_the_same_picture(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, recorded(STEP), recorded(STEP, row="B"))
    first, second = (json.dumps(draw_timelines(rows, "").spec) for _ in range(2))
    assert first == second
