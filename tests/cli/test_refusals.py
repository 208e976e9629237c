"""A request that cannot be met ends in one line that says why, a status, and no file."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess

    from tests.cli.conftest import Launcher

USAGE = 2
# Starting MPI takes most of it.
A_FEW_SECONDS = 50.0

REFUSALS = {
    "unknown axis": (
        ["--axis", "grdi=1x1"],
        "there is no axis 'grdi'; did you mean grid? --help axes lists them",
    ),
    "bad size": (["--axis", "bytes=12Q"], "axis bytes: '12Q' is not a size: "),
    "negative size": (["--axis", "bytes=-1"], "axis bytes: '-1' is not a size: "),
    "bad grid": (["--axis", "grid=16by16"], "axis grid: '16by16' is not a grid: "),
    "bad choice": (["--axis", "cache=hot"], "axis cache: 'hot' is not one of cold, warm"),
    "axis without value": (["--axis", "grid"], "--axis takes NAME=V1,V2,"),
    "nothing of that size": (
        ["--benchmark_filter=Comm/AllReduce", "--axis", "bytes=7"],
        "no benchmark matches --benchmark_filter=Comm/AllReduce; not available: ",
    ),
    "number that is too small": (
        ["--benchmark_filter=Copy", "--axis", "intensity=0"],
        "axis intensity: '0' is not a whole number from 1 to 16777216",
    ),
    "a part of names": (
        ["--axis", "direction=host_to_device"],
        "axis direction: 'host_to_device' is not one of forward, backward; it is part of row "
        "names: select it with --benchmark_filter=direction:host_to_device",
    ),
    "a partition that this machine has not": (
        ["--benchmark_filter=Overlap/AllReduce.Gemm", "--axis", "comp_sms=1000"],
        "no benchmark matches --benchmark_filter=Overlap/AllReduce.Gemm; not available: "
        "Overlap/AllReduce+Gemm/bytes:1048576/n:256/grid:8x8/work:tile/cache:cold/comp_sms:1000 "
        "and 1 more: comp_sms must be ",
    ),
    "a priority that streams have not": (
        ["--benchmark_filter=Overlap/AllReduce.Gemm", "--axis", "comm_priority=1"],
        "no benchmark matches --benchmark_filter=Overlap/AllReduce.Gemm; not available: "
        "Overlap/AllReduce+Gemm/bytes:1048576/n:256/grid:8x8/work:tile/cache:cold/comm_priority:1 "
        "and 1 more: comm_priority must be 0: streams have no priorities here\n",
    ),
    "bad call": (["--axis", "call=foo"], "axis call: 'foo' is not one of loop, batch, graph"),
    "array that cannot be divided": (
        ["--benchmark_filter=Copy/Pipelined", "--axis", "pipeline_streams=3"],
        "no benchmark matches --benchmark_filter=Copy/Pipelined; not available: "
        "Copy/Pipelined/elements:1048576/intensity:1/pipeline_streams:3/cache:cold and 3 more: "
        "elements must be a multiple of pipeline_streams\n",
    ),
    "family that this machine cannot run": (
        ["--benchmark_filter=Priority"],
        "no benchmark matches --benchmark_filter=Priority; not available: "
        "Priority/ShortBlocks+ShortBlocks and 4 more: streams have no priorities here: ",
    ),
    "a flush between operations back to back": (
        ["--benchmark_filter=Comm/AllReduce", "--axis", "cadence=streaming"],
        "no benchmark matches --benchmark_filter=Comm/AllReduce; not available: "
        "Comm/AllReduce/bytes:1048576/cache:cold/cadence:streaming and 1 more: "
        "cadence:streaming needs a warm cache (--axis cache=warm)\n",
    ),
    "axis that is given twice": (
        ["--axis", "bytes=1M", "--axis", "bytes=2M"],
        "--axis bytes is given twice; give its values in one list\n",
    ),
    "value for other benchmarks": (
        ["--benchmark_filter=Launch/EmptyKernel", "--axis", "call=batch"],
        "no benchmark matches --benchmark_filter=Launch/EmptyKernel; not available: "
        "Launch/EmptyKernel: axis call: 'batch' is not one of loop, graph\n",
    ),
    "no repetition": (
        ["--benchmark_repetitions=0"],
        "--benchmark_repetitions takes a whole number from 1 to 1000000, got '0'\n",
    ),
    "shared GPUs where there are none": (
        ["--share_gpu", "--benchmark_filter=Comm/AllReduce"],
        "--share_gpu: the host backend has no GPUs; leave the flag out\n",
    ),
    "unknown backend": (["--backend=gpu"], "there is no backend 'gpu': choose auto, cuda or host"),
    "unknown flag": (["--bogus=Overlap"], "unknown flag '--bogus=Overlap'; --help lists"),
    "unknown flag of Google Benchmark": (
        ["--benchmark_filter=Comm/AllReduce", "--benchmark_filtre=Overlap"],
        "unknown flag '--benchmark_filtre=Overlap'; did you mean --benchmark_filter? --help lists",
    ),
    "value that Google Benchmark refuses": (
        ["--benchmark_filter=Comm/AllReduce", "--benchmark_context=nothing"],
        "--benchmark_context takes KEY=VALUE,..., each with one '=', got 'nothing'\n",
    ),
    "part of an iteration": (
        ["--benchmark_min_time=0.5x"],
        "--benchmark_min_time takes seconds above 0, or iterations as in 10x, got '0.5x'\n",
    ),
    "file without a name": (["--samples_out="], "--samples_out needs a name\n"),
    "unknown workload of a pair": (
        ["--pair", "AllReduce+Nothing"],
        "--pair: there is no workload 'Nothing'; --list_axes lists them\n",
    ),
    "delay without an expression": (
        ["--inject_delay=100"],
        "--inject_delay takes REGEX:MICROSECONDS, got '100'\n",
    ),
    "delay that is no number": (
        ["--inject_delay=.:1e99"],
        "--inject_delay: microseconds: '1e99' is not a whole number from 1 to 60000000\n",
    ),
    "delay of no expression": (
        ["--inject_delay=(:100"],
        "--inject_delay: '(' is not a regular expression\n",
    ),
    "random interleaving": (
        ["--benchmark_enable_random_interleaving=true"],
        "--benchmark_enable_random_interleaving is refused: ",
    ),
    "csv file": (["--benchmark_out_format=csv"], "--benchmark_out_format: only json is available"),
    "filter without match": (
        ["--benchmark_filter=Overlpa"],
        "no benchmark matches --benchmark_filter=Overlpa; did you mean Overlap? "
        "--benchmark_list_tests lists",
    ),
    "name whose plus is not escaped": (
        ["--benchmark_filter=Overlap/AllToAll+Gemm"],
        "no benchmark matches --benchmark_filter=Overlap/AllToAll+Gemm; its + is an "
        "operator; for a literal +, write --benchmark_filter='Overlap/AllToAll\\+Gemm'\n",
    ),
    "filter that is no expression": (
        ["--benchmark_filter=Overlap("],
        "--benchmark_filter: 'Overlap(' is not a regular expression",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_one_line(launcher: "Launcher", tmp_path: Path, name: str) -> None:
    flags, says = REFUSALS[name]
    done = launcher.run(f"--benchmark_out={tmp_path}/out.json", *flags, timeout_s=A_FEW_SECONDS)
    assert done.returncode == USAGE
    assert done.stderr.startswith(f"overlapbench: {says}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


# Known only with the ranks or their device.
OF_RANKS = {
    "nothing of that size",
    "a partition that this machine has not",
    "a priority that streams have not",
    "array that cannot be divided",
    "family that this machine cannot run",
    "a flush between operations back to back",
    "value for other benchmarks",
    "shared GPUs where there are none",
    "filter without match",
    "name whose plus is not escaped",
}


def _without_mpi(
    launcher: "Launcher", *flags: str, folder: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs the binary where MPI could not start."""
    return launcher.alone(*flags, folder=folder, OMPI_MCA_pml="none_of_this_name")


