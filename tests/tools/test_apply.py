"""How settings are made: docs/apply.md, its gains, and what is printed of them."""

import re

import pytest

import samples
import update_apply
from apply_table import Gain, gains_of
from findable import result, timed
from overlapbench.findings.apply import APPLY, Advice, advise, takes_a_kernel, ways_of
from overlapbench.findings.rules import CHANGES, LIMITS, OPTIONS
from overlapbench.output import ResultError


def test_every_setting_has_a_way_and_tells_its_value() -> None:
    assert ways_of({"comm_ctas": "8"})[0].endswith("max_ctas = 8; new_group(pg_options=opts)")
    assert "bucket_cap_mb=64" in ways_of({"bucket_bytes": "67108864"})[0]
    assert ways_of({"transport": "nccl"}) == []
    known = {key.partition(":")[0] for key in APPLY}
    assert {rule.axis for rule in CHANGES} - known == {"buffers", "conversion", "variant"}
    assert {one.way.partition(":")[0] for one in OPTIONS.values() if one.way} <= known
    used = [name for rule in LIMITS for name in rule.options]
    assert set(used) == OPTIONS.keys()


SYMMETRIC = (
    "NCCL: both buffers symmetric: ncclMemAlloc, then"
    " ncclCommWindowRegister(..., NCCL_WIN_COLL_SYMMETRIC)"
)
POOL = "both buffers in a symmetric pool, as for transport:nccl_sym; async_op=True"


def test_advice_has_the_variables_the_fields_and_a_line_for_each_library() -> None:
    options = "PyTorch: opts = ProcessGroupNCCL.Options(); opts.config"
    assert advise({"transport": "nccl_ce", "comm_ctas": "8", "n": "4096"}) == Advice(
        {"NCCL_CTA_POLICY": "2", "NCCL_MIN_CTAS": "8", "NCCL_MAX_CTAS": "8"},
        {"CTAPolicy": "NCCL_CTA_POLICY_ZERO", "minCTAs": "8", "maxCTAs": "8"},
        (
            f"{options}.cta_policy = ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO;"
            f" new_group(pg_options=opts); {POOL}",
            SYMMETRIC,
            "NCCL 2.28 or later, one node, all-gather and all-to-all;"
            " anything else falls back to SMs silently",
            f"{options}.min_ctas = opts.config.max_ctas = 8; new_group(pg_options=opts)",
            "Megatron-LM: --nccl-communicator-config-path with 'dp_cp: {min_ctas: 8, max_ctas: 8}'",
        ),
    )
    assert advise({"n": "4096"}) == Advice()


def test_a_value_that_is_no_size_stays_open() -> None:
    assert "bucket_cap_mb=MIB)" in ways_of({"bucket_bytes": "auto"})[0]
    assert "max_ctas = N;" in ways_of({"comm_ctas": ""})[0]


def test_own_kernels_are_told_from_settings() -> None:
    assert takes_a_kernel({"transport": "sm_bulk"})
    assert takes_a_kernel({"transport": "copy", "first": "comm"})
    assert not takes_a_kernel({"transport": "nccl_ce", "comm_ctas": "8", "sm_target": "116"})


def test_the_page_has_the_tables() -> None:
    page = (samples.TOOLS.parent / "docs/apply.md").read_text(encoding="utf-8")
    assert update_apply.with_table(page) == page, "run dev/update_apply.py"
    assert update_apply.with_gains(page) == page, "run dev/update_apply.py"
    for replaced in (update_apply.with_table, update_apply.with_gains):
        with pytest.raises(ResultError, match="no table"):
            replaced("# Apply\n")


# PyTorch has these lines, but the example does not measure them: defaults, kernels of one's own,
# pipelines, which training_peers.py measures, and the host's part of loading data.
UNMEASURED = {"first:comp", "first:none", "chunks:1", "virtual", "workers"}
# Names in a line for PyTorch that the example does not measure.
BESIDE = {
    "symm_mem._low_contention_all_gather",
    "fused_matmul_reduce_scatter",
    "_micro_pipeline_tp",
    "DataLoader",
}


def test_each_line_for_pytorch_is_code_that_runs() -> None:
    lines = {
        key: entry["PyTorch"]
        for key, entry in APPLY.items()
        if "PyTorch" in entry and not entry.get("kernel")
    } | {"transport:copy": APPLY["transport:copy"]["PyTorch"]}
    measured = {update_apply.key_of(setting) for setting in update_apply.examples()}
    assert measured == lines.keys() - UNMEASURED
    code = (update_apply.EXAMPLES / "apply_settings.py").read_text(encoding="utf-8")
    names = {
        name for key in measured for name in re.findall(r"\w*[a-z]_[\w.]*\w|\w+(?=\()", lines[key])
    }
    assert len(names) > 20
    assert [name for name in names - BESIDE if name.split(".")[-1] not in code] == []


def test_a_gain_is_what_both_intervals_allow() -> None:
    def row(variant: str, ms: float, state: str = "ok") -> samples.Json:
        name = f"Compute/Apply/setting:batch/variant:{variant}/cache:cold"
        told = {} if state == "ok" else {"state": state, "reason": "why", "valid": 0}
        return timed(name, ms, 0.01, **told)

    def gain(*rows: samples.Json) -> Gain:
        (found,) = gains_of(result(*rows).rows)
        return found

    saves = gain(row("default", 2.0), row("set", 1.0))
    assert saves.saved == pytest.approx((1 - 1.01 / 1.98, 1 - 0.99 / 2.02))
    assert saves.times == "2.000 ±0.020 → 1.000 ±0.010 ms"
    assert saves.verdict == "saves 49.0 to 51.0 %"
    assert gain(row("default", 1.0), row("set", 2.0)).verdict == "costs 96.0 to 104.0 %"
    equal = gain(row("default", 1.0), row("set", 1.01)).verdict
    assert equal == "no difference seen (-3.0 to 1.0 %)"
    for rows in ([row("set", 1.0)], [row("default", 1.0), row("set", 1.0, "invalid")]):
        assert (gain(*rows).saved, gain(*rows).verdict) == (None, "")
    assert gain(*rows).times.endswith("→ invalid: why")
    assert update_apply._cell(gain(*rows)) == "not measured"
    assert update_apply._cell(saves).endswith(" ms<br>saves 49.0 to 51.0 %")
