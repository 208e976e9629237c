"""overlapbench trace: what it prints and writes, and bad files, each refused in one line."""

import gzip
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

import samples
import traces
from overlapbench.cli import trace
from traces import COPY, GEMM, NCCL, Json, call, event, kernel, kineto, ours, step, work


def run(*arguments: object) -> int:
    return trace.main([str(argument) for argument in arguments])


def delays(shift: float, rank: int) -> Json:
    """Delays of 4 and 2 ms; the second begins `shift` ms after the first."""
    begin = 1000 * shift
    return kineto([ours("COMP", 0, 4000, rank), ours("COMM", begin, 2000, rank)], None)


def test_ranks_are_tabled_and_the_worst_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overlapped = traces.write(tmp_path / "a.json", delays(0, 0))
    serial = traces.write(tmp_path / "b.json", delays(4, 1))
    assert run(serial, overlapped) == 0
    expected = """\
T is Overlap/A+B overlap sample 0. Shares of T in percent.

             COMP  COMM   MEM   COMP  COMP  COMM    all        over-
rank   T ms  only  only  only  +COMM  +MEM  +MEM  three  idle    lap
0     4.000  50.0   0.0   0.0   50.0   0.0   0.0    0.0   0.0  100.0
1     6.000  66.7  33.3   0.0    0.0   0.0   0.0    0.0   0.0    0.0

Rank 1 computes least: idle, copying or communicating 33.3 % of T.

Of the communication, 0.0 % ran beside computation.
Tools that classify kernels by name say there is none. They differ in
      1 ×     2.000 ms in all  COMM, not COMP  work

Verdict: communication is exposed for 33.3 % of T on rank 1. Hiding all of it
saves at most 33.3 % (2.000 ms).
"""
    assert capsys.readouterr().out == expected


