"""Readers of traces: each kind of file gives the same spans; steps, ranks and classes are found."""

import gzip
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

import traces
from overlapbench.output import ResultError
from overlapbench.traces.breakdown import break_down
from overlapbench.traces.files import read_rows, read_traces
from overlapbench.traces.model import Category, Class, Span, Trace
from overlapbench.traces.rules import Rules, parse_rule
from traces import (
    GEMM,
    NCCL,
    PEER,
    ROW,
    Json,
    call,
    done,
    event,
    kernel,
    kineto,
    ours,
    recorded,
    step,
    waits,
    work,
)

BASE = 10**18


def read(path: Path, *rules: str) -> list[Trace]:
    return read_traces([str(path)], Rules([*map(parse_rule, rules)]))


def read_events(events: list[Json], folder: Path) -> Trace:
    (one,) = read(traces.write(folder / "trace.json", kineto(events)))
    return one


def test_a_trace_of_pytorch_in_any_order(tmp_path: Path) -> None:
    events = [
        step(7, 0, 50),
        event("cpu_op", "aten::mm", 0, 10),
        call(1, 2.25, 5),
        event("cuda_driver", "cuLaunchKernelEx", 4, 1, correlation=6),
        work(GEMM, 10.001, 20.002, correlation=5),
        work(NCCL, 12, 30, stream=20, correlation=6),
        work(PEER, 45, 1),
        work("Memset (Device)", 60, 1),
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 1},
    ]
    Random(1).shuffle(events)
    one = read_events(events, tmp_path)
    assert one.spans == (
        Span(GEMM, Class.COMP, BASE + 10001, BASE + 30003, "7", Category.KERNEL, BASE + 3250),
        Span(NCCL, Class.COMM, BASE + 12000, BASE + 42000, "20", Category.KERNEL, BASE + 5000),
        Span(PEER, Class.COMM, BASE + 45000, BASE + 46000, "7", Category.PEER),
        Span("Memset (Device)", Class.MEM, BASE + 60000, BASE + 61000, "7", Category.MEMSET),
    )
    (window,) = one.windows  # what was launched in the step, not the host's own times
    assert (window.number, window.begin_ns, window.end_ns) == (7, BASE + 10001, BASE + 42000)
    assert (one.rank, one.common_clock) == (0, True)


def test_fractions_of_large_times_are_exact(tmp_path: Path) -> None:
    one = read_events([work(GEMM, 3569824056354.781, 0.096)], tmp_path)
    assert one.spans[0].begin_ns - BASE == 3569824056354781
    assert one.spans[0].end_ns - BASE == 3569824056354877
    since_1970 = read_events([work(GEMM, 1760000000000000.25, 1)], tmp_path)  # as Kineto did once
    assert since_1970.spans[0].begin_ns - BASE == 1760000000000000250


def test_gzip_and_the_short_form_are_read_alike(tmp_path: Path) -> None:
    events = [work(GEMM, 0, 10)]
    plain = read_events(events, tmp_path)
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(kineto(events)).encode()))
    assert read(packed)[0].spans == plain.spans
    (short,) = read(traces.write(tmp_path / "short.json", events))
    assert (short.spans[0].begin_ns, short.common_clock) == (0, False)


def test_steps_cover_the_work_that_they_launched(tmp_path: Path) -> None:
    events = [step(1, 0, 10), step(2, 10, 10), call(1, 1, 1), call(5, 1, 2), call(11, 1, 3)]
    events += [work(GEMM, 30, 10, correlation=1), work(NCCL, 40, 25, 8, correlation=2)]
    events += [work(GEMM, 60, 20, correlation=3)]
    one = read_events(events, tmp_path)
    spans = [(w.number, (w.begin_ns - BASE) / 1000, (w.end_ns - BASE) / 1000) for w in one.windows]
    assert spans == [(1, 30, 60), (2, 60, 80)]
    (both,) = break_down([one])
    assert (both.window, both.total_ns) == ("ProfilerStep#1 to ProfilerStep#2, 2 in all", 50_000)


