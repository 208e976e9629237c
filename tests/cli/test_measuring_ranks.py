"""Measuring callables from Python on several ranks, and with ranks that others have started.

A row has the times of the slowest rank, a rank that fails or stays away is named to the others, and
MPI and torch.distributed have the same ranks.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import can_be

from overlapbench.reading.result import read_results
from overlapbench.reading.rows import State

if TYPE_CHECKING:
    from tests.cli.conftest import Program


@pytest.mark.alone
def test_two_ranks_have_the_times_of_the_slower_one(program: "Program") -> None:
    told = program(
        """
configure()
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
row = settled(ob.measure, comp=sleep(4 if rank else 1), comm=sleep(1 if rank else 2))
one_fails = ob.measure(comp=sleep(1), comm=fail if rank else sleep(1))
again = ob.measure(comp=sleep(1), comm=sleep(1))
tell(row.C, row.M, row.T, row.intervals["slowdown"], said(one_fails), again.state.comparable)
""",
        ranks=2,
    )
    assert told[0] == told[1]
    comp_ms, comm_ms, overlap_ms, slowdown, one_fails, again = told[0]
    assert comp_ms > 4
    assert comm_ms > 2
    assert overlap_ms > 4
    assert can_be(slowdown, 1, 0.04)
    assert one_fails == ["error", "rank 1: comm: ValueError: no way"]
    assert again is True


def test_after_a_rank_has_timed_out_nothing_is_measured(program: "Program") -> None:
    told = program(
        """
configure(timeout_s=1, budget_ms=20)
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
row = ob.measure(comp=sleep(300_000 if rank else 1), comm=sleep(1))
try:
    ob.measure(comp=sleep(1), comm=sleep(1))
except ob.MeasureError as error:
    tell(row.state.value, str(error))
await_told(2)
os._exit(0)
""",
        ranks=2,
        status=None,  # MPI is not ended, and mpirun says so
    )
    assert len(told) == 2
    for state, error in told:
        assert state == "error"
        assert error.startswith("an earlier row ended the measuring: ")
    assert any("'comp' has not returned for " in error for _, error in told)


# On the host a check is called on the main thread, like every callable on a GPU. A rank reports to
# the others in the last tenth of their timeout, and polls ten times a second.
HANGS = """
configure(timeout_s=3, budget_ms=20)
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
def measure(hang):
    work = ob.Work(sleep(1), verify=hang if rank else lambda: True)
    row = ob.measure(comp=work, comm=sleep(1))
    try:
        ob.measure(comp=sleep(1), comm=sleep(1))
    except ob.MeasureError as error:
        tell(*said(row), str(error))
"""


@pytest.mark.alone
def test_all_ranks_hear_which_callable_of_a_rank_hangs(program: "Program") -> None:
    told = program(
        HANGS
        + """
measure(sleep(300_000))
await_told(2)
os._exit(0)
""",
        ranks=2,
        status=None,  # MPI is not ended, and mpirun says so
    )
    assert len(told) == 2
    assert told[0] == told[1]
    state, reason, refusal = told[0]
    assert state == "error"
    assert reason.startswith("rank 1: 'comp' has not returned for ")
    assert refusal == f"an earlier row ended the measuring: {reason}"


@pytest.mark.alone
def test_a_rank_that_cannot_be_interrupted_ends_the_job(program: "Program", tmp_path: Path) -> None:
    [[state, reason, _]] = program(
        HANGS
        + """