def test_a_row_is_named_once_and_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = "Overlap/AllReduce+CublasGemm/bytes:67108864/n:8192/precision:bf16/grid:16x16/cache:cold"
    events = [ours("COMP", 9000 * n, 4000, sample=n, row=row) for n in range(3)]
    assert run(traces.write(tmp_path / "a.json", kineto(events, None))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    head = " ".join(lines[:2])
    assert head.replace("/ ", "/").startswith(f"T is {row} overlap sample 0 to 2, 3 in all. Shares")


def test_the_manual_s_example_is_real(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = samples.TOOLS.parent
    monkeypatch.chdir(root)
    assert run("docs/examples/step_rank?.json") == 0
    assert f"{capsys.readouterr().out}```" in (root / "docs/timelines.md").read_text()


def everything() -> list[Json]:
    """A step with all that the output can tell, and names that are too long."""
    long = "one_shot_all_reduce<" + "int, " * 40 + ">"
    events = [work(f"{long}{i}", 100 * i, 90, 1, correlation=100) for i in range(7)]
    events += [work(GEMM, 1000 + 10 * i, 6, 2, correlation=i + 1) for i in range(90)]
    events += [call(1009 + 10 * i, 1, i + 1) for i in range(90)]
    events += [
        work(COPY, 3000, 500, 3),
        work(GEMM, 5000, 9, 2, correlation=99),
        call(4900, 1, 99),
        call(0, 1, 100),
    ]
    return [*events, work(NCCL, 3500, 10, 2), work(NCCL, 3505, 10, 2), step(3, 0, 6000)]


def test_the_output_fits_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = traces.write(tmp_path / "a.json", kineto(everything()))
    days = kineto([work("x" * 300, 0, 8e10), event("user_annotation", "w" * 300, 0, 1)])
    far = traces.write(tmp_path / "b.json", days)
    for arguments in ([path], [far], [far, "--window", "w"]):
        assert run(*arguments) == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= 80
        if arguments == [path]:
            assert "  and 2 more names; 0.630 ms together" in out
            for said in ("many short", "late launches", "copies and", "starving", "note: spans"):
                assert said in out
            for cause in ("for the host to enqueue", "unknown"):
                assert cause in out


def test_json_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = traces.write(tmp_path / "a.json", kineto(everything()))
    out = tmp_path / "out.json"
    assert run(path, "-o", out) == 0
    assert capsys.readouterr().out.startswith("T is ")
    assert run(path, "--json") == 0
    assert capsys.readouterr().out == out.read_text()
    assert "the name must end in .json" in refusal(capsys, path, "-o", tmp_path / "out.txt")


def test_classes_are_changed_by_rules_of_which_the_first_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = traces.write(tmp_path / "a.json", kineto([work(GEMM, 0, 3), work(COPY, 3, 1)]))
    out = tmp_path / "out.json"
    rules = [word for rule in ("gemm=COMM", "gemm=MEM", "HtoD=COMM") for word in ("--class", rule)]
    assert run(path, *rules, "-o", out) == 0
    pct = json.loads(out.read_text())["ranks"][0]["pct"]
    assert pct["COMM"] == 100
    with pytest.raises(SystemExit) as stopped:
        run(path, "--class", "gemm=FAST")
    assert stopped.value.code == 2
    assert "'FAST' is not one of COMP, COMM, MEM, GATE," in capsys.readouterr().err.splitlines()[-1]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    return line


def broken(**fields: object) -> Json:
    return kineto([work(GEMM, 5, 1) | fields])


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({}, "traceEvents: missing: not a trace of PyTorch's profiler"),
        (3, "traceEvents: missing: not a trace of PyTorch's profiler"),
        ({"traceEvents": {}}, "traceEvents: missing: not a trace of PyTorch's profiler"),
        ({"traceEvents": []}, "traceEvents: no device work (kernel,"),
        ({"context": {}, "benchmarks": []}, "traceEvents: missing: not a trace"),
        (kineto([work(GEMM, 0, 1)]) | {"schemaVersion": 2}, "schemaVersion: 2 is not supported"),
        (kineto([event("cpu_op", "mm", 0, 1)]), "traceEvents: no device work (kernel,"),
        ({"traceEvents": [3]}, "traceEvents: no device work (kernel,"),
        (broken(dur=-1), "traceEvents: no device work (kernel,"),
    ],
)
def test_a_file_that_is_no_good_trace_is_refused_in_one_line(
    document: object, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = traces.write(tmp_path / "bad.json", document)
    line = refusal(capsys, path, "-o", tmp_path / "out.json")
    assert line.startswith(f"overlapbench trace: {path}: {complaint}")
    assert list(tmp_path.iterdir()) == [path]


WHOLE = json.dumps(kineto([work(GEMM, i, 1) for i in range(50)])).encode()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("cut.json", WHOLE[:-40], "not JSON, or cut short"),
        ("cut.json.gz", gzip.compress(WHOLE)[:-40], "not gzip, or cut short"),
        ("wrong.json.gz", gzip.compress(WHOLE)[:12] + b"\0" * 99, "not gzip, or cut short"),
        ("empty.json", b"", "empty"),
        ("deep.json", b"[" * 100_000, "not JSON, or cut short"),
        ("bytes.json", b"\xff", "not JSON: byte 0 is not UTF-8"),
        ("x.nsys-rep", b"", "export it first: nsys export --type sqlite "),
        ("x.sqlite", b"SQLite format 3\0" + b"\xff" * 500, "damaged, or cut short: "),
        ("x.sqlite", b"SQLite format 3\0", "damaged, or cut short: "),
    ],
)
def test_a_truncated_file_is_refused(
    name: str, content: bytes, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert refusal(capsys, path).startswith(f"overlapbench trace: {path}: {complaint}")


KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
ENDLESS = (
    f"CREATE VIEW {KERNELS} AS WITH RECURSIVE n(start) AS"
    " (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start FROM n"
)


@pytest.mark.parametrize(
    ("statements", "complaint"),
    [
        ([], "its tables are empty: no device work"),
        (
            [f"DROP TABLE CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET")],
            "no table CUPTI_ACTIVITY_KIND_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY",
        ),
        ([f"DROP TABLE {KERNELS}", ENDLESS], "its tables are empty: no device work"),
        (
            [f"ALTER TABLE {KERNELS} DROP COLUMN streamId"],
            "CUPTI_ACTIVITY_KIND_KERNEL has no column streamId",
        ),
        (
            [kernel(1, 9, 5)],
            "its tables are empty: no device work; left out 1 span ending before it begins: void",
        ),
        (
            [kernel(1, 5, 9), f"UPDATE {KERNELS} SET start = 'now'"],
            f'{KERNELS}.start: "now" is not a whole number',
        ),
        (
            [kernel(1, 5, 9), f"UPDATE {KERNELS} SET deviceId = NULL"],
            f"{KERNELS}.deviceId: null is not a whole number",
        ),
        (
            [kernel(1, 5, 9), f"UPDATE {KERNELS} SET end = x'00'"],
            f"{KERNELS}.end: bytes is not a whole number",
        ),
    ],
)
def test_an_export_that_is_no_good_trace_is_refused(
    statements: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = traces.nsys(tmp_path / "bad.sqlite", statements)
    assert refusal(capsys, path).startswith(f"overlapbench trace: {path}: {complaint}")


def test_a_cut_export_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = traces.nsys(tmp_path / "cut.sqlite", [kernel(1, i, i + 1) for i in range(2000)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert refusal(capsys, path).startswith(f"overlapbench trace: {path}: damaged, or cut short: ")


def test_nothing_in_a_file_steers_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\nall_reduce"
    events = [work(evil, 0, 1), event("user_annotation", evil, 0, 1)]
    path = traces.write(tmp_path / "a.json", kineto(events))
    assert run(path, "--window", "all") == 0
    assert "\x1b" not in capsys.readouterr().out
    assert "\x1b" not in refusal(capsys, path, "--step", 1)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none.json", "No such file or directory"),
        ("/proc/self/mem", "Input/output error"),
    ],
)
def test_a_file_that_cannot_be_read(
    name: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert refusal(capsys, path) == f"overlapbench trace: {path}: cannot be read: {why}"


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = traces.write(tmp_path / "a.json", kineto([work(GEMM, 0, 1)]))
    (tmp_path / "a.json.json").mkdir()
    line = refusal(capsys, path, "-o", tmp_path / "a.json.json")
    assert line.startswith(f"overlapbench trace: {tmp_path}/a.json.json: cannot be written: ")


def test_a_pipe_is_read_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(WHOLE,))
    writer.start()
    assert run(pipe) == 0
    writer.join()
    assert "100.0" in capsys.readouterr().out


def test_reading_leaves_an_export_as_it_was(tmp_path: Path) -> None:
    path = traces.nsys(tmp_path / "a.sqlite", [kernel(1, 5, 9)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # whose readers write beside the file
    before = path.read_bytes()
    assert run(path) == 0
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    assert sqlite3.connect(path).execute(f"SELECT count(*) FROM {KERNELS}").fetchone() == (1,)
