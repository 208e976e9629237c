"""Measuring callables from Python: programs that a user would write, on the host backend.

What rows say of times and failures, which arguments are refused, and the files that keep rows. What
ranks owe each other is tested in test_measuring_ranks.py. Known delays are the ground truth. They
sleep, so that a busy machine disturbs them little: it makes them longer, alone and together alike,
so times have a lower bound only as exact as ratios.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import ROOT, can_be

from overlapbench.reading.result import read_results

if TYPE_CHECKING:
    from tests.cli.conftest import Program


@pytest.mark.alone
def test_two_delays_overlap_on_two_lanes_and_not_on_one(program: "Program") -> None:
    [[two, times, ratios, one]] = program("""
configure()
sides = dict(comp=sleep(4), comm=sleep(2), n=4096)
two, one = settled(ob.measure, **sides), settled(ob.measure, streams=1, **sides)
times, ratios = ("comp_ms", "comm_ms", "overlap_ms"), ("slowdown", "efficiency", "comp_slowdown")
tell([two.name, two.state.value], [min(two.samples_ms), *map(two.__getitem__, times)],
     [*map(two.intervals.get, ratios)],
     [one.name, one.state.value, *map(one.intervals.get, ratios)])
""")
    assert two[0] == "Overlap/mineComm+mineComp/n:4096/cache:warm"
    assert two[1] in ("ok", "noisy")  # where something else uses the cores
    shortest_ms, comp_ms, comm_ms, overlap_ms = times
    assert 4 < shortest_ms < 6
    assert comp_ms > 4
    assert comm_ms > 2
    assert overlap_ms > 4
    slowdown, efficiency, comp_slowdown = ratios
    assert can_be(slowdown, 1, 0.04)
    assert can_be(efficiency, 1, 0.1)
    assert can_be(comp_slowdown, 1, 0.04)
    assert one[:2] == ["Overlap/mineComm+mineComp/n:4096/cache:warm/streams:1", "control"]
    assert can_be(one[2], 1.5, 0.06)
    assert can_be(one[3], 0, 0.1)


# gather0  gather1  gather2          2 + 3 * 4 ms: two of the gathers are hidden
#          product0 product1 product2
@pytest.mark.alone
def test_a_schedule_takes_its_bound(program: "Program") -> None:
    [[name, state, sequential_ms, bound_ms, time_ms, share]] = program("""
configure(precision=2)
gather, product = ob.Work(sleep(2), kind="comm"), sleep(4)
steps = []
for i in range(3):
    steps.append(ob.Step(f"gather{i}", "comm", gather))
    steps.append(ob.Step(f"product{i}", "comp", product, after=[f"gather{i}"]))
row = settled(ob.measure_schedule, steps=steps, name="layers")
print_of_row = str(row)
assert "of the bound" in print_of_row and row.name in print_of_row
in_a_list = repr(row)
assert in_a_list.startswith(f"<Row {row.name}: {row.state.value}, "), in_a_list
assert in_a_list.endswith(" ms>"), in_a_list
tell(row.name, row.state.value, row["sequential_ms"], row["bound_ms"], row.T, row["pct_of_bound"])
""")
    assert name == "Schedule/layers/cache:warm"
    assert state in ("ok", "noisy")
    assert bound_ms > 14
    assert sequential_ms / bound_ms == pytest.approx(18 / 14, rel=0.05)
    assert time_ms == pytest.approx(bound_ms, rel=0.05)
    assert share == pytest.approx(100, abs=5)


@pytest.mark.alone
def test_one_callable_is_timed_alone(program: "Program") -> None:
    [[time_ms, shortest_ms, name, bounds]] = program("""
configure()
row = settled(ob.measure_alone, run=sleep(3), name="nap")
tell(*(ob.do_bench(sleep(3), cache="warm", return_mode=mode) for mode in ("median", "min")),
     row.name, row.intervals.get("time"))
""")
    assert time_ms > 3
    assert 3 < shortest_ms < 5
    assert name == "Compute/nap/cache:warm"
    assert 3 < bounds[0] <= bounds[1]


def test_a_failure_is_the_rows_error_and_the_next_row_is_measured(program: "Program") -> None:
    raised, kept, wrong, off, nested, after, alone = program("""
