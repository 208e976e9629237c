"""Why a device was idle: each cause in a trace where it is known by hand; and known patterns."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import traces
from overlapbench.traces.breakdown import Breakdown, break_down
from overlapbench.traces.files import read_traces
from overlapbench.traces.idle import Cause
from overlapbench.traces.rules import Rules, parse_rule
from traces import (
    GEMM,
    NCCL,
    Json,
    broken_down,
    call,
    done,
    event,
    kineto,
    ours,
    percent,
    recorded,
    work,
)


def pair(gap: float, returned: float) -> list[Json]:
    """Two kernels of 100 us with a gap; the call for the second returned at a time."""
    return [
        work(GEMM, 0, 100, correlation=1),
        work(GEMM, 100 + gap, 100, correlation=2),
        call(-20, 5, 1),
        call(returned - 5, 5, 2),
    ]


@pytest.mark.parametrize(
    ("gap", "returned", "causes"),
    [
        (50, 145, {"host": 50.0}),  # a stair: the launch runs behind the device
        (50, 155, {"host": 50.0}),  # a kernel may begin before its call returns
        (50, 120, {"host": 30.0, "unknown": 20.0}),  # 20 us late, 10 us of hand-over
        (8, 50, {"dependency": 8.0}),  # enqueued in time: what hand-overs take
        (50, 100, {"dependency": 10.0, "unknown": 40.0}),  # something held it back
    ],
)
def test_launches_tell_who_was_late(
    gap: float, returned: float, causes: dict[str, float], tmp_path: Path
) -> None:
    one = broken_down(pair(gap, returned), tmp_path / "trace.json")
    found = {part: ns / 1000 for part, ns in one.parts_ns.items() if ns and isinstance(part, str)}
    assert found == causes
    assert one.notes == ()


def test_many_gaps_take_little_time(tmp_path: Path) -> None:
    """30 samples of 300 kernels; a time that is quadratic in gaps would be over a minute."""
    samples, kernels = 30, 300
    events: list[Json] = []
    for sample in range(samples):
        begin = sample * 10 * kernels
        about = {"row": "R", "run": "r", "sample": sample, "rank": 0}
        span = {"ph": "X", "cat": "gpu_user_annotation", "pid": 0, "tid": 0, "ts": begin}
        events.append({**span, "name": f"sample {sample}", "dur": 10 * kernels, "args": about})
        for place in range(kernels):
            facts = {"class": "COMP", "step": "x", "lane": "a", "correlation": place}
            kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 1, "dur": 5}
            events.append({**kernel, "ts": begin + 10 * place + 6, "args": {**about, **facts}})
            gap = {**span, "name": "idle: host", "ts": begin + 10 * place + 1, "dur": 5}
            events.append({**gap, "tid": 2, "args": {**about, "idle": "host"}})
    path = tmp_path / "trace.json"
    about_file = {"row": "R", "backend": "cuda", "fault": ""}
    path.write_text(json.dumps({"overlapbench": about_file, "traceEvents": events}))
    traces_read = read_traces([str(path)], Rules())
    begun = time.process_time()
    (one,) = break_down(traces_read)
    assert time.process_time() - begun < 10
    assert one.parts_ns[Cause.HOST] == samples * (5 * kernels - 0) * 1000


def test_a_late_launch_is_blamed_for_its_own_gap_only(tmp_path: Path) -> None:
    events = [work(GEMM, 0, 100), work(GEMM, 150, 2, correlation=1), call(140, 5, 1)]
    events += [work(GEMM, 160, 40, correlation=2), call(15, 5, 2)]
    one = broken_down(events, tmp_path / "trace.json")
    assert percent(one) == {"COMP": 71.0, "host": 25.0, "dependency": 4.0}


def test_without_launches_nothing_is_guessed(tmp_path: Path) -> None:
    one = broken_down([work(GEMM, 0, 60), work(GEMM, 80, 20)], tmp_path / "trace.json")
    assert percent(one) == {"COMP": 80.0, "unknown": 20.0}
    assert [note[:28] for note in one.notes] == ["the trace has no launch call"]


@pytest.mark.parametrize(
    ("kind", "cause"), [("GATE", "gate"), ("WAIT", "dependency"), ("HOST", "host")]
)
def test_spans_that_wait_tell_for_what(kind: str, cause: str, tmp_path: Path) -> None:
    events = [ours("COMP", 0, 50), ours(kind, 40, 50), ours("COMP", 90, 10)]
    one = broken_down(events, tmp_path / "trace.json")
    assert percent(one) == {"COMP": 60.0, cause: 40.0}


def test_a_gate_before_a_sample_is_not_of_it(tmp_path: Path) -> None:
    one = broken_down([ours("GATE", 0, 500), ours("COMP", 500, 10)], tmp_path / "trace.json")
    assert (percent(one), one.window) == ({"COMP": 100.0}, "Overlap/A+B overlap sample 0")


def test_of_spans_that_end_a_gap_at_once_the_first_launched_counts(tmp_path: Path) -> None:
    events = [*pair(50, 145), work(GEMM, 150, 100, 8, correlation=3), call(10, 5, 3)]
    for order in (events, events[::-1]):
        one = broken_down(order, tmp_path / "trace.json")
        assert "host" not in percent(one)


def idle(cause: str, ts_ms: float, dur_ms: float) -> Json:
    """Idle time as a recorded sample states it."""
    return event("gpu_user_annotation", f"idle: {cause}", 1000 * ts_ms, 1000 * dur_ms, idle=cause)


def _recorded_idle(folder: Path, *stated: Json, rules: Sequence[str] = ()) -> Breakdown:
    """Read a sample whose two works of 1 ms begin 0.5 ms after its gate opened, and at 2 ms."""
    works = [done("a", "COMP", "lane", 0.5, 1), done("b", "COMP", "lane", 2, 1, correlation=2)]
    traces.write(folder / "trace.json", recorded([*works, call(1795, 5, 2), *stated]))
    (one,) = break_down(read_traces([str(folder)], Rules([*map(parse_rule, rules)])))
    return one


def test_our_own_files_state_why(tmp_path: Path) -> None:
    """Neither the launch of the second work nor the wait of the stream that joins them counts."""
    stated = [idle("ranks", 0, 0.25), idle("gate", 0.25, 0.25), idle("dependency", 1.5, 0.25)]
    one = _recorded_idle(tmp_path, *stated, idle("other", 1.75, 0.25))
    causes = {Cause.RANKS, Cause.GATE, Cause.DEPENDENCY, Cause.UNKNOWN}
    assert {cause: one.parts_ns[cause] for cause in Cause if one.parts_ns[cause]} == dict.fromkeys(
        causes, 250_000
    )
    assert (one.notes, one.differences) == ((), [])


def test_idle_time_of_our_own_files_that_is_not_stated_is_unknown(tmp_path: Path) -> None:
    one = _recorded_idle(tmp_path, idle("host", 1.5, 0.5), rules=["kernel:b=WAIT"])
    assert one.parts_ns[Cause.HOST] == 500_000
    assert one.parts_ns[Cause.UNKNOWN] == 500_000 + 1_000_000  # before the first, and the second
    assert one.notes == ()


def test_files_from_before_idle_time_was_stated_say_so(tmp_path: Path) -> None:
    one = _recorded_idle(tmp_path)
    assert one.parts_ns[Cause.UNKNOWN] == 1_000_000
    (note,) = one.notes
    assert "does not state why the device was idle" in note


DATA = Path(__file__).resolve().parents[1] / "data" / "idle"
IN_ROWS = {Cause.UNKNOWN: "other"}  # causes with another name in rows


def _idle_ms(one: Breakdown) -> dict[str, float]:
    return {IN_ROWS.get(cause, cause.value): one.parts_ns[cause] / 1e6 for cause in Cause}


@pytest.mark.parametrize("row", sorted({path.name.split(".")[0] for path in DATA.iterdir()}))
def test_idle_is_as_the_program_says_of_the_same_spans(row: str) -> None:
    """tests/row_waits_test.cc wrote the files, with what it expects of each."""
    files = sorted(DATA.glob(f"{row}.rank*.json"))
    broken = break_down(read_traces([str(path) for path in files], Rules()))
    assert len(broken) == len(files)
    for path, one in zip(files, broken, strict=True):
        said = json.loads(path.read_text())["overlapbench"]["idle_ms"]
        assert _idle_ms(one) == pytest.approx(said, abs=1e-5)
        assert sum(said.values()) > 0


def _two_ranks(folder: Path, base: int | None, shift: float = 0) -> tuple[list[float], list[str]]:
    """Rank 0 has enqueued all; rank 1 works while rank 0 is idle.

    Return rank 0's idle in us, and its notes.
    """
    waiting = [work(GEMM, 0, 100, correlation=1), work(NCCL, 200, 10, correlation=2)]
    waiting += [call(-9, 1, 1), call(-8, 1, 2)]
    late = [work(GEMM, 0 + shift, 150, correlation=1), call(-9, 1, 1)]
    other = None if base is None else base - round(shift * 1000)
    traces.write(folder / "a.json", kineto(waiting, 0, base))
    traces.write(folder / "b.json", kineto(late, 1, other))
    read = read_traces([str(folder / "b.json"), str(folder / "a.json")], Rules())
    one = break_down(read)[0]
    causes = (Cause.DEPENDENCY, Cause.RANKS, Cause.UNKNOWN)
    return [one.parts_ns[cause] / 1000 for cause in causes], [note[:28] for note in one.notes]


def test_another_rank_that_is_late_is_told_by_the_common_clock(tmp_path: Path) -> None:
    assert _two_ranks(tmp_path, 10**18) == ([10, 40, 50], [])
    assert _two_ranks(tmp_path, 10**18, shift=3_000_000.5) == ([10, 40, 50], [])


def test_without_a_common_clock_skew_is_not_told(tmp_path: Path) -> None:
    assert _two_ranks(tmp_path, None) == ([10, 0, 90], ["the files share no clock, so"])
