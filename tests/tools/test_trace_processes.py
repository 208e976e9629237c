"""Files as the world writes them: merged processes, stray records, clocks, impossible times."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import traces
from overlapbench.output import ResultError
from overlapbench.traces.breakdown import Breakdown, break_down
from overlapbench.traces.files import read_traces
from overlapbench.traces.model import Trace
from overlapbench.traces.rules import Rules
from traces import COPY, GEMM, NCCL, Json, call, event, kernel, kineto, step, work

SINCE_1970 = 1615207264505000


def read(path: Path) -> list[Trace]:
    return read_traces([str(path)], Rules())


def read_events(events: Sequence[Json], folder: Path, **about: object) -> list[Trace]:
    document = kineto(events, None, None) | about
    return read(traces.write(folder / "trace.json", document))


def process(number: int, late: float, device: int, offset: int = 0) -> list[Json]:
    """A rank's recording: its second launch comes `late`."""
    host = {"pid": 100 + number}
    gpu = {"pid": device}
    events = [step(1, 0, 100) | host, step(2, 100, 100) | host]
    for correlation, ts in ((1, 1), (2, late), (3, 105)):
        events.append(call(ts, 1, correlation + offset) | host)
    for correlation, name, ts, dur in ((1, GEMM, 10, 40), (2, NCCL, 150, 40), (3, GEMM, 200, 50)):
        one = work(
            name, ts + number, dur, 20 if name == NCCL else 7, correlation=correlation + offset
        )
        one["args"]["device"] = device
        events.append(one | gpu)
    return events


def tagged(number: int, late: float, device: int) -> list[Json]:
    return [
        one | {"pid": f"[TP0{number}] {one['pid'] if one['cat'] == 'kernel' else 100 + number}"}
        for one in process(number, late, device)
    ]


MERGED: dict[str, list[Json]] = {
    "named, on devices 0 and 1": tagged(0, 2, 0) + tagged(1, 122, 1),
    "named, both on device 0": tagged(0, 2, 0) + tagged(1, 122, 0),
    "named, sorted by time": sorted(
        tagged(0, 2, 0) + tagged(1, 122, 0), key=lambda event: float(event["ts"])
    ),
    "on devices 0 and 1": process(0, 2, 0) + process(1, 122, 1),
    "on device 0, one after the other": process(0, 2, 0) + process(1, 122, 0),
    "on device 0, other correlations": [
        one for pair in zip(process(0, 2, 0), process(1, 122, 0, 100), strict=True) for one in pair
    ],
}


@pytest.mark.parametrize("events", MERGED.values(), ids=MERGED)
def test_merged_processes_are_as_separate_files(events: list[Json], tmp_path: Path) -> None:
    for number, late in ((0, 2), (1, 122)):
        document = kineto(process(number, late, 0), number)
        traces.write(tmp_path / f"rank{number}.json", document)
    apart = break_down(read_traces([str(tmp_path / f"rank{n}.json") for n in (0, 1)], Rules()))
    traces.write(tmp_path / "merged.json", kineto(events, 0))
    together = break_down(read(tmp_path / "merged.json"))
    assert [one.rank for one in together] == [0, 1]
    assert figures(together) == figures(apart)
    assert together[1].parts_ns != together[0].parts_ns  # only one launched late


def figures(breakdowns: Sequence[Breakdown]) -> list[object]:
    return [
        (one.window, one.total_ns, dict(one.parts_ns), one.patterns, one.notes)
        for one in breakdowns
    ]


def test_a_process_s_devices_share_its_calls_and_annotations(tmp_path: Path) -> None:
    events = [step(1, 0, 50), call(1, 1, 1), call(2, 1, 2)]
    for device in (0, 1):
        one = work(GEMM, 10, 5 + device, correlation=device + 1)
        one["args"]["device"] = device
        events.append(one | {"pid": device})
    first, second = read_events(events, tmp_path, distributedInfo={"rank": 4})
    assert (first.rank, second.rank) == (0, 4)
    assert second.spans[0].end_ns > first.spans[0].end_ns  # the busier one is the file's rank
    for trace in (first, second):
        assert [window.name for window in trace.windows] == ["ProfilerStep#1"]
        assert trace.spans[0].launched_ns is not None


