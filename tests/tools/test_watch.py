"""The jobs for other repositories, docs/ci: their scripts run on an example, with watch.sh itself.

What measures is a stand-in for pytest, which writes results whose times a variable sets. In one
test it is pytest with the plugin, on the host backend. What reads the jobs (ci_jobs.py) and the
server that keeps the comments are stand-ins, too.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import samples
from ci_jobs import CI, SCRIPTS, VALUES, keeps, loaded, of_gitlab
from fake_forge import OWNER, Forge, running
from overlapbench.installation import MPI_ENVIRONMENT, library_path
from overlapbench.judge.history import open_history

# By job: the folder of its scripts.
JOBS = {
    "action.yml": ".github/actions/overlap",
    "gitlab-watch.yml": "",
    "buildkite-watch.yml": ".buildkite",
}
COMMENTED = ("action.yml", "gitlab-watch.yml")
TIME_MS = "TIME_MS"  # what the stand-in measures
# JSON that replaces parts of the stand-in's result: of the context, and of a row by its place; and
# a file with another result. Its rows may say how much their times vary.
CONTEXT, ROWS, DOCUMENT = "CONTEXT", "ROWS", "DOCUMENT"
MEASURES = """#!{python}
import json, math, os, random, sys
(out,) = [word.partition("=")[2] for word in sys.argv if word.startswith("--overlapbench-out=")]
document = json.loads({document!r})
if "{file}" in os.environ:
    document = json.load(open(os.environ["{file}"]))
number = int(os.path.basename(out).removesuffix(".json"))
for place, row in enumerate(document["benchmarks"]):
    noise = random.Random(f"{{number}} {{place}}" + os.environ.get("SEED", ""))
    spread = math.exp(row.pop("noise", 0) * noise.gauss(0, 1))
    row["real_time"] *= float(os.environ["{time}"]) * (1 + 0.001 * number) * spread
document["context"] |= json.loads(os.environ.get("{context}", "{{}}"))
for place, fields in json.loads(os.environ.get("{rows}", "{{}}")).items():
    document["benchmarks"][int(place)] |= fields
if os.environ["{time}"] != "0":
    open(out, "w").write(json.dumps(document))
"""
# pytest, where the package is not installed: its plugin is found and named.
REAL_PYTEST = """#!/bin/sh
PYTHONPATH={tools} exec {python} -m pytest -p overlapbench.measurement.pytest_plugin "$@"
"""
CONFTEST = """
import overlapbench as ob
ob.configure(backend="host", self_test=False, precision=0, budget_ms=100)
"""
TESTS = """
import time

def sleep(ms):
    return lambda: time.sleep(ms / 1000)

def test_the_kernel(overlap_benchmark):
    overlap_benchmark.alone(sleep(2), cache="warm", n=1)

def test_both(overlap_benchmark):
    overlap_benchmark(comp=sleep(4), comm=sleep(2), cache="warm")