def test_mpi_does_not_start_in_these_tests(launcher: "Launcher") -> None:
    assert _without_mpi(launcher, "--list_axes").returncode not in (0, USAGE)


@pytest.mark.parametrize("name", sorted(REFUSALS.keys() - OF_RANKS))
def test_a_bad_flag_is_refused_before_mpi_starts(launcher: "Launcher", name: str) -> None:
    flags, says = REFUSALS[name]
    _expect_refusal_without_mpi(launcher, flags, says)


def _expect_refusal_without_mpi(launcher: "Launcher", flags: list[str], says: str) -> None:
    done = _without_mpi(launcher, "--backend=host", *flags)
    assert done.returncode == USAGE
    assert done.stderr.startswith(f"overlapbench: {says}")
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 1000


@pytest.mark.parametrize("flag", ["--benchmark_filter={}", "--inject_delay={}:100"])
@pytest.mark.parametrize(
    "expression",
    ["a" * 100_000, "(" * 10_000 + "a" + ")" * 10_000, "(.*)*x", "(a{1,999}){1,999}"],
    ids=["long", "nested", "endless", "large"],
)
def test_an_expression_that_cannot_be_matched_is_refused(
    launcher: "Launcher", flag: str, expression: str
) -> None:
    name = flag.partition("=")[0]
    _expect_refusal_without_mpi(launcher, [flag.format(expression)], f"{name}: '{expression[:9]}")