configure(budget_ms=20)
row = ob.measure(comp=sleep(1), comm=fail)
tell(*said(row), type(row.exception).__name__, str(row).count("\\n"))
checked = ob.Work(sleep(1), verify=fail)
tell(*said(ob.measure(comp=checked, comm=sleep(1))))
tell(*said(ob.measure(comp=sleep(1), comm=ob.Work(sleep(1), verify=lambda: False))))
far = ob.Verdict(max_rel_err=0.5, tolerance=0.25)
tell(*said(ob.measure_schedule([ob.Step("a", "x", ob.Work(sleep(1), verify=lambda: far))])))
tell(*said(ob.measure_alone(lambda: ob.measure_alone(sleep(1)))))
resets = []
good = ob.Work(sleep(1), reset=lambda: resets.append(1), verify=lambda: len(resets) > 0)
tell(ob.measure(comp=good, comm=sleep(1)).state.comparable, len(resets))
try:
    ob.do_bench(fail)
except ob.MeasureError as error:
    tell(str(error), type(error.__cause__).__name__)
""")
    assert raised == ["error", "comm: ValueError: no way", "ValueError", 0]
    assert kept == ["error", "comp: ValueError: no way"]
    assert wrong == [
        "error",
        "wrong result of COMM 'comm' in run 'comm': comm: the result is wrong",
    ]
    assert off[1].endswith(": a: its relative error is 0.5, but at most 0.25 is allowed")
    assert nested[0] == "error"
    assert "a measured callable must not start a measurement" in nested[1]
    assert after == [True, 2]  # alone and overlapped
    assert alone == ["Compute/mine/cache:cold: mine: ValueError: no way", "ValueError"]


@pytest.mark.alone
def test_a_lane_that_stays_empty_is_noticed(program: "Program") -> None:
    [empty, slept] = program("""
configure()
tell(*said(ob.measure(comp=sleep(1), comm=lambda: None, cache="warm")))
tell(ob.measure(comp=sleep(1), comm=sleep(0.5), cache="warm").state.comparable)
""")
    assert empty[0] == "invalid"
    assert empty[1].startswith("'comm' left its lane empty: alone it took ")
    assert slept == [True]


def test_a_callable_that_hangs_is_named_and_the_process_goes_on(program: "Program") -> None:
    [hung, after] = program("""
configure(timeout_s=1, budget_ms=20)
tell(*said(ob.measure(comp=sleep(300_000), comm=sleep(1))))
tell(said(ob.measure(comp=sleep(1), comm=sleep(1)))[0])
""")
    assert hung[0] == "error"
    assert hung[1].startswith("the stream COMP in its first run did not finish within 1 s; ")
    assert re.search(r"'comp' has not returned for [1-9]\d*\.", hung[1])
    assert after[0] != "error"


# On the host a check is called on the main thread, as on a GPU every callable is.
def test_a_callable_that_hangs_on_the_main_thread_is_interrupted(program: "Program") -> None:
    looped, slept, interrupted, own, after = program("""
import signal
own_handler = lambda *_: tell("Ctrl-C")
configure(timeout_s=1, budget_ms=20)
def loop():
    while True:
        pass
for hang in (loop, sleep(300_000)):
    row = ob.measure(comp=ob.Work(sleep(1), verify=hang), comm=sleep(1))
    tell(*said(row), repr(row.exception))
try:
    ob.measure_alone(ob.Work(sleep(1), reset=lambda: signal.raise_signal(signal.SIGINT)))
except KeyboardInterrupt:
    tell("KeyboardInterrupt")