def test_without_launches_the_device_s_annotation_stands_else_the_host_s(tmp_path: Path) -> None:
    events = [step(1, 0, 10), step(2, 10, 10), work(GEMM, 5, 30)]
    hosts = read_events(events, tmp_path).windows
    assert [(w.begin_ns - BASE, w.end_ns - BASE) for w in hosts] == [(0, 10_000), (10_000, 20_000)]
    for ts, dur in ((5, 4), (3, 2), (4, 1), (20, 9)):  # the first step's on three streams
        number = 1 if ts < 20 else 2
        events.append(event("gpu_user_annotation", f"ProfilerStep#{number}", ts, dur))
    devices = read_events(events, tmp_path).windows
    assert [(w.begin_ns - BASE, w.end_ns - BASE) for w in devices] == [
        (3_000, 20_000),
        (20_000, 29_000),
    ]


def test_a_range_that_launched_nothing_is_no_time_of_the_device(tmp_path: Path) -> None:
    """Several ranges have one name. If none launched anything, the host's times remain."""
    events = [work(GEMM, 100, 10, correlation=1), work(GEMM, 200, 10, correlation=2)]
    events += [call(11, 1, 1), call(31, 1, 2)]
    for ts in (0, 10, 20, 30):
        events.append(event("user_annotation", "sample", ts, 5))
        events.append(event("user_annotation", "wait", ts + 5, 1))
    one = read_events(events, tmp_path)
    (samples,) = break_down([one], pattern="sample")
    assert (samples.window, samples.total_ns) == ("2 × sample", 20_000)
    assert traces.percent(samples) == {"COMP": 100.0}
    (waits,) = break_down([one], pattern="wait")
    assert (waits.window, waits.total_ns) == ("4 × wait", 4_000)


def test_windows_are_chosen_by_name_and_number(tmp_path: Path) -> None:
    events = [work(GEMM, 0, 100), event("user_annotation", "forward", 10, 20)]
    events += [event("user_annotation", "forward", 50, 5), event("user_annotation", "loss", 60, 1)]
    one = read_events(events, tmp_path)
    whole, forward = break_down([one])[0], break_down([one], pattern="FORW*D")[0]
    assert (whole.window, whole.total_ns) == ("the whole trace", 100_000)
    assert (forward.window, forward.total_ns) == ("2 × forward", 25_000)
    with pytest.raises(ResultError, match=r"trace.json: no step 3 window x: there are forward"):
        break_down([one], 3, "x")
    with pytest.raises(ResultError, match=r"the whole trace takes no time$"):
        break_down([read_events([work(GEMM, 5, 0)], tmp_path)])


def test_the_suites_own_files_state_every_field(tmp_path: Path) -> None:
    events = [
        ours("COMM", 0, 10, rank=1),
        ours("COMP", 0, 20, rank=1),
        ours("MEM", 30, 20, rank=1, sample=1),
        ours("COMP", 0, 30, rank=4),
        event("host_function", "produce", 5, 5, **{"class": "HOST", "rank": 4, "lane": "copy"}),
    ]
    events[0]["name"] = GEMM
    first, second = read(traces.write(tmp_path / "t.json", kineto(events, None)))
    assert (first.rank, second.rank) == (1, 4)
    assert [(s.kind, s.lane) for s in first.spans] == [
        ("COMM", "COMM"),
        ("COMP", "COMP"),
        ("MEM", "MEM"),
    ]
    assert [(w.name, w.number) for w in first.windows] == [
        ("Overlap/A+B overlap sample 0", 0),
        ("Overlap/A+B overlap sample 1", 1),
    ]
    assert [(s.kind, s.category, s.lane) for s in second.spans][1] == ("HOST", "other", "copy")
    assert read(tmp_path / "t.json", "gemm=MEM")[0].spans[0].kind is Class.MEM  # the user's word


