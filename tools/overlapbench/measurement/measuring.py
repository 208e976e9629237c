"""Measuring your own callables as the suite measures its workloads (docs/measuring-your-own.md).

    import overlapbench as ob
    row = ob.measure(comp=lambda: torch.mm(a, b, out=c), comm=lambda: dist.all_reduce(g), n=4096)
    print(row)

The suite treats callables as its own workloads: it runs them once ungated, verifies them, and then
samples them in turn, alone and together, with a cold cache, behind the start gate.

All ranks must make the same calls. The first call starts MPI, opens the device and measures known
delays, which takes a second. `configure` sets the backend before it, and may change the budget, the
precision and the timeout at any time; a call's own `budget_ms`, `precision` and `timeout_s` are for
its row alone.

Errors. A call raises ValueError if no rank can measure the row: a bad name, an unknown value, or a
row that the file of `results` already contains. It raises MeasureError if the library is missing,
the launcher is unsupported, or an earlier row has ended the measuring. A failure within a row
raises nothing: the row reports it in `state`, `reason` and `exception`.
"""

import atexit
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from overlapbench.measurement import callables, ranks
from overlapbench.measurement.callables import Work
from overlapbench.measurement.interface import ALONE, PAIR, SCHEDULE, Suite
from overlapbench.measurement.interface import Step as StepPlace
from overlapbench.measurement.settings import AXES, DEFAULT_TIMEOUT_S, Settings
from overlapbench.measurement.user_names import check_names, check_word
from overlapbench.output import ResultError, replace_file, require_file
from overlapbench.reading.result import parse_result
from overlapbench.reading.rows import Row, State

Function = Callable[..., object]


@dataclass(frozen=True)
class Step:
    """One step of a schedule: a callable on a lane.

    The steps of a lane run in order. `after` names earlier steps, on any lane, that must end before
    this one starts. Steps that share a callable are the same work: the bound uses one time alone
    for all of them.

    name   unique in the schedule; `after` refers to it
    lane   a word; each lane is a stream
    run    the callable, or a Work, whose `kind` is the step's class
    after  names of earlier steps of the schedule
    """

    name: str
    lane: str
    run: Function | Work
    after: Sequence[str] = ()


@dataclass(eq=False)
class _ResultFile:
    """The rows of one file, which only rank 0 writes."""

    path: Path
    is_written_here: bool
    rows: list[Row] = field(default_factory=list)

    def require_new(self, name: str) -> None:
        """Refuse a name that the file contains: no tool reads a file with two rows of one name.

        All ranks have the same rows, so all of them refuse it.
        """
        if any(row.name == name for row in self.rows):
            raise ValueError(
                f"{self.path} already has a row {name}: give this one another name, or a label "
                "such as nth=2 where it takes labels"
            )

    def write(self, incomplete: str) -> None:
        """Write the rows, and why some are missing; "" if none is."""
        if not self.is_written_here or not self.rows:
            return
        entries = [entry for row in self.rows for entry in row.document["benchmarks"]]
        document = dict(self.rows[0].document) | {"benchmarks": entries}
        if incomplete:
            document["incomplete"] = incomplete
        replace_file(self.path, (json.dumps(document, indent=2) + "\n").encode())


@dataclass
class _Process:
    """The open suite of this process, its settings, and the files that its rows go to."""

    settings: Settings = field(default_factory=Settings)
    suite: Suite | None = None
    files: list[_ResultFile] = field(default_factory=list)
    kept: list[callables.Wrapped] = field(default_factory=list)  # of rows that may still run

    def open(self) -> Suite:
        if self.suite is None:
            flags = self.settings.flags_of_process()
            with ranks.joined():
                ranks.require_all(self.settings.value("timeout_s") or DEFAULT_TIMEOUT_S)
                self.suite = Suite(flags)
            self.settings.opened = True
            self.suite.interrupt_with(callables.take_signal())
            atexit.register(self.suite.close)
        return self.suite


_process = _Process()


def configure(
    *,
    backend: str | None = None,
    budget_ms: int | None = None,
    precision: float | None = None,
    timeout_s: int | None = None,
    host_cores: int | None = None,
    gate: bool | None = None,
    self_test: bool | None = None,
    predictable: bool | None = None,
) -> None:
    """Set how this process measures. Parameters that are omitted or None stay as they are.

    They have at first the values of [tool.overlapbench] in pyproject.toml (docs/package.md), or the
    defaults of ./bench, given in parentheses. The first three parameters may change between rows.

    budget_ms    measuring time per row, in milliseconds (600)
    precision    target precision of a row, in percent (1; host 5); 0: always use the whole budget
    timeout_s    timeout of every wait, in seconds (60); a row that exceeds it is an error
    backend      "cuda", "host", or "auto": cuda if a GPU is visible
    host_cores   host backend: cores per rank
    gate         False: no run starts behind the gate, for profilers
    self_test    False: do not measure known delays first
    predictable  True: rows in files carry what ob.predict needs

    The next measurement refuses an invalid value or an unavailable backend.

    MeasureError  something has been measured before, and one of the last five would change
    """
    _process.settings.update(locals())


