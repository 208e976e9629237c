"""--pair: any two workloads beside each other, from the shell alone."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

SMALL = ("--axis", "bytes=64K", "--budget_ms=1")


def names(launcher: "Launcher", *flags: str) -> list[str]:
    done = launcher.run("--benchmark_list_tests", *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_pair_has_the_rows_that_overlap_has_of_it(launcher: "Launcher") -> None:
    flags = ("--axis", "grid=2x2", "--axis", "bytes=1M,2M")
    of_family = names(launcher, *flags, r"--benchmark_filter=Overlap/AllReduce\+Gemm/")
    assert len(of_family) == 2
    assert names(launcher, *flags, "--pair", "AllReduce+Gemm") == of_family
    assert names(launcher, *flags, "--pair=Gemm+AllReduce") == of_family


def test_pairs_outside_every_family_are_measured(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = launcher.run(
        *("--pair", "AllReduce+Softmax", "--pair", "Delay+DeviceToHost"),
        *("--axis", "matrix_bytes=64K", "--axis", "columns=1K", "--axis", "delay_us=1K"),
        *(*SMALL, f"--benchmark_out={out}"),
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["benchmarks"]
    assert [row["name"].split("/bytes:")[0] for row in rows] == [
        "Overlap/AllReduce+SoftmaxFused",
        "Overlap/DeviceToHost+Delay",
    ]
    assert "/columns:1024/" in rows[0]["name"]
    assert all(row["overlap_ms"] > 0 and row["comm_ms"] > 0 for row in rows)


def test_three_workloads_are_measured_beside_each_other(
    launcher: "Launcher", tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    done = launcher.run(
        *("--pair", "Gemm+AllReduce+AllGather", "--pair", "AllGather+StreamKernel+DeviceToHost"),
        *("--axis", "n=64", "--axis", "grid=2x2", "--axis", "array_bytes=64K"),
        *("--axis", "second_bytes=same,128K", *SMALL, f"--benchmark_out={out}"),
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["benchmarks"]
    heads = ("Overlap/AllReduce+AllGather+Gemm", "Overlap/AllGather+DeviceToHost+StreamKernel")
    assert [row["name"].split("/bytes:")[0] for row in rows] == [
        head for head in heads for _ in range(2)
    ]
    assert [row["name"].endswith("/second_bytes:131072") for row in rows] == [False, True] * 2
    sides = ("comp_slowdown", "comm_slowdown", "second_slowdown", "product_slowdown")
    assert all(row[side] > 0 for row in rows for side in sides)


def test_a_dry_run_and_the_axes_are_those_of_the_pair(launcher: "Launcher") -> None:
    dry = launcher.run("--pair=HostToDevice+Gelu", "--dry_run", "--axis", "bytes=1M").stdout
    assert dry.startswith("Overlap/HostToDevice+GeluFused/bytes:1048576/")
    assert "\n1 benchmarks; " in dry
    axes = launcher.run("--pair=HostToDevice+Gelu", "--list_axes").stdout
    assert "\n  streams = 2 " in axes


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ["--pair=AllReduce+Softmx"],
            "--pair: there is no workload 'Softmx'; did you mean Softmax?",
        ),
        (["--pair=Nothing+Gemm"], "--pair: there is no workload 'Nothing'; --list_axes lists them"),
        (
            ["--pair=AllReduce"],
            "--pair takes two or three workloads, as in --pair AllReduce+Gemm; go",
        ),
        (["--pair=AllReduce+Gemm", "--axis", "columns=4K"], "there is no axis 'columns'; the axes"),
        (
            ["--pair=A+B+C+D"],
            "--pair takes two or three workloads, as in --pair AllReduce+Gemm; go",
        ),
        (["--pair=Gemm+Gemm"], "--pair: Gemm+Gemm names Gemm twice: its sides must be different"),
        (
            ["--pair=Gelu+AllReduce+GeluFused"],
            "--pair: Gelu+AllReduce+GeluFused names GeluFused tw",
        ),
        (["--pair=AllReduce+AllGather+Nothing"], "--pair: there is no workload 'Nothing'; --list"),
    ],
)
def test_bad_pairs_are_refused(launcher: "Launcher", flags: list[str], says: str) -> None:
    done = launcher.run(*flags)
    assert done.returncode == 2
    assert done.stderr.startswith(f"overlapbench: {says}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("axis", "says"),
    [
        ("transport=copy", "transport:copy needs GPUs; the host backend uses mpi"),
        ("comm_sms=8", "comm_sms is for kernels on GPUs; the host backend communicates by MPI"),
        ("comm_ctas=8", "comm_ctas is for kernels on GPUs; the host backend communicates by MPI"),
    ],
)
def test_what_only_gpus_have_is_refused(launcher: "Launcher", axis: str, says: str) -> None:
    done = launcher.run("--pair=AllGather+Gemm", "--axis", axis)
    assert done.returncode == 2
    assert done.stderr.startswith("overlapbench: no benchmark can run here; not available: Overl")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
