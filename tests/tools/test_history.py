"""The history: what is added comes back, once; nothing is changed; refusals leave it untouched."""

import contextlib
import dataclasses
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import histories
import made_runs
import samples
from overlapbench.cli import history
from overlapbench.judge.history import SCRIPT, Machine, Run, open_history, parse_run, read_runs
from overlapbench.judge.series import read_series
from overlapbench.output import ResultError
from overlapbench.reading.counters import TIME, stored_table
from samples import Json

Capture = pytest.CaptureFixture[str]
A = samples.row("Compute/Gemm/n:1")
TIME_MS = stored_table().counters[TIME]
HOSTILE = "BM_<b>[red]x|`*_@me ::error::%0A,:'\"; DROP TABLE run; --"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str | Path) -> int:
    return history.main([str(argument) for argument in arguments])


def add(*documents: Json, options: tuple[str, ...] = ()) -> None:
    """Add documents to history.sqlite of the current folder."""
    files = [samples.write(Path(f"{i}.json"), document) for i, document in enumerate(documents)]
    assert run("add", *files, *options) == 0
    for file in files:
        file.unlink()


def refusal(capsys: Capture, *arguments: str | Path) -> str:
    """Return the one line with which a command is refused."""
    capsys.readouterr()
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    assert line.startswith("overlapbench history: ")
    return line.removeprefix("overlapbench history: ")


def stored() -> list[Run]:
    """Return the runs of history.sqlite in the current folder."""
    with open_history(Path("history.sqlite")) as opened:
        return opened.runs()


def dated(day: int, *rows: Json, **context: str) -> Json:
    return samples.document(rows or [A], date=f"2026-03-{day:02}T12:00:00+00:00", **context)


# ---- what is added comes back


def test_a_file_comes_back_byte_for_byte(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    content = json.dumps(samples.document(samples.full_run()), indent=2).encode() + b"\n\n"
    Path("run.json").write_bytes(content)
    assert run("add", "run.json") == 0
    assert run("export", "1", "-o", "out") == 0
    assert Path("out/run-1.json").read_bytes() == content
    capfdbinary.readouterr()
    assert run("export", "1") == 0
    assert capfdbinary.readouterr().out == content


def test_repetitions_are_their_median(folder: Path) -> None:
    name = "Comm/AllReduce/bytes:1"
    rates = (1.0, 9.0, 2.0)
    rows = [samples.row(name, i, busbw_GBps=rate, real_time=rate) for i, rate in enumerate(rates)]
    aggregate = samples.row(name, run_type="aggregate", busbw_GBps=7.0)
    add(dated(1, *rows, aggregate))
    (measured,) = stored()[0].measured
    assert (measured.repetitions, measured.problem) == (3, "")
    assert measured.figures == {"time": 2.0, "busbw_GBps": 2.0}


@given(
    st.dictionaries(
        st.integers(1, 50), st.floats(1e-9, 1e9) | st.integers(1, 10**9), min_size=1, max_size=20
    )
)
@settings(max_examples=40, deadline=None)
def test_any_result_comes_back(times: dict[int, float]) -> None:
    expected = {f"Compute/Gemm/n:{n}": time for n, time in times.items()}
    text = json.dumps(made_runs.run(expected))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        with open_history(path, create=True) as opened:
            assert opened.add([(text, parse_run("run.json", text))]) == [(1, True)]
        with open_history(path) as opened:
            (run,) = opened.runs()
            assert opened.document(run).decode() == text
            assert run == dataclasses.replace(parse_run("run.json", text), id=1)
    found = {m.benchmark: m.figures["time"] for m in run.measured}
    assert found == expected


# ---- runs, and how they are told apart


def test_list_shows_runs_in_the_order_of_time(folder: Path, capsys: Capture) -> None:
    bad = samples.row("Compute/Gemm/n:2", valid=0.0)
    add(dated(3, A, bad, git_revision="cccc"), dated(1, git_revision="aaaa"), dated(2))
    capsys.readouterr()
    assert run("list") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    lines = [words for words in lines if words[0].isdigit()]
    assert [words[0] for words in lines] == ["2", "3", "1"]
    assert [words[2] for words in lines] == ["aaaa", samples.context()["git_revision"], "cccc"]
    assert [words[-1] for words in lines] == ["1", "1", "1"]
    assert lines[2][-2:] == ["2", "1"]  # rows, and bad ones


def test_runs_of_the_same_second_stand_as_they_were_added(folder: Path) -> None:
    add(*(dated(1, A | {"real_time": 1.0 + i}) for i in range(5)))
    assert [run.id for run in stored()] == [1, 2, 3, 4, 5]


def test_time_is_compared_in_utc(folder: Path) -> None:
    times = ("2026-03-01T12:00:00+02:00", "2026-03-01T11:00:00+00:00", "2026-03-01T04:00:00-05:00")
    add(*(samples.document([A], date=time) for time in times))
    assert [run.id for run in stored()] == [3, 1, 2]
    assert stored()[0].date == "2026-03-01T09:00:00+00:00"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), [1, 2, 3]),
        (("--since", "2026-03-02"), [2, 3]),
        (("--since", "2026-03-02T12:00:01Z"), [3]),
        (("--machine", "b200"), [3]),
        (("--revision", "ab"), [1, 2]),
        (("--revision", "ab", "--since", "2026-03-02"), [2]),
    ],
)
def test_filters_choose_runs(
    options: tuple[str, ...], expected: list[int], folder: Path, capsys: Capture
) -> None:
    add(
        dated(1, git_revision="ab1"),
        dated(2, git_revision="ab2"),
        dated(3, git_revision="c%_3", device="NVIDIA B200"),
    )
    capsys.readouterr()
    assert run("list", "--json", *options) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)["runs"]] == expected


