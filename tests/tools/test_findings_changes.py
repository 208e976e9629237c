"""Findings of two rows: each change with two rows that show it; none is false."""

import json
import re
from typing import Any

import pytest

import samples
from findable import PAIR, result, rules_of, timed
from overlapbench.findings.rules import CHANGES, find
from overlapbench.reading.result import parse_result

# By rule: the row in use, and the faster one that differs in the rule's axis.
ROWS = {
    "order": (PAIR, f"{PAIR}/first:comm"),
    "copy engines": (PAIR, f"{PAIR}/transport:copy"),
    "symmetric kernels": (PAIR, f"{PAIR}/transport:nccl_sym"),
    "own kernels": (PAIR, f"{PAIR}/transport:sm_bulk"),
    "NCCL's CTAs": (PAIR, f"{PAIR}/comm_ctas:8"),
    "SMs of the communication": (PAIR, f"{PAIR}/comm_sms:8"),
    "SM target": (PAIR, f"{PAIR}/sm_target:116"),
    "SM partition": (PAIR, f"{PAIR}/comp_sms:120"),
    "priority of the communication": (PAIR, f"{PAIR}/comm_priority:1"),
    "priority of the computation": (PAIR, f"{PAIR}/comp_priority:1"),
    "connections": ("Fsdp/Prefetch/layers:24/connections:1", "Fsdp/Prefetch/layers:24"),
    "bucket size": ("Ddp/Buckets/bucket_bytes:26214400", "Ddp/Buckets/bucket_bytes:67108864"),
    "prefetching": ("Fsdp/Prefetch/prefetch:1", "Fsdp/Prefetch/prefetch:2"),
    "micro-batches": ("Tp/Block/Forward/microbatches:1", "Tp/Block/Forward/microbatches:2"),
    "chunks": ("Tp/RowParallel/chunks:4", "Tp/RowParallel/chunks:2"),
    "no chunks": ("Tp/RowParallel/chunks:4", "Tp/RowParallel/chunks:auto"),
    "small tensors": ("Ddp/Batch/AllReduce/batch:single", "Ddp/Batch/AllReduce/batch:grouped"),
    "second buffer": ("Layers/DoubleBuffer/buffers:1", "Layers/DoubleBuffer/buffers:2"),
    "waiting host": ("Layers/DoubleBuffer/layers:8/tie:host", "Layers/DoubleBuffer/layers:8"),
    "pinned memory": ("Copy/Bandwidth/bytes:65536/memory:pageable", "Copy/Bandwidth/bytes:65536"),
    "CUDA graph": ("Launch/EmptyKernel/call:loop", "Launch/EmptyKernel/call:graph"),
    "workers": ("Prefetch/Batches/workers:1", "Prefetch/Batches/workers:4"),
    "conversion": (
        "MixedPrecision/Step/conversion:exposed",
        "MixedPrecision/Step/conversion:hidden",
    ),
    "measured setting": tuple(
        f"Compute/Apply/setting:batch/variant:{one}" for one in ("default", "set")
    ),
}


def test_every_change_is_tested() -> None:
    assert {rule.name for rule in CHANGES} == ROWS.keys()


@pytest.mark.parametrize("rule", ROWS)
def test_a_faster_setting_is_found(rule: str) -> None:
    slow, fast = ROWS[rule]
    gains = {"speedup": 2.0, "speedup_low": 1.9, "speedup_high": 2.1} if rule == "chunks" else {}
    found = find([result(timed(slow, 2.0, chunks=4.0), timed(fast, 1.0, chunks=1.0, **gains))])
    (one,) = [each for each in found if each.rule == rule]
    assert "1.000 instead of 2.000 ms" in one.sentence
    assert one.saving.low < 0.5 < one.saving.high
    assert not one.saving.at_most
    assert one.row == slow
    assert not re.search(r"[{}]", one.sentence + one.action)


