"""What the program answers without measuring: its version, its counters, what a run would do."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

ROOT = Path(__file__).resolve().parents[2]


def test_the_version_names_the_revision_and_the_backends(launcher: "Launcher") -> None:
    done = launcher.alone("--version")
    assert done.returncode == 0
    expected = r"overlapbench \d+\.\d+\.\d+ \(revision \S+\), backends? (cuda and )?host\n"
    assert re.fullmatch(expected, done.stdout)


@pytest.mark.parametrize("flag", ["--version", "--list_counters=json", "--query=gpus"])
def test_one_rank_of_several_answers(launcher: "Launcher", flag: str) -> None:
    assert launcher.run(flag, ranks=2).stdout == launcher.alone(flag).stdout


def test_checking_flags_says_nothing_of_good_ones(launcher: "Launcher") -> None:
    done = launcher.alone("--query=flags", "--axis", "grid=1x1", "--benchmark_filter=Comm")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = launcher.alone("--query=flags", "--axis", "grid")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def help_of(launcher: "Launcher", *command: str) -> str:
    done = subprocess.run(
        command,
        env=launcher.environment()
        | {"OVERLAPBENCH_BINARY": str(launcher.binary), "PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    return done.stdout


# Also what only a checkout has.
def test_the_help_of_bench_fits_a_terminal(launcher: "Launcher") -> None:
    overview = help_of(launcher, *launcher.bench(), "--help")
    assert overview.count("\n") <= 60
    assert "--build-only" in overview
    for topic in ("families", "axes", "counters", "flags"):
        assert f"--help {topic}" in overview
        expected = launcher.alone("--help", topic).stdout
        assert help_of(launcher, *launcher.bench(), "--help", topic) == expected
        assert help_of(launcher, *launcher.bench(), f"--help={topic}") == expected
    done = launcher.alone("--help", "conters")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "overlapbench: --help knows nothing of 'conters'; did you mean counters? it takes "
        "families, axes, counters, flags\n"
    )


def test_the_help_of_run_lists_every_flag(launcher: "Launcher") -> None:
    run = (sys.executable, "-m", "overlapbench", "run")
    said = help_of(launcher, *run, "--help") + help_of(launcher, *run, "--help", "flags")
    # Without the refused ones, and those that only a checkout has.
    options = (ROOT / "fixtures/options.cc").read_text(encoding="utf-8")
    flags = re.split(r'^    \{"', options, flags=re.MULTILINE)[1:]
    taken = {
        flag.partition('"')[0] for flag in flags if "Shown::kNot" not in flag.partition("},\n")[0]
    }
    script = (ROOT / "bench").read_text(encoding="utf-8").partition("  while (($#)); do\n")[2]
    cases = re.findall(r"^      (--[^)]+)\)", script.partition("    esac")[0], re.MULTILINE)
    building = {"--build-dir", "--build-only", "--no-build", "--no-install", "--binary"}
    taken |= {*re.findall(r"--[a-z][\w-]*", " ".join(cases))} - building
    assert len(taken) > 40
    offered = {*re.findall(r"^  (--[\w-]+)", said, re.MULTILINE)}
    assert offered == taken


def test_the_examples_of_help_name_rows(launcher: "Launcher") -> None:
    (block,) = re.findall(
        r"^Examples:\n((?: +.*\n)+)", launcher.alone("--help").stdout, re.MULTILINE
    )
    examples = [shlex.split(line) for line in block.splitlines() if line.startswith("  --")]
    assert len(examples) > 3
    for flags in examples:
        done = launcher.run("--dry_run", *flags)
        assert done.returncode == 0, done.stderr
        assert re.match(r"[A-Z]\w+/", done.stdout), flags


def test_the_counters_are_json(launcher: "Launcher") -> None:
    assert json.loads(launcher.alone("--list_counters=json").stdout)["counters"]


def test_a_dry_run_measures_nothing_and_says_how_long_it_would_take(launcher: "Launcher") -> None:
    flags = ("--benchmark_filter=Comm/AllReduce", "--axis", "bytes=1M,2M,3M", "--budget_ms=100000")
    done = launcher.run(*flags, "--dry_run", "--benchmark_repetitions=2")
    assert done.returncode == 0
    *names, total = done.stdout.splitlines()
    assert names == [f"Comm/AllReduce/bytes:{n << 20}/cache:cold" for n in (1, 2, 3)]
    assert total == (
        "3 benchmarks, 2 repetitions each; measuring takes about 10 min 0 s (100000 ms each), "
        "plus setup and verification"
    )
    by_time = launcher.run(*flags, "--dry_run", "--benchmark_min_time=1").stdout
    assert by_time.endswith("3 benchmarks; --benchmark_min_time sets how long each is measured\n")


def test_schedules_are_planned_for_more_ranks_than_there_are(launcher: "Launcher") -> None:
    flags = ("--backend=host", "--benchmark_filter=Ddp/Buckets", "--axis", "bucket_bytes=64K")
    done = launcher.alone(*flags, "--plan_ranks=256", "--plan_nodes=32")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["planned"]
    schedules = row["schedules"]
    assert (schedules["version"], schedules["ranks"], schedules["hosts"]) == (1, 256, 32)
    works = {work["name"]: work for work in schedules["works"]}
    assert works["sum of all"]["collective"] == "AllReduce"
    assert works["sum of all"]["bus_factor"] == pytest.approx(2 * 255 / 256)
    assert works["backward"]["flops"] == 2 * works["forward"]["flops"] > 0
    pattern = schedules["runs"][-1]
    assert pattern["name"] == "pattern"
    assert [run for run in schedules["runs"] if "ms" in run] == []  # nothing was measured
    update = pattern["steps"][-1]
    sums = [i for i, step in enumerate(pattern["steps"]) if works_of(schedules, step) == "COMM"]
    assert update[4] == sums  # it waits for all of them
    refused = launcher.alone(*flags, "--plan_ranks=4", "--plan_nodes=5")
    assert refused.returncode == 2
    assert "--plan_nodes: 5 nodes need as many ranks" in refused.stderr


def works_of(schedules: dict[str, Any], step: list[Any]) -> str:
    return str(schedules["works"][step[0]]["class"])


# Either form in the filter, in --axis, and where the number does not count bytes.
def test_sizes_are_taken_in_both_forms(launcher: "Launcher") -> None:
    def names(*flags: str) -> list[str]:
        return launcher.alone("--backend=host", "--benchmark_list_tests", *flags).stdout.split()

    short = names(
        "--benchmark_filter=Overlap/.*Gemm/bytes:2M/n:1K", "--axis=bytes=2M", "--axis=n=1K"
    )
    digits = names(
        "--benchmark_filter=Overlap/.*Gemm/bytes:2097152/n:1024",
        *("--axis=bytes=2097152", "--axis=n=1024"),
    )
    assert short
    assert short == digits
