"""The pytest plugin, in repositories that use it: each test of pytester's is one of theirs."""

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overlapbench.reading.result import read_results
from overlapbench.reading.rows import State

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
import time
import overlapbench as ob
ob.configure(backend="host", self_test=False, precision=0, budget_ms=100)
"""
TESTS = """
import time
import pytest
import overlapbench as ob

def sleep(ms):
    return lambda: time.sleep(ms / 1000)

def fail():
    raise ValueError("no way")
"""


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A repository for which the plugin is not installed, but found and named."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tools"))
    monkeypatch.setenv(
        "PYTEST_ADDOPTS", "-p overlapbench.measurement.pytest_plugin -p no:cacheprovider"
    )
    pytester.makeconftest(CONFTEST)
    return pytester


@pytest.fixture
def measuring(
    repository: pytest.Pytester, launcher: "Launcher", monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """The same, where the library is."""
    library = launcher.binary.parent / "liboverlapbench.so"
    if not library.exists():
        pytest.skip(f"there is no {library}: a build with a sanitizer has none")
    monkeypatch.setenv("OVERLAPBENCH_LIBRARY", str(library))
    for name, value in launcher.environment().items():
        monkeypatch.setenv(name, value)
    return repository


@pytest.mark.alone
def test_a_slowdown_is_asserted_and_the_rows_are_kept(measuring: pytest.Pytester) -> None:
    measuring.makepyfile(
        TESTS
        + """
def test_two_lanes_overlap(overlap_benchmark):
    row = overlap_benchmark(comp=sleep(8), comm=sleep(4), cache="warm")
    assert row.slowdown < 1.4  # not below(): a busy machine is noisy
    assert 0.5 < row.M / row.C < 0.9

def test_one_lane_does_not(overlap_benchmark):
    row = overlap_benchmark(comp=sleep(8), comm=sleep(4), cache="warm", streams=1)
    assert row.slowdown.below(1.2)

@pytest.mark.parametrize("shape", ["2 x/3"])
def test_cases(overlap_benchmark, shape):
    assert overlap_benchmark.alone(sleep(1), n=7).time_ms > 0.9
    steps = [ob.Step("a", "one", sleep(1)), ob.Step("b", "two", sleep(1), after=["a"])]
    assert overlap_benchmark.schedule(steps, name="mine").time_ms > 1.9
"""
    )
    done = measuring.runpytest_subprocess("--overlapbench-out=rows.json")
    done.assert_outcomes(passed=2, failed=1)
    assert done.ret == 1
    done.stdout.fnmatch_lines(
        [
            "E * assert False",
            "E *slowdown 1.* (1.* to *).below",
            "*Captured rows call*",
            "Overlap/OneLaneDoesNotComm+OneLaneDoesNotComp/test:*/cache:warm/streams:1  control: *",
            "  slowdown * 1.* to *",
            "FAILED *::test_one_lane_does_not*",
        ]
    )
    (result,) = read_results([str(measuring.path / "rows.json")])
    assert not result.incomplete
    module = "test_a_slowdown_is_asserted_and_the_rows_are_kept"
    assert [str(row.name).partition("/cache")[0] for row in result.rows] == [
        f"Overlap/TwoLanesOverlapComm+TwoLanesOverlapComp/test:{module}.test_two_lanes_overlap",
        f"Overlap/OneLaneDoesNotComm+OneLaneDoesNotComp/test:{module}.test_one_lane_does_not",
        f"Compute/Cases/test:{module}.test_cases/case:2-x-3/n:7",
        f"Schedule/mine/test:{module}.test_cases/case:2-x-3",
    ]
    assert result.rows[1].state is State.CONTROL


HIDES = (
    TESTS
    + """
def test_hides(overlap_benchmark):
    overlap_benchmark.alone(sleep(1))

class TestSums:
    @pytest.mark.parametrize("n", [1, 2])
    def test_hides(self, overlap_benchmark, n):
        overlap_benchmark.alone(sleep(1))
        overlap_benchmark.alone(sleep(1))
        overlap_benchmark.alone(sleep(1), n=n)
        overlap_benchmark.alone(sleep(1), name="mine")

