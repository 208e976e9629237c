"""The gate's command line, with a benchmark program made up: files, timeouts, refusals."""

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

import gate_trials
import samples
from made_runs import NAMES
from overlapbench.cli import gate as perf_gate

REPOSITORY = Path(__file__).parents[2]
PROGRAM = """#!{python}
import json, os, random, re, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores
flags = dict(flag.lstrip("-").split("=", 1) for flag in sys.argv[1:])
time.sleep(float(flags.get("sleep", 0)))
if "say" in flags:
    print(flags["say"])
    sys.exit(int(flags.get("status", 0)))
if "signal" in flags:
    sys.stdout.buffer.write(b"gone\\xff\\n\\n")
    sys.stdout.flush()
    os.kill(os.getpid(), int(flags["signal"]))
document = json.loads({document!r})
chosen = re.compile(flags.get("benchmark_filter", ""))
document["benchmarks"] = [r for r in document["benchmarks"] if chosen.search(r["name"])]
for row in document["benchmarks"]:
    slower = re.search(flags.get("slower", "^$"), row["name"])
    row["real_time"] *= random.gauss(float(flags.get("factor", 1.1)) if slower else 1.0, 0.002)
    row["label"] = flags["benchmark_repetitions"]
pattern, _, delay_us = flags.get("inject_delay", "").rpartition(":")
delayed = [r for r in document["benchmarks"] if pattern and re.search(pattern, r["name"])]
if pattern and not delayed:
    sys.exit("the delay matches nothing")
for row in delayed:
    row["real_time"] += int(delay_us) / 1000
open(flags["benchmark_out"], "w").write(json.dumps(document))
if "killed" in flags:
    print("killed", flush=True)
    os.kill(os.getpid(), int(flags["killed"]))
if "status" in flags:
    print("it says why", flush=True)
sys.exit(int(flags.get("status", 0)))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A benchmark program, and an empty folder for temporary files."""
    folder = tmp_path / "program"
    folder.mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    path = folder / "bench"
    document = json.dumps(samples.document([samples.row(name) for name in NAMES]))
    path.write_text(PROGRAM.format(python=sys.executable, document=document))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def run(*arguments: str | Path) -> int:
    return perf_gate.main([str(argument) for argument in arguments])


def test_a_build_against_itself_passes(program: str, tmp_path: Path) -> None:
    assert run("run", "--base", program, "--candidate", program, "--runs", "3") == 0
    assert not any((tmp_path / "temporary").iterdir())


