"""A pytest fixture for tests that limit what overlap costs a repository's own callables.

    def test_the_product_hides_the_sum(overlap_benchmark):
        row = overlap_benchmark(comp=multiply, comm=reduce, n=4096)
        assert row.slowdown.below(1.2)

`below` and `above` judge the whole 95 % interval. If the row is noisy, or the interval contains the
limit, the test is inconclusive: it is skipped, or fails with `--overlapbench-when-noisy=fail`.

pytest finds this plugin once the package is installed. --overlapbench-out=FILE writes all rows to a
result file. --overlapbench-save=NAME adds them to a baseline, as another run, and
--overlapbench-compare=NAME compares with its runs this one, or all those of the name given to
--overlapbench-save, as `overlapbench compare` does. Settings such as
ob.configure(backend="host") belong in conftest.py, or in [tool.overlapbench] of pyproject.toml
(docs/package.md).

Rows are named after the test function. The label `test` is its path from pytest's root directory
(`test:tests.test_lanes.TestSums.test_hides`), and the label `case` contains the parameters. If a
test measures again with the same name and labels, its second row gets `nth:2`. So names are unique,
and each row keeps its name from run to run.

A failing test shows its rows. A row that is `invalid` or an `error` fails its test. Tests are
skipped if the library is missing, or if pytest-xdist runs tests in parallel.
"""

import inspect
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from overlapbench.measurement.callables import Work
    from overlapbench.measurement.measuring import Step
    from overlapbench.reading.rows import Row

_FIXTURE = "overlap_benchmark"
_STORAGE = ".overlapbench"  # unless pyproject.toml says otherwise
_COMPARE_TIMEOUT_S = 300
_BETWEEN_VALUES = re.compile(r"[\s/,=:]")  # what no label's value may contain
_Names = Counter[tuple[str, ...]]
# Kept with the test: plugins that rerun a test give it a new fixture.
_NAMES = pytest.StashKey[_Names]()


@dataclass
class _Plan:
    """What becomes of inconclusive tests and of the rows."""

    fails_noisy: bool
    outputs: list[Path]  # the last of them is compared
    baseline: list[Path]  # its runs
    compared: str = ""  # what the comparison has printed


_PLAN = pytest.StashKey[_Plan]()
_FLAGS: dict[str, dict[str, Any]] = {
    "out": {
        "type": Path,
        "metavar": "FILE",
        "help": f"write the rows that {_FIXTURE} measures into a result file",
    },
    "when-noisy": {
        "choices": ("skip", "fail"),
        "help": "what becomes of a test whose row is too noisy to be judged (default: skip)",
    },
    "save": {"metavar": "NAME", "help": "save the rows as another run of a baseline"},
    "compare": {"metavar": "NAME", "help": "compare the rows with the runs of a baseline"},
    "compare-fail": {
        "action": "store_true",
        "help": "fail if a row has become slower than the baseline",
    },
}


class OverlapBenchmark:
    """The value of the fixture: it measures, and fails the test if nothing was measured.

    Rows are named after the test, unless the settings contain `name`. The labels `test` and `case`
    identify the test. Its second row with the same name and labels gets `nth:2`.
    """

    def __init__(self, named: dict[str, str], names: _Names, show: Callable[[str], None]) -> None:
        self._named_after = named
        self._names = names
        self._show = show

    def __call__(self, **settings: Any) -> "Row":
        """Measure a computation beside a communication, as overlapbench.measure.

        settings  those of `measure`, with `comp` and `comm`

        pytest.fail.Exception                the row is `invalid` or an `error`
        ValueError, TypeError, MeasureError  as `measure`
        """
        return self._measured("measure", **settings)

    def alone(self, run: "Callable[..., object] | Work", **settings: Any) -> "Row":
        """Measure one callable `run`, as overlapbench.measure_alone, with its `settings`."""
        return self._measured("measure_alone", run, **settings)

    def schedule(self, steps: "Sequence[Step]", **settings: Any) -> "Row":
        """Measure `steps` on lanes, as overlapbench.measure_schedule, with its `settings`."""
        return self._measured("measure_schedule", steps, **settings)

    def _measured(self, function: str, /, *given: object, **settings: Any) -> "Row":
        from overlapbench.measurement import measuring

        measure: Callable[..., Row] = getattr(measuring, function)
        row = measure(*given, **self._named(measure, settings))
        self._show(str(row))
        if not row.state.comparable:
            pytest.fail(f"{row.name}: {row.state.value}: {row.reason}")
        return row

    def _named(self, measure: "Callable[..., Row]", settings: dict[str, Any]) -> dict[str, Any]:
        named = self._named_after | settings
        labels = named.keys() - inspect.signature(measure).parameters.keys()
        parts = [f"{label}:{named[label]}" for label in sorted(labels)]
        key = (measure.__name__, named["name"], *parts)
        self._names[key] += 1
        nth = self._names[key]
        if nth == 1:
            return named
        return self._named(measure, settings | {"nth": nth})  # unless the test chose it


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("overlapbench")
    for flag, settings in _FLAGS.items():
        group.addoption(f"--overlapbench-{flag}", dest=_destination(flag), **settings)