signal.signal(signal.SIGINT, own_handler)
ob.measure_alone(ob.Work(sleep(1), reset=lambda: signal.raise_signal(signal.SIGINT)))
tell(ob.measure(comp=ob.Work(sleep(1), verify=lambda: True), comm=sleep(1)).state.comparable)
""")
    for state, reason, exception in (looped, slept):
        assert state == "error"
        assert reason.startswith("'comp' has not returned for ")
        assert reason.endswith(
            " s; if it compiles or connects, call it once before it is measured, or set a longer"
            " timeout_s"
        )
        assert exception == "TimeoutError('it did not return in time')"
    assert interrupted == ["KeyboardInterrupt"]
    assert own == ["Ctrl-C"]
    assert after == [True]


# A signal interrupts Python alone, and only in the main thread.
ENDS = """
import threading
configure(timeout_s=1, budget_ms=20)
for descriptor, name in ((1, "stdout"), (2, "stderr")):
    os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND), descriptor)
def loop():
    while True:
        pass
def measure(hang):
    with ob.results("mine.json"):
        print(ob.measure_alone(sleep(1), name="before").name)
        ob.measure_alone(ob.Work(sleep(1), verify=hang))
"""


@pytest.mark.parametrize(
    "hang",
    [
        "measure(stuck)",
        "thread = threading.Thread(target=measure, args=[loop]); thread.start(); thread.join()",
    ],
)
def test_a_callable_that_cannot_be_interrupted_ends_the_process(
    program: "Program", tmp_path: Path, hang: str
) -> None:
    program(ENDS + hang, status=1, PYTHONUNBUFFERED="")
    [line] = (tmp_path / "stderr").read_text().splitlines()
    assert line.startswith("overlapbench: 'mine' has not returned for 6.")
    assert " s and cannot be interrupted: the process ends; call it once before " in line
    assert line.endswith(" [Compute/mine/cache:cold, verifying mine]")
    (result,) = read_results([str(tmp_path / "mine.json")])
    assert [str(row.name) for row in result.rows] == ["Compute/before/cache:cold"]
    assert result.incomplete == "the run is still going, or was killed"
    assert (tmp_path / "stdout").read_text() == "Compute/before/cache:cold\n"


def test_the_tools_read_the_file_of_results(program: "Program", tmp_path: Path) -> None:
    program("""
configure(budget_ms=50, predictable=True)
with ob.results("mine.json") as rows:
    for n in (1, 2):
        ob.measure(comp=sleep(n), comm=sleep(1), cache="warm", n=n)
    ob.measure_schedule([
        ob.Step("sum", "comm", sleep(1)), ob.Step("a", "comp", sleep(2)),
        ob.Step("b", "comp", sleep(1), after=["sum"]),
    ])
    ob.measure_alone(sleep(1))
    assert len(rows) == 4
""")
    (result,) = read_results([str(tmp_path / "mine.json")])
    assert [str(row.name) for row in result.rows] == [
        "Overlap/mineComm+mineComp/n:1/cache:warm",
        "Overlap/mineComm+mineComp/n:2/cache:warm",
        "Schedule/mine/cache:cold",
        "Compute/mine/cache:cold",
    ]
    assert not result.incomplete
    assert result.context["self_test"] == "left out"
    for status, tool, *arguments in (
        (3, "compare", "mine.json", "again.json"),  # one run and its copy
        (0, "chart", "mine.json", "-o", "charts"),
        (0, "report", "mine.json", "-o", "report.html"),
        (0, "predict", "mine.json"),
    ):
        (tmp_path / "again.json").write_bytes((tmp_path / "mine.json").read_bytes())
        done = subprocess.run(
            [sys.executable, "-m", "overlapbench", tool, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT / "tools")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
    assert (tmp_path / "charts" / "pairs.svg").exists()
    assert "mineComm+mineComp" in (tmp_path / "report.html").read_text()


def test_a_name_that_the_file_has_is_refused_before_anything_runs(
    program: "Program", tmp_path: Path
) -> None:
    told = program("""
configure(budget_ms=20)
def nap():
    time.sleep(0.001)
def again(measure, *arguments, spelled={}, **settings):
    name = measure(*arguments, **settings).name
    try:
        measure(*arguments, **settings, **spelled)
    except ValueError as error:
        tell(name, str(error))
sides = dict(comp=nap, comm=sleep(1))
standing = dict(first="none", streams=2, cadence="isolated", comp_sms=0, cache="cold",
                comp_priority=0, comm_priority=0)