def test_a_pattern_chooses_benchmarks_wherever_they_stand(folder: Path) -> None:
    names = ["Compute/Gemm/n:1024", "Compute/Softmax/n:2", "Compute/Gemm/n:3"]
    add(dated(1, *map(samples.row, names)))
    for pattern, chosen in (
        ("Softmax", names[1:2]),
        ("-Softmax", names[::2]),
        (":1K$", names[:1]),
    ):
        found = read_series(stored(), pattern, TIME_MS)
        assert [one.benchmark for one in found] == chosen


def test_a_revision_can_be_given(folder: Path) -> None:
    add(dated(1), options=("--revision", "v1.2"))
    assert stored()[0].revision == "v1.2"


def plain(host: str, day: int) -> Json:
    row = {"run_name": "BM_Copy/8", "run_type": "iteration", "real_time": 5.0, "time_unit": "ns"}
    context = {"date": f"2026-03-{day:02}T12:00:00+00:00", "host_name": host}
    return {"context": context, "benchmarks": [row]}


@pytest.mark.parametrize(
    "field",
    [
        *("backend", "device", "driver_version", "nccl_version", "ranks", "host_name", "hosts"),
        *("host_cores", "gate", "env_NCCL_ALGO"),
    ],
)
def test_a_series_never_mixes_machines(field: str, folder: Path) -> None:
    add(dated(1), dated(2, **{field: "host" if field == "backend" else "other"}), dated(3))
    series = list(read_series(stored(), "", TIME_MS))
    assert sorted([point.run.id for point in part.points] for part in series) == [[1, 3], [2]]


def test_a_series_continues_across_named_fields(folder: Path) -> None:
    add(dated(1, driver_version="1"), dated(2, driver_version="2"))
    (series,) = read_series(stored(), "", TIME_MS, ("driver",))
    assert [point.run.id for point in series.points] == [1, 2]


def test_a_machine_is_written_without_what_is_usual() -> None:
    context = {"backend": "cuda", "device": "H200", "ranks": "2", "hosts": "n1", "gate": "on"}
    machine = Machine.of(context | {"num_cpus": 8})
    assert str(machine) == "cuda, H200, ranks 2, host n1"
    other = Machine.of(context | {"gate": "off", "env_NCCL_ALGO": "Tree"})
    assert str(other) == "cuda, H200, ranks 2, host n1, gate off, NCCL_ALGO=Tree"


