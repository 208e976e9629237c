"""The doctor: healthy machines have no alarm, each fault has its own, and a bad input one line."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import doctor_machine
import samples
import update_doctor
from overlapbench.doctor.checks import (
    NO_MODEL,
    Outcome,
    confirmed,
    doubtful,
    examined,
    judge,
    verdict_of,
)
from overlapbench.doctor.recordings import (
    STORED,
    Logarithm,
    Recording,
    of_kind,
    recording_of,
    spread_of,
    stored,
    without_copies,
)
from overlapbench.doctor.rules import CHECKS, KINDS, Check, Verdict
from overlapbench.reading.counters import Better, stored_table
from overlapbench.reading.result import parse_result

ROOT = samples.TOOLS.parent
REFERENCES = stored()
LINK = "link by copy engine"


def alarms(machine: Recording, references: Sequence[Recording] = REFERENCES) -> dict[str, str]:
    return {one.name: str(one.verdict) for one in judge(machine, references) if one.verdict.alarms}


def outcome(name: str, machine: Recording) -> Outcome:
    (found,) = (one for one in judge(machine, REFERENCES) if one.name == name)
    return found


# ---- the rules and their references


def test_the_references_are_those_of_the_recorded_results() -> None:
    """dev/update_doctor.py writes them."""
    assert STORED.read_text(encoding="utf-8") == update_doctor.written(
        update_doctor.derived(ROOT / "docs/results")
    )


@pytest.mark.parametrize("backend", ["cuda", "host"])
def test_the_rows_of_a_backend_exist(backend: str) -> None:
    names = (ROOT / f"tests/data/names-{backend}.txt").read_text(encoding="utf-8").split()
    assert {check.row(backend) for check in CHECKS} - {""} <= {*names}


def test_every_check_has_a_direction_and_one_way_to_judge() -> None:
    counters = stored_table().counters
    for check in CHECKS:
        assert bool(check.kind) != bool(check.limits), check
        assert check.better or counters[check.counter].better is not Better.NEITHER, check
        assert not check.kind or check.kind in KINDS


def test_every_kind_was_recorded_more_than_once() -> None:
    assert all(
        spread_of(kind, REFERENCES, 2)[1] + spread_of(kind, REFERENCES, 1)[1] >= 5 for kind in KINDS
    )


def test_several_gpus_share_the_host_and_their_copies_differ_more() -> None:
    one, several = (spread_of("bus", REFERENCES, ranks)[0] for ranks in (1, 2))
    assert one < 0.01 < 0.03 < several


def test_no_recorded_result_is_suspicious_beside_the_others() -> None:
    judged = 0
    for one in REFERENCES:
        others = [other for other in REFERENCES if other is not one]
        assert alarms(one, others) == {}, one.file
        judged += sum(found.loss is not None for found in judge(one, others))
    assert judged > 30


def test_a_check_is_of_a_row_and_a_counter_of_each_backend() -> None:
    one = Check("x", "comm_ms", "Act.", cuda="A", host="B", host_counter="GBps")
    assert [one.row(backend) for backend in ("cuda", "host")] == ["A", "B"]
    assert [one.counter_on(backend) for backend in ("cuda", "host")] == ["comm_ms", "GBps"]
    assert [one.is_lower_better(backend) for backend in ("cuda", "host")] == [True, False]
    assert replace(one, host_counter="", better="higher").is_lower_better("host") is False
    assert replace(one, host_counter="").is_lower_better("host") is True
    assert replace(one, counter="GBps", better="lower").is_lower_better("cuda") is True
    assert [str(one) for one in Verdict] == ["good", "not available", "suspicious", "bad"]
    assert [one.alarms for one in Verdict] == [False, False, True, True]
    assert [str(verdict_of(x)) for x in (-0.5, 0.02, 0.021, 0.1, 0.101)] == [
        "good", "good", "suspicious", "suspicious", "bad",
    ]  # fmt: skip


# ---- recordings


def machine(figures: Mapping[str, Mapping[str, Any]], file: str = "here", **more: Any) -> Recording:
    """A machine of two H200 with these figures, and the ends of their intervals."""
    known = {"backend": "cuda", "device": "NVIDIA H200", "ranks": "2"} | more.pop("context", {})
    return Recording(file, known, more.pop("facts", {}), figures, **more)


ROW = "Comm/PeerCopy/bytes:1073741824/cache:cold"  # of the kind "link"


def rates(*figure: float, file: str = "here", **more: Any) -> Recording:
    value, low, high = figure if len(figure) == 3 else 3 * figure
    return machine({ROW: {"GBps": (value, low, high)}}, file, **more)


def test_a_figure_has_a_logarithm_unless_it_is_doubted() -> None:
    found = rates(8.0, 4.0, 16.0).log((ROW, "GBps"))
    assert found
    ends = (found.value, found.low, found.high)
    assert ends == pytest.approx([n * math.log(2) for n in (3, 2, 4)])
    for value, low, high in ((8.0, 9.0, 16.0), (8.0, 4.0, 7.0), (8.0, -1.0, 9.0)):
        assert rates(value, low, high).log((ROW, "GBps")) == Logarithm(*3 * [math.log(8)])
    for key in ((ROW, "time"), ("other", "GBps")):
        assert rates(8.0).log(key) is None
    assert rates(0.0).log((ROW, "GBps")) is None
    doubts = {"noisy: x": (None, 8.0), "invalid: x": (None, None), "error: x": (None, None)}
    for doubt, values in doubts.items():
        one = rates(8.0, doubts={ROW: doubt})
        logs = [one.log((ROW, "GBps"), noisy=noisy) for noisy in (False, True)]
        assert [each and math.exp(each.value) for each in logs] == [
            value and pytest.approx(value) for value in values
        ]
    host = rates(8.0, doubts={ROW: "noisy: x"}, context={"backend": "host"})
    assert host.log((ROW, "GBps"))  # there, most rows are noisy
    assert (host.is_noisy(ROW), host.failed(ROW), one.failed(ROW)) == (False, False, True)


def test_the_error_of_a_figure_is_to_its_better_side() -> None:
    one = Logarithm(1.0, 1.0 - 1.959964, 1.0 + 2 * 1.959964)
    assert one.error(lower_is_better=True) == pytest.approx(1)
    assert one.error(lower_is_better=False) == pytest.approx(2)


def test_the_spread_of_a_kind_is_pooled_over_its_rows() -> None:
    other = ROW.replace("1073741824", "268435456")
    logs = {ROW: (0.1, 0.3), other: (0.0, 0.3)}
    both = [
        machine({row: {"GBps": 3 * (math.exp(x[place]),)} for row, x in logs.items()})
        for place in range(2)
    ]
    alone = rates(2.0, context={"ranks": "4"})  # for this kind, the number changes nothing
    squares = 2 * 0.1**2 + 2 * 0.15**2
    assert spread_of("link", both, 2) == pytest.approx((math.sqrt(squares / 2), 2))
    assert spread_of("link", [*both, alone], 2)[1] == 3
    assert spread_of("bus", both, 2) == (0, 0)
    host_rows = "Comm/HostToDevice/bytes:1073741824/cache:cold"
    of_bus = [machine({host_rows: {"GBps": 3 * (x,)}}, context={"ranks": ranks})
              for x, ranks in ((50, "1"), (60, "1"), (30, "2"), (40, "4"), (44, "4"))]  # fmt: skip
    one, several = (spread_of("bus", of_bus, ranks) for ranks in (1, 8))
    assert one == pytest.approx((math.log(6 / 5) / math.sqrt(2), 1))
    assert several == pytest.approx((math.log(1.1) / math.sqrt(2), 1))


def test_a_copy_of_a_reference_says_nothing_of_the_spread() -> None:
    one, other = rates(400.0, file="a"), rates(390.0, file="b")
    found = without_copies([one, other, replace(one, file="copy")])
    assert found == [one, other]
    assert without_copies([one, rates(400.0, context={"date": "later"})])[1:]
    assert spread_of("link", found, 2) == pytest.approx((math.log(40 / 39) / math.sqrt(2), 1))


def test_what_a_recording_keeps_of_a_result() -> None:
    rows = [
        samples.row(
            ROW, GBps=1234567.0, GBps_low=1.0, GBps_high=2e6, slowest_rank=1.0, coverage=1.0
        ),
        samples.row("Comm/AllReduce/bytes:1/cache:cold", GBps=1.0, state="noisy", reason="why"),
        samples.row("Softmax/A/n:1", comp_ms=1.0),
    ]
    found = recording_of(parse_result("a", json.dumps(samples.document(rows, hosts="a\tb"))), "a")
    assert found.figures == {
        ROW: {"GBps": (1234600.0, 1.0, 2e6), "slowest_rank": (1.0, 1.0, 1.0)},
    }
    assert found.doubts == {"Comm/AllReduce/bytes:1/cache:cold": "noisy: why"}
    assert (found.model, found.ranks, found.machine) == (
        ("cuda", "NVIDIA H200"),
        2,
        "2 × NVIDIA H200",
    )
    assert found.context["hosts"] == "a b"
    assert found.context["nccl_version"] == ""


@pytest.mark.parametrize(
    ("access", "ranks", "hosts", "peers"),
    [
        ("1", "2", "a", "all"),
        ("1 2 3", "4", "a", "all"),
        ("1 3", "4", "a", "some"),
        ("none", "4", "a", "none"),
        ("1", "4", "a,b", "all"),  # two on each host
        ("none", "1", "a", "all"),
    ],
)
def test_peer_access_is_counted_on_a_host(access: str, ranks: str, hosts: str, peers: str) -> None:
    rows = [samples.row(ROW)]
    context = {"peer_access": access, "ranks": ranks, "hosts": hosts}
    found = recording_of(parse_result("a", json.dumps(samples.document(rows, **context))), "a")
    assert found.facts["peers"] == peers


def test_what_rows_say_together_is_a_fact() -> None:
    hot = "clocks were throttled: power cap; more"
    said: Sequence[tuple[samples.Json, float, str]] = (
        ({"reason": hot, "state": "noisy"}, 0.0, "in 1 rows: power cap"),
        ({"reason": f"x, since {hot}", "state": "ok"}, 2.0, "in 2 rows: power cap"),
    )
    rows: list[samples.Json] = []
    for place, (fields, foreign, told) in enumerate(said):
        rows.append(samples.row(f"Comm/A/n:{place}", foreign_gpu_processes=foreign, **fields))
        found = recording_of(parse_result("a", json.dumps(samples.document(rows))), "a").facts
        assert (found["throttled"], found["foreign_gpu_processes"]) == (told, f"{foreign:g}")
    found = recording_of(parse_result("a", json.dumps(samples.document(rows[1:]))), "a").facts
    assert found["throttled"] == "for parts of 1 rows: power cap"


# ---- healthy machines


def test_a_healthy_machine_has_no_alarm_and_says_what_was_expected() -> None:
    machine = doctor_machine.recording()
    found = judge(machine, REFERENCES)
    assert [one for one in found if one.verdict.alarms] == []
    link = outcome(LINK, machine)
    assert link.verdict is Verdict.GOOD
    assert "h200x2/comm.json" in link.sources
    assert link.expected.startswith("391, at least ")


def drawn(random: np.random.Generator, spreads: Mapping[str, float], one: Recording) -> Recording:
    """Draw the figures of a recording anew, each with the spread of its kind."""
    kinds = {(check.cuda, check.counter): check.kind for check in CHECKS if check.kind}
    figures: dict[str, dict[str, tuple[float, float, float]]] = {}
    for row, counters in one.figures.items():
        for counter, (center, _, _) in counters.items():
            of_row = (kind for kind in KINDS if of_kind(kind, (row, counter)))
            if kind := kinds.get((row, counter)) or next(of_row, ""):
                value = center * float(np.exp(spreads[kind] * random.normal()))
                figures.setdefault(row, {})[counter] = (value, value, value)
    return replace(one, figures=figures)


def test_false_alarms_are_rare_over_the_whole_table() -> None:
    """Of 400 tables, at most 5 % and two standard errors of that have an alarm.

    The references are drawn anew, too: their spread is known from a few recordings only. The true
    center of a row is the same for all; none is spared by the 2 % that do not matter, since all
    spreads are four times the recorded ones.
    """
    random = np.random.default_rng(1)
    spreads = {kind: 4 * spread_of(kind, REFERENCES, 2)[0] for kind in KINDS}
    center = doctor_machine.recording()
    rows = {row: {key: x[0] for key, x in found.items()} for row, found in center.figures.items()}
    tables, seen = 400, 0
    fixed = [_centered(one, rows) for one in REFERENCES]
    for _ in range(tables):
        references = [drawn(random, spreads, one) for one in fixed]
        seen += bool(alarms(drawn(random, spreads, center), references))
    assert seen / tables <= 0.05 + 2 * (0.05 * 0.95 / tables) ** 0.5


def _centered(one: Recording, rows: Mapping[str, Mapping[str, float]]) -> Recording:
    """Give a row's figures the centers of the machine, where it has them and they are compared."""
    figures = {
        row: {
            key: (rows[row][key],) * 3 if key in rows.get(row, {}) else figure
            for key, figure in found.items()
        }
        for row, found in one.figures.items()
    }
    return replace(one, figures=figures)