def init_torch_distributed(backend: str | None = None, **options: Any) -> None:
    """Call torch.distributed.init_process_group with the launcher's ranks, and set the GPU.

    It sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; under torchrun it keeps them.

    backend  by default "nccl" on the cuda backend and "gloo" on the host backend
    options  passed on to init_process_group

    MeasureError  the library is missing, or the launcher is unsupported
    """
    ranks.init(_process.open(), backend, **options)


def measure(
    *,
    comp: Function | Work,
    comm: Function | Work,
    name: str = "mine",
    first: str | None = None,
    streams: int | None = None,
    cache: str | None = None,
    cadence: str | None = None,
    comp_sms: int | None = None,
    comp_priority: int | None = None,
    comm_priority: int | None = None,
    gated: bool = True,
    budget_ms: int | None = None,
    precision: float | None = None,
    timeout_s: int | None = None,
    **labels: str | int,
) -> Row:
    """Measure a computation beside a communication or copy: C and M alone, T both together.

    Returns the row Overlap/NAMEComm+NAMEComp/LABEL:VALUE/..., with times in ms.

    comp           the computation: a callable that enqueues it, or a Work that is also verified
    comm           the communication, or with Work(..., kind="copy") a copy
    name           letters and digits, starting with a letter
    first          "comp", "comm" or "none": the side that starts some microseconds earlier
    streams        1: both sides on one stream, one after the other; 2 is the default
    cache          "cold" (the default): the L2 is flushed before every sample; or "warm"
    cadence        "isolated" (the default): a sample is one call of each; or "streaming": 20 calls
    comp_sms       SMs that the computation may use; 0 is all
    comp_priority  priority of the computation's stream; 0 is the lowest
    comm_priority  priority of the communication's stream
    gated          False: no gate is closed, for callables that wait for the device; the times then
                   include the host's part, and the name contains gate:off
    budget_ms      of this row alone, as in `configure`: its measuring time, in ms
    precision      likewise, its target precision, in percent
    timeout_s      likewise, the timeout of its waits, in seconds
    labels         added to the name, as n=4096: values without spaces, `/`, `,`, `=` and `:`

    The other settings are axes of Overlap (docs/method.md). A failure in a callable raises nothing:
    the `state` of the row is then `error` or `invalid`.

    ValueError    a name, label or setting is invalid; or the file of `results` contains a row of
                  this name, and does not get this one
    TypeError     `comp` or `comm` is not callable
    MeasureError  the library is missing, the launcher is unsupported, the ranks of
                  torch.distributed differ from MPI's, a rank does not reach the first measurement,
                  or an earlier row has ended the measuring
    """
    given = locals()
    computation, communication = _work(comp), _work(comm)
    moves = "copy" if communication.kind == "copy" else "comm"
    works = {"comp": replace(computation, kind="comp"), "comm": replace(communication, kind=moves)}
    return _measure(PAIR, given, works)


def measure_schedule(
    steps: Sequence[Step],
    *,
    name: str = "mine",
    cache: str | None = None,
    cadence: str | None = None,
    gated: bool = True,
    budget_ms: int | None = None,
    precision: float | None = None,
    timeout_s: int | None = None,
    **labels: str | int,
) -> Row:
    """Measure steps on named lanes, each a stream: T, the same steps in sequence, and the bound.

    The bound is the longest path through the steps, each at the time it takes alone. Returns the
    row Schedule/NAME/LABEL:VALUE/..., with times in ms.

    steps    in the order in which they are enqueued

    `name`, `cache`, `cadence`, `gated`, `budget_ms`, `precision`, `timeout_s` and `labels` are
    those of `measure`.

    ValueError    a step's name or lane is invalid, two steps share a name, `after` names a step
                  that is not an earlier one, or as `measure`
    TypeError     a step is not a Step, or its `run` is not callable
    MeasureError  as `measure`
    """
    given = locals()
    steps = list(steps)
    places = _places(steps)
    works: dict[str, Work] = {}
    names: dict[int, str] = {}  # by callable
    made = []
    for place, step in enumerate(steps):
        work_name = names.setdefault(id(step.run), step.name)
        works.setdefault(work_name, _work(step.run))
        for earlier in step.after:
            if places.get(earlier, place) >= place:
                raise ValueError(
                    f"step {step.name!r} waits for {earlier!r}, which is not an earlier step"
                )
        after = [places[earlier] for earlier in step.after]
        made.append(StepPlace(step.lane, step.name, list(works).index(work_name), after))
    return _measure(SCHEDULE, given, works, made)


def _places(steps: Sequence[Step]) -> dict[str, int]:
    """Return the index of each step, by its name."""
    places: dict[str, int] = {}
    for place, step in enumerate(steps):
        if not isinstance(step, Step):
            raise TypeError(f"steps[{place}] is {step!r}, must be a Step")
        for what, word in (("name", step.name), ("lane", step.lane)):
            check_word(f"the {what} of steps[{place}]", word)
        if isinstance(step.after, str):
            raise TypeError(f"`after` of step {step.name!r} is {step.after!r}, must be a list")
        if places.setdefault(step.name, place) != place:
            raise ValueError(f"two steps have the name {step.name!r}")
    return places


