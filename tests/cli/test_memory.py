"""A rank of the host backend maps no library for GPUs, and takes little memory."""

import csv
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

_MOST_MIB = 60
_MIB = 1 << 20


def _last_level_caches() -> int:
    lists = Path("/sys/devices/system/cpu").glob("cpu*/cache/index3/shared_cpu_list")
    return len({file.read_text() for file in lists})


@pytest.mark.parametrize("name", ["overlapbench", "liboverlapbench.so"])
def test_no_library_for_gpus_is_linked(launcher: "Launcher", name: str) -> None:
    done = subprocess.run(
        ["readelf", "--dynamic", launcher.binary.parent / name],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    needed = [line for line in done.stdout.splitlines() if "(NEEDED)" in line]
    assert any("libmpi" in line for line in needed)
    for_gpus = ("libcu", "libnccl", "libnv")
    assert not [line for line in needed if any(library in line for library in for_gpus)]


def _largest_mib(launcher: "Launcher", folder: Path, ranks: int, cache: str) -> float:
    path = folder / "resources.csv"
    done = launcher.run(
        *("--benchmark_filter=^Overlap/HostToDevice.StreamKernel", "--axis", f"cache={cache}"),
        *("--axis", "bytes=64K", "--axis", "array_bytes=64K", "--budget_ms=1"),
        f"--resources_out={path}",
        ranks=ranks,
    )
    assert done.returncode == 0, done.stderr
    lines = list(csv.DictReader(path.read_text().splitlines()))
    return max(float(line["resident_bytes"]) for line in lines) / _MIB


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_rank_takes_at_most_60_mib(launcher: "Launcher", tmp_path: Path, ranks: int) -> None:
    assert _largest_mib(launcher, tmp_path, ranks, "warm") <= _MOST_MIB


@pytest.mark.skipif(
    _last_level_caches() not in range(1, 5), reason="8 ranks do not share few known caches"
)
def test_ranks_share_the_buffer_that_flushes_their_cache(
    launcher: "Launcher", tmp_path: Path
) -> None:
    assert _largest_mib(launcher, tmp_path, 8, "cold") <= _MOST_MIB