def _destination(flag: str) -> str:
    return f"overlapbench_{flag.replace('-', '_')}"


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what cannot be written or compared before anything is measured."""
    if any(config.getoption(_destination(flag)) for flag in _FLAGS):
        _plan(config)


def _plan(config: pytest.Config) -> _Plan:
    """Return the plan of this run. Runs that do not use the fixture import nothing."""
    from overlapbench.output import ResultError

    if _PLAN not in config.stash:
        try:
            config.stash[_PLAN] = _make_plan(config)
        except (ResultError, OSError) as error:
            raise pytest.UsageError(f"overlapbench: {error}") from None
    return config.stash[_PLAN]


def _make_plan(config: pytest.Config) -> _Plan:
    from overlapbench.output import ResultError, require_file
    from overlapbench.reading.project import read_defaults

    out, noisy, save, base, fail = (config.getoption(_destination(flag)) for flag in _FLAGS)
    defaults = read_defaults(config.rootpath)
    storage = config.rootpath / defaults.get("storage", _STORAGE)
    if fail and not base:
        raise ResultError("--overlapbench-compare-fail needs --overlapbench-compare=NAME")
    if save and save == base:
        raise ResultError(f"{save} cannot be compared with itself")
    outputs = [] if out is None else [out]
    if save:
        (storage / save).mkdir(parents=True, exist_ok=True)
        outputs.append(storage / save / f"{len(_runs(storage / save)) + 1}.json")
    baseline = _runs(storage / base) if base else []
    if base and not baseline:
        raise ResultError(f"{storage / base} has no run: --overlapbench-save={base} makes one")
    if base and not outputs:
        outputs.append(Path(tempfile.mkdtemp(prefix="overlapbench-")) / "1.json")
    for output in outputs:
        require_file(output)
    return _Plan((noisy or defaults.get("when_noisy")) == "fail", outputs, baseline)


def _runs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Skip or fail a test that cannot be judged."""
    if _FIXTURE not in pyfuncitem.fixturenames:
        return (yield)
    from overlapbench.reading.rows import Inconclusive

    try:
        return (yield)
    except Inconclusive as error:
        text = f"inconclusive: {error}"
    if _plan(pyfuncitem.config).fails_noisy:
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compare the rows with the baseline, as `overlapbench compare` does."""
    plan = session.config.stash.get(_PLAN, None)
    if plan is None or not plan.baseline or not plan.outputs[-1].is_file():
        return
    saves = session.config.getoption(_destination("save"))
    new = _runs(plan.outputs[-1].parent) if saves else plan.outputs[-1:]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "overlapbench", "compare"),
            *("--base", *map(str, plan.baseline), "--new", *map(str, new)),
        ],
        capture_output=True,
        text=True,
        timeout=_COMPARE_TIMEOUT_S,
        check=False,
    )
    plan.compared = done.stdout + done.stderr
    fails = done.returncode in ((1, 3) if plan.fails_noisy else (1,))
    if fails and session.config.getoption(_destination("compare-fail")):
        session.exitstatus = max(session.exitstatus, pytest.ExitCode.TESTS_FAILED)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show the comparison."""
    plan = config.stash.get(_PLAN, None)
    if plan is not None and plan.compared:
        terminalreporter.section(f"compared with {plan.baseline[0].parent}")
        terminalreporter.write(plan.compared)


@pytest.fixture(scope="session")
def _overlap_results(pytestconfig: pytest.Config) -> Iterator[None]:
    """Keep the rows of all tests; the files are complete once the last test has ended."""
    from overlapbench.installation import library_path, way_to_build
    from overlapbench.measurement import measuring

    if hasattr(pytestconfig, "workerinput"):
        pytest.skip("overlap_benchmark needs the machine to itself: run pytest without -n")
    library = library_path()
    if not library.is_file():
        pytest.skip(
            f"{library} is missing: {way_to_build()}; or set OVERLAPBENCH_LIBRARY to its path"
        )
    with ExitStack() as stack:
        for output in _plan(pytestconfig).outputs:
            stack.enter_context(measuring.results(output))
        yield


@pytest.fixture
def overlap_benchmark(_overlap_results: None, request: pytest.FixtureRequest) -> OverlapBenchmark:
    """Measure callables as overlapbench measures its workloads; returns rows."""
    names = request.node.stash.setdefault(_NAMES, Counter())
    show = partial(request.node.add_report_section, "call", "rows")  # shown if the test fails
    return OverlapBenchmark(_named_after(request.node), names, show)


def _named_after(test: pytest.Function) -> dict[str, str]:
    """Return the name and the labels of a test's rows."""
    words = re.findall("[A-Za-z0-9]+", test.originalname.removeprefix("test"))
    name = "".join(word[0].upper() + word[1:] for word in words)
    if not name[:1].isalpha():  # as of test_2_lanes
        name = f"Test{name}"
    module, *classes = test.parent.nodeid.split("::") if test.parent else [""]
    place = [*Path(module.removesuffix(".py")).parts, *classes, test.originalname]
    labels = {"test": ".".join(place)}
    if case := getattr(getattr(test, "callspec", None), "id", ""):
        labels["case"] = case
    return {"name": name} | {
        label: _BETWEEN_VALUES.sub("-", text) for label, text in labels.items()
    }