@pytest.mark.parametrize("rule", ROWS)
@pytest.mark.parametrize(
    ("ms", "fields"),
    [
        (1.97, {}),  # surely faster, by less than matters
        (1.0, {"time_low_ms": 0.2, "time_high_ms": 2.2}),  # perhaps not
        (1.0, {"state": "noisy", "reason": "known to ±30 %"}),
        (2.5, {}),
    ],
)
def test_what_is_not_surely_faster_is_no_finding(
    rule: str, ms: float, fields: dict[str, Any]
) -> None:
    slow, fast = ROWS[rule]
    rows = [timed(slow, 2.0, chunks=4.0), timed(fast, ms, chunks=1.0, **fields)]
    told = [one for one in find([result(*rows)]) if one.rule == rule and not one.saving.at_most]
    assert [one.row for one in told] == ([fast] if ms > 2 and told else [])


def test_each_measured_setting_has_a_finding() -> None:
    rows = [
        timed(f"Comm/Apply/setting:{setting}/variant:{variant}", ms)
        for setting, saved in (("batch", 0.4), ("tie", 0.8), ("call", 0.01))
        for variant, ms in (("default", 2.0), ("set", 2.0 * (1 - saved)))
    ]
    told = [one.sentence.partition(":")[0] for one in find([result(*rows)])]
    assert told == [f"Comm/Apply, setting {one}, as PyTorch makes it" for one in ("tie", "batch")]


def test_only_rows_of_one_file_that_differ_in_one_axis_are_compared() -> None:
    slow, other = timed(PAIR, 2.0), timed(f"{PAIR}/transport:copy/first:comm", 1.0)
    assert rules_of(result(slow, other)) == []
    engines = timed(f"{PAIR}/transport:copy", 1.0)
    assert "copy engines" in rules_of(result(slow, engines))
    assert rules_of(result(slow, title="a"), result(engines, title="b")) == []
    assert rules_of(result(slow, engines, backend="host")) == []


def test_connections_are_compared_between_files_of_one_machine() -> None:
    slow, fast = (timed(name, ms) for name, ms in zip(ROWS["connections"], (2.0, 1.0), strict=True))
    one = result(slow, title="a")
    assert rules_of(one, result(fast, title="b")) == ["connections"]
    assert rules_of(one, result(fast, title="b", device="another")) == []


def test_a_change_that_ends_slower_than_the_default_is_none() -> None:
    few, both = timed(f"{PAIR}/comm_ctas:8", 3.0), timed(f"{PAIR}/comm_ctas:8/sm_target:116", 2.5)
    assert "SM target" in rules_of(result(few, both))
    assert "SM target" not in rules_of(result(timed(PAIR, 2.0), few, both))
    assert "SM target" in rules_of(result(timed(PAIR, 2.6), few, both))


@pytest.mark.parametrize("family", ["Lab/Matrix", "Lab/Partition", "Lab/Triple"])
def test_pairs_of_the_laboratory_have_findings(family: str) -> None:
    second = "AllToAll+" if family == "Lab/Triple" else ""
    name = f"{family}/AllGather+{second}CublasGemm/bytes:1048576"
    rows = [timed(name, 2.0), timed(f"{name}/transport:copy", 1.0)]
    assert rules_of(result(*rows)) == ["copy engines"]


def test_the_sms_that_are_left_are_a_number() -> None:
    rows = [timed(PAIR, 2.0), timed(f"{PAIR}/sm_target:116", 1.0)]
    (one,) = [each for each in find([result(*rows)]) if each.rule == "SM target"]
    assert "_set_sm_carveout_experimental(SMs of the GPU - 116)" in one.ways[0]
    document = samples.document(rows)
    document["context"]["device_multiprocessors"] = 132
    (one,) = [
        each
        for each in find([parse_result("made", json.dumps(document))])
        if each.rule == "SM target"
    ]
    assert "_set_sm_carveout_experimental(16)" in one.ways[0]


def test_fewer_chunks_are_no_advice_where_cutting_loses() -> None:
    def found(low: float) -> list[str]:
        ends = {"speedup": low + 0.1, "speedup_low": low, "speedup_high": low + 0.2}
        slow, fast = (f"Tp/RowParallel/chunks:{n}" for n in (4, 2))
        return rules_of(result(timed(slow, 2.0), timed(fast, 1.0, **ends)))

    assert found(1.01) == ["chunks"]
    assert found(0.99) == []


