"""./bench --axis connections=1,8: a job for each value, each with its result.

The program is a fake that copies a result made for its job.
"""

import json
import sys
from pathlib import Path

import pytest
from tests.scripts.conftest import BINARY, ROOT, World

import samples
from overlapbench.reading.program_run import read_program_runs

VARIABLE = "CUDA_DEVICE_MAX_CONNECTIONS"
PAIR = "Overlap/AllReduce+Gemm/bytes:1048576"
# The last --benchmark_out counts. A file STATUS-8 is the exit status of the job of connections:8.
MEASURE = """*)
  for flag; do
    case $flag in
      --done=*) echo done >&"${flag#*=}" ;;
      --benchmark_out=*) out=${flag#*=} ;;
      --connections=*) job=${flag#*=} ;;
      --axis=connections=*) job=${flag#--axis=connections=} ;;
    esac
  done
  printf '<%s>' "$job"
  status=0
  [[ ! -e $RESULTS/status-$job ]] || read -r status <"$RESULTS/status-$job"
  [[ ! ${out:-} || ! -e $RESULTS/$job ]] || cp "$RESULTS/$job" "$out"
  exit "$status"
  ;;
esac"""


@pytest.fixture
def results(world: World, tmp_path: Path) -> Path:
    """The results of the jobs, by value; the machine has two GPUs."""
    folder = tmp_path / "results"
    folder.mkdir()
    world.environment |= {"RESULTS": str(folder), "GPUS": "2"}
    answers, _, _ = BINARY.partition("--start=*)")
    world.fake(world.binary, answers + MEASURE)
    world.fake(world.venv / "bin/python", f'exec {sys.executable} "$@"')
    tools = world.repository / "tools"
    (tools / "overlapbench").symlink_to(ROOT / "tools/overlapbench")
    for value in ("0", "1", "8"):
        name = PAIR if value == "0" else f"{PAIR}/connections:{value}"
        row = samples.overlap(name.removeprefix("Overlap/"))
        document = samples.document([row], **{f"env_{VARIABLE}": value})
        (folder / value).write_text(json.dumps(document))
    return folder


def names(path: Path) -> list[str]:
    (run,) = read_program_runs([str(path)])
    return [*run.names]


def test_each_value_has_a_job_with_a_result(world: World, results: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("result.json", "odd"):
        flag = f"--benchmark_out={out / name}"
        outcome = world.run("bench", "--axis", "connections=1,8,0", flag, "--x")
        assert (outcome.status, outcome.output, outcome.lines) == (0, "<1><8><0>", [])
        assert outcome.starts()[-3:] == [
            f"--start=bench --connections={value} -- {flag} --x"
            f" --benchmark_out={out}/{name.replace('.json', '')}.connections-{value}"
            + ".json"
            * name.endswith(".json")
            for value in (1, 8, 0)
        ]
    assert names(out / "result.connections-8.json") == [f"{PAIR}/connections:8"]
    assert names(out / "odd.connections-0") == [PAIR]
    assert len([*out.iterdir()]) == 6


def test_one_value_is_one_job(world: World, results: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    outcome = world.run("bench", "--axis=connections=8", "--benchmark_out", str(out))
    assert (outcome.status, outcome.output) == (0, "<8>")
    (call,) = outcome.starts()
    assert "--connections=8 " in call
    assert out.read_text() == (results / "8").read_text()
    assert outcome.calls("python") == [f"-P -m overlapbench findings --quiet {out}"]


def test_the_ranks_of_a_host_file_get_the_variable(
    world: World, results: Path, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("node1 slots=2\n")
    outcome = world.run("bench", "--hostfile", str(hosts), "--axis=connections=8")
    (call,) = outcome.starts()
    assert call == f"--start=bench --hostfile={hosts} --connections=8 --"


@pytest.mark.parametrize("backend", ["host", "auto"])
def test_the_host_backend_says_itself_that_it_has_no_such_axis(
    world: World, results: Path, backend: str
) -> None:
    outcome = world.run("bench", f"--backend={backend}", "--axis=connections=1,8", GPUS="0")
    assert outcome.output == "<1,8>"
    (call,) = outcome.starts()
    assert "--connections" not in call


def test_a_driver_that_fails_is_not_no_gpu(world: World, results: Path) -> None:
    broken = "case $1 in --query=gpus) echo 'overlapbench: broken' >&2; exit 1 ;; esac"
    world.fake(world.binary, broken)
    outcome = world.run("bench", "--axis=connections=1,8")
    assert (outcome.status, outcome.starts()) == (1, [])
    assert outcome.lines == [
        "overlapbench: broken",
        "bench: --axis connections: cannot count the GPUs",
    ]


@pytest.mark.parametrize(
    ("statuses", "worst", "jobs"),
    [
        ({"1": 3, "8": 1}, 3, "<1><8><0>"),
        ({"8": 1}, 1, "<1><8><0>"),
        ({"8": 130}, 130, "<1><8>"),
        ({"1": 143}, 143, "<1>"),
    ],
)
def test_the_worst_status_counts_and_a_signal_ends_all(
    world: World, results: Path, statuses: dict[str, int], worst: int, jobs: str
) -> None:
    for value, status in statuses.items():
        (results / f"status-{value}").write_text(f"{status}\n")
    outcome = world.run("bench", "--axis=connections=1,8,0")
    assert (outcome.status, outcome.output) == (worst, jobs)
    assert outcome.calls("python") == []


def test_the_ranks_of_a_launcher_get_the_axis_as_it_is(world: World, results: Path) -> None:
    outcome = world.run("bench", "--axis=connections=1,8", PMIX_RANK="0")
    assert outcome.output == "<1,8>"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        *(
            (
                [f"--axis=connections={values}"],
                "--axis connections takes whole numbers from 0 to 32, as in 1,8,32; got"
                f" '{values}'",
            )
            for values in ("33", "1,x", "8,", "-1", "")
        ),
        (["--axis=connections=1,8,1"], "--axis connections has 1 twice"),
        (
            ["--axis", "connections=1", "--axis", "connections=8"],
            "--axis connections is given twice; give its values in one list",
        ),
        (
            ["--axis=connections=1,8", "--benchmark_format", "json"],
            "--benchmark_format takes one value of connections: each is a job; use --benchmark_out",
        ),
        (
            ["--samples_out=x.csv", "--axis=connections=1,8"],
            "--samples_out takes one value of connections: each is a job; use --benchmark_out",
        ),
        (
            ["--charts=x", "--axis=connections=1,8"],
            "--charts takes one value of connections: each is a job; use --benchmark_out",
        ),
        (["--tune=A+B", "--axis=connections=8"], "write --tune PAIR/connections:8"),
    ],
)
def test_bad_arguments_start_no_job(
    world: World, results: Path, flags: list[str], complaint: str
) -> None:
    outcome = world.run("bench", *flags)
    assert (outcome.status, outcome.lines) == (2, [f"bench: {complaint}"])
    assert outcome.starts() == []