def test_a_slower_candidate_fails_and_is_named(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, kept = tmp_path / "gate.json", tmp_path / "kept"
    candidate = f"{program} --slower={NAMES[2]}"
    sides = ("--base", program, "--candidate", candidate)
    assert run("run", *sides, "--runs", "3", "--output", out, "--keep", kept) == 1
    document = json.loads(out.read_text())
    failing = {row["name"]: row["verdict"] for row in document["rows"] if row["fails"]}
    assert failing == {NAMES[2]: "slower"}
    names = {f"{side}-{n}.json" for side in ("base", "candidate") for n in range(1, 7)}
    assert {path.name for path in kept.iterdir()} == names
    captured = capsys.readouterr()
    assert "slower" in captured.out
    assert "run 1 of 6: base" in captured.err
    assert f"1 measured again: {NAMES[2]}" in captured.err


def test_flags_after_the_dashes_go_to_every_run(program: str, tmp_path: Path) -> None:
    sides = ("--base", program, "--candidate", program, "--runs", "3", "--repetitions", "7")
    arguments = ("run", *sides, "--keep", tmp_path / "kept", "--", "--benchmark_filter=n:16/")
    assert run(*arguments) in (0, 3)
    for path in (tmp_path / "kept").iterdir():
        (row,) = json.loads(path.read_text())["benchmarks"]
        assert (row["name"], row["label"]) == (NAMES[0], "7")


def test_a_baseline_is_recorded_and_compared_with(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "baseline"
    folder.mkdir()
    for stale in ("run-9.json", "notes.txt"):
        (folder / stale).write_text("x")
    command = ("--command", program)
    assert run("baseline", *command, "--runs", "4", "--output", folder) == 0
    expected = {"notes.txt", *(f"run-{n}.json" for n in range(1, 5))}
    assert {path.name for path in folder.iterdir()} == expected
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if not line.startswith("  ")] == [
        *(f"run {n} of 4" for n in range(1, 5)),
        f"wrote 4 runs to {folder}",
    ]
    candidate = f"{program} --slower={NAMES[2]}"
    for what, status in ((program, 0), (candidate, 1)):
        assert run("run", "--baseline", folder, "--candidate", what, "--runs", "4") == status


def test_a_row_that_fails_is_no_failed_run(program: str) -> None:
    command = f"{program} --status=1"
    assert run("run", "--base", command, "--candidate", command, "--runs", "3") == 0


@pytest.mark.parametrize("status", [2, 3, 130])
def test_a_result_is_judged_whatever_the_exit_status(
    status: int, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = ("--base", program, "--runs", "3", "--candidate")
    assert run("run", *sides, f"{program} --status={status}") == 3
    told = f"candidate-1.json: exit status {status}, a result was written: it says why"
    assert told in capsys.readouterr().out
    slower = f"{program} --status={status} --slower={NAMES[2]}"
    assert run("run", *sides, slower) == 1


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("--say=boom --status=3", "exit status 3, no result: boom"),
        ("--say=boom", "exit status 0, no result: boom"),
        ("--killed=9", "ended by signal 9, its result does not count: killed"),
        ("--killed=1", "ended by signal 1, its result does not count: killed"),
        ("--inject_delay=x:1", "exit status 1, no result: the delay matches nothing"),  # stderr
        ("--signal=9", "ended by signal 9, no result: gone\N{REPLACEMENT CHARACTER}"),
        ("--sleep=60", "timed out after 1 s (--timeout-s)"),
        ("--benchmark_filter=none", "benchmarks: missing or empty"),
    ],
)
def test_a_run_without_a_result_is_status_2_and_leaves_what_was_to_be_kept(
    flags: str,
    complaint: str,
    program: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outputs = ("--output", tmp_path / "gate.md", "--keep", tmp_path / "kept")
    limit = "1" if "sleep" in flags else "60"
    command = f"{program} {flags}"
    sides = ("--base", program, "--candidate", command, "--timeout-s", limit)
    assert run("run", *sides, *outputs) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("overlapbench gate: ")
    assert complaint in last
    assert {path.name for path in tmp_path.iterdir()} == {"program", "temporary", "kept"}
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["base-1.json"]
    assert not any((tmp_path / "temporary").iterdir())


def test_a_run_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlapbench.judge.runner._TIME_TO_END_S", 0.2)
    sleep = f"sleep 45.{os.getpid()}1"
    deaf = f"""sh -c 'trap "" TERM; exec {sleep}'"""
    assert run("baseline", "--command", deaf, "--output", "/tmp", "--timeout-s", "1") == 2
    assert running(sleep.replace(" ", "\0")) == 0


def test_bad_usage_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usages: Sequence[tuple[Sequence[str], str]] = (
        (["run", "--base", "a b'", "--candidate", "a"], "not a command: No closing quotation"),
        (["run", "--base", "", "--candidate", ""], "overlapbench gate: the command is empty"),
        (
            ["run", "--base", "/dev/null/a", "--candidate", "a"],
            "/dev/null/a: cannot be started: Not a",
        ),
        (
            ["run", "--baseline", str(tmp_path), "--candidate", "a"],
            "run-*.json; overlapbench gate baseline records one",
        ),
        (["run", "--base", "a", "--candidate", "a", "--output", "x.pdf"], "the name must end in"),
    )
    for arguments, complaint in usages:
        assert run(*arguments) == 2
        assert complaint in capsys.readouterr().err.splitlines()[-1]
    with pytest.raises(SystemExit) as end:
        run("run", "--base", "a", "--candidate", "a", "--runs", "2")
    assert end.value.code == 2
    assert "'2' is not a whole number of at least 3" in capsys.readouterr().err.splitlines()[-1]


BOTH = ("run", "--base", "PROGRAM", "--candidate", "PROGRAM")
ONE = ("--command", "PROGRAM", "--output")


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ((*BOTH, "--output"), "/dev/null/gate.md"),
        ((*BOTH, "--output"), "/proc/gate.md"),
        ((*BOTH, "--keep"), "/dev/null"),
        ((*BOTH, "--keep"), "/dev/null/kept"),
        (("baseline", *ONE), "/dev/null"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_first_run(
    arguments: Sequence[str], path: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*(program if word == "PROGRAM" else word for word in arguments), path) == 2
    (line,) = capsys.readouterr().err.splitlines()  # no run was reported
    assert line.startswith(f"overlapbench gate: {path}: cannot be written: ")


def test_results_survive_a_full_disk_or_a_full_stdout(
    program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, kept = tmp_path / "gate.json", tmp_path / "kept"
    arguments = ["run", "--base", program, "--candidate", program, "--runs", "3"]
    with Path("/dev/full").open("w") as full:
        words: list[str | Path] = [sys.executable, samples.TOOLS / "perf_gate.py", *arguments]
        words += ["--output", out, "--keep", kept]
        assert subprocess.run(words, stdout=full, stderr=subprocess.DEVNULL).returncode != 0
    assert "rows" in json.loads(out.read_text())
    assert len(list(kept.iterdir())) == 6

    def full_disk(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    assert run(*arguments, "--output", out) == 2
    captured = capsys.readouterr()
    assert f"{len(NAMES)} benchmarks: " in captured.out
    last = captured.err.splitlines()[-1]
    assert last == f"overlapbench gate: {out}: cannot be written: No space left on device"


def test_a_terminated_gate_ends_its_runs_and_keeps_those_that_ended(
    program: str, tmp_path: Path
) -> None:
    mark = f"--sleep=45.{os.getpid()}"
    sides = ["--base", program, "--candidate", f"{program} {mark}"]
    environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    kept = tmp_path / "kept"
    gate = subprocess.Popen(
        [sys.executable, samples.TOOLS / "perf_gate.py", "run", *sides, "--keep", kept],
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: running(mark) == 1)
    gate.send_signal(signal.SIGTERM)
    assert gate.wait(60) == 128 + signal.SIGTERM
    wait_until(lambda: running(mark) == 0)  # it was told to end, and takes its time
    assert not any((tmp_path / "temporary").iterdir())
    assert [path.name for path in kept.iterdir()] == ["base-1.json"]


def running(mark: str) -> int:
    """Count the processes whose command line holds a text, but for the gate's own."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        count += mark.encode() in words and b"perf_gate.py" not in words
    return count


def wait_until(condition: Callable[[], bool], limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def trial(program: str, *arguments: str | Path) -> int:
    words = ("--command", program, "--runs", "3", *map(str, arguments))
    return gate_trials.main(words)


def test_trials_count_how_often_the_gate_is_right(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "trials.md"
    slower = f"^{NAMES[2]}$=5,10"
    assert trial(program, "--gates", "2", "--slower", slower, "--output", out) == 0
    captured = capsys.readouterr()
    assert captured.out == out.read_text()
    rows = [line.split(" | ") for line in captured.out.splitlines()[2:]]
    times = [float(re.search(r"\((\d+) us\)", row[0])[1]) for row in rows[1:]]  # type: ignore[index]
    assert times == [pytest.approx(50, abs=1), pytest.approx(100, abs=2)]
    assert [row[0].split(" (")[0].lstrip("| ") for row in rows] == [
        "against itself",
        f"{NAMES[2]} slower by 5 %",
        f"{NAMES[2]} slower by 10 %",
    ]
    assert [row[1:] for row in rows] == [[n, n, "none |"] for n in ("2", "1", "1")]
    assert "gate 4 of 4: " in captured.err


def test_a_gate_that_misses_a_delay_is_wrong(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Below the floor of 2 %: the gate may not see it.
    assert trial(program, "--gates", "1", "--slower", f"^{NAMES[2]}$=0.5") == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1].endswith(" us) | 1 | 0 | none |")
    assert "  WRONG: status 0, nothing failed" in captured.err


@pytest.mark.parametrize(
    ("slower", "complaint"),
    [
        ("^nothing=5", "--slower: ^nothing must match one benchmark, but matches none"),
        ("n:16=5", "--slower: n:16 must match one benchmark, but matches 2"),
        (f"^{NAMES[2]}$=0.01", f"--slower: 0.01 % of {NAMES[2]} is less than 1 us"),
    ],
)
def test_a_delay_that_cannot_be_tried_is_refused(
    slower: str, complaint: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trial(program, "--slower", slower) == 2
    assert f"gate_trials: {complaint}\n" in capsys.readouterr().err


@pytest.mark.parametrize("slower", ["Gemm", "=5", "Gemm=fast", "Gemm=0", "(=5", "Gemm=1001"])
def test_a_delay_is_a_pattern_and_percents(slower: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        trial("program", "--slower", slower)
    assert ended.value.code == 2
    assert f"{slower!r} is not REGEX=PERCENT,..." in capsys.readouterr().err


# A repository's bench: its branch measures another time.
BENCH = """#!/bin/sh
if [ "$1" = --build-only ]; then
  mkdir -p "$(dirname "$0")/.venv/bin"
  exec ln -sf {package} "$(dirname "$0")/.venv/bin/overlapbench"
fi
for word; do shift; [ "$word" = --no-install ] || set -- "$@" "$word"; done
exec {program} "$@" {flags}
"""


@pytest.fixture
def remote(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bare repository with the branches main, same, and slow, whose bench is slower."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Someone")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "someone@example.org")
    work, bare, package = (tmp_path / name for name in ("work", "remote.git", "overlapbench"))
    package.write_text(f'#!/bin/sh\nexec {shlex.join(samples.PROGRAM)} "$@"\n')
    package.chmod(0o755)
    git("init", "--quiet", "--initial-branch=main", work)
    for branch, flags in (("main", ""), ("same", ""), ("slow", f"--slower={NAMES[0]}")):
        (work / "bench").write_text(BENCH.format(package=package, program=program, flags=flags))
        (work / "bench").chmod(0o755)
        (work / "branch").write_text(branch)
        git("-C", work, "checkout", "--quiet", "-B", branch)
        git("-C", work, "add", ".")
        git("-C", work, "commit", "--quiet", "--message", branch)
    git("clone", "--quiet", "--bare", work, bare)
    return bare


def git(*words: str | Path) -> None:
    subprocess.run(["git", *words], check=True)


def gate_on_github(remote: Path, branch: str, folder: Path) -> tuple[int, Path]:
    """Run the workflow's steps; return the gate's status, and the folder of its files."""
    job = yaml.safe_load((REPOSITORY / "docs/ci/github-perf-gate.yml").read_text())["jobs"]["gate"]
    folders = {"candidate": branch, "base": "main"}
    status = 0
    for step in job["steps"]:
        if "checkout" in step.get("uses", ""):
            path = step["with"]["path"]
            git("clone", "--quiet", "--branch", folders[path], remote, folder / path)
        elif "run" in step:
            where = folder / step.get("working-directory", ".")
            done = in_shell(step["run"], where, GITHUB_STEP_SUMMARY=str(folder / "summary"))
            status = status or done.returncode
    return status, folder / "candidate"


def gate_on_gitlab(remote: Path, branch: str, folder: Path) -> tuple[int, Path]:
    job = yaml.safe_load((REPOSITORY / "docs/ci/gitlab-perf-gate.yml").read_text())["perf-gate"]
    assert job["artifacts"]["reports"]["junit"] == "gate.xml"
    where = folder / "project"
    if not where.exists():
        git("clone", "--quiet", "--branch", branch, remote, where)
    script = "\n".join(job["script"])
    done = in_shell(script, where, CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main")
    return done.returncode, where


def in_shell(script: str, folder: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    script = script.replace("'Overlap|Comm'", shlex.quote("n:(16|32)/"))
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=os.environ | more, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)  # where the test fails
    return done


@pytest.mark.parametrize("gate", [gate_on_github, gate_on_gitlab])
@pytest.mark.parametrize(("branch", "status"), [("same", 0), ("slow", 1)])
def test_the_ready_workflows_gate_a_branch_of_an_example(
    gate: Callable[[Path, str, Path], tuple[int, Path]],
    branch: str,
    status: int,
    remote: Path,
    tmp_path: Path,
) -> None:
    found, folder = gate(remote, branch, tmp_path / "runner")
    assert found == status
    assert {"gate.md", "gate.xml", "results"} <= {path.name for path in folder.iterdir()}
    told = (folder / "gate.md").read_text() if gate is gate_on_gitlab else ""
    told = told or (tmp_path / "runner/summary").read_text()
    headline = "nothing is worse" if status == 0 else "1 slower of 2 benchmarks"
    assert told.startswith(f"## overlapbench: {headline}\n")
    if gate is gate_on_gitlab:  # the next job finds what this one has left
        assert gate(remote, branch, tmp_path / "runner")[0] == status
