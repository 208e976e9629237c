"""Findings: each rule with a row that must trigger it and one that must not; none false."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import samples
from overlapbench.cli import findings as command_line
from overlapbench.findings.apply import ways_of
from overlapbench.findings.energy import energy_answer
from overlapbench.findings.finding import MOST, Finding, Saving, largest, text_of
from overlapbench.findings.rules import CHANGES, LIMITS, find
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.result import Result, parse_result, read_results, unite

ROOT = samples.TOOLS.parent


def result(*rows: samples.Json, title: str = "made", **context: str) -> Result:
    return parse_result(title, json.dumps(samples.document([*rows], **context)))


def timed(name: str, ms: float, reach: float = 0.005, **fields: Any) -> samples.Json:
    """A row whose time is known to a share; of a pair, with all that its family requires."""
    ends = {"time_low_ms": ms * (1 - reach), "time_high_ms": ms * (1 + reach)}
    given = {"real_time": ms} | ends | fields
    if not name.startswith("Overlap/"):
        return samples.row(name, **given)
    sides = {"comp": 0.9 * ms, "comm": 0.5 * ms, "slowdown": 1 / 0.9} | fields
    return samples.overlap(name.removeprefix("Overlap/"), **(given | sides))


def rules_of(*results: Result) -> list[str]:
    return [one.rule for one in find(unite([*results]))]


PAIR = "Overlap/AllGather+CublasGemm/bytes:1073741824/n:8192"
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
    assert {rule.name for rule in LIMITS} == LIMITED.keys()


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


def figures(**known: float) -> samples.Json:
    """Counters with intervals of 1 % on both sides."""
    ends = {
        f"{name}_{end}": value * factor
        for name, value in known.items()
        for end, factor in (("low", 0.99), ("high", 1.01))
    }
    return known | ends


def pair(slowdown: float, comp: float, comm: float, **fields: Any) -> samples.Json:
    known = figures(slowdown=slowdown, comp_slowdown=1.3, comm_slowdown=1.3) | fields
    known |= {"comm_sms": 24.0} | fields
    name = PAIR.removeprefix("Overlap/") + fields.pop("axes", "")
    known.pop("axes", None)
    known.pop("slowdown")
    return samples.overlap(name, slowdown, comp, comm, **known)


WAITED = {
    "state": "serialized",
    "reason": "communication waited for the other side (coverage 0.05)",
}
LAB = "Lab/Attribution/AllGather+CublasGemm/bytes:1048576"
DDP, FSDP, TP = (
    "Ddp/Buckets/bucket_bytes:26214400",
    "Fsdp/Prefetch/prefetch:1",
    "Tp/Block/Forward/n:1",
)
BATCHES = "Prefetch/Batches/workers:1"


def step(name: str, ms: float = 2.0, **known: float) -> samples.Json:
    exact = {key: known.pop(key) for key in [*known] if key in EXACT}
    return timed(name, ms, **figures(**known), **exact)


EXACT = ("bound_by_workers", "slowest_rank", "slowest_share", "samples", "rank_spread")
SLOWEST = {"slowest_rank": 3.0, "samples": 48.0}
# By rule: a row that must trigger it, and one that must not.
LIMITED = {
    "waits for SMs": (pair(1.4, 0.3, 0.2, **WAITED), pair(1.01, 0.3, 0.2, **WAITED)),
    "overlapping loses": (
        pair(1.8, 0.3, 0.2, **figures(speedup=0.9)),
        pair(1.8, 0.3, 0.2, **figures(speedup=0.995)),
    ),
    "cutting loses": (
        step(DDP, speedup=0.9, sequential_ms=1.8),
        step(DDP, speedup=1.1, sequential_ms=2.2),
    ),
    "slowed computation": (pair(1.3, 0.3, 0.2), pair(1.3, 0.3, 0.2, comm_sms=0.0)),
    "slowed communication": (pair(1.3, 0.2, 0.3), pair(1.3, 0.2, 0.3, axes="/transport:copy")),
    "cost of SMs": (step(LAB, slowdown=1.5, by_sm=0.9), step(LAB, slowdown=1.5, by_sm=0.1)),
    "cost of memory traffic": (
        step(LAB, slowdown=1.5, by_hbm=0.9),
        step(LAB, slowdown=1.001, by_hbm=0.9),
    ),
    "exposed gradients": (step(DDP, exposed_comm_ms=0.3), step(DDP, exposed_comm_ms=0.03)),
    "exposed gathers": (step(FSDP, exposed_comm_ms=0.3), step(FSDP, exposed_comm_ms=0.03)),
    "exposed activations": (step(TP, exposed_comm_ms=0.3), step(TP, exposed_comm_ms=0.03)),
    "interference": (step(DDP, pct_of_bound=80.0), step(DDP, pct_of_bound=98.5)),
    "bubbles": (step("Pp/GPipe/Delay/n:1", bubble_share=0.3), step(TP, bubble_share=0.3)),
    "late batches": (
        step(BATCHES, device_idle_share=0.5, bound_by_workers=1.0),
        step(BATCHES, device_idle_share=0.5, bound_by_workers=0.0),
    ),
    "unfused kernels": (
        step("Softmax/Unfused/n:1", fused_speedup=2.0),
        step("Softmax/Unfused/n:1", fused_speedup=0.9),
    ),
    "slowest rank": (
        step(DDP, slowest_share=0.9, rank_spread=0.1, **SLOWEST),
        step(DDP, slowest_share=0.55, rank_spread=0.1, **SLOWEST),  # by chance
    ),
}


@pytest.mark.parametrize("rule", LIMITED)
def test_a_limit_judges_a_row(rule: str) -> None:
    must, must_not = LIMITED[rule]
    found = find([result(must)])
    (one,) = [each for each in found if each.rule == rule]
    assert one.saving.matters
    assert not re.search(r"[{}]", one.sentence.replace("{name", "") + one.action)
    assert rule not in rules_of(result(must_not))


@pytest.mark.parametrize("rule", [rule for rule in LIMITED if rule != "slowest rank"])
def test_a_figure_without_an_interval_is_no_finding(rule: str) -> None:
    row = {key: x for key, x in LIMITED[rule][0].items() if not key.endswith(("_low", "_high"))}
    assert rule not in rules_of(result(row))


COMPARE = "compare transports (--axis transport=nccl,copy,sm_load)"
# By rule and what is in use already: what is left to do.
LEFT = {
    ("waits for SMs", ""): (
        "Start the communication first, leave SMs free, or move the data by copy engines; --tune"
        " finds which is best."
    ),
    ("waits for SMs", "/first:comm"): (
        "Leave SMs free, or move the data by copy engines; --tune finds which is best."
    ),
    ("slowed computation", "/transport:sm_bulk"): (
        "Give the communication's kernel fewer SMs, or move the data by copy engines; --tune finds"
        " which is best."
    ),
    ("overlapping loses", "/transport:copy"): "Run one after the other.",
    ("exposed activations", "/microbatches:1"): f"Let micro-batches alternate, or {COMPARE}.",
    (
        "exposed activations",
        "/microbatches:2",
    ): "Compare transports (--axis transport=nccl,copy,sm_load).",
    ("interference", ""): f"Use fewer CTAs, leave SMs free, or {COMPARE}.",
    ("interference", "/transport:copy"): f"Leave SMs free for the sums, or {COMPARE}.",
    (
        "interference",
        "/transport:copy/sm_target:128",
    ): "Compare transports (--axis transport=nccl,copy,sm_load).",
}


@pytest.mark.parametrize(("rule", "settings"), LEFT)
def test_what_is_in_use_is_no_advice(rule: str, settings: str) -> None:
    row = dict(LIMITED[rule][0])
    row["name"] = row["run_name"] = row["run_name"] + settings
    (one,) = [each for each in find([result(row)]) if each.rule == rule]
    assert one.action == LEFT[rule, settings]
    assert any("max_ctas" in way for way in one.ways) == ("CTAs" in one.action)


def test_an_all_reduce_is_not_moved_by_copy_engines() -> None:
    for collective, left in (("AllReduce", False), ("ReduceScatter", True), ("AllToAll", True)):
        row = dict(LIMITED["waits for SMs"][0])
        row["name"] = row["run_name"] = row["run_name"].replace("AllGather", collective)
        (one,) = find([result(row)])
        assert ("copy engines" in one.action) is left


def test_gathering_earlier_is_advice_only_where_the_order_exposes() -> None:
    def action(interference: float) -> str:
        parts = {"exposed_comm_ms": 0.3, "interference_ms": interference}
        (one,) = find([result(step(FSDP, **parts))])
        return one.action

    assert action(0.2) == f"Gather layers earlier, or {COMPARE}."
    assert action(0.27) == f"{COMPARE.capitalize()}."


# Beside L2Kernel, the computation that is the shorter side alone can end last.
def test_the_side_that_ends_last_is_told() -> None:
    (one,) = find([result(pair(1.3, 0.25, 0.3, comp_slowdown=1.56, comm_slowdown=1.01))])
    assert one.rule == "slowed computation"
    assert one.saving.share == pytest.approx(1 - 1 / 1.3)
    (one,) = find([result(pair(1.3, 0.25, 0.3, comp_slowdown=1.5, comm_slowdown=1.3))])
    assert one.rule == "slowed communication"


def test_a_change_that_ends_slower_than_the_default_is_none() -> None:
    few, both = timed(f"{PAIR}/comm_ctas:8", 3.0), timed(f"{PAIR}/comm_ctas:8/sm_target:116", 2.5)
    assert "SM target" in rules_of(result(few, both))
    assert "SM target" not in rules_of(result(timed(PAIR, 2.0), few, both))
    assert "SM target" in rules_of(result(timed(PAIR, 2.6), few, both))


def test_the_better_of_two_values_is_not_told_to_try_others() -> None:
    small, large = (
        step(f"Ddp/Buckets/bucket_bytes:{size}", ms, exposed_comm_ms=exposed)
        for size, ms, exposed in ((26214400, 2.0, 0.3), (268435456, 3.0, 1.3))
    )
    assert rules_of(result(large)) == ["exposed gradients"]
    (one,) = find([result(small, large)])
    assert "26214400" in one.row


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


def test_nothing_to_find_is_told_of_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = "No findings: no change surely saves 2 % of a row's time.\n"
    for backend, told in (("cuda", nothing), ("host", "")):
        document = samples.document([timed(PAIR, 2.0)], backend=backend)
        path = str(samples.write(tmp_path / f"{backend}.json", document))
        for flag, text in ((), told), (["--quiet"], ""), (["--json"], "[]\n"):
            assert command_line.main([path, *flag]) == 0
            assert capsys.readouterr().out == text


def test_copies_without_sums_need_no_sms() -> None:
    row = step("Moe/DispatchCombine/n:1/transport:copy", pct_of_bound=80.0)
    (one,) = find([result(row)])
    assert (one.rule, one.action) == (
        "interference",
        "Compare transports (--axis transport=nccl,copy,sm_load).",
    )


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


def test_a_limit_that_nothing_lifts_is_no_finding() -> None:
    row = pair(1.3, 0.2, 0.3)
    assert "slowed communication" in rules_of(result(row))
    row["name"] = row["run_name"] = row["run_name"] + "/transport:nccl_ce/sm_target:116"
    assert rules_of(result(row)) == []


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


def test_a_measured_way_out_replaces_what_a_row_could_save_at_most() -> None:
    waits = pair(1.4, 0.3, 0.2, **WAITED, time_low_ms=0.99, time_high_ms=1.01)
    assert rules_of(result(waits)) == ["waits for SMs"]
    assert rules_of(result(waits, timed(f"{PAIR}/first:comm", 0.5))) == ["order"]


def test_no_sentence_speaks_of_sms_on_the_host_backend() -> None:
    waits = LIMITED["waits for SMs"][0]
    assert rules_of(result(waits)) == ["waits for SMs"]
    assert rules_of(result(waits, backend="host")) == []


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


def test_what_is_told_of_a_pair_of_rows_and_of_one() -> None:
    slow = timed(PAIR, 2.0, comp_slowdown=1.2, exposed_comm_ms=1.1)
    fast = timed(f"{PAIR}/transport:copy", 1.0, comp_slowdown=1.0, exposed_comm_ms=0.25)
    what = "AllGather beside CublasGemm, 1 GiB, n 8192"
    (one,) = find([result(slow, fast)])
    assert (one.sentence, one.reason, one.action) == (
        f"{what}, if copy engines move the data (copy instead of NCCL's kernels):"
        " 1.000 instead of 2.000 ms, saves 49.5 to 50.5 %",
        "comp_slowdown 1.200 → 1.000; comm_ms 1.000 → 0.5000; exposed_comm_ms 1.100 → 0.2500",
        "Move the data by copy engines.",
    )
    ends = (1 - 1.005 / 1.99, 1 - 0.995 / 2.01)
    assert (one.saving.low, one.saving.high) == pytest.approx(ends)
    assert (one.row, one.file, one.machine) == (PAIR, "made (cuda, NVIDIA H200)", "2 × NVIDIA H200")
    assert one.ways == ways_of({"transport": "copy"})
    (one,) = find([result(LIMITED["waits for SMs"][0])])
    assert (one.sentence, one.reason) == (
        f"{what}: the communication waits for the computation to leave SMs, and together they take"
        " 1.40 × as long as the longer one alone; a change saves at most 28.6 % (27.8 to 29.3 %)",
        "communication waited for the other side (coverage 0.05); comp_slowdown 1.300;"
        " comm_slowdown 1.300; comm_sms 24",
    )
    settings = ({"first": "comm"}, {"sm_target": ""}, {"transport": "copy"})
    assert one.ways == [ways_of(each)[0] for each in settings]


OVERLAPS = {"state": "ok", "reason": ""}


@pytest.mark.parametrize(
    ("row", "rules"),
    [
        (
            pair(1.4, 0.3, 0.2, **WAITED | OVERLAPS | {"reason": WAITED["reason"]}),
            "slowed computation",
        ),
        (pair(1.4, 0.3, 0.2, **WAITED | {"reason": "computation waited"}), ""),
        (pair(1.4, 0.3, 0.2, **WAITED, axes="/transport:copy"), ""),
        (pair(1.4, 0.3, 0.2, **WAITED, axes="/transport:nccl_ce"), ""),
        (pair(1.4, 0.3, 0.2, axes="/transport:nccl_ce"), ""),
        (pair(1.4, 0.3, 0.2, axes="/transport:nccl_sym"), "slowed computation"),
        (pair(1.4, 0.3, 0.3), ""),  # neither is the longer one
        (step(LAB, slowdown=1.5, by_sm=0.25), ""),
        (step(LAB, slowdown=1.5, by_sm=0.26), "cost of SMs"),
        (step(DDP, slowest_share=0.7, rank_spread=0.1, **SLOWEST), "slowest rank"),
        (step(LAB, slowdown=1.5, by_sm=0.9) | WAITED, "waits for SMs"),
    ],
)
def test_a_limit_holds_only_where_its_sentence_is_true(row: samples.Json, rules: str) -> None:
    assert rules_of(result(row)) == list(filter(None, [rules]))


@pytest.mark.parametrize(
    ("row", "share"),
    [
        (step(LAB, slowdown=1.5, by_sm=0.9), 0.9 * (1 - 1 / 1.5)),
        (step(LAB, slowdown=1.5, by_sm=1.7), 1 - 1 / 1.5),  # not more than all of it
        (step(DDP, 4.0, exposed_comm_ms=0.3), 0.3 / 4),
        (step(DDP, pct_of_bound=80.0), 0.2),
        (step(DDP, speedup=0.9, sequential_ms=1.8), 0.1),
        (step("Softmax/Unfused/n:1", fused_speedup=2.0), 0.5),
        (step("Pp/GPipe/Delay/n:1", bubble_share=0.3), 0.3),
    ],
)
def test_what_a_row_can_save_is_this_share_of_its_time(row: samples.Json, share: float) -> None:
    (one,) = find([result(row)])
    assert one.saving.share == pytest.approx(share)
    assert one.saving.low < share < one.saving.high or share > 1 / 3
    measured = one.rule in ("cutting loses", "unfused kernels")
    assert one.saving.at_most is not measured


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


# ---- figures


def saving(name: str, energy: float, reach: float = 0.01, time: float = 0.2) -> samples.Json:
    ends = {"energy_saved_low": energy - reach, "energy_saved_high": energy + reach}
    return samples.overlap(name, time_saved=time, energy_saved=energy, **ends)


def test_the_answer_on_energy_counts_what_is_certain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        saving("AllReduce+Gemm/bytes:1048576", 0.08, time=0.3),
        saving("AllGather+Gemm/bytes:1048576", 0.02, reach=0.03),
        saving("AllToAll+Gemm/bytes:1048576", -0.05),
        saving("Broadcast+Gemm/bytes:1048576", 0.3) | {"state": "control"},
        saving("SendRecv+Gemm/bytes:1048576", 0.3) | {"valid": 0.0},
        samples.overlap("Gather+Gemm/bytes:1048576", speedup=1.25),
        saving("A+B", 0.3) | samples.row("Pp/GPipe/Gemm"),
        saving("SecondDelay+Delay/delay_us:4000", 0.3),
    ]
    path = samples.write(tmp_path / "energy.json", samples.document(rows))
    command_line.main([str(path)])
    told = " ".join(capsys.readouterr().out.partition("Hiding ")[2].split())
    assert told == (
        "communication saves energy in 1 of 3 rows, costs energy in 1, 1 may save none. The median"
        " row saves 20.0 % of the time and 2.0 % of the energy. AllReduce beside Gemm, 1 MiB saves"
        " 6.8 to 9.2 % of the energy and 30.0 % of the time."
    )
    command_line.main([str(samples.write(tmp_path / "none.json", samples.document(rows[3:])))])
    assert "energy" not in capsys.readouterr().out


def answer(*rows: samples.Json) -> str:
    return energy_answer([result(*rows)])


def test_the_answer_on_energy_is_for_any_number_of_rows() -> None:
    one, other = (saving(f"{name}+Gemm/bytes:1048576", 0.08) for name in ("AllReduce", "AllGather"))
    alone = "AllReduce beside Gemm, 1 MiB saves 7.0 to 9.0 % of the energy and 20.0 % of the time."
    assert answer(one) == f"Hiding communication: {alone}"
    both = "Hiding communication saves energy in 2 of 2 rows. The median row saves 20.0 % of the"
    assert answer(one, other).startswith(f"{both} time and 8.0 % of the energy. AllReduce beside")
    # The surest row is the example, though another may save more.
    wide = saving("AllGather+Gemm/bytes:1048576", 0.08, reach=0.05)
    assert answer(wide, one).endswith("AllReduce beside Gemm, 1 MiB saves 6.9 to 9.1 % of the"
                                      " energy and 20.0 % of the time.")  # fmt: skip
    # An interval that ends at zero is no certain saving, and no certain loss.
    at_zero = (saving(f"{name}+Gemm/bytes:1", x, 0.01) for name, x in (("A", 0.01), ("B", -0.01)))
    assert "saves energy in 0 of 2 rows, 2 may save none. " in answer(*at_zero)


def test_at_most_seven_findings_are_shown_the_surest_first() -> None:
    made = [
        Finding(f"rule {n}", f"sentence {n}", "reason", "Act.", Saving(0.5, n / 20, 0.9))
        for n in range(10)
    ]
    shown = largest(made)
    assert [one.rule for one in shown] == [f"rule {n}" for n in range(9, 9 - MOST, -1)]
    assert text_of([]) == ""


def told(number: int, machine: str = "2 × H200", ways: Sequence[str] = ()) -> Finding:
    saving = Saving(0.5, 0.41, 0.592, at_most=number == 2)
    sentence = f"sentence {number} is longer than a line"
    row = "Overlap/A+B/bytes:1048576/n:1"
    return Finding(f"rule {number}", sentence, "it is", "Act.", saving, row, "f", ways, machine)


WAYS = ("PyTorch: one way", "NCCL: another")
BODY = """\
 1. sentence 1 is longer
    than a line
    why  {}Overlap/A+B/
         bytes:1048576/n:1:
         it is
    do   Act.
         PyTorch: one way