def test_2_lanes(overlap_benchmark):
    overlap_benchmark.alone(sleep(1), name="mine", cache="cold")
    overlap_benchmark.alone(sleep(1), name="mine", cache="warm")

def test_2__lanes(overlap_benchmark):
    overlap_benchmark.alone(sleep(1))
"""
)


def names_in(file: Path) -> list[str]:
    (result,) = read_results([str(file)])
    assert not result.incomplete
    return [str(row.name) for row in result.rows]


def test_rows_of_tests_with_one_name_are_told_apart(measuring: pytest.Pytester) -> None:
    folder = measuring.mkpydir("lanes")
    for module in ("test_a.py", "test_b.py"):
        (folder / module).write_text(HIDES)
    done = measuring.runpytest_subprocess("--overlapbench-out=rows.json")
    done.assert_outcomes(passed=10)
    names = names_in(measuring.path / "rows.json")
    assert names[12:] == [name.replace("test_a", "test_b") for name in names[:12]]
    sums = "test:lanes.test_a.TestSums.test_hides"
    assert names[:12] == [
        "Compute/Hides/test:lanes.test_a.test_hides/cache:cold",
        *(
            f"Compute/{name}/{sums}/case:{n}{more}/cache:cold"
            for n in (1, 2)
            for name, more in (
                ("Hides", ""),
                ("Hides", "/nth:2"),
                ("Hides", f"/n:{n}"),
                ("mine", ""),
            )
        ),
        "Compute/mine/test:lanes.test_a.test_2_lanes/cache:cold",
        "Compute/mine/test:lanes.test_a.test_2_lanes/nth:2/cache:warm",
        "Compute/Test2Lanes/test:lanes.test_a.test_2__lanes/cache:cold",
    ]
    # A run of other tests changes no name.
    measuring.runpytest_subprocess("lanes/test_b.py", "-k", "2", "--overlapbench-out=few.json")
    few = names_in(measuring.path / "few.json")
    assert few == [name for name in names[12:] if "/case:1" not in name][1:]
    shutil.copy(measuring.path / "rows.json", measuring.path / "again.json")
    command = ("-m", "overlapbench", "compare", "rows.json", "again.json")
    compared = measuring.run(sys.executable, *command)
    assert compared.ret == 3  # one run and its copy decide nothing
    compared.stdout.fnmatch_lines(["24 benchmarks: *"])


def test_a_test_that_runs_again_adds_its_rows(measuring: pytest.Pytester) -> None:
    measuring.makeconftest(
        CONFTEST
        + """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    if nextitem:
        runtestprotocol(item, log=False, nextitem=nextitem)
"""
    )
    measuring.makepyfile(
        test_it=TESTS
        + """
def test_it(overlap_benchmark):
    overlap_benchmark.alone(sleep(1))

def test_last():
    pass
"""
    )
    done = measuring.runpytest_subprocess("--overlapbench-out=rows.json")
    done.assert_outcomes(passed=2)
    first = "Compute/It/test:test_it.test_it"
    names = names_in(measuring.path / "rows.json")
    assert names == [f"{first}/cache:cold", f"{first}/nth:2/cache:cold"]


def test_an_invalid_measurement_fails_the_test(measuring: pytest.Pytester) -> None:
    measuring.makepyfile(
        TESTS + "def test_it(overlap_benchmark): overlap_benchmark(comp=fail, comm=sleep(1))"
    )
    done = measuring.runpytest_subprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*Failed: Overlap/ItComm+ItComp*: error: comp: ValueError: no way"])


USES = "def test_it(overlap_benchmark): overlap_benchmark(comp=print, comm=print)"


def test_without_the_library_it_is_skipped(
    repository: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERLAPBENCH_LIBRARY", "/missing.so")
    repository.makepyfile(USES)
    done = repository.runpytest_subprocess("-rs", "--overlapbench-out=rows.json")
    done.assert_outcomes(skipped=1)
    missing = "/missing.so is missing: `./bench --build-only` builds it"
    done.stdout.fnmatch_lines([f"SKIPPED * {missing}*"])
    assert not (repository.path / "rows.json").exists()


def test_beside_other_processes_it_is_skipped(measuring: pytest.Pytester) -> None:
    measuring.makepyfile(USES)
    done = measuring.runpytest_subprocess("-rs", "-p", "xdist", "-n", "1")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["SKIPPED * overlap_benchmark needs the machine to itself: *"])


def test_a_file_that_cannot_be_written_is_refused_at_once(repository: pytest.Pytester) -> None:
    repository.makepyfile("def test_it(): pass")
    done = repository.runpytest_subprocess("--overlapbench-out=missing/rows.json")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    refusal = "missing/rows.json: cannot be written: No such file or directory"
    done.stderr.fnmatch_lines([f"ERROR: overlapbench: {refusal}"])


def test_repositories_that_do_not_use_it_import_nothing(repository: pytest.Pytester) -> None:
    repository.makeconftest("")
    repository.makepyfile(
        """
        import sys
        def test_it():
            own = {name for name in sys.modules if name.startswith("overlapbench")}
            plugin = "overlapbench.measurement.pytest_plugin"
            assert own == {"overlapbench", "overlapbench.measurement", plugin}
        """
    )
    repository.runpytest_subprocess().assert_outcomes(passed=1)


INCONCLUSIVE = (
    TESTS
    + """
