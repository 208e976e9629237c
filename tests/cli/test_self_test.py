"""What a run measures before anything else: delays of known length."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

ROW = ("--benchmark_filter=Overlap/SecondDelay.Delay/.*streams:1$", "--axis", "cache=warm")


def context(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())["context"])


def test_known_delays_come_out_right(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run = launcher.run(*ROW, "--self-test", f"--benchmark_out={out}")
    assert run.returncode == 0, run.stderr
    passed = r"passed: slowdown (0\.9|1\.0)\d of 1\.00, 1\.[45]\d of 1\.50"
    assert re.fullmatch(passed, context(out)["self_test"])


def test_it_can_be_left_out_and_the_result_says_so(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run = launcher.run(*ROW, f"--benchmark_out={out}")
    assert run.returncode == 0, run.stderr
    assert context(out)["self_test"] == "left out"


# With 30 ms more, the delay of 2 ms on the same stream makes 1.06 of it, not 1.5.
def test_wrong_ground_truth_changes_the_exit_status(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    delay = "--inject_delay=SecondDelay.Delay/.*streams:1$:30000"
    run = launcher.run(*ROW, "--self-test", delay, f"--benchmark_out={out}")
    assert run.returncode == 3, run.stderr
    assert "do not trust this run's figures" in run.stderr
    assert re.search(r"^failed: .*, 1\.[012]\d of 1\.50$", context(out)["self_test"])
    assert len(json.loads(out.read_text())["benchmarks"]) == 1


# The test cannot wait for the known delay of a minute, nor free anything that it still uses.
def test_a_wait_that_times_out_is_named_and_ends_the_job(launcher: "Launcher") -> None:
    hang = "--inject_delay=SecondDelay.Delay:60000000"
    run = launcher.run(*ROW, "--self-test", hang, "--timeout_s=1")
    assert run.returncode != 0
    late = r"the stream COMP in its first run did not finish within 1 s \[.*the self-test"
    assert re.search(late, run.stderr), run.stderr
    assert "no progress" not in run.stderr
