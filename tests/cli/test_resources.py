"""--resources_out: a line for every run, and for every rest, when nothing is held any more."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

HANDLES = ("streams", "events", "buffers")
FILTER = "--benchmark_filter=^Overlap/SecondDelay|^Copy/Bandwidth/direction:device_local"


def test_every_run_and_every_rest_has_a_line(launcher: "Launcher", tmp_path: Path) -> None:
    path = tmp_path / "resources.csv"
    axes = ("--axis", "delay_us=100", "--axis", "second_delay_us=100", "--axis", "bytes=64K")
    done = launcher.run(
        FILTER, *axes, "--budget_ms=1", "--benchmark_repetitions=3", f"--resources_out={path}"
    )
    assert done.returncode == 0, done.stderr
    lines = list(csv.DictReader(path.read_text().splitlines()))
    rests = [line for line in lines if not line["benchmark"]]
    runs = [line for line in lines if line["benchmark"]]
    names = {line["benchmark"] for line in runs}
    assert len(rests) == len(names) > 1
    assert len(runs) == 3 * len(names)
    assert all(float(line[handle]) == 0 for line in rests for handle in HANDLES)
    assert all(float(line[handle]) > 0 for line in runs for handle in HANDLES[:2])
    assert all(int(line["groups"]) >= 3 for line in runs)
    seconds = [float(line["seconds"]) for line in lines]
    assert seconds == sorted(seconds)
    for line in lines:
        assert 1e6 < float(line["resident_bytes"]) < 1e10
        assert float(line["open_descriptors"]) > 3
        assert float(line["threads"]) > 1
        assert line["device_bytes"] == "0"


def test_ranks_that_are_not_all_asked_for_resources_end_with_a_word(
    launcher: "Launcher", tmp_path: Path
) -> None:
    done = launcher.run_each([[FILTER, f"--resources_out={tmp_path}/r.csv"], [FILTER]])
    assert done.returncode != 0
    assert "the ranks were not given the same flags" in done.stderr
    assert not list(tmp_path.iterdir())