def test_in_doubt(overlap_benchmark):
    row = overlap_benchmark(comp=sleep(2), comm=sleep(1), cache="warm")
    assert row.slowdown.below(float(row.slowdown))  # which its interval contains

def test_of_something_else():
    pass
"""
)


@pytest.mark.parametrize(
    ("flags", "table", "outcome"),
    [
        ([], "", "skipped"),
        (["--overlapbench-when-noisy=fail"], "", "failed"),
        ([], 'when_noisy = "fail"', "failed"),
        (["--overlapbench-when-noisy=skip"], 'when_noisy = "fail"', "skipped"),
    ],
)
def test_a_test_in_doubt_is_skipped_or_fails(
    measuring: pytest.Pytester, flags: list[str], table: str, outcome: str
) -> None:
    measuring.makepyfile(INCONCLUSIVE)
    measuring.makepyprojecttoml(f"[tool.overlapbench]\n{table}")
    done = measuring.runpytest_subprocess("-rs", *flags)
    done.assert_outcomes(passed=1, **{outcome: 1})
    done.stdout.fnmatch_lines(["*inconclusive: slowdown * to *) against *"])


def test_a_baseline_is_saved_and_compared(measuring: pytest.Pytester) -> None:
    measuring.makepyfile(
        TESTS
        + """
def test_naps(overlap_benchmark):
    overlap_benchmark.alone(sleep(NAP_MS), cache="warm")

NAP_MS = 2
"""
    )
    measuring.makepyprojecttoml('[tool.overlapbench]\nstorage = "kept"')
    compares = ["--overlapbench-compare=main", "--overlapbench-compare-fail"]
    missing = measuring.runpytest_subprocess(*compares)
    missing.stderr.fnmatch_lines(["*kept/main has no run: --overlapbench-save=main makes one"])
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    measuring.runpytest_subprocess("--overlapbench-save=main").assert_outcomes(passed=1)
    assert names_in(measuring.path / "kept/main/1.json")[0].startswith("Compute/Naps/")
    (test,) = measuring.path.glob("test_*.py")
    test.write_text(test.read_text().replace("NAP_MS = 2", "NAP_MS = 20"))
    undecided = measuring.runpytest_subprocess(*compares)
    undecided.stdout.fnmatch_lines(["*compared with *kept/main*", "*Compute/Naps*"])
    assert undecided.ret == pytest.ExitCode.OK  # one run on each side
    more_runs(measuring.path / "kept/main", (2, 3))
    slower = measuring.runpytest_subprocess("--overlapbench-save=new", *compares)
    slower.assert_outcomes(passed=1)
    assert slower.ret == pytest.ExitCode.TESTS_FAILED
    assert names_in(measuring.path / "kept/new/1.json")


def more_runs(folder: Path, numbers: tuple[int, ...]) -> None:
    """Add copies of the first run with slightly other figures."""
    for number in numbers:
        run = json.loads((folder / "1.json").read_text())
        for row in run["benchmarks"]:
            row["real_time"] *= 1 + number / 1000
        (folder / f"{number}.json").write_text(json.dumps(run))