def two_samples(**about: Any) -> Json:
    """4 and 2 ms beside each other, then one after the other."""
    first = [done("comp", "COMP", "COMP", 0, 4), done("comm", "COMM", "COMM", 0, 2)]
    second = [done("comp", "COMP", "COMP", 0, 4), done("comm", "COMM", "COMM", 4, 2)]
    return recorded(first, [*second, waits("COMM", 0, 4)], **about)


def test_the_steps_of_our_own_files_are_their_samples(tmp_path: Path) -> None:
    (one,) = read(traces.write(tmp_path / "t.json", two_samples()))
    numbered = [
        (w.name, w.number, w.begin_ns, w.end_ns) for w in one.windows if w.number is not None
    ]
    assert numbered == [
        (f"{ROW} overlap sample 0", 0, 100_000_000, 104_000_000),  # without the wait for the gate
        (f"{ROW} overlap sample 1", 1, 200_000_000, 206_000_000),
    ]
    assert [w.name for w in one.windows if w.number is None] == ["ProfilerStep#0", "ProfilerStep#1"]
    assert (one.row, one.backend, one.common_clock, one.notes) == (ROW, "host", True, ())
    (whole,) = break_down([one])
    assert (whole.window, whole.total_ns) == (
        f"{ROW} overlap sample 0 to 1, 2 in all",
        10_000_000,
    )
    assert traces.percent(whole) == {"COMP": 60, "COMM": 20, "COMP+COMM": 20}
    (second,) = break_down([one], 1)
    assert second.total_ns == 6_000_000
    (steps,) = break_down([one], pattern="ProfilerStep#1")
    assert steps.total_ns == 9_000_000  # from before the gate to after the last work


def test_counter_tracks_change_nothing(tmp_path: Path) -> None:
    document = recorded([done("one", "COMP", "comp", 0, 2)])
    (before,) = read(traces.write(tmp_path / "trace.json", document))
    gauge = {"ph": "C", "name": "sm_clock_MHz", "pid": 0, "tid": 0, "ts": 99_000.5}
    document["traceEvents"] += [gauge | {"args": {"value": value}} for value in (1980, 345.5)]
    (after,) = read(traces.write(tmp_path / "trace.json", document))
    assert after == before


def test_a_fault_of_our_own_files_is_told(tmp_path: Path) -> None:
    (one,) = read(traces.write(tmp_path / "t.json", two_samples(fault="2 records\x1b were lost")))
    assert one.notes == ("its records are faulty, so do not trust it: 2 records\ufffd were lost",)


def test_rows_are_runs_of_their_own(tmp_path: Path) -> None:
    for row in ("b", "a"):
        for rank in (1, 0):
            document = two_samples(rank=rank, row=row)
            traces.write(tmp_path / f"{row}.rank{rank}.json", document)
    traces.write(tmp_path / "c.json", kineto([work(GEMM, 0, 1)], None))
    (tmp_path / "notes.txt").write_text("no trace")
    rows = read_rows([str(tmp_path)], Rules())
    assert {row: [one.rank for one in ranks] for row, ranks in rows.items()} == {
        "a": [0, 1],
        "b": [0, 1],
        "": [0],
    }
    with pytest.raises(
        ResultError, match=r"^traces of 3 rows: give those of one row: a, b, another to"
    ):
        read_traces([str(tmp_path)], Rules())
    files = [str(tmp_path / f"a.rank{rank}.json") for rank in (0, 1)]
    assert [one.rank for one in read_traces(files, Rules())] == [0, 1]
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        ResultError, match=r"empty: no trace in this folder \(.json, .json.gz, .json.zst, "
    ):
        read_traces([str(tmp_path / "empty")], Rules())