"""
REST = "docs/apply.md says how to make these changes in other libraries.\n"


def test_the_text_of_findings_is_this() -> None:
    one = told(1, ways=WAYS)
    assert text_of([one], 28) == "Findings (2 × H200)\n" + BODY.format("") + REST
    assert text_of([one], 28, whole=True) == (
        "Findings (2 × H200)\n" + BODY.format("") + "         NCCL: another\n"
    )
    assert text_of([told(1, "")], 80) == (
        "Findings\n 1. sentence 1 is longer than a line\n"
        "    why  Overlap/A+B/bytes:1048576/n:1: it is\n    do   Act.\n"
    )
    assert max(map(len, text_of([told(1, ways=["way " * 60])]).splitlines())) in range(95, 101)
    several = text_of([told(1), told(2, "4 × H200")], 80)  # other findings hold on each
    assert several.startswith(
        "Findings\n 1. sentence 1 is longer than a line\n    why  2 × H200: O"
    )
    assert "\n 2. sentence 2 is longer than a line\n    why  4 × H200: Overlap/" in several


def test_a_saving_is_its_interval_or_a_bound() -> None:
    assert [str(told(number).saving) for number in (1, 2)] == [
        "41.0 to 59.2 %",
        "at most 50.0 % (41.0 to 59.2 %)",
    ]
    assert [Saving(0.5, low, 0.9).matters for low in (0.02, 0.0201)] == [False, True]


def test_a_finding_as_data_has_every_field() -> None:
    assert told(2, ways=WAYS).to_dict() == {
        "rule": "rule 2",
        "sentence": "sentence 2 is longer than a line",
        "reason": "it is",
        "action": "Act.",
        "ways": [*WAYS],
        "saves": {"share": 0.5, "low": 0.41, "high": 0.592, "at_most": True},
        "row": "Overlap/A+B/bytes:1048576/n:1",
        "file": "f",
        "machine": "2 × H200",
    }


def test_the_command_prints_text_or_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [timed(PAIR, 2.0), timed(f"{PAIR}/transport:copy", 1.0)]
    file = tmp_path / "result.json"
    file.write_text(json.dumps(samples.document(rows)))
    assert command_line.main([str(file)]) == 0
    assert capsys.readouterr().out.startswith(
        "Findings (2 × NVIDIA H200)\n 1. AllGather beside CublasGemm, 1 GiB"
    )
    assert command_line.main([str(file), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["rule"], one["saves"]["at_most"]) == ("copy engines", False)
    assert command_line.main([str(tmp_path)]) == 2


def test_what_the_recorded_results_say_is_in_their_figures() -> None:
    """Each finding's figures again, from the file's own entries."""
    told = 0
    for path in sorted((ROOT / "docs/results").glob("*/t*.json")):
        entries = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
        times = {str(BenchmarkName.parse(one["run_name"])): one for one in entries}
        for one in find(read_results([str(path)])):
            told += 1
            entry = times[one.row]
            assert entry["state"] in ("ok", "serialized"), path
            assert one.saving.low > 0.02
            if pairs := re.search(r": ([\d.e-]+) instead of ([\d.e-]+) ms, saves", one.sentence):
                fast, slow = map(float, pairs.groups())
                assert 1 - fast / slow == pytest.approx(one.saving.share, abs=0.002), path
                assert slow == pytest.approx(
                    entry["real_time"] * UNIT[entry["time_unit"]], rel=1e-3
                )
                others = [
                    x["real_time"] * UNIT[x["time_unit"]] for x in entries if "real_time" in x
                ]
                assert any(fast == pytest.approx(x, rel=1e-3) for x in others), path
    assert told > 40


UNIT = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