REFERENCE = [rates(400.0, file="a"), rates(396.0, file="b"), rates(404.0, file="c")]
LOST = (400.0, 396.0, 404.0)


def examine(
    one: Recording, references: Sequence[Recording] = REFERENCE, judged: int = 1
) -> Outcome:
    (check,) = (check for check in CHECKS if check.name == LINK)
    return examined(one, check, references, judged)


@pytest.mark.parametrize(("judged", "quantile"), [(1, 2.919986), (20, 14.089047)])
def test_a_figure_is_compared_with_one_more_run(judged: int, quantile: float) -> None:
    """Student's t for two degrees of freedom, of 5 % on one side for all checks together."""
    center = math.fsum(math.log(one) for one in LOST) / 3
    spread = math.sqrt(sum((math.log(one) - center) ** 2 for one in LOST) / 2)
    error = math.log(303 / 300) / 1.959964
    away = quantile * math.hypot(spread * math.sqrt(4 / 3), error)
    found = examine(rates(300.0, 290.0, 303.0), judged=judged)
    worse = center - math.log(300)
    assert found.loss == pytest.approx(
        [1 - math.exp(-x) for x in (worse, worse - away, worse + away)]
    )
    assert found.limit == pytest.approx(math.exp(center - away) * 0.98, rel=1e-4)
    assert found.sources == ["a", "b", "c"]
    assert found.measured == "300 ±10 GB/s"


