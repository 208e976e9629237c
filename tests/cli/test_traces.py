"""--trace_out: a file for each row and rank, in the format that trace viewers and HTA read."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overlapbench.traces.breakdown import break_down
from overlapbench.traces.files import read_rows
from overlapbench.traces.idle import Cause, Part
from overlapbench.traces.model import Class, Trace
from overlapbench.traces.rules import Rules
from overlapbench.view.timeline import make_timeline
from viewer_rules import WORK, broken_rules

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

USAGE = 2
SAMPLES = 3
FILTER = "^(Overlap/(SecondDelay|AllReduce.Gemm)|Pp/OneFOneB/Delay|Copy/Pipelined|Launch)"
FLAGS = (
    f"--benchmark_filter={FILTER}",
    "--budget_ms=1",
    *("--axis", "cache=warm"),
    *("--axis", "delay_us=2000"),
    *("--axis", "second_delay_us=1000"),
    *("--axis", "bytes=64K"),
    *("--axis", "n=64"),
    *("--axis", "grid=2x2"),
    *("--axis", "elements=4096"),
    *("--axis", "launches=4"),
    *("--axis", "microbatches=2"),
)
SETS = (
    *("only_comp_pct", "only_comm_pct", "only_mem_pct", "comp_comm_pct", "comp_mem_pct"),
    *("comm_mem_pct", "comp_comm_mem_pct", "idle_pct"),
)


class Traced:
    """A run of two ranks: its rows, and the trace of each row and rank."""

    def __init__(self, launcher: "Launcher", folder: Path) -> None:
        out = folder / "out.json"
        self.folder = folder / "traces"
        done = launcher.run(
            *FLAGS, f"--benchmark_out={out}", f"--trace_out={self.folder}", timeout_s=300
        )
        assert done.returncode == 0, done.stderr
        self.rows: list[dict[str, Any]] = json.loads(out.read_text())["benchmarks"]
        self.texts = {path.name: path.read_text() for path in sorted(self.folder.iterdir())}
        self.traces = {name: json.loads(text) for name, text in self.texts.items()}

    def spans(self) -> list[tuple[str, list[dict[str, Any]]]]:
        return [
            (name, [event for event in trace["traceEvents"] if event["ph"] == "X"])
            for name, trace in self.traces.items()
        ]


@pytest.fixture(scope="module")
def traced(launcher: "Launcher", tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return Traced(launcher, tmp_path_factory.mktemp("traced"))


def test_every_row_has_a_file_of_each_rank(traced: Traced) -> None:
    rows = Counter((trace["overlapbench"]["row"]) for trace in traced.traces.values())
    assert rows == {row["name"]: 2 for row in traced.rows}
    assert len(rows) > 5
    for name, trace in traced.traces.items():
        rank = trace["distributedInfo"]["rank"]
        assert name.endswith(f".rank{rank}.json")
        assert trace["distributedInfo"]["world_size"] == 2
        assert trace["overlapbench"]["samples"] == SAMPLES
        assert trace["overlapbench"]["left_out_samples"] == 0
        assert trace["overlapbench"]["fault"] == ""


def test_events_have_the_fields_that_viewers_read(traced: Traced) -> None:
    for name, trace in traced.traces.items():
        assert broken_rules(trace) == [], name
        phases = {event["ph"] for event in trace["traceEvents"]}
        assert {"X", "M"} <= phases, name


def test_work_says_where_it_belongs(traced: Traced) -> None:
    for name, spans in traced.spans():
        rank = traced.traces[name]["distributedInfo"]["rank"]
        calls = {e["args"]["correlation"] for e in spans if e["cat"] == "cuda_runtime"}
        works = [event for event in spans if event["cat"] in WORK]
        assert works, name
        for work in works:
            args = work["args"]
            assert args["class"] in {"COMP", "COMM", "MEM"}
            assert {"step", "lane", "run", "bytes", "blocks", "External id"} <= set(args)
            assert args["rank"] == rank
            assert 0 <= args["sample"] < SAMPLES
            assert args["correlation"] in calls
            assert args["stream"] == work["tid"]
        for event in spans:
            assert ("stream" in event["args"]) == (event["cat"] in WORK), event


def test_work_says_what_its_step_moves(traced: Traced) -> None:
    moved: dict[tuple[str, str], set[int | None]] = {}
    for name, spans in traced.spans():
        for work in (event for event in spans if event["cat"] in WORK):
            key = (name.split(",bytes=")[0], work["args"]["class"])
            moved.setdefault(key, set()).add(work["args"].get("step_bytes"))
    assert moved["Overlap,AllReduce+Gemm", "COMM"] == {65536}
    of_delays = [sizes for (row, _), sizes in moved.items() if "Delay" in row]
    assert {None} in of_delays, "a delay moves nothing"


def test_hta_finds_the_rank_and_keeps_all_samples(traced: Traced) -> None:
    for name, text in traced.texts.items():
        line = next(line for line in text.splitlines() if re.search(r'"rank":\s+(\d+)', line))
        found = re.search(r'"rank":\s+(\d+)', line)
        assert found is not None
        assert f".rank{found[1]}.json" in name
        spans = [e for e in traced.traces[name]["traceEvents"] if e["ph"] == "X"]
        steps = [e for e in spans if e["name"].startswith("ProfilerStep#")]
        steps.sort(key=lambda step: float(step["ts"]))
        assert [step["name"] for step in steps] == [f"ProfilerStep#{i}" for i in range(SAMPLES + 1)]
        last_ts = steps[-1]["ts"]
        assert all(e["ts"] + e["dur"] <= last_ts + 0.01 for e in spans if e["cat"] in WORK)


def test_a_trace_has_as_many_samples_as_asked_for(launcher: "Launcher", tmp_path: Path) -> None:
    out, folder = tmp_path / "out.json", tmp_path / "traces"
    flags = ("--benchmark_filter=Overlap/SecondDelay", "--budget_ms=1", "--axis", "streams=2")
    done = launcher.run(
        *(*flags, f"--benchmark_out={out}", f"--trace_out={folder}", "--trace_samples=9")
    )
    assert done.returncode == 0, done.stderr
    for path in folder.iterdir():
        names = [event["name"] for event in json.loads(path.read_text())["traceEvents"]]
        assert sum(name.startswith("ProfilerStep#") for name in names) == 9 + 1
    (row,) = json.loads(out.read_text())["benchmarks"]
    assert row["trace_cost_pct_low"] <= row["trace_cost_pct"] <= row["trace_cost_pct_high"]


def test_no_samples_are_refused(launcher: "Launcher", tmp_path: Path) -> None:
    done = launcher.run(f"--trace_out={tmp_path / 'traces'}", "--trace_samples=0")
    assert done.returncode == USAGE
    assert "--trace_samples" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_ranks_share_a_clock(traced: Traced) -> None:
    (pair,) = [
        {e["name"]: e for _, spans in [(name, spans)] for e in spans if e["name"] == "sample 0"}
        | {"rank": traced.traces[name]["distributedInfo"]["rank"]}
        for name, spans in traced.spans()
        if name.startswith("Overlap,AllReduce") and name.endswith("rank0.json")
    ]
    (other,) = [
        e
        for name, spans in traced.spans()
        if name.startswith("Overlap,AllReduce") and name.endswith("rank1.json")
        for e in spans
        if e["name"] == "sample 0"
    ]
    # They are released together, and begin within the time that a thread needs to wake up.
    assert abs(pair["sample 0"]["ts"] - other["ts"]) < 1e5


def test_a_step_that_waits_has_an_arrow(traced: Traced) -> None:
    (name,) = [name for name in traced.traces if re.match(r"Pp,.*rank0", name)][:1]
    flows = [e for e in traced.traces[name]["traceEvents"] if e["ph"] in "sf"]
    assert flows
    tids: dict[int, set[int]] = {e["id"]: set() for e in flows}
    for event in flows:
        tids[event["id"]].add(event["tid"])
    assert any(len(lanes) == 2 for lanes in tids.values())


# More ranks than cores: beside other tests, each exchange would wait for several time slices.
@pytest.mark.alone
@pytest.mark.parametrize("ranks", [3, 4])
def test_ranks_wait_for_those_that_they_communicate_with(
    launcher: "Launcher", tmp_path: Path, ranks: int
) -> None:
    done = launcher.run(
        "--benchmark_filter=^(Pp/OneFOneB/Delay|Overlap/AllReduce.Gemm)",
        *("--budget_ms=1", "--no-self-test"),
        *("--axis", "cache=warm", "--axis", "microbatches=4"),
        *("--axis", "bytes=12K", "--axis", "n=64", "--axis", "grid=2x2"),
        f"--trace_out={tmp_path}",
        ranks=ranks,
        timeout_s=300,
    )
    assert done.returncode == 0, done.stderr
    rows = read_rows([str(tmp_path)], Rules())
    (pipeline,) = (traces for row, traces in rows.items() if row.startswith("Pp/"))
    (collective,) = (traces for row, traces in rows.items() if row.startswith("Overlap/"))
    everyone = set(range(ranks))
    assert {frozenset(found) for found in communicating(collective).values()} == {
        frozenset(everyone)
    }
    pairs = [tuple(sorted(found)) for found in communicating(pipeline).values()]
    # Activations and gradients of four micro-batches cross each link, in each sample.
    links = [(rank, rank + 1) for rank in range(ranks - 1)]
    assert Counter(pairs) == dict.fromkeys(links, 2 * 4 * SAMPLES)
    timelines = [make_timeline(pipeline, step) for step in range(SAMPLES)]
    # The last gradient to come has been through all stages. On a busy machine a path may begin at a
    # rank that came late.
    assert {bar.lane.rank for one in timelines for bar in one.path} == everyone
    for timeline in timelines:
        waits = [link for link in timeline.links if link.in_communication]
        assert waits
        for link in waits:
            assert abs(link.source.lane.rank - link.target.lane.rank) == 1
            assert link.source.span.communication == link.target.span.communication


def communicating(traces: Sequence[Trace]) -> dict[int, set[int]]:
    """Return the ranks of each communication."""
    found: dict[int, set[int]] = {}
    for trace in traces:
        assert trace.rank is not None
        for span in trace.spans:
            if span.communication is not None:
                found.setdefault(span.communication, set()).add(trace.rank)
    return found


def test_every_row_has_shares_that_add_up(traced: Traced) -> None:
    for row in traced.rows:
        assert row["breakdown_valid"] == 1, row
        assert sum(row[name] for name in SETS) == pytest.approx(100, abs=0.001)
        causes = (
            sum(value for name, value in row.items() if name.startswith("idle_")) - row["idle_pct"]
        )
        assert causes == pytest.approx(row["idle_pct"], abs=0.001)
        assert row["traced_ms"] > 0
        assert row["untraced_events_ms"] > 0
        assert row["trace_cost_pct"] > -100


def test_a_row_says_what_its_trace_shows_and_stays_valid(
    launcher: "Launcher", tmp_path: Path
) -> None:
    """On a busy machine a preempted kernel may take most of the time, so the run is repeated."""
    flags = ("--benchmark_filter=^Launch/EmptyKernel", "--budget_ms=1", "--axis", "launches=4")
    reason = ""
    for attempt in range(6):
        out, folder = tmp_path / f"{attempt}.json", tmp_path / f"traces{attempt}"
        done = launcher.run(
            *(*flags, "--axis", "cache=warm", "--axis", "call=loop"),
            *(f"--benchmark_out={out}", f"--trace_out={folder}"),
        )
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(out.read_text())["benchmarks"]
        assert row["valid"] == 1
        reason = row["reason"]
        if "its trace shows" in reason:
            break
    assert "many short kernels" in reason or "gaps from late launches" in reason
    assert "CUDA graph." in reason


def test_delays_that_fill_their_time_show_nothing(traced: Traced) -> None:
    """Delays of milliseconds, behind a gate."""
    delays = [row for row in traced.rows if row["name"].startswith("Overlap/SecondDelay")]
    assert delays
    assert not any("its trace shows" in row["reason"] for row in delays)


PARTS: dict[Part, str] = {
    **{cause: f"idle_{cause}_pct" for cause in Cause},
    Cause.UNKNOWN: "idle_other_pct",
    (Class.COMP,): "only_comp_pct",
    (Class.COMM,): "only_comm_pct",
    (Class.MEM,): "only_mem_pct",
    (Class.COMP, Class.COMM): "comp_comm_pct",
    (Class.COMP, Class.MEM): "comp_mem_pct",
    (Class.COMM, Class.MEM): "comm_mem_pct",
    (Class.COMP, Class.COMM, Class.MEM): "comp_comm_mem_pct",
}


def test_the_tools_find_in_the_files_what_the_row_reports(traced: Traced) -> None:
    """The program's shares and patterns, and the tools' from its files, are of one rank."""
    reported = {row["name"]: row for row in traced.rows}
    for name, traces in read_rows([str(traced.folder)], Rules()).items():
        row, slowest = reported[name], max(break_down(traces), key=lambda one: one.total_ns)
        # Files round each begin and each duration to nanoseconds.
        rounding_pct = 100 * 4 * len(traces[slowest.rank].spans) / slowest.total_ns
        for part, counter in PARTS.items():
            found_pct = 100 * slowest.parts_ns[part] / slowest.total_ns
            assert found_pct == pytest.approx(row[counter], abs=rounding_pct), (name, counter)
        assert slowest.overlap_pct == pytest.approx(row.get("overlap_pct"), abs=0.01), name
        by_name = slowest.named_overlap_pct or 0
        assert by_name == pytest.approx(row.get("overlap_by_name_pct", 0), abs=0.01), name
        told = re.findall(
            r"(?:its trace shows|Also) ([^,]*(?:, on [^,]*)?), (\d+) %", row["reason"]
        )
        assert [pattern for pattern, _ in told] == [one.name for one in slowest.patterns], name
        shares = [one.pct for one in slowest.patterns]
        assert [float(share) for _, share in told] == pytest.approx(shares, abs=0.51), name


def test_the_reader_finds_the_idle_time_that_each_file_states(traced: Traced) -> None:
    """For each rank, and not only for the slowest one of a row."""
    found_any: set[str] = set()
    for row, traces in read_rows([str(traced.folder)], Rules()).items():
        for one in break_down(traces):
            name = Path(one.source).name
            stated_ms = traced.traces[name]["overlapbench"]["idle_ms"]
            found_ms = {cause.value: one.parts_ns[cause] / 1e6 for cause in Cause}
            found_ms["other"] = found_ms.pop("unknown")
            events = len(traced.traces[name]["traceEvents"])  # each may be rounded by a nanosecond
            assert found_ms == pytest.approx(stated_ms, abs=2e-6 * events), (row, name)
            found_any |= {cause for cause, idle_ms in stated_ms.items() if idle_ms > 0}
    assert {"ranks", "host", "other"} & found_any


def test_without_the_flag_nothing_is_written_or_said(launcher: "Launcher", tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = launcher.run(
        "--benchmark_filter=Overlap/SecondDelay",
        "--budget_ms=1",
        f"--benchmark_out={out}",
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    for row in json.loads(out.read_text())["benchmarks"]:
        assert not set(row) & {*SETS, "breakdown_valid", "traced_ms", "overlap_pct"}
        assert "its trace shows" not in row["reason"]


def test_a_folder_that_cannot_be_is_refused_before_anything_runs(
    launcher: "Launcher", tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    out = tmp_path / "out.json"
    for folder in (file, file / "folder"):
        done = launcher.run(
            "--benchmark_filter=Comm/AllReduce",
            f"--trace_out={folder}",
            f"--benchmark_out={out}",
            timeout_s=50,
        )
        assert done.returncode == USAGE
        assert done.stderr.startswith(f"overlapbench: cannot write to the folder {folder}: ")
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert file.read_text() == ""


def test_a_file_that_cannot_be_written_ends_traces_but_no_row(
    launcher: "Launcher", tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    folder = tmp_path / "traces"
    # A folder occupies the path of rank 1's file for the first row.
    names = launcher.run(
        "--benchmark_filter=Overlap/SecondDelay", "--benchmark_list_tests", ranks=1
    ).stdout.split()
    assert len(names) == 2
    blocked = names[0].replace("/", ",").replace(":", "=") + ".rank1.json"
    (folder / blocked).mkdir(parents=True)
    done = launcher.run(
        "--benchmark_filter=Overlap/SecondDelay",
        "--budget_ms=1",
        f"--trace_out={folder}",
        f"--benchmark_out={out}",
    )
    assert done.returncode == 1
    assert done.stderr == (
        "overlapbench: rows were measured without traces: rank 1: cannot write "
        f"{folder}/{blocked}: is a directory\n"
    )
    rows = json.loads(out.read_text())["benchmarks"]
    assert [row["name"] for row in rows] == names
    assert not list(folder.glob("*.partial"))


# The samples of a row here. Each enters the phase `enqueue` once. The run also takes empty ones.
EMPTY = 11
# A warm-up ends after 0.4 s, and rows of such long samples take five.
WARM_UP = 1
MEASURED = 5
TRACED = 1 + SAMPLES  # the first is discarded
UNTRACED = TRACED  # before them, to measure the cost of tracing
OF_A_ROW = EMPTY + WARM_UP + MEASURED + UNTRACED + TRACED


def visit(row: int, sample: int) -> int:
    """Return the number of samples up to and including this one of a row; both count from one."""
    return EMPTY + OF_A_ROW * (row - 1) + sample


def traced_rows(launcher: "Launcher", folder: Path, *faults: str) -> tuple[str, list[list[int]]]:
    """Trace two rows on two ranks, and return stderr and the ranks whose files each row has.

    Every file is whole, and there are no others.
    """
    done = launcher.with_faults().run(
        "--benchmark_filter=^Comm/AllReduce/",
        *("--budget_ms=1", f"--trace_out={folder}"),
        *("--axis", "bytes=64K,128K", "--axis", "cache=warm"),
        # Slow warm-ups, after which the number of samples is known.
        *(
            f"--inject_fault=delay@enqueue,rank=1,visit={visit(row, EMPTY + WARM_UP)},ms=500"
            for row in (1, 2)
        ),
        *(f"--inject_fault={fault}" for fault in faults),
    )
    ranks: dict[str, list[int]] = {"bytes:65536": [], "bytes:131072": []}
    for path in sorted(folder.iterdir()):
        assert path.suffix == ".json"
        trace = json.loads(path.read_text())
        assert broken_rules(trace) == []
        assert trace["overlapbench"]["samples"] == SAMPLES
        assert trace["overlapbench"]["fault"] == ""
        rank = trace["distributedInfo"]["rank"]
        assert path.name.endswith(f".rank{rank}.json")
        ranks[trace["overlapbench"]["row"].split("/")[2]].append(rank)
    return done.stderr, list(ranks.values())


@pytest.mark.parametrize(
    ("phase", "number"), [("enqueue", 1), ("meet", 2), ("wait", 3), ("times", TRACED)]
)
def test_a_rank_that_dies_in_a_traced_sample_leaves_whole_files(
    launcher: "Launcher", tmp_path: Path, phase: str, number: int
) -> None:
    sample = EMPTY + WARM_UP + MEASURED + UNTRACED + number
    waits = 2 if phase == "wait" else 1  # of a sample: for its lane, and for the stream that joins
    fault = f"kill@{phase},rank=1,visit={waits * visit(2, sample)}"
    stderr, ranks = traced_rows(launcher, tmp_path, fault)
    assert f"/bytes:131072/cache:warm, sample {sample}, run 'AllReduce'" in stderr
    assert ranks == [[0, 1], []]


def test_a_rank_that_dies_after_its_file_leaves_whole_files(
    launcher: "Launcher", tmp_path: Path
) -> None:
    stderr, ranks = traced_rows(launcher, tmp_path, "kill@report,rank=1,visit=2")
    # The last sample, so the four before are the traced ones.
    assert f"/bytes:131072/cache:warm, sample {OF_A_ROW}, run 'AllReduce'" in stderr
    assert ranks == [[0, 1], [0, 1]]


# Rank 0 also writes the result of the first row.
@pytest.mark.parametrize(("rank", "number"), [(0, 3), (1, 2)])
def test_a_rank_that_dies_before_it_writes_leaves_whole_files(
    launcher: "Launcher", tmp_path: Path, rank: int, number: int
) -> None:
    fault = f"kill@write,rank={rank},visit={number}"
    stderr, (first, second) = traced_rows(launcher, tmp_path, fault)
    assert (rank == 0) or "writing results" in stderr
    assert first == [0, 1]
    # The other rank may have written its own.
    assert second in ([], [1 - rank])


def test_a_disk_that_fills_while_a_trace_is_written_leaves_whole_files(
    launcher: "Launcher", tmp_path: Path
) -> None:
    stderr, ranks = traced_rows(launcher, tmp_path, "disk@write,rank=1,visit=2,bytes=4096")
    assert re.search("without traces: rank 1: cannot write .*: File too large\n", stderr)
    assert ranks == [[0, 1], [0]]