"""
# The dashboard takes seconds, so it is drawn where DRAW says so.
PACKAGE = """#!/bin/sh
case "$DRAW $1 $2" in
" report"*|" history trend") exit ;;
"broken report"*|"broken history trend") exit 2 ;;
esac
PYTHONPATH={tools} exec {python} -m overlapbench "$@"
"""
NOTES = """#!/bin/sh
printf '%s\\n' "$(basename "$0")" "$@" >notes
cat >>notes
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An example repository, and the programs that the jobs call, on the PATH."""
    programs, example = tmp_path / "programs", tmp_path / "example"
    rows = [samples.row(f"Compute/mine/n:{n}/cache:cold") for n in (1, 2)]
    document = json.dumps(samples.document(rows))
    package = PACKAGE.format(tools=samples.TOOLS, python=sys.executable)
    texts = {
        "pytest": MEASURES.format(
            python=sys.executable, document=document, time=TIME_MS, context=CONTEXT, rows=ROWS,
            file=DOCUMENT,
        ),
        "overlapbench": package,
        "buildkite-agent": NOTES,
    }  # fmt: skip
    programs.mkdir()
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    for folder in JOBS.values():
        (example / folder).mkdir(exist_ok=True, parents=True)
        for script in ("watch.sh", "comment.py"):
            shutil.copy(CI / script, example / folder / script)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(example)
    return example


def bash(script: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-ec", script],
        env=os.environ | {"RUNS": "2", TIME_MS: "1"} | environment,
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
    told = "## overlap: no baseline\n\nThis measurement is the first baseline.\n"
    assert (repository / "comparison.md").read_text() == told
    assert len(list((repository / "state/baseline").glob("*.json"))) == 2
    for name in ("state/history.sqlite", "dashboard/index.html", "dashboard/trend.html"):
        assert (repository / name).stat().st_size > 0, name


def test_a_lost_baseline_lets_nothing_pass(repository: Path) -> None:
    """Outside of the default branch: there, the next run makes one."""
    done = watch(DRAW="true")
    assert done.returncode == 3, done.stderr
    assert "There is no baseline to compare with. " in (repository / "comparison.md").read_text()
    assert not (repository / "state/baseline").exists()
    assert watch(KEEP="true").returncode == 0
    assert watch(TITLE="overlap h100").returncode == 0
    assert (repository / "comparison.md").read_text().startswith("## overlap h100: nothing is ")


def rows_of(count: int, noise: float = 0.0) -> list[samples.Json]:
    """Make rows; the times of every other one vary from run to run."""
    names = [f"Compute/mine/n:{n}/cache:cold" for n in range(count)]
    return [samples.row(name, noise=noise * (n % 2)) for n, name in enumerate(names)]


@pytest.mark.parametrize(("count", "noise"), [(61, 0.0), (61, 0.08), (200, 0.08)])
def test_a_healthy_measurement_passes_however_many_rows_it_has(
    count: int, noise: float, repository: Path
) -> None:
    """The trend of more than 60 once ended the job, and of many noisy rows some look slower."""
    file = samples.write(repository / "rows.json", samples.document(rows_of(count, noise)))
    given = {DOCUMENT: str(file), "KEEP": "true", "RUNS": "5"}
    assert watch(**given, SEED="a").returncode == 0
    done = watch(**given, SEED="b", DRAW="true" if not noise else "")
    assert done.returncode == 0, done.stdout + done.stderr
    comparison = (repository / "comparison.md").read_text()
    assert comparison.startswith("## overlap: nothing is worse\n")
    assert "**inconclusive**" not in comparison
    assert noise > 0 or (repository / "dashboard/trend.html").stat().st_size > 0


@pytest.mark.parametrize(("time_ms", "status"), [("1", 0), ("1.5", 1)])
def test_a_dashboard_that_cannot_be_drawn_does_not_decide(
    time_ms: str, status: int, repository: Path
) -> None:
    watch(KEEP="true")
    done = watch(KEEP="true", DRAW="broken", TIME_MS=time_ms)
    assert done.returncode == status
    assert done.stderr.count("watch.sh: the dashboard is incomplete\n") == 2


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


RENAMED = json.dumps({"1": {"run_name": "Compute/mine/n:3/cache:cold"}})
NOISY = json.dumps({place: {"cv": 0.5, "samples": 4} for place in "01"})
INVALID = json.dumps({"1": {"error_occurred": True, "error_message": "it failed"}})


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({ROWS: RENAMED}, id="a benchmark was renamed"),
        pytest.param({CONTEXT: json.dumps({"device": "NVIDIA B200"})}, id="another GPU"),
    ],
)
def test_what_cannot_be_compared_becomes_the_baseline(
    changed: dict[str, str], repository: Path
) -> None:
    watch(KEEP="true")
    assert watch(**changed).returncode == 3
    assert "baseline" not in (repository / "comparison.md").read_text()  # which is not kept
    done = watch(KEEP="true", **changed)
    assert done.returncode == 3, done.stdout + done.stderr
    told = (
        "\nThis measurement is the new baseline, because the old one cannot be compared with it.\n"
    )
    assert told in done.stdout
    assert (repository / "comparison.md").read_text().endswith(told)
    assert watch(KEEP="true", **changed).returncode == 0


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        pytest.param({TIME_MS: "1.5", ROWS: RENAMED}, 1, id="one was renamed, another is slower"),
        pytest.param({ROWS: INVALID}, 3, id="newly invalid"),
        pytest.param({ROWS: NOISY, TIME_MS: "1.5"}, 3, id="inconclusive"),
        pytest.param({CONTEXT: json.dumps({"self_test": "failed"})}, 3, id="not to be trusted"),
    ],
)
def test_the_baseline_stays_until_a_measurement_is_accepted(
    changed: dict[str, str], status: int, repository: Path
) -> None:
    watch(KEEP="true")
    kept = (repository / "state/baseline/1.json").read_text()
    assert watch(ACCEPT="true", **changed).returncode == status  # which is not kept
    done = watch(KEEP="true", **changed)
    assert done.returncode == status, done.stdout + done.stderr
    assert "\nThe baseline stays as it was. ACCEPT=true would make " in done.stdout
    assert (repository / "state/baseline/1.json").read_text() == kept
    done = watch(KEEP="true", ACCEPT="true", **changed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nThis measurement is the new baseline, because ACCEPT is true.\n" in done.stdout
    assert (repository / "state/baseline/1.json").read_text() != kept


def test_a_baseline_that_cannot_be_read_is_replaced_where_that_is_accepted(
    repository: Path,
) -> None:
    watch(KEEP="true")
    (repository / "state/baseline/1.json").write_text("{}")
    done = watch(KEEP="true")
    assert done.returncode == 2
    assert done.stderr.endswith("ACCEPT=true replaces it\n")
    assert watch(KEEP="true", ACCEPT="true", DRAW="true").returncode == 0
    assert watch(KEEP="true").returncode == 0


@pytest.mark.parametrize("runs", ["x", "0", "-1", "1.5", "runs", "08"])
def test_a_number_of_runs_that_is_none_is_refused_in_one_line(runs: str, repository: Path) -> None:
    done = watch(RUNS=runs)
    assert done.returncode == 2
    told = f"watch.sh: RUNS: must be a number from 1 to 9999, not {runs}\n"
    assert done.stderr == told


def git(*words: str) -> str:
    author = ("-c", "user.name=Someone", "-c", "user.email=someone@example.org")
    return subprocess.check_output(["git", *author, *words], text=True).strip()


def commit(*files: str) -> str:
    """Commit files of the example; return the commit's name."""
    git("init", "--quiet")
    git("add", *files)
    git("commit", "--quiet", "--message", "A change")
    return git("rev-parse", "--short=12", "HEAD")