def test_what_a_figure_says_beside_its_references() -> None:
    bad = examine(rates(300.0, 300.0, 300.0))
    assert (bad.verdict, bad.reason) == (Verdict.BAD, "25 % worse (22 to 27 %)")
    assert bad.expected == "400, at least 379"
    assert bad.action.startswith("Look for a link that is down")
    assert (bad.row, bad.counter) == (ROW, "GBps")
    fine = examine(rates(390.0))
    assert (fine.verdict, fine.reason, fine.action) == (Verdict.GOOD, "", "")
    told = examine(rates(300.0)).to_dict()
    assert told["verdict"] == "bad"
    assert "ways" not in told
    assert examine(rates(300.0), []).reason == NO_MODEL
    others = [rates(400.0, context={"device": "another"})]
    assert examine(rates(300.0), others).reason == NO_MODEL
    once = examine(rates(300.0), REFERENCE[:1])
    assert once.reason == "recorded once: how much runs differ is unknown"
    assert once.verdict is Verdict.UNKNOWN
    none = machine({"other": {}})
    assert examine(none).reason == "no such row here"
    assert (
        examine(rates(300.0, context={"ranks": "4"})).verdict is Verdict.BAD
    )  # its number is all one


LIMITS = Check("x", "slowdown", "Act.", cuda=ROW, limits=(1.05, 1.25))
GAIN = Check("x", "gain", "Act.", cuda=ROW, limits=(1.5, 1.1))