def measure_alone(
    run: Function | Work,
    *,
    name: str = "mine",
    cache: str | None = None,
    cadence: str | None = None,
    gated: bool = True,
    budget_ms: int | None = None,
    precision: float | None = None,
    timeout_s: int | None = None,
    warmup_ms: int | None = None,
    **labels: str | int,
) -> Row:
    """Measure one callable, cold and behind the start gate.

    Returns the row Compute/NAME/LABEL:VALUE/..., or Comm/NAME/... for a communication or copy. Its
    `time_ms` is the median of the samples.

    run        a callable that enqueues the work, or a Work
    warmup_ms  least warm-up, in ms; times must settle in any case

    `name`, `cache`, `cadence`, `gated`, `budget_ms`, `precision`, `timeout_s` and `labels` are
    those of `measure`.

    ValueError    as `measure`
    TypeError     `run` is not callable
    MeasureError  as `measure`
    """
    return _measure(ALONE, locals(), {name: _work(run)})


def measure_row(
    name: str,
    *,
    budget_ms: int | None = None,
    precision: float | None = None,
    timeout_s: int | None = None,
) -> Row:
    """Measure one of the suite's own rows, to compare callables with it in the same process.

    `name` is one that `./bench --benchmark_list_tests` prints. Its axes may have other values, as
    with --axis. They may be omitted if one row matches: measure_row("Comm/AllReduce/bytes:64M").

    `budget_ms`, `precision` and `timeout_s` are those of `measure`.

    ValueError    no row matches here, several do, or the file of `results` already contains it
    MeasureError  as `measure`
    """
    given = locals()
    suite = _process.open()
    ranks.require_same(suite.place)
    suite.configure(_process.settings.flags_of_row(given))
    text = suite.measure_own(name)
    return _kept(text, suite.samples_ms(), callables.Wrapped(suite.place.device))


@contextlib.contextmanager
def results(path: str | Path) -> Iterator[list[Row]]:
    """Write the rows that are measured inside to a result file, as ./bench does.

    A context manager that yields the list of rows. Rank 0 rewrites the file after every row and
    marks it incomplete until the block ends. Names are unique in a file: measuring a row again
    raises ValueError on all ranks and leaves the file's rows unchanged.

    path  of the file; the first row replaces an older file

    ResultError   the file cannot be written; a ValueError, raised on all ranks
    MeasureError  as `measure`
    """
    suite = _process.open()
    file = _ResultFile(Path(path), is_written_here=suite.place.rank == 0)
    # If one rank alone raised, the others would wait for it.
    if refusal := suite.broadcast(_refusal(file)):
        raise ResultError(refusal)
    _process.files.append(file)
    try:
        yield file.rows
    except BaseException as error:
        file.write(callables.describe(error))
        raise
    else:
        file.write("")
    finally:
        _process.files.remove(file)


def _refusal(file: _ResultFile) -> str:
    try:
        if file.is_written_here:
            require_file(file.path)
    except ResultError as error:
        return str(error)
    return ""


def _work(given: Function | Work) -> Work:
    return given if isinstance(given, Work) else Work(given)


def _measure(
    kind: int,
    given: Mapping[str, Any],
    works: Mapping[str, Work],
    steps: Sequence[StepPlace] = (),
) -> Row:
    """Measure a row; `given` are the parameters of a function such as `measure`."""
    check_names(given["name"], given["labels"])
    suite = _process.open()
    ranks.require_same(suite.place)
    wrapped = callables.Wrapped(suite.place.device)
    entries = [wrapped.entry(one, work, given["gated"]) for one, work in works.items()]
    with contextlib.suppress(OSError, ValueError):
        print(end="", flush=True)  # a process that hangs and is ended would lose buffered output
    suite.configure(_process.settings.flags_of_row(given))
    text = suite.measure(
        kind,
        given["name"],
        entries,
        wrapped.callback(lambda: None),
        steps,
        [f"{label}={value}" for label, value in given["labels"].items()],
        [f"{axis}={given[axis]}" for axis in AXES if given.get(axis) is not None],
    )
    row = _kept(text, suite.samples_ms(), wrapped)
    for error in wrapped.raised:
        if not isinstance(error, Exception):  # Ctrl-C
            raise error
    return row


def _kept(text: str, samples_ms: Sequence[float], wrapped: callables.Wrapped) -> Row:
    """Return the row of a document, which is then in the files, too."""
    (read,) = parse_result("the row", text).rows
    row = replace(
        read,
        time_ms=read.T,
        document=json.loads(text),
        exception=next(iter(wrapped.raised), None),
        samples_ms=samples_ms,
    )
    if row.state is State.ERROR:
        _process.kept.append(wrapped)  # a hanging thread may still call them
    for file in _process.files:
        file.require_new(row.name)
    for file in _process.files:
        file.rows.append(row)
        file.write("the run is still going, or was killed")
    return row
