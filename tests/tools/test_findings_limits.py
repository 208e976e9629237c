"""Findings of one row: each limit with a row that shows it and one that does not."""

import re

import pytest

import samples
from findable import PAIR, WAITED, figures, pair, result, rules_of, step, timed
from overlapbench.findings.rules import LIMITS, find

LAB = "Lab/Attribution/AllGather+CublasGemm/bytes:1048576"
DDP = "Ddp/Buckets/bucket_bytes:26214400"
FSDP = "Fsdp/Prefetch/prefetch:1"
TP = "Tp/Block/Forward/n:1"
BATCHES = "Prefetch/Batches/workers:1"
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


def test_every_limit_is_tested() -> None:
    assert {rule.name for rule in LIMITS} == LIMITED.keys()


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


def test_the_better_of_two_values_is_not_told_to_try_others() -> None:
    small, large = (
        step(f"Ddp/Buckets/bucket_bytes:{size}", ms, exposed_comm_ms=exposed)
        for size, ms, exposed in ((26214400, 2.0, 0.3), (268435456, 3.0, 1.3))
    )
    assert rules_of(result(large)) == ["exposed gradients"]
    (one,) = find([result(small, large)])
    assert "26214400" in one.row


def test_copies_without_sums_need_no_sms() -> None:
    row = step("Moe/DispatchCombine/n:1/transport:copy", pct_of_bound=80.0)
    (one,) = find([result(row)])
    assert (one.rule, one.action) == (
        "interference",
        "Compare transports (--axis transport=nccl,copy,sm_load).",
    )


def test_a_limit_that_nothing_lifts_is_no_finding() -> None:
    row = pair(1.3, 0.2, 0.3)
    assert "slowed communication" in rules_of(result(row))
    row["name"] = row["run_name"] = row["run_name"] + "/transport:nccl_ce/sm_target:116"
    assert rules_of(result(row)) == []


def test_a_measured_way_out_replaces_what_a_row_could_save_at_most() -> None:
    waits = pair(1.4, 0.3, 0.2, **WAITED, time_low_ms=0.99, time_high_ms=1.01)
    assert rules_of(result(waits)) == ["waits for SMs"]
    assert rules_of(result(waits, timed(f"{PAIR}/first:comm", 0.5))) == ["order"]


def test_no_sentence_speaks_of_sms_on_the_host_backend() -> None:
    waits = LIMITED["waits for SMs"][0]
    assert rules_of(result(waits)) == ["waits for SMs"]
    assert rules_of(result(waits, backend="host")) == []


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