@pytest.mark.parametrize(
    ("check", "figure", "doubt", "verdict"),
    [
        (LIMITS, (1.05, 1.05, 1.05), "", "good"),
        (LIMITS, (1.2, 1.06, 1.3), "", "suspicious"),  # the whole interval is beyond
        (LIMITS, (1.2, 1.04, 1.3), "", "good"),
        (LIMITS, (1.25, 1.25, 1.25), "", "suspicious"),
        (LIMITS, (1.3, 1.26, 1.3), "", "bad"),
        (LIMITS, (1.0, 1.0, 1.04), "noisy: x", "good"),
        (LIMITS, (1.0, 1.0, 1.06), "noisy: x", "not available"),
        (LIMITS, (1.3, 1.26, 1.3), "noisy: x", "not available"),
        (GAIN, (1.5, 1.5, 1.5), "", "good"),
        (GAIN, (1.3, 1.2, 1.49), "", "suspicious"),
        (GAIN, (1.3, 1.2, 1.51), "", "good"),
        (GAIN, (1.1, 1.1, 1.1), "", "suspicious"),
        (GAIN, (1.05, 1.0, 1.09), "", "bad"),
        (GAIN, (1.6, 1.49, 1.7), "noisy: x", "not available"),
    ],
)
def test_a_limit_is_passed_with_the_whole_interval(
    check: Check, figure: tuple[float, float, float], doubt: str, verdict: str
) -> None:
    one = machine({ROW: {check.counter: figure}}, doubts={ROW: doubt} if doubt else {})
    found = examined(one, check, [], 1)
    assert str(found.verdict) == verdict
    assert found.action == ("Act." if found.verdict.alarms else "")
    assert found.expected == ("at most 1.05" if check is LIMITS else "at least 1.5")


