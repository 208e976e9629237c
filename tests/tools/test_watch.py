"""The jobs for other repositories, docs/ci/*watch*: their scripts run on an example repository.

What measures is a stand-in for pytest, which writes results whose times a variable sets.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import samples

CI = samples.TOOLS.parent / "docs/ci"
# By job: what it tells the result with, and how that begins.
JOBS = {
    "github-watch.yml": "gh\npr\ncomment\n7\n",
    "gitlab-watch.yml": "curl\n--fail\n",
    "buildkite-watch.yml": "buildkite-agent\nannotate\n",
}
TIME_MS = "TIME_MS"  # what the stand-in measures
MEASURES = """#!{python}
import json, os, sys
(out,) = [word.partition("=")[2] for word in sys.argv if word.startswith("--overlapbench-out=")]
document = json.loads({document!r})
number = int(os.path.basename(out).removesuffix(".json"))
for row in document["benchmarks"]:
    row["real_time"] = float(os.environ["{time}"]) * (1 + 0.001 * number)
if os.environ["{time}"] != "0":
    open(out, "w").write(json.dumps(document))
"""
# The dashboard takes seconds, so it is drawn where DRAW says so.
PACKAGE = """#!/bin/sh
case "$DRAW $1 $2" in " report"*|" history trend") exit ;; esac
PYTHONPATH={tools} exec {python} -m overlapbench "$@"
"""
# In watch.sh's place: measures once, and finds a regression.
STANDS_IN = """#!/bin/sh
shift
OUT=$PWD/1.json "$@" || exit 9
mkdir dashboard
echo '**slower**' >comparison.md
exit 1
"""
NOTES = """#!/bin/sh
printf '%s\\n' "$(basename "$0")" "$@" >notes
case $0 in *agent) cat >>notes ;; esac
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An example repository, and the programs that the jobs call, on the PATH."""
    programs, example = tmp_path / "programs", tmp_path / "example"
    rows = [samples.row(f"Compute/mine/n:{n}/cache:cold") for n in (1, 2)]
    document = json.dumps(samples.document(rows))
    package = PACKAGE.format(tools=samples.TOOLS, python=sys.executable)
    texts = {
        "pytest": MEASURES.format(python=sys.executable, document=document, time=TIME_MS),
        "overlapbench": package,
        **dict.fromkeys(("gh", "curl", "buildkite-agent"), NOTES),
    }
    programs.mkdir()
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    for folder in ("", ".github", ".buildkite"):
        (example / folder).mkdir(exist_ok=True)
        shutil.copy(CI / "watch.sh", example / folder / "watch.sh")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(example)
    return example


def bash(script: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-ec", script],
        env=os.environ | {"LAUNCHES": "2", TIME_MS: "1"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def watch(**environment: str) -> "subprocess.CompletedProcess[str]":
    command = "./watch.sh state sh -c 'pytest --overlapbench-out=\"$OUT\"'"
    return bash(command, **environment)


def test_the_first_measurement_becomes_the_baseline(repository: Path) -> None:
    done = watch(KEEP="true", DRAW="true")
    assert done.returncode == 0, done.stderr
    assert "There is no baseline to compare with yet." in done.stdout
    assert len(list((repository / "state/baseline").glob("*.json"))) == 2
    for name in ("state/history.sqlite", "dashboard/index.html", "dashboard/trend.html"):
        assert (repository / name).stat().st_size > 0, name


def test_a_regression_is_told_and_does_not_become_the_baseline(repository: Path) -> None:
    watch(KEEP="true")
    kept = (repository / "state/baseline/1.json").read_text()
    done = watch(KEEP="true", TIME_MS="1.5")
    assert done.returncode == 1, done.stdout + done.stderr
    comparison = (repository / "comparison.md").read_text()
    assert comparison.count("**slower**") == 2
    assert (repository / "state/baseline/1.json").read_text() == kept
    before = {path: path.read_bytes() for path in (repository / "state").rglob("*.*")}
    assert watch(TIME_MS="0.8").returncode == 0  # which is not kept
    assert {path: path.read_bytes() for path in (repository / "state").rglob("*.*")} == before
    assert watch(KEEP="true", TIME_MS="0.8").returncode == 0
    assert (repository / "state/baseline/1.json").read_text() != kept


def test_another_nccl_is_compared_where_that_is_wanted(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(KEEP="true")
    for path in (repository / "state/baseline").glob("*.json"):
        document = json.loads(path.read_text())
        document["context"]["nccl_version"] = "2.20.5"
        path.write_text(json.dumps(document))
    assert watch().returncode == 3
    assert watch(ACROSS="driver NCCL").returncode == 0


def test_a_command_that_fails_or_writes_nothing_is_told(repository: Path) -> None:
    done = bash("./watch.sh state false")
    assert done.returncode == 2
    assert "watch.sh: false failed with status 1\n" in done.stderr
    done = watch(TIME_MS="0")
    assert done.returncode == 2
    assert "watch.sh: sh wrote no result to $OUT, " in done.stderr
    assert bash("./watch.sh state").stderr == "usage: watch.sh STATE COMMAND...\n"


def scripts(name: str) -> tuple[str, str]:
    """Return what a job runs, and how it tells the result where that is apart."""
    document = yaml.safe_load((CI / name).read_text(encoding="utf-8"))
    if name.startswith("github"):
        steps = document["jobs"]["watch"]["steps"]
        measure, comment = (step["run"] for step in steps if "run" in step)
        return str(measure), str(comment)
    if name.startswith("gitlab"):
        job = document["pages"]
        return "\n".join(job["script"]), "\n".join(job["after_script"])
    (step,) = document["steps"]
    return str(step["command"]).replace("$$", "$"), "true"


@pytest.mark.parametrize("name", JOBS)
def test_the_ready_jobs_measure_and_tell(name: str, repository: Path) -> None:
    for folder in ("", ".github", ".buildkite"):
        (repository / folder / "watch.sh").write_text(STANDS_IN)
    measure, tell = scripts(name)
    environment = {
        "HOME": str(repository),
        "BUILDKITE_BRANCH": "main",
        "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
        "BUILDKITE_PIPELINE_SLUG": "example",
        "NUMBER": "7",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_PROJECT_ID": "3",
        "CI_API_V4_URL": "https://example.test/api/v4",
        "GITLAB_TOKEN": "secret",
    }
    done = bash(measure, **environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads((repository / "1.json").read_text())["benchmarks"]
    told = bash(tell, **environment)
    assert told.returncode == 0, told.stderr
    notes = (repository / "notes").read_text()
    assert notes.startswith(JOBS[name])
    assert "comparison.md" in notes or "**slower**" in notes