def test_a_poor_number_of_chunks_is_no_base_of_other_changes() -> None:
    layer = "Tp/RowParallel/tokens:16384"
    rows = [
        timed(f"{layer}/chunks:{given}{by}", ms, chunks=chosen)
        for given, chosen, by, ms in (
            *(("8", 8.0, "", 4.0), ("auto", 1.0, "", 2.0)),
            *(("8", 8.0, "/transport:copy", 1.5), ("auto", 8.0, "/transport:copy", 1.5)),
        )
    ]
    by_rule = {one.rule: one.sentence for one in find([result(*rows)])}
    assert "1.500 instead of 2.000 ms" in by_rule["copy engines"]


def test_a_finding_names_the_transport_that_it_holds_for() -> None:
    slow, fast = (f"Tp/RowParallel/chunks:{n}/transport:copy" for n in (4, 2))
    ends = {"speedup": 2.0, "speedup_low": 1.9, "speedup_high": 2.1}
    (one,) = find([result(timed(slow, 2.0), timed(fast, 1.0, **ends))])
    assert one.sentence.startswith("Tp/RowParallel, transport copy, in 2 instead of 4 chunks")


@pytest.mark.parametrize("to", ["copy", "sm_load"])
def test_pipelines_compare_transports(to: str) -> None:
    rows = [
        timed("Pp/OneFOneB/CublasGemm", 2.0),
        timed(f"Pp/OneFOneB/CublasGemm/transport:{to}", 1),
    ]
    assert {"copy": "copy engines", "sm_load": "own kernels"}[to] in rules_of(result(*rows))


def test_an_axis_left_to_auto_has_the_value_that_it_chose() -> None:
    rows = [
        timed(f"Tp/RowParallel/chunks:{given}", ms, chunks=chosen)
        for given, ms, chosen in (("4", 2.0, 4.0), ("auto", 1.0, 1.0))
    ]
    (one,) = find([result(*rows)])
    assert (one.rule, one.action) == ("no chunks", "Do not cut a product of this size.")
    assert "whole instead of in 4 chunks" in one.sentence
    assert "fused_all_gather_matmul" not in str(one.ways)


def test_evidence_that_does_not_change_is_left_out() -> None:
    rows = [
        timed(PAIR, 2.0, comm_sms=24.0),
        timed(f"{PAIR}/transport:sm_bulk", 1.0, comm_sms=24.0),
    ]
    (one,) = [each for each in find([result(*rows)]) if each.rule == "own kernels"]
    assert "comm_ms 1.000 → 0.5000" in one.reason
    assert "comm_sms" not in one.reason


def test_the_most_usual_row_is_told_and_the_others_are_counted() -> None:
    rows = [
        *(timed(f"{PAIR}{more}", 2.0) for more in ("", "/sm_target:116")),
        *(
            timed(f"{PAIR}{more}/first:comm", 1.5 - len(more) / 20)
            for more in ("", "/sm_target:116")
        ),
    ]
    (one,) = [each for each in find([result(*rows)]) if each.rule == "order"]
    assert one.row == PAIR
    assert "holds for 2 of 3 comparisons" in one.reason


def test_among_many_rows_each_interval_is_wide_enough_for_all() -> None:
    def pairs(count: int) -> list[samples.Json]:
        names = [f"Overlap/AllReduce+CublasGemm/bytes:{1 << place}" for place in range(count)]
        slow = [timed(name, 2.0, 0.01) for name in names]
        return slow + [timed(f"{name}/transport:copy", 1.9, 0.01) for name in names]

    (alone,), (of_many,) = (find([result(*pairs(count))]) for count in (1, 8))
    assert alone.saving.share == of_many.saving.share == pytest.approx(0.05)
    assert alone.saving.low == pytest.approx(1 - 1.9 * 1.01 / (2 * 0.99))
    assert of_many.saving.low < alone.saving.low - 0.005
    assert "holds for 8 of 8 comparisons" in of_many.reason
