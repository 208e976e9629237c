"""Exports of Nsight Systems 2025.5.2 of two rows on H100, cut by tests/data/cut_nsys.py.

A separate program computed the expected figures: by queries of the tables, and by a sweep over the
begins and ends of the records.
"""

from collections import defaultdict
from pathlib import Path

import pytest

import traces
from overlapbench.traces.breakdown import Breakdown, break_down
from overlapbench.traces.files import read_traces
from overlapbench.traces.model import Class, Trace
from overlapbench.traces.rules import Rules

DATA = Path(__file__).parents[1] / "data/nsys"
REDUCE = [str(DATA / f"reduce.rank{rank}.sqlite") for rank in (0, 1)]
COPY = [str(DATA / "copy.rank0.sqlite")]
PRODUCT, SWEEP = "nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT", "SweepBody"
NCCL, HOLD = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "overlapbench::<unnamed>::Hold("
NAMES = (PRODUCT, SWEEP, NCCL, HOLD, "grid_gemm::Body", "Memcpy", "Memset")


def read(files: list[str]) -> list[Trace]:
    return read_traces(files, Rules())


def totals(trace: Trace) -> dict[tuple[str, Class], tuple[int, int]]:
    """Return how many spans there are, and their time in ns, by name and class."""
    found: dict[tuple[str, Class], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for span in trace.spans:
        known = next(name for name in NAMES if name in span.name)
        key = (span.name if known == "Memcpy" else known, span.kind)
        count, ns = found[key]
        found[key] = count + 1, ns + span.end_ns - span.begin_ns
    return dict(found)


def parts_ns(one: Breakdown) -> dict[str, int]:
    named = {"+".join(p) if isinstance(p, tuple) else p.value: ns for p, ns in one.parts_ns.items()}
    return {name: ns for name, ns in named.items() if ns}


def test_each_record_has_its_class() -> None:
    first, second = read(REDUCE)
    assert (first.rank, second.rank, first.notes, second.notes) == (0, 1, (), ())
    assert totals(first) == {
        (PRODUCT, Class.COMP): (3, 4_057_463),
        (SWEEP, Class.COMP): (4, 214_467),
        (NCCL, Class.COMM): (3, 793_323),
        ("Memset", Class.MEM): (3, 4_448),
    }
    assert totals(second) == {
        (PRODUCT, Class.COMP): (3, 4_054_385),
        (SWEEP, Class.COMP): (4, 219_010),
        (NCCL, Class.COMM): (3, 1_454_706),
        ("Memset", Class.MEM): (3, 3_584),
    }


def test_copies_between_gpus_are_told_from_others() -> None:
    (one,) = read(COPY)
    assert totals(one) == {
        ("Memcpy DtoH", Class.MEM): (3, 6_816),
        ("Memcpy DtoD", Class.MEM): (4, 3_673_043),
        ("Memcpy PtoP", Class.COMM): (4, 35_457_094),
        ("Memset", Class.MEM): (1, 736),
        ("grid_gemm::Body", Class.COMP): (3, 898_860),
        (SWEEP, Class.COMP): (4, 230_340),
        (HOLD, Class.GATE): (1, 48_342_006),
    }
    assert {span.bytes for span in one.spans if span.kind is Class.COMM} == {1 << 25}


@pytest.mark.parametrize(
    ("files", "window", "label", "expected"),
    [
        (
            REDUCE,
            "overlap",
            "2 × overlap",
            [
                {"COMP": 2_770_950, "COMM": 476_390, "COMP+COMM": 67_041}
                | {"COMM+MEM": 3_744, "host": 1_322_834},
                {"COMP": 2_765_409, "COMM": 485_702, "COMP+COMM": 78_945}
                | {"COMM+MEM": 2_848, "host": 1_295_088},
            ],
        ),
        (  # two of the six ranges enqueued nothing
            REDUCE,
            "sample",
            "4 × sample",
            [
                {"COMP": 4_204_889, "COMM": 722_538, "MEM": 704, "COMP+COMM": 67_041}
                | {"COMM+MEM": 3_744, "host": 2_843_303},
                {"COMP": 4_194_450, "COMM": 1_372_913, "MEM": 736, "COMP+COMM": 78_945}
                | {"COMM+MEM": 2_848, "host": 2_162_715},
            ],
        ),
        (
            COPY,
            "overlap",
            "2 × overlap",
            [
                {"COMP": 630_057, "COMM": 34_944, "COMP+COMM": 97_121}
                | {"COMM+MEM": 50_626, "host": 77_408},
            ],
        ),
    ],
)
def test_shares_of_a_range(
    files: list[str], window: str, label: str, expected: list[dict[str, int]]
) -> None:
    broken = break_down(read(files), pattern=window)
    assert [one.window for one in broken] == [label] * len(files)
    assert [parts_ns(one) for one in broken] == expected


def test_overlap_as_by_names() -> None:
    """NCCL's kernels are known by their names, copies between GPUs are not."""
    first, second = break_down(read(REDUCE), pattern="overlap")
    assert (first.overlap_pct, second.overlap_pct) == pytest.approx((12.2522, 13.9111), abs=1e-4)
    assert (first.named_overlap_pct, first.differences) == (first.overlap_pct, [])
    (copies,) = break_down(read(COPY), pattern="overlap")
    assert copies.overlap_pct == pytest.approx(53.1613, abs=1e-4)
    assert copies.named_overlap_pct is None
    ((name, count),) = [(one.name, one.count) for one in copies.differences]
    assert (name, count) == ("Memcpy PtoP", 2)


def test_calls_of_other_threads_are_of_the_range() -> None:
    """NCCL's kernels are launched by threads that have no ranges of their own."""
    for trace in read(REDUCE):
        begins = [span.begin_ns for span in trace.spans if NCCL in span.name]
        (comm,) = break_down([trace], pattern="comm")
        assert (comm.window, len(begins)) == ("4 × comm", 3)  # a run, and a step of three samples
        assert sum(ns for part, ns in parts_ns(comm).items() if "COMM" in part) == sum(
            span.end_ns - span.begin_ns for span in trace.spans if NCCL in span.name
        )
        assert all(span.launched_ns is not None for span in trace.spans)


def test_the_ranks_have_one_clock() -> None:
    """No rank's all-reduce ends before the other one's has begun, and both end within 20 us."""
    traced = read(REDUCE)
    assert all(trace.common_clock for trace in traced)
    first, second = ([s for s in trace.spans if s.kind is Class.COMM] for trace in traced)
    for one, other in zip(first, second, strict=True):
        assert max(one.begin_ns, other.begin_ns) < min(one.end_ns, other.end_ns)
        assert abs(one.end_ns - other.end_ns) < 20_000
    assert first[0].begin_ns == 1_795_626_792_716_128_303 + 2_612_925_147


def test_the_proof_of_copies_is_no_computation() -> None:
    (one,) = break_down(read(COPY))
    assert one.window == "the whole trace"
    assert parts_ns(one)["COMP+COMM"] == 97_121  # not the 32 ms in which copies ran beside Hold
    assert traces.percent(one)["gate"] > 20