def test_plain_files_are_told_apart_by_host(folder: Path) -> None:
    add(plain("node1", 1), plain("node2", 2), plain("node1", 3))
    series = list(read_series(stored(), "^BM_", TIME_MS))
    assert {str(part.machine): len(part.points) for part in series} == {
        "host node1": 2,
        "host node2": 1,
    }
    assert series[0].points[0].value == pytest.approx(5e-6)


@pytest.mark.parametrize(
    ("entries", "expected_ms"),
    [
        ([{"name": "BM_Copy/8", "real_time": 5, "time_unit": "us"}], [5e-3]),  # an old version's
        ([{"name": "BM_Copy/8", "real_time": time} for time in (3, 1, 2)], [2e-6]),
        ([{"name": "BM_Copy/8", "real_time": 0}], []),
        (
            [
                {
                    "name": f"BM_Copy/8_{aggregate}",
                    "run_name": "BM_Copy/8",
                    "run_type": "aggregate",
                    "aggregate_name": aggregate,
                    "real_time": time,
                }
                for aggregate, time in (("mean", 3), ("median", 2), ("stddev", 1))
            ],
            [2e-6],
        ),
    ],
    ids=["old", "repetitions", "no time", "aggregates alone"],
)
def test_a_plain_file_has_the_times_that_comparisons_see(
    entries: list[Json], expected_ms: list[float], folder: Path
) -> None:
    add(plain("node1", 1) | {"benchmarks": entries})
    series = list(read_series(stored(), "BM_Copy/8", TIME_MS))
    assert [point.value for part in series for point in part.points] == expected_ms


