"""A pytest fixture for tests that assert what overlap costs a repository's own callables.

    def test_the_product_hides_the_sum(overlap_benchmark):
        row = overlap_benchmark(comp=multiply, comm=reduce, n=4096)
        assert row.slowdown < 1.2

pytest finds this plugin once the package is installed. --overlapbench-out=FILE writes all rows to a
result file. Settings such as ob.configure(backend="host") belong in conftest.py.

Rows are named after the test function. The label `test` is its path from pytest's root directory
(`test:tests.test_lanes.TestSums.test_hides`), and the label `case` contains the parameters. If a
test measures again with the same name and labels, its second row gets `nth:2`. So names are unique,
and each row keeps its name from run to run.

A failing test shows its rows. A row that is `invalid` or an `error` fails its test. A noisy row
does not, but its `row.ok` is False. Tests are skipped if the library is missing, or if pytest-xdist
runs tests in parallel.
"""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from overlapbench.measurement.measuring import Row, Step, Work

_OUTPUT = "overlapbench_out"
_BETWEEN_VALUES = re.compile(r"[\s/,=:]")  # what no label's value may contain
_Names = Counter[tuple[str, ...]]
# Kept with the test: plugins that rerun a test give it a new fixture.
_NAMES = pytest.StashKey[_Names]()


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
    text = "write the rows that overlap_benchmark measures into a result file"
    group.addoption("--overlapbench-out", type=Path, dest=_OUTPUT, metavar="FILE", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse an unwritable file before anything is measured."""
    if output := config.getoption(_OUTPUT):
        from overlapbench.output import require_file
        from overlapbench.reading.source import ResultError

        try:
            require_file(output)
        except ResultError as error:
            raise pytest.UsageError(f"--overlapbench-out: {error}") from None


@pytest.fixture(scope="session")
def _overlap_results(pytestconfig: pytest.Config) -> Iterator[None]:
    """Keep the rows of all tests; the file is complete once the last test has ended."""
    from overlapbench.installation import library_path, way_to_build
    from overlapbench.measurement import measuring

    if hasattr(pytestconfig, "workerinput"):
        pytest.skip("overlap_benchmark needs the machine to itself: run pytest without -n")
    library = library_path()
    if not library.is_file():
        pytest.skip(
            f"{library} is missing: {way_to_build()}; or set OVERLAPBENCH_LIBRARY to its path"
        )
    output = pytestconfig.getoption(_OUTPUT)
    with measuring.results(output) if output else nullcontext():
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