def test_an_export_of_nsys_is_read_as_the_same_trace(tmp_path: Path) -> None:
    two = 2 * traces.PROCESS
    copies = "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES"
    path = traces.nsys(
        tmp_path / "report.sqlite",
        [
            kernel(1, 10_000, 30_000, call=5),
            kernel(2, 12_000, 42_000, stream=20, call=6),
            kernel(1, 10, 20, process=2, call=5),
            kernel(1, 0, 0),  # CUPTI had no times for it
            f"{copies} (45000, 46000, 0, 7, 0, {traces.PROCESS}, 10, NULL, NULL)",
            f"{copies} (46000, 47000, 0, 7, 0, {traces.PROCESS}, 8, 0, 1)",
            f"{copies} (47000, 48000, 0, 7, 0, {traces.PROCESS}, 1, NULL, NULL)",
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES"
            f" (60000, 61000, 0, 7, 0, {traces.PROCESS})",
            f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 3000, {two - 1}, 5, 1)",
            f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 9, {two + 8}, 5, 1)",
            f"INSERT INTO NVTX_EVENTS VALUES (500, 4000, 59, {two - 1}, NULL, 3)",
            f"INSERT INTO NVTX_EVENTS VALUES (600, 4000, 59, {two - 1}, 'forward', NULL)",
            f"INSERT INTO NVTX_EVENTS VALUES (700, NULL, 34, {two - 1}, 'a mark', NULL)",
        ],
    )
    first, second = read(path)
    assert first.spans == (
        Span(GEMM, Class.COMP, BASE + 10000, BASE + 30000, "7", Category.KERNEL, BASE + 3000),
        Span(NCCL, Class.COMM, BASE + 12000, BASE + 42000, "20", Category.KERNEL),
        Span("Memcpy PtoP", Class.COMM, BASE + 45000, BASE + 46000, "7", Category.PEER),
        Span("Memcpy DtoD", Class.COMM, BASE + 46000, BASE + 47000, "7", Category.PEER),
        Span("Memcpy HtoD", Class.MEM, BASE + 47000, BASE + 48000, "7", Category.MEMCPY),
        Span("Memset", Class.MEM, BASE + 60000, BASE + 61000, "7", Category.MEMSET),
    )
    assert [(w.name, w.number, w.begin_ns, w.end_ns) for w in first.windows] == [
        ("forward", None, BASE + 10000, BASE + 30000),
        ("step 4", 4, BASE + 10000, BASE + 30000),
    ]
    assert (first.rank, second.rank, second.spans[0].launched_ns) == (0, 1, BASE + 9)
    assert second.windows == ()
    assert (first.common_clock, second.common_clock) == (True, True)


def test_later_versions_of_nsys_tell_grids_and_bytes(tmp_path: Path) -> None:
    kernels, copies = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"
    statements = [kernel(1, 5, 9)]
    statements += [f"ALTER TABLE {kernels} ADD COLUMN grid{axis} INTEGER" for axis in "XYZ"]
    statements.append(f"ALTER TABLE {copies} ADD COLUMN bytes INTEGER")
    statements.append(f"UPDATE {kernels} SET gridX = 2, gridY = 3, gridZ = 4")
    statements.append(
        kernel(1, 10, 11).replace(" VALUES (", " SELECT ").replace(")", ", 2, 3, NULL")
    )
    statements.append(
        f"INSERT INTO {copies} VALUES (12, 13, 0, 7, 0, {traces.PROCESS}, 1, NULL, NULL, 4096)"
    )
    (one,) = read(traces.nsys(tmp_path / "report.sqlite", statements))
    assert [(span.blocks, span.bytes) for span in one.spans] == [
        (24, None),
        (None, None),
        (None, 4096),
    ]


def test_a_folder_orders_files_by_their_numbers(tmp_path: Path) -> None:
    names = ["report.2.sqlite", "report.10.sqlite"]
    for name in names:
        traces.nsys(tmp_path / name, [kernel(1, 100, 200)])
    assert [Path(trace.source).name for trace in read_traces([str(tmp_path)], Rules())] == names