def revisions(state: Path) -> list[str]:
    """Return the revisions in a history, by run."""
    with open_history(state / "history.sqlite") as history:
        return [run.revision for run in sorted(history.runs(), key=lambda run: run.id)]


def test_the_history_names_the_commit_of_the_repository(repository: Path) -> None:
    above = {"KEEP": "true", "GIT_CEILING_DIRECTORIES": str(repository.parent)}
    assert watch(**above, TIME_MS="1").returncode == 0
    first = commit("watch.sh")  # what the first run has left stays untracked
    git("tag", "--annotate", "--message=It has a name, too", "v1")
    assert watch(**above, TIME_MS="1.01").returncode == 0
    with (repository / "watch.sh").open("a") as script:
        script.write("# changed\n")
    assert watch(**above, TIME_MS="1.02").returncode == 0
    names = ["unknown", first, f"{first}-dirty"]
    assert revisions(repository / "state") == [name for name in names for _ in range(2)]


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


@pytest.mark.parametrize(
    ("event", "ref", "kept"),
    [
        ("push", "refs/heads/main", True),
        ("push", "refs/heads/main-2", False),
        ("push", "refs/heads/feature", False),
        ("push", "refs/tags/main", False),
        ("schedule", "refs/heads/main", True),
        ("workflow_dispatch", "refs/heads/main", True),
        ("workflow_dispatch", "refs/heads/feature", False),
        ("pull_request", "refs/pull/7/merge", False),
        ("pull_request_target", "refs/heads/main", False),
    ],
)
def test_the_action_keeps_what_the_default_branch_measures(
    event: str, ref: str, kept: bool
) -> None:
    assert keeps(event, ref) == kept