os.dup2(os.open(f"stderr-{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
measure(stuck)
time.sleep(50)
""",
        ranks=2,
        status=1,
    )
    assert state == "error"
    assert reason.startswith("rank 1: 'comp' has not returned for ")
    line = (tmp_path / "stderr-1").read_text().splitlines()[0]
    assert re.match(r"overlapbench: 'comp' has not returned for (8|9|\d\d)\.", line)
    assert line.endswith(", verifying comp]")
    assert "[rank 1 of 2, Overlap/mineComm+mineComp/" in line


@pytest.mark.alone
def test_a_rank_that_never_measures_is_named_and_the_others_go_on(program: "Program") -> None:
    told = program(
        """
configure(timeout_s=1, budget_ms=20)
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
for attempt in range(2 if rank != 1 else 0):
    start = time.monotonic()
    try:
        ob.measure(comp=sleep(1), comm=sleep(1))
    except ob.MeasureError as error:
        tell(str(error), time.monotonic() - start)
if rank == 1:
    await_told(6)  # and comes too late
    try:
        ob.measure(comp=sleep(1), comm=sleep(1))
    except ob.MeasureError as error:
        tell(str(error), 0)
tell("alive")
""",
        ranks=3,
    )
    line = "rank 1 of 3 did not reach the first measurement within 1 s"
    lines = [words[0] for words in told]
    assert lines == [*(line, line, "alive"), *(line, "alive"), *(line, line, "alive")]
    first, second = told[0][1], told[1][1]
    assert first > 0.5  # the others may have begun to wait before
    assert second < 1, "it waited again"


@pytest.mark.alone
def test_a_rank_that_stops_measuring_ends_it_for_the_others(program: "Program") -> None:
    told = program(
        """
configure(timeout_s=1, budget_ms=20)
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
tell(ob.measure(comp=sleep(1), comm=sleep(1)).state.comparable)
if rank == 0:
    tell(*said(ob.measure(comp=sleep(1), comm=sleep(1))))
    try:
        ob.measure(comp=sleep(1), comm=sleep(1))
    except ob.MeasureError as error:
        tell(str(error))
    tell("alive")
else:
    await_told(5)
os._exit(0)
""",
        ranks=2,
        status=None,  # MPI is not ended, and mpirun says so
    )
    measured, (state, reason), (refusal,), alive, others = told
    assert (measured, alive, others) == ([True], ["alive"], [True])
    assert state == "error"
    assert reason.startswith("rank 0: agreeing on the next benchmark, Overlap/mineComm+mineComp/")
    assert ": rank 1 did not arrive within 1 s; it has stopped or " in reason
    assert refusal == f"an earlier row ended the measuring: {reason}"


@pytest.mark.alone
@pytest.mark.parametrize("missing", [0, 2])
def test_a_rank_that_stops_measuring_is_named(program: "Program", missing: int) -> None:
    told = program(
        f"""
configure(timeout_s=2, budget_ms=20)
missing = int(os.environ["OMPI_COMM_WORLD_RANK"]) == {missing}
ob.measure(comp=sleep(1), comm=sleep(1))
if missing:
    await_told(2)
else:
    tell(*said(ob.measure(comp=sleep(1), comm=sleep(1))))
os._exit(0)
""",
        ranks=3,
        status=None,  # MPI is not ended, and mpirun says so
    )
    assert len(told) == 2  # one of them may repeat the other's reason
    for state, reason in told:
        assert state == "error"
        assert f": rank {missing} did not arrive within 2 s; it has stopped or " in reason


def test_rank_0_alone_writes_and_all_ranks_hear_that_it_cannot(
    program: "Program", tmp_path: Path
) -> None:
    told = program(
        """
rank = os.environ["OMPI_COMM_WORLD_RANK"]
os.mkdir(rank)
os.chdir(rank)
configure(budget_ms=20)
with ob.results("mine.json") as rows:
    ob.measure_alone(sleep(1))
try:
    with ob.results("missing/mine.json"):
        pass
except Exception as error:
    tell(len(rows), str(error))
""",
        ranks=2,
    )
    assert told == [[1, "missing/mine.json: cannot be written: No such file or directory"]] * 2
    (result,) = read_results([str(tmp_path / "0/mine.json")])
    assert result.rows[0].state is not State.ERROR
    assert list((tmp_path / "1").iterdir()) == []


def test_all_ranks_refuse_a_name_that_the_file_has(program: "Program", tmp_path: Path) -> None:
    told = program(
        """
configure(budget_ms=20)
with ob.results("mine.json"):
    ob.measure_alone(sleep(1))
    try:
        ob.measure_alone(sleep(1))
    except ValueError as error:
        tell(str(error))
    ob.measure_alone(sleep(1), nth=2)
""",
        ranks=2,
    )
    assert told[0] == told[1]
    assert told[0][0].startswith("mine.json already has a row Compute/mine/cache:cold: ")
    (result,) = read_results([str(tmp_path / "mine.json")])
    names = [str(row.name) for row in result.rows]
    assert names == ["Compute/mine/cache:cold", "Compute/mine/nth:2/cache:cold"]


# torch is a stand-in: what counts is which ranks it has.
TORCH = """
import types
configure(budget_ms=20)
asked = []
torch = types.ModuleType("torch")
torch.distributed = types.SimpleNamespace(
    is_available=lambda: True,
    is_initialized=lambda: bool(asked),
    init_process_group=lambda backend, **options: asked.append((backend, options)),
    get_rank=lambda: int(os.environ["RANK"]),
    get_world_size=lambda: int(os.environ["WORLD_SIZE"]),
)
sys.modules["torch"] = torch
"""


def test_torch_distributed_gets_the_ranks_of_mpi(program: "Program") -> None:
    told = program(
        TORCH
        + """
ob.init_torch_distributed(timeout=7)
variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
tell(*map(os.environ.get, variables), asked, ob.measure_alone(sleep(1)).state.comparable)
""",
        ranks=2,
    )
    assert [rank[:3] for rank in told] == [["0", "2", "0"], ["1", "2", "1"]]
    assert told[0][3:] == told[1][3:]
    assert told[0][3] == os.uname().nodename
    assert int(told[0][4]) > 0
    assert told[0][5:] == [[["gloo", {"timeout": 7}]], True]


def test_ranks_that_mpi_does_not_know_are_refused(program: "Program") -> None:
    [told] = program(
        TORCH
        + """
torch.distributed.init_process_group("gloo")
try:
    ob.measure_alone(sleep(1))
except ob.MeasureError as error:
    tell(str(error))
""",
        RANK="1",
        WORLD_SIZE="2",
    )
    assert told[0].startswith(
        "torch.distributed has rank 1 of 2, but MPI has rank 0 of 1: start with `mpirun -n 2"
        " python ...`, or with torchrun on one host, and call overlapbench.init_torch_distributed()"
    )


def test_an_mpi_that_the_program_has_started_is_joined_and_left_to_it(program: "Program") -> None:
    [told] = program("""
import atexit, ctypes, ctypes.util
mpi = ctypes.CDLL(ctypes.util.find_library("mpi"), mode=ctypes.RTLD_GLOBAL)
provided, ended = ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init_thread(None, None, 3, ctypes.byref(provided))
configure(budget_ms=20)
def at_end():
    mpi.MPI_Finalized(ctypes.byref(ended))
    tell(comparable, ended.value)
    mpi.MPI_Finalize()
atexit.register(at_end)  # runs after what is registered later
comparable = ob.measure_alone(sleep(1)).state.comparable
""")
    assert told == [True, 0]


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("budget_ms", (20, 21)),
        ("precision", (1, 2)),
        ("timeout_s", (20, 30)),
        ("warmup_ms", (1, 2)),
    ],
)
def test_a_row_whose_settings_differ_between_ranks_is_an_error(
    setting: str, values: tuple[int, int], program: "Program"
) -> None:
    told = program(
        f"""
configure(budget_ms=20)
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
row = ob.measure_alone(sleep(1), {setting}={values}[rank])
tell(row.state.value, row.reason)
tell(ob.measure_alone(sleep(1), budget_ms=30).state.comparable)
""",
        ranks=2,
    )
    (state, reason), goes_on = told[:2]
    assert told == [[state, reason], goes_on] * 2
    assert (state, goes_on) == ("error", [True])
    assert reason.startswith("the ranks have diverged: rank 0 is at Compute/mine/cache:cold (")
    assert f"--{setting}={values[0]}" in reason.partition("rank 1 at")[0]
    assert f"--{setting}={values[1]}" in reason.partition("rank 1 at")[2]