def test_annotations_of_another_process_are_those_of_the_only_one(tmp_path: Path) -> None:
    annotation = step(1, 0, 50) | {"pid": 77}
    (one,) = read_events([annotation, call(1, 1, 1), work(GEMM, 10, 5, correlation=1)], tmp_path)
    assert [window.name for window in one.windows] == ["ProfilerStep#1"]


@pytest.mark.parametrize(
    "stray",
    [
        event("gpu_memset", "Memset (Device)", 1, 1, device=0, stream=7),
        event("gpu_memcpy", COPY, 1, 500, device=0, stream=7),
        event("kernel", GEMM, 1, 0.5, device=0, stream=7),
    ],
)
def test_stray_records_on_another_device_are_no_rank(stray: Json, tmp_path: Path) -> None:
    events = [stray, *(work(GEMM, 10 * i, 9) for i in range(1, 20))]
    for good in events[1:]:
        good["args"]["device"] = good["pid"] = 3
    (one,) = read_events(events, tmp_path, distributedInfo={"rank": 3})
    assert (one.rank, len(one.spans)) == (3, 19)
    assert one.notes == ("left out 1 stray span on device 0: the process works on 3",)


def test_a_stray_record_in_an_export_of_nsys_is_no_rank(tmp_path: Path) -> None:
    copies = "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES"
    stray = f"{copies} (1, 5, 1, 7, 0, {traces.PROCESS})"
    (one,) = read(traces.nsys(tmp_path / "x.sqlite", [kernel(1, 100, 200), stray]))
    assert (one.rank, len(one.spans)) == (0, 1)
    assert one.notes == ("left out 1 stray span on device 1: the process works on 0",)


@pytest.mark.parametrize("category", ["xpu_runtime", "xpu_driver", "privateuse1_runtime"])
def test_launches_of_other_makers_are_launches(category: str, tmp_path: Path) -> None:
    launch = event(category, "urEnqueueKernelLaunch", 1, 2, correlation=5)
    (one,) = read_events([launch, work(GEMM, 10, 5, correlation=5)], tmp_path)
    assert one.spans[0].launched_ns == 3000


def test_times_since_1970_are_a_common_clock(tmp_path: Path) -> None:
    for rank, gemm_us in ((0, 100), (1, 350)):
        events = [step(1, SINCE_1970, 1000)]
        for number, (name, ts, dur) in enumerate(((GEMM, 10, gemm_us), (NCCL, 360, 50))):
            events += [call(SINCE_1970 + 1 + number, 1, number + 1)]
            events += [work(name, SINCE_1970 + ts, dur, 7 + number, correlation=number + 1)]
        traces.write(tmp_path / f"rank{rank}.json", kineto(events, rank, None))
    first, _ = break_down(read_traces([str(tmp_path)], Rules()))
    assert traces.percent(first) == {"COMP": 25, "COMM": 12.5, "dependency": 2.5, "ranks": 60}
    assert first.notes == ()


def test_recordings_without_a_moment_in_common_are_not_compared(tmp_path: Path) -> None:
    for rank in (0, 1):
        events = [work(NCCL, SINCE_1970 + 1000 * rank, 10), work(GEMM, SINCE_1970 + 20, 1)][
            : 2 - rank
        ]
        traces.write(tmp_path / f"rank{rank}.json", kineto(events, rank, None))
    first, _ = break_down(read_traces([str(tmp_path)], Rules()))
    assert first.waiting is None
    assert first.notes[-1].startswith("the ranks' recordings have no moment in common")