def test_a_row_that_failed_is_no_figure() -> None:
    for doubt, verdict in (("invalid: wrong", Verdict.BAD), ("error: lost", Verdict.SUSPICIOUS)):
        found = examined(rates(300.0, doubts={ROW: doubt}), LIMITS, [], 1)
        told = "Mend what the other lines say, then measure again."
        assert (found.verdict, found.reason, found.action) == (verdict, doubt, told)
    assert examined(rates(1.0), replace(LIMITS, cuda=""), [], 1).reason == "not on the cuda backend"
    assert examined(rates(1.0), replace(LIMITS, ranks=3), [], 1).reason == "needs 3 GPUs"
    assert examined(rates(1.0), replace(LIMITS, ranks=2), [], 1).reason == "no such row here"


@pytest.mark.parametrize(
    ("figure", "shown"),
    [((12.345, 12.345, 12.345), "12.3 GB/s"), ((0.01234, 0.012, 0.0125), "0.0123 ±0.0003 GB/s"),
     ((1234.5, 1200.0, 1244.5), "1234 ±34 GB/s"), ((9.0, 8.0, 11.0), "9.00 ±2.00 GB/s")],
)  # fmt: skip
def test_a_figure_is_shown_with_three_digits(figure: Sequence[float], shown: str) -> None:
    assert examine(rates(*figure)).measured == shown


# ---- faults