with ob.results("mine.json"):
    again(ob.measure, **sides, spelled=standing)
    again(ob.measure, **sides, n=1, gated=False, streams=1, cadence="streaming", cache="warm")
    again(ob.measure_schedule, [ob.Step("a", "x", nap)], gated=False, spelled={"cache": "cold"})
    again(ob.measure_alone, nap, a="x", b=2)
    again(ob.measure_alone, ob.Work(nap, kind="copy"), cache="warm")
ob.measure_alone(nap, a="x", b=2)
with ob.results("other.json"):
    ob.measure_alone(nap, a="x", b=2)
""")
    names = [
        "Overlap/mineComm+mineComp/cache:cold",
        "Overlap/mineComm+mineComp/n:1/gate:off/cache:warm/cadence:streaming/streams:1",
        "Schedule/mine/gate:off/cache:cold",
        "Compute/mine/a:x/b:2/cache:cold",
        "Comm/mine/cache:warm",
    ]
    advice = "give this one another name, or a label such as nth=2 where it takes labels"
    assert told == [[name, f"mine.json already has a row {name}: {advice}"] for name in names]
    (result,) = read_results([str(tmp_path / "mine.json")])
    assert [str(row.name) for row in result.rows] == names
    assert not result.incomplete


def test_a_row_of_the_suites_own_stands_once_in_a_file(program: "Program", tmp_path: Path) -> None:
    name = "Compute/StreamKernel/array_bytes:8388608/blocks:4/cache:cold"
    told = program(f"""
configure(budget_ms=20)
with ob.results("mine.json"):
    ob.measure_row({name!r})
    for asked in ({name!r}, "Compute/StreamKernel"):
        try:
            ob.measure_row(asked)
        except ValueError as error:
            tell(str(error))
""")
    refusal = f"mine.json already has a row {name}: "
    assert [text.startswith(refusal) for (text,) in told] == [True] * 2
    (result,) = read_results([str(tmp_path / "mine.json")])
    assert [str(row.name) for row in result.rows] == [name]


def test_an_interrupted_block_leaves_an_incomplete_file(program: "Program", tmp_path: Path) -> None:
    program(
        """
configure(budget_ms=20)
with ob.results("mine.json"):
    ob.measure_alone(sleep(1))
    fail()
""",
        status=1,
    )
    (result,) = read_results([str(tmp_path / "mine.json")])
    assert result.incomplete == "ValueError: no way"
    assert len(result.rows) == 1


def test_rows_of_the_suites_own_are_measured_beside_callables(
    program: "Program", tmp_path: Path
) -> None:
    told = program(
        """
configure(budget_ms=20)
with ob.results("mine.json"):
    for name in (
        "Comm/AllReduce/bytes:64K/cache:cold",
        "Tp/ColumnParallel/tokens:128/chunks:1",
        "Copy/Bandwidth/direction:both/bytes:65536/cache:cold",
    ):
        row = ob.measure_row(name)
        tell(row.name, row.state.comparable, row.time_ms > 0)
    ob.measure_alone(sleep(1))
""",
        ranks=2,
    )
    names = [
        "Comm/AllReduce/bytes:65536/cache:cold",
        "Tp/ColumnParallel/model:small/tokens:128/chunks:1/cache:cold",
        "Copy/Bandwidth/direction:both/bytes:65536/cache:cold",
    ]
    assert told == [[name, True, True] for name in names] * 2
    (result,) = read_results([str(tmp_path / "mine.json")])
    assert [str(row.name) for row in result.rows] == [*names, "Compute/mine/cache:cold"]
    assert result.rows[1].counters["chunks"] == 1


def test_an_unknown_or_ambiguous_row_name_is_refused(program: "Program") -> None:
    [told] = program("""
configure(budget_ms=20)
def refusal(name):
    try:
        return ob.measure_row(name).name
    except ValueError as error:
        return str(error)
