"""Files that are made to do harm: every one has its verdict, or is refused in one harmless line."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import samples
from overlapbench.cli import chart, history
from overlapbench.cli import compare as benchmark_compare
from overlapbench.judge.floors import Floors
from overlapbench.judge.side import Side
from overlapbench.judge.verdicts import Comparison, compare_sides
from overlapbench.reading.program_run import parse_program_run
from overlapbench.view.comparison import FORMATS

Capture = pytest.CaptureFixture[str]
A = samples.row("Compute/Gemm/n:1")
DEEP = 100_000


def changed(field: str, value: str, of: str = "benchmarks") -> str:
    """Return a good result in which one field has a value, written as JSON."""
    document = samples.document([dict(A)])
    place = document["context"] if of == "context" else document["benchmarks"][0]
    place[field] = "PLACE"
    return json.dumps(document, indent=1).replace('"PLACE"', value)


REFUSED = {
    "brackets": ("[" * DEEP, "not JSON, or cut short: nested too deeply"),
    "nested and closed": ("[" * DEEP + "]" * DEEP, "not JSON, or cut short: nested too deeply"),
    "objects": ('{"context":' * DEEP, "not JSON, or cut short: nested too deeply"),
    "a deep context": (
        changed("x", "[" * 900 + "]" * 900, "context"),
        "context: nested deeper than 16",
    ),
    "a deep time": (
        changed("real_time", "[" * 900 + "]" * 900),
        "benchmarks[0].real_time: ",
    ),
    "a time too long": (changed("real_time", "1e308"), "benchmarks[0].real_time: 1e+308 is out of"),
    "a time too short": (changed("real_time", "1e-320"), "benchmarks[0].real_time: 1e-320 is out"),
    "infinite": (changed("real_time", "1e999"), "benchmarks[0].real_time: Infinity is not a fin"),
    "many digits": (changed("real_time", "9" * 400), "benchmarks[0].real_time: 9999"),
    "too many digits": (changed("real_time", "9" * 10_000), "not JSON, or cut short"),
    "a vast counter": (changed("busbw_GBps", "1e200"), "benchmarks[0].busbw_GBps: 1e+200 is out"),
    "a tiny counter": (changed("GBps", "1e-200"), "benchmarks[0].GBps: 1e-200 is out of"),
    "a truth": (changed("real_time", "true"), "benchmarks[0].real_time: true is not a number"),
    "text": (changed("real_time", '"1.0"'), 'benchmarks[0].real_time: "1.0" is not a number'),
    "a named escape": (changed("run_name", '"Compute/A\\u001b[31m"'), "benchmarks[0].run_name: "),
    "a line in a name": (changed("run_name", '"Compute/A\\n::error::"'), "benchmarks[0].run_name"),
    "a turned name": (changed("run_name", '"Compute/\\u202eA"'), "benchmarks[0].run_name: "),
    "half a character": (changed("run_name", '"Compute/\\ud800"'), "benchmarks[0].run_name: "),
    "a list as a name": (changed("run_name", "[]"), "benchmarks[0].run_name: [] is not text"),
    "a list as a unit": (changed("time_unit", "[]"), "benchmarks[0].time_unit: [] is not text"),
    "a row that is text": (
        json.dumps(samples.document([A]) | {"benchmarks": ["x"]}),
        'benchmarks[0]: "x" is not an object',
    ),
    "rows that are none": (
        json.dumps(samples.document([A]) | {"benchmarks": {"0": A}}),
        "benchmarks: missing or empty",
    ),
    "a schema as a number": (
        changed("overlapbench_schema", "1", "context"),
        "context.overlapbench_schema: 1 is not text",
    ),
}
TOOLS: dict[str, Callable[[str], list[str]]] = {
    "compare": lambda path: [path, path.replace("bad", "good")],
    "history": lambda path: ["add", path],
    "chart": lambda path: [path, "-o", "charts"],
}
MAINS = {
    "compare": benchmark_compare.main,
    "history": history.main,
    "chart": chart.main,
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_file_is_refused_by_every_tool(
    name: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    text, complaint = REFUSED[name]
    Path("bad.json").write_text(text, encoding="utf-8")
    samples.write(Path("good.json"), samples.document([A]))
    assert MAINS[tool](TOOLS[tool]("bad.json")) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    drawn = not any(field in complaint for field in ("real_time", "time_unit"))
    if tool != "chart" or drawn:
        assert line.startswith(f"overlapbench {tool}: bad.json: {complaint}")
        assert len(line) < 200
    assert captured.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.json", "good.json"]


@pytest.mark.parametrize("tool", sorted(MAINS))
def test_a_loop_of_links_is_refused(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").symlink_to("bad.json")
    samples.write(Path("good.json"), samples.document([A]))
    assert MAINS[tool](TOOLS[tool]("bad.json")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        line == f"overlapbench {tool}: bad.json: cannot be read: Too many levels of symbolic links"
    )


def test_of_a_key_given_twice_the_last_counts() -> None:
    text = json.dumps(samples.document([A])).replace(
        '"real_time": 1.0', '"real_time": 7, "real_time": 2.0'
    )
    assert parse_program_run("run.json", text).time_ms(A["run_name"]) == 2.0


def test_a_large_file_of_one_line_is_refused_by_field(tmp_path: Path, capsys: Capture) -> None:
    rows = [samples.row(f"Compute/Gemm/n:{n}") for n in range(20_000)]
    path = samples.write(tmp_path / "run.json", samples.document([*rows, A | {"real_time": -1.0}]))
    assert benchmark_compare.main([str(path), str(path)]) == 2
    assert "benchmarks[20000].real_time: -1 is not above 0" in capsys.readouterr().err


# ---- text from files in every output

_WORDS = st.text(min_size=1, max_size=40) | st.sampled_from(
    [
        "::error title=x::y",
        "a\n::stop-commands::x",
        "%0A::error::",
        "\x1b]0;title\x07",
        "</failure></testcase>",
        "]]>",
        "| a | b |\n|---|---|",
        "[x](javascript:alert(1))",
        "<img src=x onerror=alert(1)>",
        "`${x}`",
        "[bold red]x[/]",
        "\u202egnp.exe",
        "\ud800",
        "\x00",
    ]
)


def compared(name: str, reason: str, device: str) -> Comparison:
    good = {"run_name": name, "run_type": "iteration", "real_time": 1.0}
    bad = good | {"error_occurred": True, "error_message": reason}
    runs = (
        parse_program_run("x.json", json.dumps({"context": context, "benchmarks": [row]}))
        for context, row in (({}, good), ({"device": device}, bad))
    )
    base, new = (Side.collect(side, [run]) for side, run in zip("bn", runs, strict=True))
    return compare_sides(base, new, Floors())


@given(_WORDS.filter(str.isprintable), _WORDS, _WORDS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_the_content_of_a_file_controls_no_output(name: str, reason: str, device: str) -> None:
    comparison = compared(name, reason, device)
    texts = {form: write(comparison) for form, write in FORMATS.items()}
    for text in texts.values():
        assert all(line.isprintable() for line in text.split("\n"))
    assert all(line.startswith("::") for line in texts["github"].splitlines())
    assert len(texts["github"].splitlines()) == 2  # the row, and the summary
    (case,) = ElementTree.fromstring(texts["junit"])
    assert case.get("name") == name
    assert json.loads(texts["json"])["rows"][0]["name"] == name
    assert re.search("<(?!br>)", texts["markdown"]) is None
    (row,) = (line for line in texts["markdown"].splitlines() if "**invalid**" in line)
    assert len(re.split(r"(?<!\\)(?:\\\\)*\|", row)) == 2 + 8


def test_the_name_of_a_file_controls_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    good = str(samples.write(Path("\x1b[31m\udcff\nx.json"), samples.document(samples.sweep())))
    bad = Path("\x1b[31m\udcff\ny.json")
    bad.write_text("{", encoding="utf-8")
    for form in FORMATS:
        assert benchmark_compare.main([good, good, "--format", form]) == 0
    assert history.main(["add", good]) == history.main(["list"]) == 0
    assert chart.main([good, "-o", "charts"]) == 0
    assert benchmark_compare.main([good, str(bad)]) == 2
    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert all(line.isprintable() for line in text.split("\n"))
    assert len(captured.err.splitlines()) == 1


def test_an_output_that_cannot_write_a_character_is_one_line(tmp_path: Path) -> None:
    document = samples.document([A], device="GPU ×2")
    files = [str(samples.write(tmp_path / f"{i}.json", d))
             for i, d in enumerate((document, samples.document([A])))]  # fmt: skip
    command: list[str | Path] = [sys.executable, samples.TOOLS / "benchmark_compare.py", *files]
    environment = {"PYTHONIOENCODING": "ascii", "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "overlapbench compare: standard output: ascii cannot encode all of it:"
        " set PYTHONIOENCODING=utf-8\n"
    )