def run_job(name: str, repository: Path, branch: str, time_ms: str, **more: str) -> tuple[int, str]:
    """Run a job on a branch; return its status, and what its last steps print."""
    environment = {
        TIME_MS: time_ms,
        "HOME": str(repository),
        "GITHUB_ACTION_PATH": str(repository / ".github/actions/overlap"),
        "GITHUB_STEP_SUMMARY": str(repository / "summary"),
        "GITHUB_OUTPUT": str(repository / "outputs"),
        "GITHUB_ACTIONS": "true" if name == "action.yml" else "",
        "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
        "BUILDKITE_PIPELINE_SLUG": "example",
        "GITLAB_TOKEN": "secret",
        "CI_MERGE_REQUEST_IID": "7" if branch != "main" else "",
    } | more
    first, *others = SCRIPTS[name](branch)
    done = bash(first, **environment)
    print(done.stdout, done.stderr)  # where the test fails
    told = ""
    for script in others:
        last = bash(script, **environment)
        assert last.returncode == 0, last.stderr
        told += last.stdout
    return done.returncode, told


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    with running() as forge:
        for name, value in forge.variables().items():
            monkeypatch.setenv(name, value)
        yield forge


@pytest.mark.parametrize("name", JOBS)
def test_the_ready_jobs_measure_compare_and_tell(name: str, repository: Path, forge: Forge) -> None:
    assert run_job(name, repository, "change", "1")[0] == 3  # without a baseline
    assert not [*repository.rglob("baseline")]
    assert run_job(name, repository, "main", "1")[0] == 0
    (baseline,) = repository.rglob("baseline")
    before = {path: path.read_bytes() for path in baseline.parent.rglob("*.*")}
    assert baseline.parent / "history.sqlite" in before

    assert run_job(name, repository, "change", "1.5")[0] == 1
    comparison = (repository / "comparison.md").read_text()
    assert comparison.startswith("## overlap: 2 slower of 2 benchmarks\n")
    assert {path: path.read_bytes() for path in baseline.parent.rglob("*.*")} == before
    if name in COMMENTED:
        assert [body.partition("\n")[2] for body in forge.mine()] == [comparison]
    else:
        told = (repository / "notes").read_text()
        wanted = "buildkite-agent\nannotate\n--context\noverlap\n--style\nerror\n"
        assert told == wanted + comparison

    assert run_job(name, repository, "change", "0")[0] == 2
    told = (repository / "comparison.md").read_text()
    assert told.startswith("## overlap: not measured\n")
    assert name not in COMMENTED or forge.mine()[0].endswith(told)  # not the comparison before


def test_buildkite_keeps_nothing_of_a_fork(repository: Path) -> None:
    assert run_job("buildkite-watch.yml", repository, "fork", "1")[0] == 3
    assert not [*repository.rglob("baseline")]


@pytest.mark.parametrize("name", COMMENTED)
def test_later_runs_update_their_own_comment_alone(
    name: str, repository: Path, forge: Forge
) -> None:
    run_job(name, repository, "main", "1")
    names = "overlap overlap" if name == "action.yml" else "overlap"  # workflow and title, or job
    marker = f"<!-- overlapbench: {names} -->\n"
    others = [forge.say(f"comment {number}", author=1) for number in range(150)]
    others += [forge.say(f"{marker}someone repeats the marker", author=1)]
    others += [forge.say("another workflow of the same bot", author=OWNER)]
    others += [forge.say("<!-- overlapbench: overlap h100 -->\nanother machine", author=OWNER)]
    before = [dict(one) for one in others]
    for time_ms in ("1.5", "1.01"):
        run_job(name, repository, "change", time_ms)
        assert others == before
        (mine,) = (one["body"] for one in forge.comments[len(others) :])
        assert mine == marker + (repository / "comparison.md").read_text()
    assert mine.startswith(f"{marker}## overlap: nothing is worse\n")