def test_rows_with_a_problem_are_in_no_series(folder: Path) -> None:
    add(dated(1), dated(2, A | {"valid": 0.0}), dated(3, A | {"error_occurred": True}))
    (series,) = read_series(stored(), "", TIME_MS)
    assert [point.run.id for point in series.points] == [1]


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_is_wide_enough(
    columns: int, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "AllReduce+CublasGemm/bytes:67108864/n:8192/precision:bf16/grid:16x16/cache:cold/x:1"
    row = samples.overlap(name)
    for day in range(16):
        document = dated(1 + day, row | {"real_time": 1.0 + 0.2 * (day > 7)})
        document["context"] |= {"driver_version": "580.159.04", "git_revision": f"{day:x}" * 40}
        add(document)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = {}
    for word in ("list", "changes"):
        capsys.readouterr()
        assert run(word) == 0
        shown[word] = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
        assert max(map(len, shown[word].splitlines())) <= columns
    assert re.search(r"1 +2026-03-01T12:00:00Z ", shown["list"])
    assert f"Overlap/{name}" in re.sub(r"\n +", "", shown["changes"])
    beside = re.search(rf"^Overlap/{re.escape(name)} +worse +\+20", shown["changes"], re.M)
    assert bool(beside) == (columns == 200)


# ---- once, and for good


def test_the_same_file_is_added_once(folder: Path, capsys: Capture) -> None:
    add(dated(1))
    before = Path("history.sqlite").read_bytes()
    samples.write(Path("copy.json"), dated(1))
    capsys.readouterr()
    assert run("add", "copy.json", "copy.json") == 0
    assert capsys.readouterr().out == "run 1: copy.json: is already in the history\n" * 2
    assert Path("history.sqlite").read_bytes() == before


def test_reading_leaves_the_file_alone(folder: Path, capsys: Capture) -> None:
    add(dated(1))
    before = Path("history.sqlite").read_bytes()
    assert run("list") == run("changes") == run("export", "1") == 0
    assert run("trend", "-o", "t.svg") == 0
    assert Path("history.sqlite").read_bytes() == before
    assert [path.name for path in folder.iterdir() if "sqlite" in path.name] == ["history.sqlite"]


def test_two_can_add_at_once(folder: Path) -> None:
    documents = histories.nightly(12, 1, {})
    files = [str(samples.write(folder / f"{i}.json", d)) for i, d in enumerate(documents)]
    command = [*samples.PROGRAM, "history", "add"]
    halves = [subprocess.Popen([*command, *part]) for part in (files[:8], files[4:])]
    assert [process.wait() for process in halves] == [0, 0]
    assert [len(run.measured) for run in stored()] == [3] * 12


KILLED = """
import os, signal, sys
from pathlib import Path
from overlapbench.judge.history import open_history
from overlapbench.judge.history import read_runs
def files():
    yield read_runs(sys.argv[1:2])[0]
    os.kill(os.getpid(), signal.SIGKILL)
with open_history(Path("history.sqlite"), create=True) as opened:
    opened._connection.execute("PRAGMA cache_size = 10")  # so that pages reach the file early
    opened.add(files())
"""


def test_a_killed_add_leaves_nothing(folder: Path) -> None:
    add(dated(1))
    rows = [samples.row(f"Compute/Gemm/n:{n}") for n in range(2000)]
    samples.write(Path("large.json"), dated(2, *rows))
    environment = os.environ | {"PYTHONPATH": str(samples.TOOLS)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, "large.json"], env=environment, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert Path("history.sqlite-journal").exists()  # it was in the middle
    assert [run.id for run in stored()] == [1]
    assert run("add", "large.json") == 0
    assert [len(run.measured) for run in stored()] == [1, 2000]


# ---- refusals


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d["context"].pop("date"), "context.date: missing"),
        (
            lambda d: d["context"].update(date="yesterday"),
            "context.date: 'yesterday' is not a date",
        ),
        (
            lambda d: d["context"].update(injected_delay="x:9"),
            "context.injected_delay: slowed down",
        ),
        (lambda d: d["benchmarks"][0].update(real_time=-1), "benchmarks[0].real_time: -1 is not"),
        (lambda d: d["benchmarks"].clear(), "benchmarks: missing or empty"),
    ],
)
def test_a_bad_file_leaves_the_history_untouched(
    change: Callable[[Json], object], complaint: str, folder: Path, capsys: Capture
) -> None:
    samples.write(Path("good.json"), dated(1))
    bad = dated(2, dict(A))
    change(bad)
    samples.write(Path("bad.json"), bad)
    assert refusal(capsys, "add", "good.json", "bad.json").startswith(f"bad.json: {complaint}")
    assert not Path("history.sqlite").exists()
    assert run("add", "good.json") == 0
    before = Path("history.sqlite").read_bytes()
    refusal(capsys, "add", "bad.json")
    assert Path("history.sqlite").read_bytes() == before


def make_foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE run (id)")
    connection.close()


def make_newer(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(SCRIPT)
    connection.execute("PRAGMA user_version = 3")
    connection.close()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            lambda path: path.write_text("no database\n" * 100),
            "not a history: not an SQLite database; name one with --database",
        ),
        (make_foreign, "an SQLite database, but not a history of overlapbench"),
        (
            make_newer,
            "tables of version 3, but this overlapbench reads 2: use the one that made it",
        ),
        (lambda path: path.mkdir(), "cannot be opened: it is a folder; name a file in it"),
    ],
)
def test_a_file_that_is_no_history_is_refused(
    make: Callable[[Path], object], complaint: str, folder: Path, capsys: Capture
) -> None:
    path = Path("other.sqlite")
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    samples.write(Path("run.json"), dated(1))
    for words in (["add", "run.json"], ["list"]):
        line = refusal(capsys, *words, "--database", path)
        assert line == f"other.sqlite: {complaint}"
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize(("names", "counted"), [("A", "1 benchmark"), ("AB", "2 benchmarks")])
def test_adding_counts_benchmarks(names: str, counted: str, folder: Path, capsys: Capture) -> None:
    add(dated(1, *(samples.row(f"Compute/{name}/n:1") for name in names)))
    assert capsys.readouterr().out == f"run 1: 0.json: added, {counted}\n"


