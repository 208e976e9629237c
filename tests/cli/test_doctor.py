"""The doctor on the real program and the host backend, where other load is allowed.

No model of a CPU was recorded, so healthy runs are the references. The more they differ, the less a
figure says: each fault is as large as "half the speed", or what the references allow if that is
more.
"""

import json
import math
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import ROOT

from overlapbench.installation import MPIRUN

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

REFERENCES = 5
QUICK = ("--budget_ms=50", "--host_cores=1")
pytestmark = pytest.mark.alone


@dataclass(frozen=True)
class Seen:
    """What a run of the doctor says."""

    status: int
    text: str
    document: dict[str, Any]

    @property
    def alarms(self) -> dict[str, str]:
        checks = self.document["checks"]
        return {
            one["name"]: one["verdict"] for one in checks if one["verdict"] in ("suspicious", "bad")
        }

    def check(self, name: str) -> dict[str, Any]:
        (found,) = (one for one in self.document["checks"] if one["name"] == name)
        return dict(found)

    def figure(self, name: str) -> float:
        check = self.check(name)
        figures = self.document["recording"]["figures"]
        return float(figures[check["row"]][check["counter"]][0])


Examine = Callable[..., Seen]


@pytest.fixture(scope="module")
def examine(launcher: "Launcher", tmp_path_factory: pytest.TempPathFactory) -> Examine:
    """Return a function that runs the doctor with flags of the program, beside the references."""
    folder = tmp_path_factory.mktemp("doctor")

    def run(*flags: str, faulty: bool = False, out: str = "out.json", **variables: str) -> Seen:
        binary = launcher.with_faults().binary if faulty else launcher.binary
        words = [launcher.mpirun, *MPIRUN[1:], "-n", "2", str(binary), "--backend=host"]
        healthy = sorted(map(str, folder.glob("healthy*.json")))
        references = ["--reference", *healthy] if len(healthy) == REFERENCES else []
        done = subprocess.run(
            [
                *(sys.executable, "-m", "overlapbench", "doctor", "-o", out),
                *("--command", shlex.join(words), *references, "--", *QUICK, *flags),
            ],
            cwd=folder,
            env=launcher.environment() | {"PYTHONPATH": str(ROOT / "tools")} | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        path = folder / out
        assert path.exists(), done.stderr
        return Seen(done.returncode, done.stdout, json.loads(path.read_text(encoding="utf-8")))

    for number in range(REFERENCES):
        run(out=f"healthy{number}.json")
    return run


@pytest.fixture(scope="module")
def healthy(examine: Examine) -> Seen:
    return examine()


def test_a_healthy_machine_has_no_alarm_in_repeated_runs(examine: Examine, healthy: Seen) -> None:
    for seen in (healthy, examine(), examine()):
        assert seen.alarms == {}, seen.text
        assert seen.status in (0, 2)  # 2: too noisy to judge any figure
        assert seen.document["seconds"] < 120


def delay_us(seen: Seen, check: str) -> int:
    """Return the delay that doubles the time of a check, or exceeds what is allowed by half."""
    found, figure = seen.check(check), seen.figure(check)
    if "limit" not in found:
        pytest.skip(f"{check}: {found.get('reason')}")
    if found["counter"] == "time":
        wanted = max(2 * figure, 1.5 * float(found["limit"]))
        return math.ceil(1000 * (wanted - figure))
    size = int(found["row"].partition("/bytes:")[2].partition("/")[0])
    slow = min(figure / 2, float(found["limit"]) / 1.5)  # in GB/s
    return math.ceil(size / 1000 * (1 / slow - 1 / figure))


@pytest.mark.parametrize(
    ("check", "rows"),
    [("link by 8 SMs", "^Lab/Link/Broadcast"), ("product", "^Compute/FmaKernel")],
    ids=["a link at half its speed", "limited clocks"],
)
def test_what_takes_longer_is_found(check: str, rows: str, examine: Examine, healthy: Seen) -> None:
    seen = examine(f"--inject_delay={rows}:{delay_us(healthy, check)}")
    assert {*seen.alarms} <= {check}, seen.text
    if seen.check(check)["verdict"] == "not available":
        pytest.skip(f"{check}: {seen.check(check)['reason']}")
    assert check in seen.alarms, seen.text


def test_throttled_clocks_are_found(examine: Examine) -> None:
    seen = examine("--inject_fault=throttle@report,rank=1,visit=2", faulty=True)
    assert seen.status == 1
    assert seen.alarms["throttling"] == "bad"
    assert "injected" in seen.check("throttling")["measured"]


def test_one_connection_is_found(examine: Examine) -> None:
    seen = examine(CUDA_DEVICE_MAX_CONNECTIONS="1")
    assert seen.status == 1
    assert seen.alarms == {"connections": "bad"}, seen.text


def test_a_program_that_refuses_ends_with_its_message(launcher: "Launcher") -> None:
    words = [launcher.mpirun, *MPIRUN[1:], "-n", "2", str(launcher.binary), "--backend=cuda"]
    done = subprocess.run(
        [*(sys.executable, "-m", "overlapbench", "doctor"), "--command", shlex.join(words)],
        env=launcher.environment() | {"PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("overlapbench doctor: ")