@pytest.mark.parametrize("name", COMMENTED)
@pytest.mark.parametrize("token", ["", "read-only", "secret"])
def test_a_fork_gets_the_result_without_a_comment(
    name: str, token: str, repository: Path, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its token is missing, unknown, or may only read."""
    run_job(name, repository, "main", "1")
    forge.status = 403
    monkeypatch.setitem(VALUES, "github.token", token)
    status, told = run_job(name, repository, "change", "1.5", GITLAB_TOKEN=token)
    assert status == 1
    assert "comment.py: no comment: " in told
    assert told.endswith("; a job of a fork may not write one\n")
    assert forge.comments == []
    if name == "action.yml":
        assert "## overlap: 2 slower of 2 benchmarks\n" in (repository / "summary").read_text()


def test_a_comment_is_cut_to_what_it_holds_and_a_failure_is_told(
    repository: Path, forge: Forge
) -> None:
    given = {"GITHUB_ACTIONS": "true", "NUMBER": "7", "GH_TOKEN": "secret"}
    (repository / "long.md").write_text("a line of text\n" * 10_000)
    script = CI / "comment.py"
    assert bash(f"{script} long.md", **given).returncode == 0
    (mine,) = forge.mine()
    assert 59_900 < len(mine) < 65_536
    assert mine.endswith(
        "a line of text\n\nToo long for a comment: the job's artifact has the rest.\n"
    )
    forge.status = 500
    done = bash(f"{script} long.md", **given)
    assert done.returncode == 1
    assert done.stderr.startswith("comment.py: no comment: HTTPError: ")
    done = bash(f"{script} long.md", **given, GITHUB_GRAPHQL_URL="http://127.0.0.1:1/graphql")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert bash(f"{script}", **given).stderr == "usage: comment.py FILE.md\n"


PAIR = "AllReduce+CublasGemm/bytes:1073741824/n:8192"


def test_a_comment_has_title_commits_machine_and_findings(repository: Path) -> None:
    ends = {"time_low_ms": 0.999, "time_high_ms": 1.001, "real_time": 1.0}
    rows = [
        samples.overlap(PAIR, 1 / 0.9, 1.3, 0.5, **{key: 1.4 * x for key, x in ends.items()}),
        samples.overlap(f"{PAIR}/first:comm", 1 / 0.9, 0.9, 0.5, **ends),
    ]
    file = samples.write(repository.parent / "pair.json", samples.document(rows))
    first = commit("watch.sh")
    given = {DOCUMENT: str(file), "RUNS": "5"}
    assert watch(KEEP="true", **given).returncode == 0
    second = commit("comment.py")
    assert watch(**given).returncode == 0
    title, _, commits, machine, *rest = (repository / "comparison.md").read_text().splitlines()
    assert title == "## overlap: nothing is worse"
    assert commits == f"- commit {second}, against {first}"
    assert machine == "- on 2 × NVIDIA H200, node1"
    assert rest[0] == "- 2 benchmarks: 2 same"
    assert any(line.startswith("    ") and "saves" in line for line in rest)


@pytest.fixture
def measuring(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example with tests that measure, and the real pytest."""
    library = library_path()
    if not library.is_file():
        pytest.skip(f"there is no {library}: ./bench --build-only builds it")
    for name, value in MPI_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # ./check's, such as -n
    program = REAL_PYTEST.format(tools=samples.TOOLS, python=sys.executable)
    (repository.parent / "programs/pytest").write_text(program)
    tests = repository / "tests/performance"
    tests.mkdir(parents=True)
    (tests / "conftest.py").write_text(CONFTEST)
    (tests / "test_overlap.py").write_text(TESTS)
    return repository


def test_a_kernel_that_got_slower_is_told_by_the_real_plugin(measuring: Path, forge: Forge) -> None:
    base = commit("tests")
    assert run_job("action.yml", measuring, "main", "")[0] == 0
    tests = measuring / "tests/performance/test_overlap.py"
    # So much that it is seen on a busy machine, where runs differ by half.
    tests.write_text(TESTS.replace("alone(sleep(2)", "alone(sleep(50)"))
    commit("tests")
    assert run_job("action.yml", measuring, "change", "")[0] == 1
    comparison = (measuring / "comparison.md").read_text()
    assert "\n- 2 benchmarks: 1 slower, " in f"\n{comparison}"
    row = "Compute/TheKernel/test:tests.performance.test_overlap.test_the_kernel/n:1/"
    assert f"| **slower** | {row}" in comparison.replace("\\_", "_")  # as Markdown has it
    assert (measuring / "summary").read_text().endswith(comparison)
    assert forge.mine()[0].endswith(comparison)
    assert revisions(measuring / "state") == [base] * 3  # runs


def test_a_merge_request_does_not_replace_the_page(repository: Path) -> None:
    assert list(of_gitlab("change", "pages")) == []
    jobs = loaded("gitlab-watch.yml")
    assert "public" not in jobs["overlap"]["artifacts"]["paths"]
    assert jobs["pages"]["needs"] == ["overlap"]
    assert (
        jobs["overlap"]["cache"] | {"policy": "$STATE", "unprotect": True}
        == jobs["overlap"]["cache"]
    )
    states = [rule["variables"]["STATE"] for rule in jobs["overlap"]["rules"]]
    assert states == ["pull", "pull-push"]
    (repository / "dashboard").mkdir()
    (repository / "dashboard/index.html").touch()
    for script in of_gitlab("main", "pages"):
        assert bash(script).returncode == 0
    assert (repository / "public/index.html").exists()


def test_the_workflow_uses_the_action(repository: Path) -> None:
    workflow, action = loaded("github-watch.yml"), loaded("action.yml")
    _, step = workflow["jobs"]["overlap"]["steps"]
    assert repository / step["uses"] == repository / JOBS["action.yml"]
    assert step["with"].keys() <= action["inputs"].keys()
    saved = [step for step in action["runs"]["steps"] if "cache/save" in step.get("uses", "")]
    assert [step["if"] for step in saved] == ["always() && steps.branch.outputs.keep == 'true'"]
    # Jobs on several kinds of machine share no state, comment or artifact.
    state = "overlapbench/${{ inputs.title }}/"
    cached = [step["with"] for step in action["runs"]["steps"] if "cache/" in step.get("uses", "")]
    assert [one["key"].startswith(state) for one in cached] == [True, True]
    assert cached[0]["restore-keys"] == state
    assert action["runs"]["steps"][-1]["with"]["name"] == "${{ inputs.title }}"
    (measure,) = [step for step in action["runs"]["steps"] if step.get("env", {}).get("RUNS")]
    assert measure["env"]["KEEP"] == "${{ steps.branch.outputs.keep }}"


WORKFLOWS = ("github-watch.yml", "github-perf-gate.yml")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_run_cancels_older_runs_of_its_pull_request_alone(name: str) -> None:
    """Of a group, GitHub keeps one run waiting and cancels the others, whoever's they are."""
    group = loaded(name)["concurrency"]["group"]
    assert "${{ github.event.pull_request.number" in group
    if "push" in loaded(name)[True]:  # YAML 1.1 reads "on" as true
        assert "|| github.run_id" in group


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_has_only_the_rights_that_it_needs(name: str) -> None:
    assert loaded(name)["permissions"] == {}
    (job,) = loaded(name)["jobs"].values()
    written = [right for right, level in job["permissions"].items() if level == "write"]
    assert written == ["pull-requests"] * (name == "github-watch.yml")


def test_zizmor_finds_nothing_in_what_github_runs(tmp_path: Path) -> None:
    zizmor = Path(sys.executable).with_name("zizmor")
    if not zizmor.exists():
        pytest.skip("tools/requirements-dev.txt pins zizmor, which is not installed")
    action, workflows = tmp_path / JOBS["action.yml"], tmp_path / ".github/workflows"
    for folder, names in ((action, ["action.yml"]), (workflows, WORKFLOWS)):
        folder.mkdir(parents=True)
        for name in names:
            shutil.copy(CI / name, folder / name)
    done = subprocess.run(
        [zizmor, "--offline", "--no-progress", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No findings to report" in done.stdout + done.stderr