def test_what_nsys_ties_to_no_call_is_read_without_one(tmp_path: Path) -> None:
    """The columns correlationId and globalTid of an export may be NULL."""
    copies, at = "CUPTI_ACTIVITY_KIND_MEMCPY", f"{traces.PROCESS}"
    statements = [kernel(1, 100, 200, call=5), kernel(1, 300, 400, call=6)]
    statements += ["UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = NULL WHERE start = 100"]
    statements += [f"INSERT INTO {copies} VALUES (5, 6, 0, 7, NULL, {at}, 11, NULL, NULL)"]
    statements += [f"INSERT INTO {copies} VALUES (7, 8, 0, 7, NULL, {at}, 13, 0, 1)"]
    calls = f"(10, 20, {at}, 6, 1), (30, 40, {at}, NULL, 1), (50, 60, NULL, 6, 1)"
    statements += [f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES {calls}"]
    statements += ["INSERT INTO NVTX_EVENTS VALUES (1, 500, 59, NULL, 'step 1', NULL)"]
    (one,) = read(traces.nsys(tmp_path / "report.sqlite", statements))
    assert [(span.name, span.kind, span.launched_ns) for span in one.spans] == [
        ("Memcpy unified HtoD", Class.MEM, None),
        ("Memcpy unified DtoD", Class.COMM, None),
        (GEMM, Class.COMP, None),
        (GEMM, Class.COMP, BASE + 20),
    ]
    assert one.windows == ()


def test_tables_that_nothing_was_recorded_for_may_be_missing(tmp_path: Path) -> None:
    kept = "CUPTI_ACTIVITY_KIND_KERNEL"
    gone = ["CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "NVTX_EVENTS"]
    gone += ["CUPTI_ACTIVITY_KIND_RUNTIME", "TARGET_INFO_SESSION_START_TIME"]
    drops = [f"DROP TABLE {name}" for name in gone]
    (one,) = read(traces.nsys(tmp_path / f"{kept}.sqlite", [kernel(1, 5, 9), *drops]))
    assert (one.spans[0].interval, one.common_clock, one.windows) == ((5, 9), False, ())


def test_graphs_that_nsys_recorded_as_wholes_are_told(tmp_path: Path) -> None:
    graphs = [
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10, 20), (30, 40)",
    ]
    told = (
        "2 graph launches are recorded as a whole, without their work: run nsys"
        " profile with --cuda-graph-trace=node"
    )
    (one,) = read(traces.nsys(tmp_path / "some.sqlite", [kernel(1, 5, 9), *graphs]))
    assert one.notes == (told,)
    with pytest.raises(ResultError, match=f"empty: no device work; {re.escape(told)}$"):
        read(traces.nsys(tmp_path / "all.sqlite", graphs))
    (none,) = read(traces.nsys(tmp_path / "none.sqlite", [kernel(1, 5, 9), graphs[0]]))
    assert none.notes == ()


def test_ranks_are_stated_named_or_counted(tmp_path: Path) -> None:
    events = [work(GEMM, 0, 1)]
    two = [*events, event("kernel", GEMM, 0, 2, device=3, stream=7)]
    files = {
        "stated.json": kineto(events, 5),
        "run_rank2_x.json": kineto(events, None),
        "zero.json": kineto(events, None),
        "devices.json": kineto(two, 6),  # the one that is busier
    }
    paths = [str(traces.write(tmp_path / name, document)) for name, document in files.items()]
    found = [(trace.rank, Path(trace.source).name) for trace in read_traces(paths, Rules())]
    assert found == [
        (0, "zero.json"),
        (1, "devices.json"),
        (2, "run_rank2_x.json"),
        (5, "stated.json"),
        (6, "devices.json"),
    ]
    with pytest.raises(ResultError, match=r"/stated.json: rank 5 occurs twice"):
        read_traces([paths[0], paths[0]], Rules())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "COMM"),
        ("void nvshmemi_transfer_rma<0>(int)", "COMM"),
        ("nvshmemi_signal_wait_until_on_stream_kernel", "WAIT"),
        ("c10d::wait_signal_kernel", "WAIT"),
        ("void mscclpp::broadcast<int>(int*)", "COMM"),
        ("mscclKernel_Sum_float_Simple_2(ncclDevComm*)", "COMM"),
        ("void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int, int)", "COMM"),
        ("void hybrid_ep::dispatch_kernel<int>(int)", "COMM"),
        ("cutlass_gemm_bf16_all_reduce_epilogue", "FUSED"),
        ("all_gather_into_gemm_kernel", "FUSED"),
        ("void AllGatherGemm<128>(int)", "FUSED"),
        ("fused_matmul_reduce_scatter", "FUSED"),
        ("gemm_reduce_scatter_kernel", "FUSED"),
        ("all_to_all_matmul", "FUSED"),
        ("triton_poi_fused_all_reduce_lift_fresh_0", "COMP"),
        ("triton_red_fused__to_copy_all_gather_mm_1", "COMP"),
        ("triton_all_gather_gemm_fused_kernel", "FUSED"),
        ("void deep_ep::intranode::dispatch<8>(int*)", "COMM"),
        ("one_shot_sum_kernel", "COMM"),
        ("two_shot_sum_kernel", "COMM"),
        ("void all_reduce<float>(float*)", "COMM"),
        ("lamport_allreduce_fusion", "COMM"),
        ("vllm::cross_device_reduce_1stage<half, 2>", "COMM"),
        ("multimem_sum_kernel", "COMM"),
        ("symm_mem_copy", "COMM"),
        ("c10d::symmetric_memory::barrier", "COMM"),
        ("triton_all_gather_push", "COMM"),
        ("AllGatherPush", "COMM"),
        ("triton_reduce_scatter", "COMM"),
        ("ReduceScatterPull", "COMM"),
        ("all_to_all_v", "COMM"),
        ("AllToAllPush", "COMM"),
        ("spinKernel(volatile int*, unsigned long long)", "GATE"),
        ("at::cuda::(anonymous namespace)::spin_kernel(long)", "GATE"),
        ("nvbench::detail::blocking_kernel", "GATE"),
        ("overlapbench::<unnamed>::Hold(overlapbench::<unnamed>::Words *)", "GATE"),
        ("overlapbench::<unnamed>::HoldAndCopy(overlapbench::<unnamed>::StandInTask)", "COMP"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32", "COMP"),
        ("void at::native::reduce_kernel<512, 1>(int)", "COMP"),
    ],
)
def test_kernels_have_sensible_classes(name: str, kind: str) -> None:
    assert Rules().classify(Category.KERNEL, name) == kind