def test_a_history_that_cannot_be_made_says_why(folder: Path, capsys: Capture) -> None:
    samples.write(Path("run.json"), dated(1))
    line = refusal(capsys, "add", "run.json", "--database", "no/h.sqlite")
    assert line == "no/h.sqlite: cannot be opened: there is no folder no; create it first"


def test_a_read_only_history_says_so(folder: Path) -> None:
    add(dated(1))
    path = Path("history.sqlite")
    refused = "^history.sqlite: cannot be written: it or its folder is read-only$"
    with pytest.raises(ResultError, match=refused), open_history(path) as opened:
        opened.add(read_runs([str(samples.write(Path("new.json"), dated(2)))]))


def test_another_writer_is_waited_for(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(dated(1))
    samples.write(Path("new.json"), dated(2))
    monkeypatch.setattr("overlapbench.judge.history._PATIENCE_S", 0.2)
    with contextlib.closing(sqlite3.connect("history.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        line = refusal(capsys, "add", "new.json")
        waited_s = time.monotonic() - began
    assert line == "history.sqlite: another process has locked it for 60 s; try again"
    assert 0.2 <= waited_s < 4  # SQLite's own patience is 5 s
    assert run("add", "new.json") == 0


def test_bad_selections_are_reported_in_one_line(folder: Path, capsys: Capture) -> None:
    assert refusal(capsys, "list").endswith("no history yet: overlapbench history add creates it")
    assert not Path("history.sqlite").exists()
    add(dated(1, samples.row("Compute/Gemm/n:1")), dated(2))
    for words, complaint in (
        (["export", "7"], "history.sqlite: no run 7"),
        (["export"], "2 runs make 2 files: name a folder with -o"),
        (["list", "--machine", "B200"], "no run matches: check --machine"),
        (["changes", "--metric", "hidden_comm"], "--metric hidden_comm: it may be negative"),
        (["trend", "-o", "t.pdf"], "-o t.pdf: the name must end in .png, .svg, .html"),
        (["trend", "-o", "t.svg", "--metric", "busbw_GBps"], "no matching benchmark has"),
        (["trend", "-o", "no/t.svg"], "no/"),
        (["add", "no*.json"], "no*.json: no file matches"),
        (["add", "-", "-"], "-: standard input can be read only once"),
        (["add", "no.json"], "no.json: cannot be read: No such file"),
    ):
        assert refusal(capsys, *words).startswith(complaint)


@pytest.mark.parametrize("words", [["list", "--since", "soon"], ["changes", "--least", "-1"], []])
def test_bad_usage_is_status_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run(*words)
    assert end.value.code == 2


def test_standard_input_can_be_added(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(dated(1)).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert run("add", "-") == 0
    assert stored()[0].source == "standard input"


# ---- what comes from files stands for itself


def test_names_and_paths_are_never_sql_markup_or_paths(folder: Path, capsys: Capture) -> None:
    document = plain(HOSTILE, 1)
    document["benchmarks"][0]["run_name"] = HOSTILE
    document["context"]["git_revision"] = "../../x\x1b[31m"
    samples.write(Path("a'?#%\n.json"), document)
    assert run("add", "a'?#%\n.json", "--database", "h'?#%.sqlite") == 0
    assert Path("h'?#%.sqlite").exists()
    common = ("--database", "h'?#%.sqlite")
    for words in (["list"], ["export", "-o", "out"]):
        assert run(*words, *common) == 0
    assert [path.name for path in Path("out").iterdir()] == ["run-1.json"]
    text = capsys.readouterr().out
    assert "\x1b" not in text
    with open_history(Path("h'?#%.sqlite")) as opened:
        (series,) = read_series(opened.runs(), "^BM_", TIME_MS)
    assert series.benchmark == HOSTILE