@pytest.mark.parametrize(
    ("pattern", "factor", "found"),
    [
        ("PeerCopy", 0.5, {LINK: "bad"}),
        ("Lab/Link", 0.5, {"link by 8 SMs": "bad"}),
        ("comm_ms", 2.0, {"link by NCCL": "bad"}),
        ("HostToDevice", 0.5, {"host to device": "bad"}),
        ("overlap_ms", 1.1, {"collective and product": "suspicious"}),
        ("DeviceToHost", 0.5, {"device to host": "bad"}),
        ("DeviceCopy", 0.7, {"device memory": "bad"}),
        ("comp_ms|TFLOPs$", 1.4, {"product": "bad"}),
        ("overlap_ms", 1.3, {"collective and product": "bad"}),
        ("Fsdp", 18.8 / 13.4, {"prefetching step": "bad"}),
        ("SecondDelay", 1.5, {"streams at once": "bad"}),
        ("SecondDelay", 1.1, {"streams at once": "suspicious"}),
        ("Priority", 0.52, {"priorities": "bad"}),
        ("rank_spread", 15, {"GPUs alike": "bad"}),
        ("host_us", 8, {"launch, host": "bad"}),
        ("device_us", 2, {"launch, device": "bad"}),
        ("PeerCopy|Lab/Link", 0.87, {LINK: "suspicious", "link by 8 SMs": "suspicious"}),
        (".", 1.0, {}),
        ("HostToDevice|DeviceCopy", 1.5, {}),  # better than recorded
        ("HostToDevice|DeviceToHost", 0.91, {}),  # as on other healthy machines with two GPUs
    ],
)
def test_a_fault_is_found_and_nothing_else(
    pattern: str, factor: float, found: Mapping[str, str]
) -> None:
    assert alarms(doctor_machine.recording({"factors": {pattern: factor}})) == found


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ({"env_CUDA_DEVICE_MAX_CONNECTIONS": "1"}, {"connections": "bad"}),
        ({"env_CUDA_DEVICE_MAX_CONNECTIONS": "4"}, {"connections": "suspicious"}),
        ({"env_CUDA_DEVICE_MAX_CONNECTIONS": "32"}, {}),
        ({"env_CUDA_LAUNCH_BLOCKING": "1"}, {"blocking launches": "bad"}),
        ({"env_CUDA_LAUNCH_BLOCKING": "0"}, {}),
        ({"env_NCCL_P2P_DISABLE": "1"}, {"NCCL's variables": "bad"}),
        ({"env_NCCL_PROTO": "Simple"}, {"NCCL's variables": "suspicious"}),
        ({"env_NCCL_NVLS_ENABLE": "0"}, {}),
        ({"nccl_version": "2.30.1"}, {}),
        ({"nvlinks_active": "17"}, {"NVLinks": "bad"}),
        ({"nvlinks_active": "0"}, {"NVLinks": "bad"}),  # as recorded on one GPU
        ({"sm_clock_MHz": "1200"}, {"SM clock": "suspicious"}),
        ({"device_multiprocessors": "66"}, {"SMs": "bad"}),
        ({"peer_access": "none"}, {"peer access": "bad"}),
        ({"peer_access": "1 2 3"}, {}),  # two ranks on four GPUs
    ],
)
def test_a_fact_is_judged(context: Mapping[str, str], found: Mapping[str, str]) -> None:
    assert alarms(doctor_machine.recording({"context": context})) == found


def stated(fact: str, facts: Mapping[str, str], **context: str) -> Outcome:
    one = machine({}, facts=facts, context=context)
    return next(found for found in judge(one, FACTS_KNOWN) if found.name == fact)


FACTS_KNOWN = [
    machine({}, facts={"sm_clock_MHz": clock, "nvlinks_active": "18", "nccl_version": "2.28"})
    for clock in ("1980", "1755")
] + [machine({}, facts={"nvlinks_active": "0"}, context={"ranks": "1"})]