tell(*map(refusal, (
    "Compute/StreamKernel",
    "Compute/StreemKernel/blocks:4",
    "Compute/StreemKernel",
    "Nothing/like:this",
    "Compute/Gemm/n:256",
    "Compute/Gemm/n:64/grid",
    "Compute/Gemm/n:64/grids:1x1",
    "Compute/Gemm/n:64/grid:0x1",
    "Comm/AllReduce/bytes:64K",
)))
""")
    assert told[:7] == [
        "Compute/StreamKernel/array_bytes:8388608/blocks:4/cache:cold",
        "the suite has no rows of 'Compute/StreemKernel'; did you mean Compute/StreamKernel?",
        "the suite has no rows of 'Compute/StreemKernel'; did you mean Compute/StreamKernel?",
        "the suite has no rows of 'Nothing'; ./bench --benchmark_list_tests lists their names",
        "Compute/Gemm/n:256 matches 5 rows: Compute/Gemm/n:256/grid:1x1/work:tile/cache:cold,"
        " Compute/Gemm/n:256/grid:2x2/work:tile/cache:cold,"
        " Compute/Gemm/n:256/grid:4x4/work:tile/cache:cold and 2 more",
        "'grid' is not part of a row's name; write axis:value",
        "there is no axis 'grids'; did you mean grid? the axes are cache, cadence, grid, n, work",
    ]
    assert told[7].startswith("axis grid: ")
    assert told[8].startswith("not available: Comm/AllReduce: AllReduce needs at least 2 ranks")


def test_the_example_runs(program: "Program", tmp_path: Path) -> None:
    program((ROOT / "docs/examples/measure_on_host.py").read_text())
    (result,) = read_results([str(tmp_path / "mine.json")])
    assert [row.name.family for row in result.rows] == ["Overlap", "Schedule", "Compute"]
    assert all(row.state.comparable for row in result.rows)
    assert all(row.counters["max_rel_err"] > 0 for row in result.rows)


def test_bad_arguments_are_refused(program: "Program") -> None:
    [told] = program("""
configure(budget_ms=20)
def refusal(measure, *arguments, **settings):
    try:
        measure(*arguments, **settings)
    except (ValueError, TypeError, ob.MeasureError) as error:
        return f"{type(error).__name__}: {error}"
nap = sleep(1)
tell(
    refusal(ob.measure_alone, nap, name="my gemm"),
    refusal(ob.measure_alone, nap, cache="hot"),
    refusal(ob.measure_alone, nap, cadence="streaming"),
    refusal(ob.measure_alone, nap, N=3),
    refusal(ob.measure_alone, nap, n="1/2"),
    refusal(ob.measure_alone, nap, n="\\x1b[31m"),
    refusal(ob.measure_alone, nap, name=5),
    refusal(ob.measure_alone, nap, gate="off"),
    refusal(ob.measure_alone, nap, cach="warm"),
    refusal(ob.do_bench, nap, return_mode="mode"),
    refusal(ob.do_bench, nap, quantiles=[0.5, 2]),
    refusal(ob.measure_alone, "nap"),
    refusal(ob.measure_schedule, []),
    refusal(ob.measure_schedule, [nap]).replace(repr(nap), "a nap"),
    refusal(ob.measure_schedule, [ob.Step("a", "x y", nap)]),
    refusal(ob.measure_schedule, [ob.Step("a", "x", nap), ob.Step("b", "x", nap, after="a")]),
    refusal(ob.measure_schedule, iter([ob.Step("a", "x", nap), ob.Step("a", "y", nap)])),
    refusal(ob.measure_schedule, [ob.Step("a", "x", nap, after=["b"]), ob.Step("b", "x", nap)]),
    refusal(ob.configure, backend="cuda"),
    ob.measure_alone(nap, gated=False).name,
)
""")
    assert told == [
        "ValueError: name is 'my gemm': use letters and digits, starting with a letter",
        "ValueError: axis cache: 'hot' is not one of cold, warm",
        "ValueError: Compute/mine/cache:cold/cadence:streaming: cadence:streaming needs a warm"
        " cache (--axis cache=warm)",
        "ValueError: 'N' is not a label: use lowercase letters, digits and _, as in n=4096",
        "ValueError: n is '1/2': use printable characters except spaces and / , = :",
        "ValueError: n is '\\x1b[31m': use printable characters except spaces and / , = :",
        "ValueError: name is 5: use letters and digits, starting with a letter",
        "ValueError: gate is a setting that this call does not have; it cannot be a label",
        "ValueError: cach cannot be a label: did you mean the setting cache?",
        "ValueError: return_mode is 'mode', must be one of median, mean, min, max, all",
        "ValueError: a quantile is 2, must be from 0 to 1",
        "TypeError: 'nap' is not callable",
        "ValueError: mine: it has no steps",
        "TypeError: steps[0] is a nap, must be a Step",
        "ValueError: the lane of steps[0] is 'x y': use printable characters except spaces and"
        " / , = :",
        "TypeError: `after` of step 'b' is 'a', must be a list",
        "ValueError: two steps have the name 'a'",
        "ValueError: step 'a' waits for 'b', which is not an earlier step",
        "MeasureError: configure(backend=) comes before the first measurement",
        "Compute/mine/gate:off/cache:cold",
    ]


def test_a_device_that_is_not_there_is_refused_again_and_again(program: "Program") -> None:
    [told] = program(
        """