@pytest.mark.parametrize(
    ("rule", "changed"),
    [
        ("GEMM=COMM", True),
        ("void*mm<?loat>(float*)=comm", True),
        ("kernel:gemm=COMM", True),
        ("memcpy:gemm=COMM", False),
        ("a::gemm=COMM", False),
        ("gemm[f]=COMM", False),
        ("x=y=COMM", False),
    ],
)
def test_a_rule_of_the_user_comes_first(rule: str, changed: bool) -> None:
    kind = Rules([parse_rule(rule)]).classify(Category.KERNEL, GEMM)
    assert kind is (Class.COMM if changed else Class.COMP)


def test_waits_and_gates_of_our_own_traces_are_other_spans(tmp_path: Path) -> None:
    file = traces.write(tmp_path / "a.json", recorded([done("x", "COMP", "a", 0, 1)]))
    kinds = {span.kind for span in read(file, "other:gate=HOST", "other:x=COMM")[0].spans}
    assert kinds == {Class.COMP, Class.WAIT, Class.HOST}


def test_the_manual_names_every_class_and_what_a_rule_may_be_limited_to() -> None:
    manual = (Path(__file__).resolve().parents[2] / "docs/timelines.md").read_text()
    section = manual.partition("### Classes")[2].partition("### ")[0]
    for name in [*Class, *(f"{category}:" for category in Category)]:
        assert f"`{name}`" in section


def test_a_namespace_is_no_category() -> None:
    rules = Rules([parse_rule("other::gemm=COMM")])
    assert rules.classify(Category.KERNEL, "void other::gemm()") is Class.COMM