def test_hundreds_of_full_names_are_a_filter(launcher: "Launcher") -> None:
    listed = launcher.run("--benchmark_list_tests", ranks=1)
    names = [name for name in listed.stdout.splitlines() if "/cache:cold" in name]
    assert len(names) > 100
    names = [f"{name}/{axis}" for name in names for axis in ("", "first:comm", "x:1")] + names
    expression = "^(" + "|".join(re.escape(name) for name in names) + ")$"
    done = launcher.run("--benchmark_list_tests", f"--benchmark_filter={expression}", ranks=1)
    assert done.stdout == listed.stdout


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--benchmark_out=missing/out"], "cannot write missing/out: No such file or directory"),
        (["--resources_out=missing/out"], "cannot write missing/out: No such file or directory"),
        (["--benchmark_out=."], "cannot write .: is a directory"),
        (["--trace_out=/proc/no"], "cannot write to the folder /proc/no: "),
        (["--trace_out=new", "--samples_out=new"], "cannot write new: is a directory"),
        (["--benchmark_out=out", "--samples_out=./out"], "cannot write ./out: it is already being"),
        (["--benchmark_out=old", "--rank_times_out=link"], "cannot write link: it is already "),
        (["--samples_out=../here/out", "--resources_out=out"], "cannot write out: it is already "),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_mpi_starts(
    launcher: "Launcher", tmp_path: Path, flags: list[str], says: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "old").write_text("of an earlier run\n")
    (here / "link").symlink_to("old")
    done = _without_mpi(launcher, "--backend=host", *flags, folder=here)
    assert done.returncode == USAGE
    assert done.stderr.startswith(f"overlapbench: {says}")
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in here.iterdir()) == ["link", "old"]
    assert (here / "old").read_text() == "of an earlier run\n"


def test_an_unwritable_file_is_refused_before_anything_runs(
    launcher: "Launcher", tmp_path: Path
) -> None:
    for flag in ("--benchmark_out", "--samples_out", "--rank_times_out"):
        path = tmp_path / "missing" / "out"
        done = launcher.run(
            "--benchmark_filter=Comm/AllReduce", f"{flag}={path}", timeout_s=A_FEW_SECONDS
        )
        assert done.returncode == USAGE
        assert done.stderr == f"overlapbench: cannot write {path}: No such file or directory\n"
        assert done.stdout == ""


def test_a_second_file_that_is_refused_leaves_nothing_of_the_first(
    launcher: "Launcher", tmp_path: Path
) -> None:
    done = launcher.run(
        f"--benchmark_out={tmp_path}/out.json",
        f"--samples_out={tmp_path}/missing/samples.csv",
        timeout_s=A_FEW_SECONDS,
    )
    assert done.returncode == USAGE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", ["900G", "64T", "4194304T"])
def test_a_size_that_does_not_fit_reports_needed_and_free_memory(
    launcher: "Launcher", size: str
) -> None:
    done = launcher.run(
        "--benchmark_filter=Comm/AllReduce", "--axis", f"bytes={size}", timeout_s=A_FEW_SECONDS
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "ERROR" in line]
    assert " needs " in line
    assert " are free: choose a smaller size" in line
    assert done.stderr == "overlapbench: 1 benchmark runs failed\n"


def test_cuda_without_a_gpu_says_so(launcher: "Launcher", tmp_path: Path) -> None:
    gpus = launcher.run("--query=gpus", ranks=1).stdout.strip()
    if gpus != "0":
        pytest.skip(f"there are {gpus} GPUs")
    done = launcher.run(
        "--backend=cuda", f"--benchmark_out={tmp_path}/out.json", timeout_s=A_FEW_SECONDS
    )
    assert done.returncode == USAGE
    assert done.stderr.startswith("overlapbench: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_more_ranks_than_gpus_are_refused(launcher: "Launcher", tmp_path: Path) -> None:
    gpus = int(launcher.run("--query=gpus", ranks=1).stdout)
    if gpus == 0:
        pytest.skip("there is no GPU")
    done = launcher.run(
        "--backend=cuda",
        f"--benchmark_out={tmp_path}/out.json",
        ranks=gpus + 1,
        timeout_s=A_FEW_SECONDS,
    )
    assert done.returncode == USAGE
    assert "GPU" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