def changed(**fields: object) -> Json:
    return {key: value for key, value in (work("odd", 500, 9) | fields).items() if value != "gone"}


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (changed(ts=0, dur=0), "without a valid time: odd"),
        (changed(ts=-4), "without a valid time: odd"),
        (changed(ts="1"), "without a valid time: odd"),
        (changed(ts=True), "without a valid time: odd"),
        (changed(ts=1e300), "without a valid time: odd"),
        (changed(ts=10**400), "without a valid time: odd"),
        (changed(ts=float("nan")), "without a valid time: odd"),
        (changed(dur="gone"), "without a duration: odd"),
        (changed(dur=None), "without a duration: odd"),
        (changed(dur=float("inf")), "without a duration: odd"),
        (changed(dur=-9), "ending before it begins: odd"),
        (changed(ts=1e20), "more than a day away from the rest: odd"),
        (changed(dur=7.4e15), "longer than the rest of the recording: 7400000000000.000 ms of odd"),
        (changed(dur=3.4e6), "longer than the rest of the recording: 3400.000 ms of odd"),
        (changed(dur=5e4), "longer than the rest of the recording: 50.000 ms of odd"),
        (changed(dur=1.5e3), "longer than the rest of the recording: 1.500 ms of odd"),
        (changed(dur=3.4e6, stream=9), "longer than the rest of the recording: 3400.000 ms of odd"),
        (changed(name=["x"]), 'whose fields cannot be read: ["x"]'),
        (changed(args={"class": "FAST"}), "whose fields cannot be read: odd"),
        (changed(args={"class": ["COMP"]}), "whose fields cannot be read: odd"),
    ],
)
def test_a_span_that_cannot_have_been_is_left_out_and_named(
    odd: Json, why: str, tmp_path: Path
) -> None:
    if "stream" in odd:
        odd["args"]["stream"] = odd.pop("stream")
    good = [step(1, 0, 1000), *(work(GEMM, 20 * i, 15, correlation=i) for i in range(1, 40))]
    good += [call(i, 0.5, i) for i in range(1, 40)]
    (one,) = break_down(read_events([*good[:9], odd, *good[9:]], tmp_path))
    (expected,) = break_down(read_events(good, tmp_path))
    assert one.parts_ns == expected.parts_ns
    assert one.notes == (*expected.notes, f"left out 1 span {why}")


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 3_000_000)],  # a hung collective is all there is
        [(0, 10), (20, 3_000_000)],
        [(0, 100), (1, 2), (3, 4)],  # nodes of one graph
        [(0, 100), (99, 110)],  # programmatic launch
        [(10 * i, 9) for i in range(20)] + [(200, 900_000)],  # long, but not out of proportion
    ],
)
def test_long_spans_that_can_have_been_stay(
    spans: list[tuple[float, float]], tmp_path: Path
) -> None:
    events = [work(GEMM, 1 + ts, dur, correlation=1) for ts, dur in spans]
    (one,) = read_events([*events, call(0.5, 0.1, 1)], tmp_path)
    assert len(one.spans) == len(spans)


@pytest.mark.parametrize(
    "foreign",
    [b"not JSON", b"{}", b'{"context": {}, "benchmarks": []}', b"[]", b""],
)
def test_a_folder_may_contain_a_file_that_is_no_trace(foreign: bytes, tmp_path: Path) -> None:
    traces.write(tmp_path / "rank0.json", kineto([work(GEMM, 5, 1)]))
    (tmp_path / "run.json").write_bytes(foreign)
    (one,) = read_traces([str(tmp_path)], Rules())
    assert one.notes[0].startswith(f"left out a file that is no trace: {tmp_path}/run.json: ")
    with pytest.raises(ResultError):  # it was asked for by name
        read_traces([str(tmp_path / "rank0.json"), str(tmp_path / "run.json")], Rules())
    (tmp_path / "rank1.json").write_text(json.dumps(kineto([work(GEMM, 5, 1)] * 9))[:-40])
    with pytest.raises(ResultError, match=r"rank1.json: not JSON, or cut short"):  # not foreign
        read_traces([str(tmp_path)], Rules())