configure(backend="cuda")
errors = []
for _ in range(2):
    try:
        ob.measure_alone(sleep(1))
    except (ValueError, ob.MeasureError) as error:
        errors.append(str(error))
tell(*errors)
""",
        CUDA_VISIBLE_DEVICES="",
    )
    assert len(told) == 2
    assert told[1] == "MPI was finalized in this process and cannot be initialized again"


def test_importing_the_package_imports_nothing_that_measures(program: "Program") -> None:
    [imported, missing] = program(
        """
tell("overlapbench.measurement.measuring" in sys.modules, "ctypes" in sys.modules)
try:
    ob.measure_alone(sleep(1))
except ob.MeasureError as error:
    tell(str(error))
""",
        OVERLAPBENCH_LIBRARY="/dev/null/lib.so",
    )
    assert imported == [False, False]
    assert missing[0].startswith("/dev/null/lib.so is missing: `./bench --build-only` builds it")


def test_the_budget_changes_from_row_to_row(program: "Program") -> None:
    [[first, longer, of_process, again]] = program("""
configure(budget_ms=80, precision=0)
def count(**settings):
    row = ob.measure_alone(sleep(10), cache="warm", **settings)
    assert len(row.samples_ms) == row["samples"]
    return len(row.samples_ms)
first, longer = count(), count(budget_ms=1000)
ob.configure(budget_ms=1000)
of_process = count()
ob.configure(precision=90)
tell(first, longer, of_process, count())
""")
    assert first == again == 10  # the least
    assert longer > 12
    assert of_process > 12


def test_a_timeout_of_one_row_is_its_own(program: "Program") -> None:
    hung, after = program("""
configure(budget_ms=20)
tell(*said(ob.measure_alone(sleep(300_000), timeout_s=1)))
tell(ob.measure_alone(sleep(1500), budget_ms=1).state.comparable)
""")
    assert hung[0] == "error"
    assert " did not finish within 1 s; " in hung[1]
    assert after == [True]


def test_do_bench_takes_the_arguments_of_tritons(program: "Program") -> None:
    [[chosen, one, samples, least, mean, gradients]] = program("""
configure()
class Tensor:
    grad = 1
tensor, seen = Tensor(), []
def forget():
    seen.append(tensor.grad)
    tensor.grad = 1
    time.sleep(0.002)
bench = lambda **settings: ob.do_bench(sleep(2), 1, 50, cache="warm", **settings)
ob.do_bench(forget, rep=20, grad_to_none=[tensor])
tell(bench(quantiles=(0.5, 0.2, 0.8)), bench(quantiles=[0.5]), bench(return_mode="all"),
     bench(return_mode="min"), bench(return_mode="mean"), sorted(set(seen), key=str))
""")
    median, low, high = chosen
    assert 2 < low <= median <= high
    assert one > 2
    assert len(samples) >= 10
    assert least > 2
    assert mean > 2
    assert gradients == [None]
