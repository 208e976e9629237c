"""The rules for traces, on traces of the cuda backend: a made-up one, and recorded ones."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from viewer_rules import COUNTERS, broken_rules

Event = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
RECORDED = sorted((ROOT / "docs/results").glob("*/traces/*.json.gz"))
# What C++ makes of records made by hand (tests/row_waits_test.cc), with derived waits and gates.
DERIVED = sorted((ROOT / "tests/data/idle").glob("*.json"))
ROW = "Overlap/AllReduce+CublasGemm/bytes:1048576"


def cuda_trace() -> dict[str, Any]:
    """Make a kernel, the call that launched it, an arrow to a copy, and counters of the device."""
    about = {"row": ROW, "run": "overlap", "sample": 0, "rank": 0}
    span = {"ph": "X", "pid": 0, "dur": 5.0, "args": about}
    arrow = {"cat": "dependency", "name": "waits for", "id": 1, "pid": 0}
    counters = [
        {"ph": "C", "name": name, "pid": 0, "tid": 0, "ts": 12.5, "args": {"value": 1980.0}}
        for name in sorted(COUNTERS)
    ]
    return {
        "overlapbench": {"row": ROW, "backend": "cuda"},
        "traceEvents": [
            *(
                {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": "n"}}
                for pid, tid in [(0, 0), (0, 1), (0, 2), (1, 0)]
            ),
            span | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 0, "ts": 1},
            span | {"cat": "kernel", "name": "nvjet_hsh_256x128", "tid": 1, "ts": 10.0},
            span | {"cat": "gpu_memcpy", "name": "Memcpy PtoP", "tid": 2, "ts": 15.5},
            arrow | {"ph": "s", "tid": 1, "ts": 14.9},
            arrow | {"ph": "f", "tid": 2, "ts": 15.5, "bp": "e"},
            *counters,
        ],
    }


def test_a_cuda_trace_with_counters_breaks_no_rule() -> None:
    trace = cuda_trace()
    assert broken_rules(trace) == []
    assert {event["ph"] for event in trace["traceEvents"]} == set("XMsfC")


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"args": {}}, "a counter must have one number"),
        ({"args": {"value": "1980"}}, "a counter must have one number"),
        ({"args": {"value": float("nan")}}, "a counter must have one number"),
        ({"args": {"value": 1, "row": ROW}}, "a counter must have one number"),
        ({"name": "temperature"}, "an unknown counter"),
        ({"ts": 0}, "no time"),
        ({"pid": 7}, "a track without a name"),
        ({"ph": "I"}, "an unknown phase"),
    ],
)
def test_a_wrong_counter_breaks_a_rule(change: Event, broken: str) -> None:
    trace = cuda_trace()
    trace["traceEvents"][-1] |= change
    (line,) = broken_rules(trace)
    assert line.startswith(f"{broken}: ")


def test_counters_on_the_host_backend_break_a_rule() -> None:
    trace = cuda_trace()
    trace["overlapbench"]["backend"] = "host"
    assert len(broken_rules(trace)) == len(COUNTERS)


@pytest.mark.parametrize(
    ("begin", "duration", "nests"),
    [
        (10.0, 5.0, True),  # the kernel's own times are 10 to 15
        (11.0, 2.0, True),
        (9.0, 8.0, True),
        (15.0, 3.0, True),
        (4.0, 6.0, True),
        (14.999, 3.0, True),  # as rounding makes of the next one
        (14.998, 3.0, False),
        (9.0, 1.002, False),
        (12.0, 4.0, False),
    ],
)
def test_spans_of_a_track_nest(begin: float, duration: float, nests: bool) -> None:
    trace = cuda_trace()
    kernel = trace["traceEvents"][5]
    other = kernel | {"name": "other", "ts": begin, "dur": duration}
    # Spans that have ended, on the same track or another one, are around nothing.
    ended = [kernel | {"ts": 1.0, "dur": 2.0}, kernel | {"tid": 2, "ts": 9.5, "dur": 3.0}]
    trace["traceEvents"] += [other, *ended]
    broken = [line.partition(": ")[0] for line in broken_rules(trace)]
    assert broken == ([] if nests else ["spans that do not nest"])


def test_spans_nest_in_the_innermost_one_around_them() -> None:
    trace = cuda_trace()
    kernel = trace["traceEvents"][5]
    trace["traceEvents"] += [kernel | {"dur": 3.0}, kernel | {"ts": 12.0, "dur": 2.0}]
    (line,) = broken_rules(trace)
    assert line.startswith("spans that do not nest: ")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name[:40])
def test_recorded_traces_break_no_rule(path: Path) -> None:
    assert broken_rules(json.loads(gzip.decompress(path.read_bytes()))) == []


@pytest.mark.parametrize("path", DERIVED, ids=lambda path: path.name)
def test_traces_with_derived_spans_break_no_rule(path: Path) -> None:
    trace = json.loads(path.read_text())
    assert broken_rules(trace) == []
    derived = [e for e in trace["traceEvents"] if e.get("args", {}).get("derived") == 1]
    assert derived or trace["overlapbench"]["backend"] == "host"


def test_some_recorded_trace_has_counters() -> None:
    phases = {
        event["ph"]
        for path in RECORDED
        for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    }
    assert phases == set("XMsfC")