@pytest.mark.parametrize(
    ("fact", "facts", "context", "verdict", "measured", "expected", "reason"),
    [
        ("SM clock", {"sm_clock_MHz": "1980"}, {}, "good", "1980", "1755 or 1980", ""),
        ("SM clock", {"sm_clock_MHz": "1200"}, {}, "suspicious", "1200", "1755 or 1980", ""),
        ("SM clock", {}, {}, "not available", "", "", "not known"),
        ("SM clock", {"sm_clock_MHz": "1"}, {"device": "B300"}, "not available", "1", "", NO_MODEL),
        ("SM clock", {}, {"backend": "host"}, "not available", "", "", "not on the host backend"),
        ("NVLinks", {"nvlinks_active": "17"}, {}, "bad", "17", "18", ""),
        ("NVLinks", {"nvlinks_active": "0"}, {}, "bad", "0", "18", ""),  # recorded on one GPU
        ("NVLinks", {}, {"ranks": "1"}, "not available", "", "", "needs 2 GPUs"),
        ("NCCL's version", {"nccl_version": "2.30"}, {}, "not available", "2.30", "2.28", ""),
        ("throttling", {}, {}, "good", "none", "", ""),
        ("peer access", {"peers": "some"}, {}, "suspicious", "some", "", ""),
        ("connections", {"env_CUDA_DEVICE_MAX_CONNECTIONS": "8"}, {}, "good", "8", "", ""),
        ("connections", {"env_CUDA_DEVICE_MAX_CONNECTIONS": "2"}, {}, "suspicious", "2", "unset",
         "CUDA_DEVICE_MAX_CONNECTIONS is 2"),
        ("NCCL's variables", {"env_NCCL_ALGO": "Ring", "env_NCCL_P2P_DISABLE": "1"}, {}, "bad", "1",
         "unset", "NCCL_P2P_DISABLE is 1"),
        ("NCCL's variables", {"env_NCCL_ALGO": "Ring", "env_NCCL_P2P_DISABLE": "0"}, {},
         "suspicious", "Ring", "unset", "NCCL_ALGO is Ring"),
    ],
)  # fmt: skip
def test_what_is_told_of_a_fact(
    fact: str, facts: Mapping[str, str], context: Mapping[str, str], verdict: str, measured: str,
    expected: str, reason: str,
) -> None:  # fmt: skip
    found = stated(fact, facts, **context)
    told = (str(found.verdict), found.measured, found.expected, found.reason)
    assert told == (verdict, measured, expected, reason)
    is_told = found.verdict.alarms or (found.verdict is Verdict.UNKNOWN and bool(expected))
    assert bool(found.action) is is_told
    assert bool(found.ways) is (fact == "connections" and is_told)


HOT = {"state": "invalid", "valid": 0.0, "reason": "clocks were throttled: hardware slowdown"}
WARM = {"reason": "2 of 12 groups were taken again, since clocks were throttled: hardware slowdown"}
OTHERS = {"state": "noisy", "reason": "disturbed: 1 other process uses a GPU"}


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ({"Priority": HOT}, {"priorities": "bad", "throttling": "bad"}),
        ({"Priority": WARM}, {"throttling": "suspicious"}),
        ({".": OTHERS | {"foreign_gpu_processes": 1.0}}, {"others on the GPU": "suspicious"}),
        (
            {"PeerCopy": {"state": "invalid", "valid": 0.0, "reason": "wrong result"}},
            {LINK: "bad"},
        ),
    ],
)
def test_what_rows_say_is_judged(states: Mapping[str, Any], found: Mapping[str, str]) -> None:
    assert alarms(doctor_machine.recording({"states": states})) == found


def test_a_noisy_row_may_prove_health_but_no_fault() -> None:
    states = {"PeerCopy": {"state": "noisy", "reason": "known to ±9 % only: few samples"}}
    good = doctor_machine.recording({"states": states})
    assert outcome(LINK, good).verdict is Verdict.GOOD
    slow = outcome(LINK, doctor_machine.recording({"states": states, "factors": {"Peer": 0.5}}))
    assert slow.verdict is Verdict.UNKNOWN
    assert slow.reason == "noisy: known to ±9 % only: few samples"


