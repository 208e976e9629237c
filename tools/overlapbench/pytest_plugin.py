"""A fixture for pytest with which a repository asserts what overlap costs its own callables.

    def test_the_product_hides_the_sum(overlap_benchmark):
        row = overlap_benchmark(comp=multiply, comm=reduce, n=4096)
        assert row.slowdown < 1.2

pytest finds this plugin where the package is installed. --overlapbench-out=FILE keeps all rows in a
result file. Settings such as ob.configure(backend="host") belong in conftest.py.

Rows get their names from the test, and those of a parametrized test the label `case`. A test that
fails shows its rows. A row that is no measurement fails its test; a noisy one does not, but has
`row.ok` False. Tests are skipped where the library is missing, and beside others of pytest-xdist.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from overlapbench.measuring import Row, Step, Work

_OUTPUT = "overlapbench_out"


class OverlapBenchmark:
    """What the fixture gives to a test: it measures, and fails the test where nothing was measured.

    Rows are named after the test, unless `name` is among the settings.
    """

    def __init__(self, name: str, case: str, show: Callable[[str], None]) -> None:
        self._name = name
        self._case = {"case": case} if case else {}
        self._show = show

    def __call__(self, **settings: Any) -> "Row":
        """Measure a computation beside a communication, as overlapbench.measure.

        settings  those of `measure`, with `comp` and `comm`

        pytest.fail.Exception                the row is `invalid` or an `error`
        ValueError, TypeError, MeasureError  as `measure`
        """
        from overlapbench.measuring import measure

        return self._checked(measure(**self._named(settings)))

    def alone(self, run: "Callable[..., object] | Work", **settings: Any) -> "Row":
        """Measure one callable `run`, as overlapbench.measure_alone, with its `settings`."""
        from overlapbench.measuring import measure_alone

        return self._checked(measure_alone(run, **self._named(settings)))

    def schedule(self, steps: "Sequence[Step]", **settings: Any) -> "Row":
        """Measure `steps` on lanes, as overlapbench.measure_schedule, with its `settings`."""
        from overlapbench.measuring import measure_schedule

        return self._checked(measure_schedule(steps, **self._named(settings)))

    def _named(self, settings: dict[str, Any]) -> dict[str, Any]:
        return {"name": self._name} | self._case | settings

    def _checked(self, row: "Row") -> "Row":
        self._show(str(row))
        if not row.state.comparable:
            pytest.fail(f"{row.name}: {row.state.value}: {row.reason}")
        return row


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("overlapbench")
    text = "write the rows that overlap_benchmark measures, as ./bench --benchmark_out does"
    group.addoption("--overlapbench-out", type=Path, dest=_OUTPUT, metavar="FILE", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a file that could not be written, before anything is measured."""
    if output := config.getoption(_OUTPUT):
        from overlapbench.output import require_file
        from overlapbench.source import ResultError

        try:
            require_file(output)
        except ResultError as error:
            raise pytest.UsageError(f"--overlapbench-out: {error}") from None


@pytest.fixture(scope="session")
def _overlap_results(pytestconfig: pytest.Config) -> Iterator[None]:
    """Keep the rows of all tests; the file is complete when the last one has ended."""
    from overlapbench import measuring
    from overlapbench.installation import library_path

    if hasattr(pytestconfig, "workerinput"):
        pytest.skip("overlap_benchmark measures, so nothing may run beside it: leave out -n")
    library = library_path()
    if not library.is_file():
        pytest.skip(f"{library} is missing: ./bench --build-only builds it (OVERLAPBENCH_LIBRARY)")
    output = pytestconfig.getoption(_OUTPUT)
    with measuring.results(output) if output else nullcontext():
        yield


@pytest.fixture
def overlap_benchmark(_overlap_results: None, request: pytest.FixtureRequest) -> OverlapBenchmark:
    """Measure callables as overlapbench measures its workloads; returns rows."""
    words = re.findall("[A-Za-z0-9]+", request.function.__name__.removeprefix("test"))
    name = "".join(word[0].upper() + word[1:] for word in words)
    case = getattr(getattr(request.node, "callspec", None), "id", "")
    show = partial(request.node.add_report_section, "call", "rows")  # where the test fails
    return OverlapBenchmark(name, re.sub(r"[\s/,=:]", "-", case), show)