def test_a_figure_that_is_hardly_known_is_not_called_good() -> None:
    wide = {"PeerCopy": {"GBps_low": 100.0, "GBps_high": 900.0}}
    found = outcome(LINK, doctor_machine.recording({"states": wide}))
    assert found.verdict is Verdict.UNKNOWN
    assert found.reason == "too uncertain: half the speed would not be seen"
    noisy = {"SecondDelay": {"state": "noisy", "reason": "x", "slowdown_high": 1.4}}
    found = outcome("streams at once", doctor_machine.recording({"states": noisy}))
    assert found.verdict is Verdict.UNKNOWN


def test_an_unknown_model_is_judged_by_what_needs_no_reference() -> None:
    machine = doctor_machine.recording(
        {"context": {"device": "NVIDIA B300"}, "factors": {"Peer": 0.1, "SecondDelay": 1.5}}
    )
    assert alarms(machine) == {"streams at once": "bad"}
    assert outcome(LINK, machine).reason == NO_MODEL
    assert outcome("SM clock", machine).reason == NO_MODEL


def test_own_references_serve_an_unknown_model() -> None:
    of_b300 = {"context": {"device": "NVIDIA B300"}}
    healthy_ones = [doctor_machine.recording(of_b300, seed) for seed in range(3)]
    slow = doctor_machine.recording(of_b300 | {"factors": {"PeerCopy": 0.5}}, 9)
    assert alarms(slow, [*REFERENCES, *healthy_ones]) == {LINK: "bad"}
    assert alarms(doctor_machine.recording(of_b300, 8), [*REFERENCES, *healthy_ones]) == {}


def test_a_number_of_gpus_that_was_not_recorded_has_no_expected_values() -> None:
    machine = doctor_machine.recording({"context": {"ranks": "3"}, "factors": {"HostTo": 0.1}})
    found = outcome("host to device", machine)
    assert found.verdict is Verdict.UNKNOWN
    assert found.reason == "not recorded on this model with 3 GPUs"


def test_the_rank_with_the_slow_gpu_is_named() -> None:
    slow = doctor_machine.recording({"factors": {"rank_spread": 15}})
    assert outcome("GPUs alike", slow).reason == "rank 1 is the slowest"


# ---- the second look


def test_a_fault_must_be_seen_twice() -> None:
    slow = doctor_machine.recording({"factors": {"PeerCopy": 0.5}})
    good = doctor_machine.recording(seed=1)
    assert {row.split("/")[1] for row in doubtful(slow, REFERENCES)} == {"PeerCopy"}
    assert alarms(confirmed(slow, good, REFERENCES)) == {}
    assert alarms(confirmed(slow, slow, REFERENCES)) == {LINK: "bad"}


def test_the_better_of_two_looks_counts_and_other_rows_stay() -> None:
    slow = doctor_machine.recording({"factors": {"SecondDelay": 1.1}})
    slower = doctor_machine.recording({"factors": {"SecondDelay": 1.5}})
    again = {row: x for row, x in slower.figures.items() if "SecondDelay" in row}
    found = confirmed(slow, replace(slower, figures=again), REFERENCES)
    assert alarms(found) == {"streams at once": "suspicious"}
    assert found.figures.keys() == slow.figures.keys()


def test_what_was_noisy_is_judged_by_the_second_look() -> None:
    noisy = doctor_machine.recording(
        {"states": {"Peer": {"state": "noisy", "reason": "?"}}, "factors": {"Peer": 0.7}}
    )
    slow = doctor_machine.recording({"factors": {"PeerCopy": 0.5}})
    assert alarms(noisy) == {}
    assert alarms(confirmed(noisy, slow, REFERENCES)) == {LINK: "bad"}
